"""The rows of a cell in one decode mode, interleaved: in each round a generation of every row, in
an order shuffled with a seed, so that the samples of one round can be compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from experiments.end_to_end import SEED
from experiments.end_to_end.generate import Mode
from experiments.end_to_end.plan import WARM_UP, Cell
from experiments.end_to_end.protocol import (
    NOTHING,
    PROFILE,
    WALL_TIME,
    LaunchNames,
    RecordsLost,
    Tokens,
    judge,
)
from experiments.end_to_end.rows import DEVIATIONS, Row
from reprolab.errors import InputError
from reprolab.results import VERIFIED, Outcome
from reprolab_nf4.measuring import shuffled


@dataclass
class Measured:
    """The state of a row, which is not run again after a failure."""

    outcome: str = Outcome.BIT_EXACT
    reason: str = ""
    mismatches: int | None = None
    deviation: str | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)
    sm_mhz: list[float] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.outcome not in VERIFIED

    def keep(self, values: dict[str, float], sensors: Any) -> None:
        """Adds a sample of each metric, and the clock that the sensors read last."""
        for name, value in values.items():
            self.samples.setdefault(name, []).append(value)
        self.sm_mhz += [sensors.sm_mhz] if sensors.sm_mhz else []

    def end(self, outcome: str, reason: str, mismatches: int | None = None) -> None:
        self.outcome, self.reason, self.mismatches = outcome, reason, mismatches

    def fields(self) -> dict[str, Any]:
        """The row's fields in a result file."""
        metrics = []
        for name, values in {} if self.failed else self.samples.items():
            samples = {"samples": [round(value, 3) for value in values]}
            content = samples if all(values) else {"missing": NOTHING}
            metrics.append({"name": name, "unit": "us", **content})
        mhz = self.sm_mhz
        ends = (mhz[0], sorted(mhz)[len(mhz) // 2], mhz[-1]) if mhz else (None, None, None)
        names = ("sm_mhz_before", "sm_mhz_during", "sm_mhz_after")
        outcome = {"outcome": self.outcome, "reason": self.reason, "mismatches": self.mismatches}
        return outcome | {"metrics": metrics, "clocks": dict(zip(names, ends, strict=True))}


class Rounds:
    """Prepares, warms up and measures all rows of a cell in one mode, round by round.

    `bench`: measure.Bench, with the model and the GPU.
    """

    def __init__(self, bench: Any, mode: Mode, cell: Cell):
        self.bench, self.mode, self.cell, self.rows = bench, mode, cell, cell.choices.rows
        self.failed = bench.failed.get(cell.text, {})
        self.baseline = self.rows[0]
        self.profiles = self.cell.pass_name == PROFILE
        self.tokens = self.cell.new_tokens(mode.name)
        self.states = {row: Measured() for row in self.rows}
        self.launch_names: dict[Row, LaunchNames] = {}
        self.outputs: dict[Row, list[Tokens]] = {row: [] for row in self.rows}

    def run(self) -> dict[Row, Measured]:
        steps = [(row, self.prepare) for row in self.rows]
        rows_to_warm_up = [self.baseline] if self.mode.is_captured else self.rows
        steps += [(row, self.warm_up) for _ in range(WARM_UP) for row in rows_to_warm_up]
        seed = f"{SEED}/{self.cell.name}/{self.mode.name}"
        steps += [
            (row, self.measure)
            for row in shuffled(self.rows, self.cell.samples(self.mode.name), seed)
        ]
        for row, step in steps:
            self.bench.begin(self.cell, row.kernel)
            self.attempt(row, step)
        self.bench.begin(self.cell)  # a fault from here on is not of one row
        self.judge()
        return self.states

    def judge(self) -> None:
        """Compares the tokens of all rows that ran; a mismatch replaces a missing time."""
        if not self.outputs[self.baseline]:
            return
        outputs = {row: tokens for row, tokens in self.outputs.items() if tokens}
        again = lambda: self.mode.run(self.baseline, self.tokens).tokens  # noqa: E731
        may_fuse = lambda row: row.may_fuse(self.cell.batch)  # noqa: E731
        for row, outcome in judge(outputs, self.baseline, may_fuse, again).items():
            state = self.states[row]
            if not state.failed or outcome[0] == Outcome.MISMATCH:
                state.end(*outcome)
                if state.outcome == Outcome.DEVIATION_AS_DECLARED:
                    state.deviation = DEVIATIONS[row.kind]

    def attempt(self, row: Row, step: Callable[[Row], None]) -> None:
        """One step of a row; where it fails, the others go on."""
        state, baseline = self.states[row], self.states[self.baseline]
        has_tokens = not baseline.failed or self.outputs[self.baseline]
        if step != self.prepare and not state.failed and not has_tokens:  # to compare with
            lost = baseline.outcome == Outcome.NOT_MEASURED
            outcome = Outcome.NOT_MEASURED if lost else Outcome.UNSUPPORTED
            state.end(outcome, f"{self.baseline.kernel}: {baseline.reason}")
        if state.failed:
            return
        try:
            step(row)
        except InputError as why:
            state.end(Outcome.UNSUPPORTED, str(why))
        except RecordsLost as lost:
            state.end(Outcome.NOT_MEASURED, str(lost))
        except torch.OutOfMemoryError:
            if row == self.baseline and not self.outputs[row]:  # nothing fits at all
                raise
            state.end(Outcome.NOT_MEASURED, self.bench.memory_error(self.cell))
            self.bench.gpu.forget()

    def prepare(self, row: Row) -> None:
        if row.kernel in self.failed:
            self.states[row].end(Outcome.LAUNCH_FAILED, self.failed[row.kernel])
            return
        row.require(self.bench.gpu.facts())
        if wrong := self.bench.wrong_weights(row):
            self.states[row].end(Outcome.MISMATCH, *wrong)
            return
        self.mode.prepare(row)
        if self.profiles:
            self.launch_names[row] = self.mode.learn(row)

    def warm_up(self, row: Row) -> None:
        """The baseline's first tokens are the reference of all others."""
        tokens = self.tokens if row == self.baseline else self.cell.short
        self.outputs[row].append(self.mode.run(row, tokens).tokens)

    def measure(self, row: Row) -> None:
        values = self.profile(row) if self.profiles else self.time(row)
        self.states[row].keep(values, self.bench.gpu.sensors)

    def time(self, row: Row) -> dict[str, float]:
        generated = self.mode.run(row, self.tokens)
        self.bench.gpu.sensors.read()
        self.outputs[row].append(generated.tokens)
        return {WALL_TIME: generated.wall_us, f"{WALL_TIME}.step": generated.step_us}

    def profile(self, row: Row) -> dict[str, float]:
        tokens, times = self.mode.profile_generation(row, self.tokens, self.launch_names[row])
        self.outputs[row].append(tokens)
        return times

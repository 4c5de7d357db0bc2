"""The rows of a cell in one decode mode, interleaved: in each round a generation of every row, in
an order shuffled with a seed, so that the samples of one round can be compared.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from claims.end_to_end import NOTHING, PROFILE, WALL_TIME
from experiments.end_to_end import rows
from experiments.end_to_end.generate import MODES, Mode
from experiments.end_to_end.host import Disturbed
from experiments.end_to_end.launches import learn, profiled
from experiments.end_to_end.plan import WARM_UP, Cell, Choices, Row
from experiments.end_to_end.protocol import RecordsLost, Tokens, judge
from records.errors import InputError
from records.results import RIGHT

WAIT_S = 10  # for a steady host, in all of a cell's samples in one mode
Report = Callable[[dict[str, Any]], None]


@dataclass
class Measured:
    """What came of a row so far; one that has failed is not run again."""

    outcome: str = "bit_exact"
    reason: str = ""
    mismatches: int | None = None
    deviation: str | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)
    sm_mhz: list[float] = field(default_factory=list)
    disturbed: Disturbed = field(default_factory=Disturbed)

    @property
    def failed(self) -> bool:
        return self.outcome not in (*RIGHT, "deviation_as_declared")

    def end(self, outcome: str, reason: str, mismatches: int | None = None) -> None:
        self.outcome, self.reason, self.mismatches = outcome, reason, mismatches

    def metrics(self) -> list[dict[str, Any]]:
        found = []
        for name, values in {} if self.failed else self.samples.items():
            told = {"samples": [round(value, 3) for value in values]}
            if not all(values):
                told = {"missing": NOTHING}
            found.append({"name": name, "unit": "us", **told})
        return found

    def clocks(self) -> dict[str, float | None]:
        mhz = self.sm_mhz
        ends = (mhz[0], sorted(mhz)[len(mhz) // 2], mhz[-1]) if mhz else (None, None, None)
        return dict(zip(("sm_mhz_before", "sm_mhz_during", "sm_mhz_after"), ends, strict=True))


class Rounds:
    """All rows of a cell in one mode: prepared, warmed up, and measured round by round.

    `bench`: measure.Bench, with the model, the GPU and the host.
    """

    def __init__(
        self,
        bench: Any,
        mode: Mode,
        cell: Cell,
        choices: Choices,
        failed: dict[str, str],
        report: Report,
    ):
        self.bench, self.mode, self.cell, self.choices = bench, mode, cell, choices
        self.failed, self.report, self.baseline = failed, report, choices.rows[0]
        self.profiles = cell.pass_name == PROFILE
        self.tokens = choices.generated(cell.pass_name, mode.name)
        self.found = {row: Measured() for row in choices.rows}
        self.learned: dict[Row, Any] = {}
        self.outputs: dict[Row, list[Tokens]] = {row: [] for row in choices.rows}

    def run(self) -> dict[Row, Measured]:
        choices = self.choices
        rng = random.Random(f"{choices.seed}/{self.cell.name}/{self.mode.name}")
        steps = [(row, self.prepare) for row in choices.rows]
        warmed_up = choices.rows if self.mode.warms_up else [self.baseline]
        steps += [(row, self.warm_up) for _ in range(WARM_UP) for row in warmed_up]
        for _ in range(choices.samples(self.cell.pass_name)):
            steps += [(row, self.measure) for row in rng.sample(choices.rows, len(choices.rows))]
        # As many repeated samples as one more round has.
        self.bench.host.allow(len(choices.rows), WAIT_S)
        for done, (row, step) in enumerate(steps):
            self.say(row.kernel, done / len(steps))
            self.attempt(row, step)
        self.say("", 1)  # what follows is no row's
        self.judge()
        return self.found

    def judge(self) -> None:
        """The tokens of all that ran; a wrong output outranks what was not measured."""
        if not self.outputs[self.baseline]:
            return
        outputs = {row: found for row, found in self.outputs.items() if found}
        again = lambda: self.mode.run(self.baseline, self.tokens).tokens  # noqa: E731
        for row, judged in judge(outputs, self.baseline, rows.may_fuse, again).items():
            found = self.found[row]
            if not found.failed or judged.outcome == "mismatch":
                found.end(judged.outcome, judged.reason, judged.mismatches)
                differs = found.outcome == "deviation_as_declared"
                found.deviation = rows.DEVIATIONS[row.kind] if differs else None

    def say(self, kernel: str, done: float) -> None:
        share = (list(MODES).index(self.mode.name) + min(done, 0.99)) / len(MODES)
        self.report({"row": kernel, "mode": self.mode.name, "share": share})

    def attempt(self, row: Row, step: Callable[[Row], None]) -> None:
        """One step of a row; where it fails, the others go on."""
        found, baseline = self.found[row], self.found[self.baseline]
        has_tokens = not baseline.failed or self.outputs[self.baseline]
        if step != self.prepare and not found.failed and not has_tokens:  # to compare with
            lost = baseline.outcome == "not_measured"
            outcome = "not_measured" if lost else "unsupported"
            found.end(outcome, f"{self.baseline.kernel}: {baseline.reason}")
        if found.failed:
            return
        try:
            step(row)
        except InputError as why:
            found.end("unsupported", str(why))
        except RecordsLost as lost:
            found.end("not_measured", str(lost))
        except torch.OutOfMemoryError:
            if row == self.baseline and not self.outputs[row]:  # nothing fits at all
                raise
            found.end("not_measured", self.bench.too_little(self.cell, self.choices))
            self.bench.gpu.forget()

    def prepare(self, row: Row) -> None:
        gpu = self.bench.gpu.facts()["compute_capability"]
        if row.kernel in self.failed:
            self.found[row].end("launch_failed", self.failed[row.kernel])
        elif why := rows.why_not(row, gpu):
            self.found[row].end("unsupported", why)
        elif wrong := self.bench.wrong_weights(row):
            self.found[row].end("mismatch", *wrong)
        elif why := self.mode.prepare(row):
            self.found[row].end("unsupported", why)
        elif self.profiles:
            self.learned[row] = learn(self.mode, row)

    def warm_up(self, row: Row) -> None:
        """The baseline's first tokens are what all others are compared with."""
        short = self.choices.short(self.cell.pass_name)
        tokens = self.tokens if row == self.baseline else short
        self.outputs[row].append(self.mode.run(row, tokens).tokens)

    def measure(self, row: Row) -> None:
        found, host = self.found[row], self.bench.host
        if self.profiles:
            values = self.profile(row)
        else:
            values = host.sample(lambda: self.time(row), found.disturbed)
        clock = self.bench.gpu.sensors.sm_mhz
        for name, value in values.items():
            found.samples.setdefault(name, []).append(value)
        found.sm_mhz += [clock] if clock else []

    def time(self, row: Row) -> dict[str, float]:
        generated = self.mode.run(row, self.tokens)
        self.bench.gpu.sensors.read()
        self.outputs[row].append(generated.tokens)
        return {WALL_TIME: generated.wall_us, f"{WALL_TIME}.step": generated.step_us}

    def profile(self, row: Row) -> dict[str, float]:
        tokens, times = profiled(self.mode, row, self.tokens, *self.learned[row])
        self.outputs[row].append(tokens)
        return times

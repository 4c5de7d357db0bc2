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
from experiments.end_to_end.host import Disturbed
from experiments.end_to_end.modes import MODES, Mode, learn, profiled
from experiments.end_to_end.plan import WARM_UP, Cell, Choices, Row
from experiments.end_to_end.protocol import (
    Exactness,
    RecordsLost,
    Tokens,
    count_different,
    distinct,
)
from records.errors import InputError

WAIT_S = 10  # for a steady host, in all of a cell's samples in one mode
Report = Callable[[dict[str, Any]], None]


@dataclass
class Measured:
    """What came of a row so far; one that has failed is not run again."""

    outcome: str = "bit_exact"
    reason: str = ""
    mismatches: int | None = None
    difference: str = ""  # of its tokens from the baseline's, which no deviation allows
    deviation: str | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)
    sm_mhz: list[float] = field(default_factory=list)
    disturbed: Disturbed = field(default_factory=Disturbed)

    @property
    def failed(self) -> bool:
        return self.outcome not in ("bit_exact", "deviation_as_declared")

    def fail(self, outcome: str, reason: str, mismatches: int | None = None) -> None:
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
        self.exact = Exactness(again=lambda: mode.run(self.baseline, self.tokens).tokens)

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
        for measured in self.found.values():
            # The baseline may have been seen to vary since.
            if measured.difference:
                blame(measured, self.exact)
            elif self.exact.varies and measured.outcome == "bit_exact":
                measured.reason += f"; {self.exact.remark}"
        return self.found

    def say(self, kernel: str, done: float) -> None:
        share = (list(MODES).index(self.mode.name) + min(done, 0.99)) / len(MODES)
        self.report({"row": kernel, "mode": self.mode.name, "share": share})

    def attempt(self, row: Row, step: Callable[[Row], None]) -> None:
        """One step of a row; where it fails, the others go on."""
        found, baseline = self.found[row], self.found[self.baseline]
        has_tokens = not baseline.failed or self.exact.outputs
        if step != self.prepare and not found.failed and not has_tokens:  # to compare with
            lost = baseline.outcome == "not_measured"
            outcome = "not_measured" if lost else "unsupported"
            found.fail(outcome, f"{self.baseline.kernel}: {baseline.reason}")
        if found.failed:
            return
        try:
            step(row)
        except InputError as why:
            found.fail("unsupported", str(why))
        except RecordsLost as lost:
            found.fail("not_measured", str(lost))
        except torch.OutOfMemoryError:
            if row == self.baseline and not self.exact.outputs:  # nothing fits at all
                raise
            found.fail("not_measured", self.bench.too_little(self.cell, self.choices))
            self.bench.gpu.forget()

    def prepare(self, row: Row) -> None:
        if row.kernel in self.failed:
            self.found[row].fail("launch_failed", self.failed[row.kernel])
        elif wrong := self.bench.wrong_weights(row):
            self.found[row].fail("mismatch", *wrong)
        elif why := self.mode.prepare(row):
            self.found[row].fail("unsupported", why)
        elif self.profiles:
            self.learned[row] = learn(self.mode, row)

    def warm_up(self, row: Row) -> None:
        """The baseline's first tokens are what all others are compared with."""
        short = self.choices.short(self.cell.pass_name)
        tokens = self.tokens if row == self.baseline else short
        self.compare(row, self.mode.run(row, tokens).tokens)

    def measure(self, row: Row) -> None:
        found, host = self.found[row], self.bench.host
        if self.profiles:
            values = self.profile(row)
        else:
            values = host.sample(lambda: self.time(row), found.disturbed)
        clock = self.bench.gpu.sensors.sm_mhz
        if not found.failed:
            for name, value in values.items():
                found.samples.setdefault(name, []).append(value)
            found.sm_mhz += [clock] if clock else []

    def time(self, row: Row) -> dict[str, float]:
        generated = self.mode.run(row, self.tokens)
        self.bench.gpu.sensors.read()
        self.compare(row, generated.tokens)
        return {WALL_TIME: generated.wall_us, f"{WALL_TIME}.step": generated.step_us}

    def profile(self, row: Row) -> dict[str, float]:
        tokens, times = profiled(self.mode, row, self.tokens, *self.learned[row])
        self.compare(row, tokens)
        return times

    def compare(self, row: Row, tokens: Tokens) -> None:
        if row == self.baseline:
            self.exact.admit(tokens)
        judge(self.found[row], row, self.exact, tokens)


def judge(found: Measured, row: Row, exact: Exactness, tokens: Tokens) -> None:
    """Other tokens than the baseline's are wrong, but where bitsandbytes sums in its own order, or
    where the baseline's own vary.
    """
    may_differ = rows.may_fuse(row)
    difference = exact.difference(tokens) if may_differ else exact.compare(tokens)
    if not difference:
        if not found.deviation:
            count = sum(map(len, tokens))
            found.reason = f"{count} tokens compared each time, {distinct(tokens)} distinct"
        return
    count = count_different(tokens, exact.outputs[0])
    if may_differ:
        found.outcome, found.deviation = "deviation_as_declared", rows.FUSED
        found.reason, found.mismatches = difference, count
    else:
        found.difference, found.mismatches = difference, count
        blame(found, exact)


def blame(found: Measured, exact: Exactness) -> None:
    """Who made a difference of tokens shows only where the baseline repeats itself."""
    if exact.varies:
        found.fail("not_verified", f"{found.difference}; {exact.remark}", found.mismatches)
    else:
        itself = "run against itself, the baseline does not differ"
        found.fail("mismatch", f"{found.difference}; {itself}", found.mismatches)

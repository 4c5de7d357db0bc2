"""The steps from the branch tree to the streaming kernel, and what each was measured at."""

from dataclasses import dataclass

from plots.bandwidth import Measured, compared, measure
from plots.counter_values import Value, counts_of
from plots.experiments import Run, one_problem
from records.errors import InputError
from records.results import Record
from records.stats import Estimate

INSTRUCTIONS = "instructions_per_element"


@dataclass(frozen=True)
class Step:
    kernel: str
    change: str  # against the step before; of the first: what it is


# One pass each, by its name, with two more that end in _counters and _launches.
LADDERS = {
    "plain": (
        Step("branch_tree", "a tree of branches for the 16 values"),
        Step("global_lut", "a table in global memory for the tree"),
        Step("shared_lut", "the table in shared memory"),
        Step("scalar_store", "no CUB transpose: a byte per thread"),
        Step("packed_store", "both weights in one 4-byte store"),
        Step("wide_store", "4 bytes per thread, one 16-byte store"),
        Step("wide_store_hints", "cache hints: nothing need be kept"),
        Step("wide_store_unrolled", "unrolled: two words per thread"),
        Step("streaming", "reads asked for ahead, in bursts"),
    ),
    "nested": (
        Step("two_launches", "nested scales in a launch before"),
        Step("streaming", "nested scales in the same kernel"),
    ),
}


@dataclass(frozen=True)
class StepResult:
    """One step, as far as it was measured."""

    step: Step
    measured: Measured | None
    instructions: Value | None  # per weight
    instructions_before: Value | None  # of the step before
    launched: Record | None
    over_before: Estimate | None
    over_first: Estimate | None

    @property
    def factor(self) -> float | None:
        """Over the first step; 1 of the first itself."""
        if self.over_first is not None:
            return self.over_first.value
        return 1.0 if self.over_before is None and ranked(self.measured) else None


def step_results(run: Run, ladder: str) -> list[StepResult]:
    """The steps of one ladder in their order; InputError where its passes are of other problems."""
    times, counters, launches = (run[f"{ladder}{end}"] for end in ("", "_counters", "_launches"))
    problem = one_problem(times)
    for other in (counters, launches):
        if one_problem(other) != problem:
            raise InputError(
                f"{other.file}: is of {one_problem(other)}, but {times.name} of {problem}"
            )
    by_kernel = {m.record.kernel: m for m in measure(times, problem)}
    found: list[StepResult] = []
    for i, step in enumerate(LADDERS[ladder]):
        this, launched = by_kernel.get(step.kernel), launches.find(problem, step.kernel)
        counted = counters.find(problem, step.kernel)
        values = counts_of(counters, counted, launched) if counted else {}
        over_first = compared(found[0].measured, this) if i else None
        over_before = compared(found[-1].measured, this) if i else None
        instructions = values.get(INSTRUCTIONS), found[-1].instructions if i else None
        found.append(StepResult(step, this, *instructions, launched, over_before, over_first))
    return found


def ranked(m: Measured | None) -> bool:
    return m is not None and m.record.ranked

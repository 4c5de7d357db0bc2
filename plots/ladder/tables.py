"""The ladder's tables: what each step changed and came to, and bandwidth by the output's size."""

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from plots import bandwidth
from plots.bandwidth import Measured, Rows, compared, measure, rows_by
from plots.captions import machine_notes
from plots.counter_values import Value, change, counts_of
from plots.experiments import Run, one_problem
from plots.tables import KERNEL, NONE, WORDS, Column, Noted, Table, Values
from records.errors import InputError
from records.results import COPY, Record
from records.stats import Estimate, significant

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


STEP_NOTE = (
    "Each step is compared with the one above it, which it differs from in one thing, but for how "
    "the work is cut: scalar_store has blocks of 256 threads, those before it of 64, and "
    "wide_store and the two after it of 512. Step: times as fast as the step above; total: as "
    "branch_tree. Ratios of medians of one shuffled run; ~ where the intervals of the two overlap, "
    "so that no difference was seen."
)
WEIGHTS_PER_WORD = 8  # of codes that a thread loads at once
INSTRUCTIONS_NOTE = (
    "Instructions per weight: 32 x warp instructions / weights, and the change from the step above."
)


HEADS = {
    "cold": "cold: every launch finds its memory out of the cache",
    "warm": "warm: every launch is in the same memory, so that what fits is in the cache",
}
WARM_NOTE = (
    "Warm rows may be faster than memory. They rank with warm rows alone, their copy is warm too, "
    "and no claim is decided by them."
)


COLUMNS = [
    KERNEL,
    Column("what changed", "change", **WORDS),
    bandwidth.MEDIAN,
    Column("step x", "_step", bandwidth.times_text),
    Column("total x", "_total", bandwidth.times_text, wrap=1),
    Column("instr. per weight", "instructions_per_weight", wrap=1),
    replace(bandwidth.GB_S, wrap=1),
    replace(bandwidth.COPY_SHARE, wrap=1),
    Column("registers", "registers", wrap=1),
]
TIMED = (
    "outcome reason median_us low_us high_us min_us n bytes gb_per_s bytes_per_cycle "
    "share_of_copy share_of_ceiling sm_mhz source_file"
).split()


def steps_table(run: Run) -> Table:
    """One row per step, with what it changed and what that came to."""
    groups = {
        f"{one_problem(run[ladder])}: {ladder} scales": [
            {"ladder": ladder} | values_of(result, ladder) for result in step_results(run, ladder)
        ]
        for ladder in LADDERS
    }
    notes = [STEP_NOTE, shape_note(run), INSTRUCTIONS_NOTE, bandwidth.GB_NOTE, bandwidth.COPY_NOTE]
    notes += [*ceiling_notes(run), nested_note(run), passes_note(run)]
    steps = LADDERS["plain"]
    title = f"From {steps[0].kernel} to {steps[-1].kernel}, one change at a time"
    provenance = machine_notes(*(run[ladder] for ladder in LADDERS))
    return Table("ladder", title, COLUMNS, groups, notes, provenance)


def values_of(result: StepResult, ladder: str) -> Values:
    found: Values = {"kernel": result.step.kernel, "change": result.step.change}
    found |= {"instructions_per_weight": instructions(result), "registers": registers(result)}
    found |= bandwidth.estimate_values("step_speedup", result.over_before)
    found |= bandwidth.estimate_values("over_first_speedup", result.over_first)
    row = bandwidth.values_of(result.measured) if result.measured else {}
    found |= {name: row.get(name) for name in TIMED}
    if not row:
        found["median_us"] = Noted(None, text="not run")
    elif result.measured.record.summary is None:
        found["median_us"] = result.measured.no_number
    timed = found["median_us"] is not None and not isinstance(found["median_us"], Noted)
    steps = {
        "_step": result.over_before,
        "_total": result.over_first if ladder == "plain" else None,
    }
    return found | (steps if timed else {})


def instructions(result: StepResult) -> Noted | None:
    """Per weight: '6.65 (-46%)'."""
    value = result.instructions
    if value is None:
        return None
    if value.number is None:
        return Noted(None, (value.missing,))
    shown, changed = significant(value.number, 3), change(value, result.instructions_before)
    return Noted(value.number, text=f"{shown} ({changed})" if changed else shown)


def registers(result: StepResult) -> str:
    """Registers of each kernel that a call launches: '16 + 29'."""
    kernels = result.launched.launch if result.launched else ()
    return " + ".join(str(kernel["registers"]) for kernel in kernels) or NONE


def shape_note(run: Run) -> str:
    """What the last step changes besides: streaming's shape, as it was launched."""
    parts = []
    for ladder in LADDERS:
        launched = step_results(run, ladder)[-1].launched
        for kernel in launched.launch or () if launched else ():
            threads = prod(kernel["block"])
            count = ceil(launched.problem["n"] / WEIGHTS_PER_WORD / threads / prod(kernel["grid"]))
            each = f"{count} word{'s' * (count > 1)} each"
            parts.append(f"{threads} threads with {each} for {ladder} scales")
    here = f": here {', '.join(parts)}" if parts else ""
    return f"streaming chooses its blocks and the words of 8 weights per thread by the size{here}."


def ceiling_notes(run: Run) -> list[str]:
    """What the fastest known way to move as many bytes reached, and the last step of it."""
    notes = []
    for ladder in LADDERS:
        m = step_results(run, ladder)[-1].measured
        if m is not None and m.ceiling is not None and m.of_ceiling is not None:
            notes.append(
                f"The fastest ceiling with {ladder} scales is {m.ceiling.kernel}, at "
                f"{m.ceiling.speed.value:.0f} GB/s; {m.record.kernel} reaches "
                f"{100 * m.of_ceiling:.1f} % of it."
            )
    return notes


def nested_note(run: Run) -> str:
    """What two launches move besides what the table counts."""
    (problem,) = run["nested"].problems()
    extra = 8 * problem["n"] // problem["block_size"]
    return (
        "Nested scales: the launch before writes an fp32 scale for each block of "
        f"{problem['block_size']} weights, and the kernel reads it, {extra / 1e6:.1f} MB together, "
        "mostly in the L2 cache. GB/s counts what one kernel needs, in both rows."
    )


def passes_note(run: Run) -> str:
    names = [run[f"{ladder}{end}"].name for ladder in LADDERS for end in ("_counters", "_launches")]
    return (
        "Instructions and registers come from runs without times of their own: "
        f"{', '.join(names)}. Two numbers of registers: two kernels in one call."
    )


BySize = dict[float, Rows]  # by MiB of output, ascending


def output_mib(problem: dict[str, Any]) -> float:
    return 2 * problem["n"] / 2**20


def size_text(mib: float) -> str:
    if mib < 1:
        return f"{1024 * mib:g} KiB"
    return f"{mib / 1024:g} GiB" if mib >= 1024 else f"{mib:g} MiB"


def sizes_table(run: Run) -> Table:
    """One row per size and one column per kernel; the CSV has every row in full."""
    found = {cache: rows_by(run[cache], output_mib) for cache in HEADS}
    kernels = compared_kernels(found["cold"])
    columns = [Column("output", "output_mib", size_text)]
    columns += [Column(name, name, bandwidth.gb_text, wrap=1) for name in kernels]
    columns += [Column(f"{COPY} (cudaMemcpy)", COPY, bandwidth.gb_text, wrap=1)]
    data = [
        {"cache": cache, "output_mib": size, "problem": m.record.problem["name"]}
        | bandwidth.values_of(m)
        for cache, sizes in found.items()
        for size, rows in sizes.items()
        for m in rows.values()
    ]
    groups = {HEADS[cache]: pivoted(sizes) for cache, sizes in found.items()}
    notes = [bandwidth.GB_NOTE, bandwidth.BEST_NOTE, WARM_NOTE]
    provenance = machine_notes(*(run[cache] for cache in HEADS))
    title = "Bandwidth by the size of the output, GB/s"
    return Table("sizes", title, columns, groups, notes, provenance, data)


def pivoted(sizes: BySize) -> list[Values]:
    """One row per size, with each kernel's bandwidth under its name."""
    return [
        {"output_mib": size} | {name: bandwidth.speed_or_outcome(m) for name, m in rows.items()}
        for size, rows in sizes.items()
    ]


def compared_kernels(sizes: BySize) -> list[str]:
    """The fastest on the largest output first."""
    rows = [m.record for found in reversed(sizes.values()) for m in found.values()]
    return list(dict.fromkeys(r.kernel for r in rows if not r.is_ceiling))

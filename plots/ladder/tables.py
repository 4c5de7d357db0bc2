"""The ladder's tables: what each step changed and came to, and bandwidth by the output's size."""

from dataclasses import replace
from math import ceil, prod
from typing import Any

from claims.errors import InputError
from claims.results import COPY, Results
from claims.stats import Estimate, significant
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import machine_notes
from plots.counter_values import change
from plots.experiments import Run, one_problem
from plots.ladder.figures import output_mib, size_text
from plots.ladder.steps import LADDERS, Rung, rungs
from plots.tables import (
    CODE,
    NONE,
    WORDS,
    Cell,
    Column,
    Get,
    Table,
    at,
    column,
    data_of,
    lifted,
    only_data,
    unseen,
)

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


def steps_table(run: Run) -> Table:
    """One row per step, with what it changed and what that came to."""
    groups = {
        f"{one_problem(run[ladder])}: {ladder} scales": rungs(run, ladder) for ladder in LADDERS
    }
    notes = [STEP_NOTE, shape_note(run), INSTRUCTIONS_NOTE, bandwidth.GB_NOTE, bandwidth.COPY_NOTE]
    notes += [*ceiling_notes(run), nested_note(run), passes_note(run)]
    steps = LADDERS["plain"]
    title = f"From {steps[0].kernel} to {steps[-1].kernel}, one change at a time"
    provenance = [note for ladder in LADDERS for note in machine_notes(run[ladder])]
    return Table.of("ladder", title, STEP_COLUMNS, groups, notes, provenance)


def time_cell(rung: Rung) -> Cell | str:
    """The median in us; what became of the row where it has none."""
    if rung.measured is None:
        return "not run"
    summary = rung.measured.record.summary
    return significant(summary.median) if summary else rung.measured.outcome


def times_text(found: Estimate) -> str:
    """'2.16', or '~1.00' where the intervals of the two overlap."""
    return ("" if found.differs_from_one else "~") + f"{found.value:.2f}"


def instructions_cell(rung: Rung) -> Cell | str:
    """'6.65 (-46%)'"""
    value = rung.instructions
    if value is None:
        return NONE
    if value.number is None:
        return Cell(NONE, (value.missing,))
    number, changed = significant(value.number, 3), change(value, rung.instructions_before)
    return f"{number} ({changed})" if changed else number


def registers_text(rung: Rung) -> str:
    """Of each kernel that a call launches: '16 + 29'."""
    kernels = rung.launched.launch if rung.launched else ()
    return " + ".join(str(kernel["registers"]) for kernel in kernels) or NONE


def speedup(name: str, path: str, key: str, shown: Get, **style: Any) -> Column:
    ends = {f"{key}_speedup{end}": f"{path}.{part}" for end, part in ENDS.items()}
    return replace(column(name, shown, times_text, **style), data=unseen(**ends).data)


ENDS = {"": "value", "_low": "low", "_high": "high"}
TIMED = (bandwidth.OUTCOME, bandwidth.INTERVAL, bandwidth.MIN, bandwidth.SAMPLES, bandwidth.BYTES)
TIMED = (*TIMED, bandwidth.CYCLE, bandwidth.CEILING_SHARE)
(SPEED, SHARE) = lifted("measured", (bandwidth.GB_S, bandwidth.COPY_SHARE))
STEP_COLUMNS = [
    unseen(ladder="ladder"),
    column("kernel", "step.kernel", str, "kernel", **CODE),
    column("what changed", "step.change", str, "change", **WORDS),
    Column("median us", time_cell, {"median_us": at("measured.record.summary.median")}),
    speedup("step x", "over_before", "step", at("over_before")),
    speedup(
        "total x",
        "over_first",
        "over_first",
        lambda rung: rung.over_first if rung.ladder == "plain" else None,
        wrap=1,
    ),
    Column(
        "instr. per weight",
        instructions_cell,
        {"instructions_per_weight": at("instructions.number")},
        wrap=1,
    ),
    replace(SPEED, wrap=1),
    replace(SHARE, wrap=1),
    Column("registers", registers_text, {"registers": registers_text}, wrap=1),
    *only_data(lifted("measured", TIMED)),
    unseen(sm_mhz="measured.record.sm_mhz", source_file="measured.record.source_file"),
]


def shape_note(run: Run) -> str:
    """What the last step changes besides: streaming's shape, as it was launched."""
    parts = []
    for ladder in LADDERS:
        launched = rungs(run, ladder)[-1].launched
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
        m = rungs(run, ladder)[-1].measured
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


BySize = dict[float, dict[str, Measured]]  # by MiB of output, ascending, and by kernel


def by_size(results: Results) -> BySize:
    found: BySize = {}
    for p in sorted(results.problems(), key=lambda p: p["n"]):
        rows = {m.record.kernel: m for m in measure(results, p["name"])}
        size = output_mib(next(iter(rows.values())).record)
        if size in found:
            raise InputError(f"{results.file}: problem '{p['name']}' has the size of another")
        found[size] = rows
    return found


def sizes_table(run: Run) -> Table:
    """One row per size and one column per kernel; the CSV has every row in full."""
    found = {cache: by_size(run[cache]) for cache in HEADS}
    records = [m.record for rows in reversed(found["cold"].values()) for m in rows.values()]
    kernels = dict.fromkeys(r.kernel for r in records if not r.is_ceiling)  # fastest first
    columns = [column("output", lambda row: row[0], size_text)]
    columns += [
        column(name, lambda row, kernel=kernel: row[1].get(kernel), speed_or_outcome, wrap=1)
        for kernel, name in {**{k: k for k in kernels}, COPY: f"{COPY} (cudaMemcpy)"}.items()
    ]
    groups = {HEADS[cache]: list(sizes.items()) for cache, sizes in found.items()}
    notes = [bandwidth.GB_NOTE, bandwidth.BEST_NOTE, WARM_NOTE]
    provenance = [note for cache in HEADS for note in machine_notes(run[cache])]
    title = "Bandwidth by the size of the output, GB/s"
    table = Table.of("sizes", title, columns, groups, notes, provenance)
    for cache, sizes in found.items():
        for size, rows in sizes.items():
            where = unseen(cache=lambda m, c=cache: c, output_mib=lambda m, s=size: s)
            columns = [where, bandwidth.PROBLEM, *bandwidth.EVERYTHING]
            table.data += data_of(columns, rows.values())
    return table


def speed_or_outcome(m: Measured) -> Cell:
    return m.outcome if m.gb_s is None else bandwidth.speed_cell(m)

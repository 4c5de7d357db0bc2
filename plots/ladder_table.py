"""The ladder's table: one row per step, with what it changed and what that came to."""

from math import ceil, prod

from claims.results import Record
from claims.stats import significant
from plots import bandwidth
from plots.bandwidth import Measured
from plots.captions import machine_notes
from plots.counter_values import Value, change
from plots.experiments import Run, one_problem
from plots.ladder_steps import LADDERS, Rung, rungs
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers, words

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


def ladder_table(run: Run) -> Table:
    first = LADDERS["plain"][0].kernel
    columns = [KERNEL, *words("what changed"), *numbers("median us"), *numbers("step x")]
    columns += numbers("total x", "instr. per weight", wrap=1)
    columns += numbers("GB/s", "copy %", "registers", wrap=1)
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for ladder in LADDERS:
        results = run[ladder]
        rows.append(Group(f"{one_problem(results)}: {ladder} scales"))
        before = None
        for rung in rungs(run, ladder):
            rows.append(display(rung, before, of_first=ladder == "plain"))
            data.append({"ladder": ladder} | csv_row(rung))
            before = rung
    notes = [STEP_NOTE, shape_note(run), INSTRUCTIONS_NOTE, bandwidth.GB_NOTE, bandwidth.COPY_NOTE]
    notes += [*ceiling_notes(run), nested_note(run), passes_note(run)]
    title = f"From {first} to {LADDERS['plain'][-1].kernel}, one change at a time"
    provenance = [note for ladder in LADDERS for note in machine_notes(run[ladder])]
    return Table("ladder", title, columns, rows, data, notes, list(dict.fromkeys(provenance)))


def display(rung: Rung, before: Rung | None, of_first: bool) -> list[Cell | str]:
    m, head = rung.measured, [rung.step.kernel, rung.step.change]
    counted = instructions_cell(rung.instructions, before.instructions if before else None)
    registers = registers_text(rung.launched)
    if m is None or m.record.summary is None:
        why = m.outcome if m else "not run"
        return [*head, why, NONE, NONE, counted, NONE, NONE, registers]
    over_first = rung.over_first if of_first else None
    times = [significant(m.record.times.median), times_text(rung.over_before)]
    return [
        *(*head, *times, times_text(over_first), counted),
        *(bandwidth.speed_cell(m), bandwidth.share_text(m), registers),
    ]


def times_text(found) -> str:
    """'2.16', or '~1.00' where the intervals of the two overlap."""
    if found is None:
        return NONE
    return ("" if found.differs_from_one else "~") + f"{found.value:.2f}"


def instructions_cell(value: Value | None, before: Value | None) -> Cell | str:
    """'6.65 (-46%)'"""
    if value is None:
        return NONE
    if value.number is None:
        return Cell(NONE, (value.missing,))
    number, changed = significant(value.number, 3), change(value, before)
    return f"{number} ({changed})" if changed else number


def registers_text(launched: Record | None) -> str:
    """Of each kernel that a call launches: '16 + 29'."""
    kernels = launched.launch if launched else ()
    return " + ".join(str(kernel["registers"]) for kernel in kernels) or NONE


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


def csv_row(rung: Rung) -> dict[str, object]:
    m: Measured | None = rung.measured
    found: dict[str, object] = {"kernel": rung.step.kernel, "change": rung.step.change}
    found |= {"instructions_per_weight": rung.instructions.number if rung.instructions else None}
    found |= {"registers": registers_text(rung.launched)}
    for name, e in (("step", rung.over_before), ("over_first", rung.over_first)):
        ends = (e.value, *e.interval) if e else (None,) * 3
        names = (f"{name}_speedup", f"{name}_speedup_low", f"{name}_speedup_high")
        found |= dict(zip(names, ends, strict=True))
    row = bandwidth.csv_row(m) if m else {}
    return found | {name: row.get(name) for name in CSV_COLUMNS}


CSV_COLUMNS = (
    "outcome reason median_us low_us high_us min_us n bytes gb_per_s bytes_per_cycle "
    "share_of_copy share_of_ceiling sm_mhz source_file"
).split()

"""Bandwidth against the size of a square matrix, by how the size is aligned."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from plots.bandwidth import (
    BEST_NOTE,
    COPY,
    COPY_NOTE,
    CSV_HEADER,
    GB_NOTE,
    NONE,
    Measured,
    csv_row,
    measure,
    share_cell,
)
from plots.captions import check_notes, machine_notes, outcome_notes, outcome_words
from plots.results import Record, Results
from plots.tables import Cell, Column, Group, Row, Table

# A tile has 32 or 64 rows; TMA and 16-byte accesses need rows of a multiple of four fp32.
ALIGNMENTS = {64: "multiples of 64", 4: "other multiples of 4", 1: "not multiples of 4"}
SUMMARY_SIZES = (1024, 4096, 16384, 32768, 65536)
SUMMARY_FROM = 1000  # smaller ones measure the launch
NONE_NOTE = "-: not supported at this size, or not run; reasons and remarks: sizes.csv."


def alignment(size: int) -> int:
    """The key of `ALIGNMENTS` that a size belongs to."""
    return next(divisor for divisor in ALIGNMENTS if size % divisor == 0)


def sizes_of(results: Results) -> list[int]:
    return sorted(p["rows"] for p in results.problems())


def measured(results: Results, size: int) -> list[Measured]:
    return measure(results, problem_of(results, size)["name"], None)


def problem_of(results: Results, size: int) -> dict[str, Any]:
    return next(p for p in results.problems() if p["rows"] == size)


def compared_kernels(results: Results) -> list[str]:
    """The kernels that are held to bit-exact output, the fastest on the largest matrix first."""
    names: dict[str, None] = {}
    for size in reversed(sizes_of(results)):
        rows = measured(results, size)
        names |= dict.fromkeys(m.record.kernel for m in rows if m.record.ranked)
    kernels = [r for r in results.records if r.role != "ceiling" and not r.deviation]
    return list(names | dict.fromkeys(r.kernel for r in kernels))


def sizes_table(results: Results) -> Table:
    """GB/s, a row a size and a column a kernel; the CSV has every row in full."""
    kernels = [*compared_kernels(results), COPY]
    columns = [Column("rows")] + [Column(kernel, wrap=True) for kernel in kernels]
    groups: dict[str, list[Row]] = {name: [] for name in ALIGNMENTS.values()}
    for size in sizes_of(results):
        by_name = {m.record.kernel: m for m in measured(results, size)}
        first = Cell(str(size), did_not_fit(results, size))
        row = [first, *(speed_cell(by_name.get(kernel)) for kernel in kernels)]
        groups[ALIGNMENTS[alignment(size)]].append(row)
    data: list[Sequence[object]] = [CSV_HEADER]
    for p in results.problems():
        data += [csv_row(p, m) for m in measure(results, p["name"], None)]
    return Table(
        "sizes",
        "Transpose of a square fp32 matrix by its number of rows, GB/s",
        columns,
        grouped(groups),
        data,
        [GB_NOTE, BEST_NOTE, NONE_NOTE, *left_out_note(results), *check_notes(results)],
        machine_notes(results),
    )


def grouped(groups: dict[str, list[Row]]) -> list[Row | Group]:
    return [x for name, rows in groups.items() if rows for x in (Group(name), *rows)]


def did_not_fit(results: Results, size: int) -> tuple[str, ...]:
    """A footnote with the reasons where nothing at all could run at this size."""
    name = problem_of(results, size)["name"]
    records = [r for r in results.records if r.problem["name"] == name]
    if any(r.outcome != "unsupported" for r in records):
        return ()
    reasons = dict.fromkeys(r.reason or "no reason given" for r in records)
    return (f"{name}: {'; '.join(reasons)}",)


def speed_cell(m: Measured | None) -> Cell | str:
    if m is None or (m.gb_s is None and m.record.outcome == "unsupported"):
        return NONE
    if m.gb_s is None:
        return failure(m.record)
    return Cell(f"{m.gb_s:.0f}", best=m.best)


def failure(record: Record) -> Cell:
    return Cell(outcome_words(record), outcome_notes(record))


def left_out_note(results: Results) -> list[str]:
    deviating = sorted({r.kernel for r in results.records if r.deviation})
    return [f"Left out, for the wrong output it declares: {name}." for name in deviating]


def sizes_summary(results: Results) -> Table:
    """The share of the copy, a row a kernel: at some sizes, and over the unaligned ones."""
    sizes = sizes_of(results)
    shown = [size for size in SUMMARY_SIZES if size in sizes]
    ranges = {
        name: [s for s in sizes if s >= SUMMARY_FROM and alignment(s) == divisor]
        for divisor, name in ALIGNMENTS.items()
        if divisor != 64
    }
    ranges = {name: found for name, found in ranges.items() if found}
    columns = [Column("kernel", "l", wrap=True, code=True)]
    columns += [Column(name, wrap=True) for name in [*map(str, shown), *ranges]]
    by_size = {s: {m.record.kernel: m for m in measured(results, s)} for s in sizes}
    rows: list[Row | Group] = [Group("% of the copy")]
    data: list[Sequence[object]] = [["kernel", "rows", "alignment", "gb_per_s", "share_of_copy"]]
    for kernel in compared_kernels(results):
        found = {s: m for s in sizes if (m := by_size[s].get(kernel))}
        cells = [share_or_why(found.get(size)) for size in shown]
        cells += [share_range([found[s] for s in group if s in found]) for group in ranges.values()]
        rows.append([kernel, *cells])
        for s, m in found.items():
            data.append([kernel, s, ALIGNMENTS[alignment(s)], m.gb_s, m.of_copy])
    copies = [speed_cell(by_size[size].get(COPY)) for size in shown]
    rows += [Group("the copy itself, GB/s"), [COPY, *copies, *[NONE] * len(ranges)]]
    notes = [COPY_NOTE, BEST_NOTE]
    for name, group in ranges.items():
        listed = ", ".join(map(str, group))
        notes.append(f"{name.capitalize()}: median and range over {listed}.")
    notes += [f"Did not fit: {note}." for s in shown for note in did_not_fit(results, s)]
    return Table(
        "sizes_summary",
        "Transpose of a square fp32 matrix by its number of rows: share of the copy",
        columns,
        rows,
        data,
        [*notes, NONE_NOTE, *left_out_note(results)],
        machine_notes(results),
    )


def share_or_why(m: Measured | None) -> Cell | str:
    """The share of the copy; where there is no time, what stands in its place."""
    if m is None or m.gb_s is None:
        return speed_cell(m)
    share = share_cell(m)
    return Cell(share.text, share.notes, m.best) if isinstance(share, Cell) else share


def share_range(found: Sequence[Measured]) -> Cell | str:
    """'81.2 (70.4-90.1)', in percent; an output that is wrong at one size comes first."""
    for m in found:
        if m.record.outcome in ("mismatch", "launch_failed"):
            return failure(m.record)
    shares = [100 * m.of_copy for m in found if m.of_copy is not None]
    if not shares:
        return NONE
    return f"{median(shares):.1f} ({min(shares):.1f}-{max(shares):.1f})"

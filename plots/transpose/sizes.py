"""Bandwidth against the size of a square matrix, by how the size is aligned."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from plots import bandwidth
from plots.bandwidth import Measured, Rows, rows_by
from plots.captions import check_notes, machine_notes
from plots.experiments import Run
from plots.tables import KERNEL, Column, Noted, Table, Values, rounded
from records.errors import InputError
from records.results import COPY, Results

# A tile has 32 or 64 rows; TMA and 16-byte accesses need rows of a multiple of four fp32.
ALIGNMENTS = {64: "multiples of 64", 4: "other multiples of 4", 1: "not multiples of 4"}
SUMMARY_SIZES = (1024, 4096, 16384, 32768, 65536)
SUMMARY_FROM = 1000  # smaller ones measure the launch
NONE_NOTE = "-: not supported at this size, or not run; reasons and remarks: sizes.csv."

BySize = dict[int, Rows]  # by rows of the matrix, ascending


def alignment(size: int) -> int:
    """The key of `ALIGNMENTS` that a size belongs to."""
    return next(divisor for divisor in ALIGNMENTS if size % divisor == 0)


def measure_sizes(results: Results) -> BySize:
    """Every row of the file; InputError where a problem is not square."""
    for p in results.problems():
        if p["rows"] != p["columns"]:
            raise InputError(f"{results.file}: problem '{p['name']}' is not square")
    return rows_by(results, lambda p: p["rows"])


def compared_kernels(sizes: BySize) -> list[str]:
    """The kernels that are held to bit-exact output, the fastest on the largest matrix first."""
    rows = [m.record for found in reversed(sizes.values()) for m in found.values()]
    held = [r.kernel for r in rows if not r.is_ceiling and not r.deviation]
    return list(dict.fromkeys([r.kernel for r in rows if r.ranked] + held))


def sizes_table(run: Run) -> Table:
    """GB/s, one row per size and one column per kernel; the CSV has every row in full."""
    results, sizes = run["sizes"], measure_sizes(run["sizes"])
    kernels = [*compared_kernels(sizes), COPY]
    groups: dict[str, list[Values]] = {}
    for divisor, name in ALIGNMENTS.items():
        for size, by_kernel in sizes.items():
            if alignment(size) == divisor:
                row = {"rows": Noted(size, did_not_fit(by_kernel), text=str(size))}
                row |= {kernel: speed(m) for kernel, m in by_kernel.items()}
                groups.setdefault(name, []).append(row)
    data = [
        {"problem": m.record.problem["name"], **bandwidth.values_of(m)}
        for by_kernel in sizes.values()
        for m in by_kernel.values()
    ]
    notes = [f"{bandwidth.GB_NOTE} Bytes per cycle of the SM clock: sizes.csv."]
    notes += [bandwidth.BEST_NOTE, NONE_NOTE, *left_out_note(results)]
    notes += check_notes(results)
    columns = [Column("rows", "rows")]
    columns += [Column(kernel, kernel, bandwidth.gb_text, wrap=1) for kernel in kernels]
    title = "Transpose of a square fp32 matrix by its number of rows, GB/s"
    return Table("sizes", title, columns, groups, notes, machine_notes(results), data)


def did_not_fit(by_kernel: dict[str, Measured]) -> tuple[str, ...]:
    """A footnote with the reasons where nothing at all could run at this size."""
    records = [m.record for m in by_kernel.values()]
    if any(r.outcome != "unsupported" for r in records):
        return ()
    reasons = dict.fromkeys(r.reason or "no reason given" for r in records)
    return (f"{records[0].problem['name']}: {'; '.join(reasons)}",)


def speed(m: Measured) -> Noted | None:
    """GB/s, or what became of it; what is not supported is left out."""
    if m.gb_s is None and m.record.outcome == "unsupported":
        return None
    return bandwidth.speed_or_outcome(m)


def left_out_note(results: Results) -> list[str]:
    deviating = sorted({r.kernel for r in results.records if r.deviation})
    return [f"Left out, for wrong outputs as declared: {', '.join(deviating)}."] * bool(deviating)


def sizes_summary(run: Run) -> Table:
    """The share of the copy, one row per kernel: at some sizes, and over the unaligned ones."""
    results, sizes = run["sizes"], measure_sizes(run["sizes"])
    shown = [size for size in SUMMARY_SIZES if size in sizes]
    large = [size for size in sizes if size >= SUMMARY_FROM]
    ranges = {
        name: group
        for divisor, name in ALIGNMENTS.items()
        if divisor != 64 and (group := [s for s in large if alignment(s) == divisor])
    }
    columns = [KERNEL, *(Column(str(name), str(name), wrap=1) for name in (*shown, *ranges))]
    rows: list[Values] = []
    data: list[Values] = []
    for kernel in compared_kernels(sizes):
        found = {s: by_kernel[kernel] for s, by_kernel in sizes.items() if kernel in by_kernel}
        row: Values = {"kernel": kernel} | {str(s): share(m) for s, m in found.items()}
        for name, group in ranges.items():
            row[name] = share_range([found[s] for s in group if s in found])
        rows.append(row)
        for s, m in found.items():
            values = {"kernel": kernel, "rows": s, "alignment": ALIGNMENTS[alignment(s)]}
            values |= {"gb_per_s": m.gb_s, "bytes_per_cycle": m.record.bytes_per_cycle}
            data.append(values | {"share_of_copy": m.of_copy})
    copies = {size: m for size in shown if (m := sizes[size].get(COPY))}
    copy: Values = {"kernel": COPY}
    cycles = {str(s): m.record.bytes_per_cycle for s, m in copies.items()}
    cycles = {s: None if c is None else rounded(c) for s, c in cycles.items()}
    groups = {
        "% of the copy": rows,
        "the copy itself, GB/s": [copy | {str(s): shown_speed(m) for s, m in copies.items()}],
        "the copy itself, B/cycle": [copy | cycles],
    }
    notes = [bandwidth.COPY_NOTE, bandwidth.CYCLE_NOTE, bandwidth.BEST_NOTE]
    for name, group in ranges.items():
        listed = ", ".join(map(str, group))
        notes.append(f"{name.capitalize()}: median and range over {listed}.")
    notes += [f"Did not fit: {note}." for s in shown for note in did_not_fit(sizes[s])]
    notes += [NONE_NOTE, *left_out_note(results)]
    title = "Transpose of a square fp32 matrix by its number of rows: share of the copy"
    return Table("sizes_summary", title, columns, groups, notes, machine_notes(results), data)


def shown_speed(m: Measured) -> Noted | None:
    found = speed(m)
    return found and replace(found, text=found.text or bandwidth.gb_text(m.gb_s))


def share(m: Measured) -> Noted | None:
    """The share of the copy; where there is no time, what stands in its place."""
    if m.of_copy is None:
        return speed(m) if m.gb_s is None else None
    return Noted(m.of_copy, m.marks, m.best, text=bandwidth.percent(m.of_copy))


def share_range(found: Sequence[Measured]) -> Noted | None:
    """'81.2 (70.4-90.1)', in percent; an output that is wrong at one size comes first."""
    for m in found:
        if m.record.outcome in ("mismatch", "launch_failed"):
            return bandwidth.speed_or_outcome(m)
    shares = [100 * m.of_copy for m in found if m.of_copy is not None]
    if not shares:
        return None
    text = f"{median(shares):.1f} ({min(shares):.1f}-{max(shares):.1f})"
    return Noted(median(shares), text=text)

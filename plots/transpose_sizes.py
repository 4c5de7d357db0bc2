"""Bandwidth against the size of a square matrix, by how the size is aligned."""

from collections.abc import Sequence
from statistics import median

from claims.errors import InputError
from claims.results import COPY, Results
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import check_notes, machine_notes
from plots.experiments import Run
from plots.neighbours import neighbour_notes
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers

# A tile has 32 or 64 rows; TMA and 16-byte accesses need rows of a multiple of four fp32.
ALIGNMENTS = {64: "multiples of 64", 4: "other multiples of 4", 1: "not multiples of 4"}
SUMMARY_SIZES = (1024, 4096, 16384, 32768, 65536)
SUMMARY_FROM = 1000  # smaller ones measure the launch
NONE_NOTE = "-: not supported at this size, or not run; reasons and remarks: sizes.csv."

BySize = dict[int, dict[str, Measured]]  # by rows of the matrix, ascending, and by kernel


def alignment(size: int) -> int:
    """The key of `ALIGNMENTS` that a size belongs to."""
    return next(divisor for divisor in ALIGNMENTS if size % divisor == 0)


def measure_sizes(results: Results) -> BySize:
    """Every row of the file; InputError where a problem is not the one square of its size."""
    found: BySize = {}
    for p in sorted(results.problems(), key=lambda p: p["rows"]):
        if p["rows"] != p["columns"] or p["rows"] in found:
            why = "is not square" if p["rows"] != p["columns"] else "has the size of another"
            raise InputError(f"{results.file}: problem '{p['name']}' {why}: one square per size")
        found[p["rows"]] = {m.record.kernel: m for m in measure(results, p["name"])}
    return found


def compared_kernels(sizes: BySize) -> list[str]:
    """The kernels that are held to bit-exact output, the fastest on the largest matrix first."""
    rows = [m.record for found in reversed(sizes.values()) for m in found.values()]
    held = [r.kernel for r in rows if not r.is_ceiling and not r.deviation]
    return list(dict.fromkeys([r.kernel for r in rows if r.ranked] + held))


def sizes_table(run: Run) -> Table:
    """GB/s, one row per size and one column per kernel; the CSV has every row in full."""
    results, sizes = run["sizes"], measure_sizes(run["sizes"])
    kernels = [*compared_kernels(sizes), COPY]
    rows: list[Row | Group] = []
    for divisor, name in ALIGNMENTS.items():
        found = {size: by_kernel for size, by_kernel in sizes.items() if alignment(size) == divisor}
        rows += [Group(name)] * bool(found)
        for size, by_kernel in found.items():
            cells = [speed_cell(by_kernel.get(kernel)) for kernel in kernels]
            rows.append([Cell(str(size), did_not_fit(by_kernel)), *cells])
    data = [
        {"problem": m.record.problem["name"], **bandwidth.csv_row(m)}
        for by_kernel in sizes.values()
        for m in by_kernel.values()
    ]
    notes = [f"{bandwidth.GB_NOTE} Bytes per cycle of the SM clock: sizes.csv."]
    notes += [bandwidth.BEST_NOTE, NONE_NOTE, *left_out_note(results)]
    notes += [*check_notes(results), *neighbour_notes(results)]
    columns = [*numbers("rows"), *numbers(*kernels, wrap=1)]
    title = "Transpose of a square fp32 matrix by its number of rows, GB/s"
    return Table("sizes", title, columns, rows, data, notes, machine_notes(results))


def did_not_fit(by_kernel: dict[str, Measured]) -> tuple[str, ...]:
    """A footnote with the reasons where nothing at all could run at this size."""
    records = [m.record for m in by_kernel.values()]
    if any(r.outcome != "unsupported" for r in records):
        return ()
    reasons = dict.fromkeys(r.reason or "no reason given" for r in records)
    return (f"{records[0].problem['name']}: {'; '.join(reasons)}",)


def speed_cell(m: Measured | None) -> Cell | str:
    if m is None or (m.gb_s is None and m.record.outcome == "unsupported"):
        return NONE
    return m.outcome if m.gb_s is None else bandwidth.speed_cell(m)


def left_out_note(results: Results) -> list[str]:
    deviating = sorted({r.kernel for r in results.records if r.deviation})
    return [f"Left out, for the wrong output it declares: {name}." for name in deviating]


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
    columns = [KERNEL, *numbers(*map(str, shown), *ranges, wrap=1)]
    rows: list[Row | Group] = [Group("% of the copy")]
    data: list[dict[str, object]] = []
    for kernel in compared_kernels(sizes):
        found = {s: by_kernel[kernel] for s, by_kernel in sizes.items() if kernel in by_kernel}
        spans = [share_range([found[s] for s in g if s in found]) for g in ranges.values()]
        rows.append([kernel, *(share_or_why(found.get(size)) for size in shown), *spans])
        for s, m in found.items():
            row = {"kernel": kernel, "rows": s, "alignment": ALIGNMENTS[alignment(s)]}
            row |= {"gb_per_s": m.gb_s, "bytes_per_cycle": m.record.bytes_per_cycle}
            data.append(row | {"share_of_copy": m.of_copy})
    copies = [speed_cell(sizes[size].get(COPY)) for size in shown]
    rows += [Group("the copy itself, GB/s"), [COPY, *copies, *[NONE] * len(ranges)]]
    found = [sizes[size].get(COPY) for size in shown]
    cycles = [bandwidth.cycle_text(m) if m else NONE for m in found]
    rows += [Group("the copy itself, B/cycle"), [COPY, *cycles, *[NONE] * len(ranges)]]
    notes = [bandwidth.COPY_NOTE, bandwidth.CYCLE_NOTE, bandwidth.BEST_NOTE]
    for name, group in ranges.items():
        listed = ", ".join(map(str, group))
        notes.append(f"{name.capitalize()}: median and range over {listed}.")
    notes += [f"Did not fit: {note}." for s in shown for note in did_not_fit(sizes[s])]
    notes += [NONE_NOTE, *left_out_note(results)]
    title = "Transpose of a square fp32 matrix by its number of rows: share of the copy"
    return Table("sizes_summary", title, columns, rows, data, notes, machine_notes(results))


def share_or_why(m: Measured | None) -> Cell | str:
    """The share of the copy; where there is no time, what stands in its place."""
    if m is None or m.of_copy is None:
        return speed_cell(m) if m is None or m.gb_s is None else NONE
    return Cell(bandwidth.share_text(m), m.marks, m.best)


def share_range(found: Sequence[Measured]) -> Cell | str:
    """'81.2 (70.4-90.1)', in percent; an output that is wrong at one size comes first."""
    for m in found:
        if m.record.outcome in ("mismatch", "launch_failed"):
            return m.outcome
    shares = [100 * m.of_copy for m in found if m.of_copy is not None]
    if not shares:
        return NONE
    return f"{median(shares):.1f} ({min(shares):.1f}-{max(shares):.1f})"

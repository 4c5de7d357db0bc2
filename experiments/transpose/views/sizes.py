"""Bandwidth against the size of a square matrix, by how the size is aligned."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from matplotlib.figure import Figure

from plots import bandwidth, sample_figures
from plots.bandwidth import Measured, Rows, rows_by
from plots.experiments import Run
from plots.figures import MOJO, add_caption
from plots.figures import left_out_note as draw_left_out
from reprolab.captions import check_notes, machine_notes
from reprolab.errors import InputError
from reprolab.results import COPY, WRONG, Outcome, Record, Results
from reprolab.tables import KERNEL, Column, Noted, Table, Values, rounded

# A tile has 32 or 64 rows; TMA and 16-byte accesses need rows of a multiple of four fp32.
ALIGNMENTS = {64: "multiples of 64", 4: "other multiples of 4", 1: "not multiples of 4"}
NAMES = list(ALIGNMENTS.values())
MARKED_SIZES = (256, 2048, 16384)  # in the figure
STRESSED = ("column_walk", "tma_batched")  # the fastest, and the post's
SUMMARY_SIZES = (1024, 4096, 16384, 32768, 65536)
SUMMARY_FROM = 1000  # smaller ones measure the launch
NONE_NOTE = "-: not supported at this size, or not run; reasons and remarks: sizes.csv."

BySize = dict[int, Rows]  # by rows of the matrix, ascending


def alignment(size: int) -> str:
    return next(name for divisor, name in ALIGNMENTS.items() if size % divisor == 0)


def measure_sizes(results: Results) -> BySize:
    """Every row of the file; InputError if a problem is not square."""
    for p in results.problems():
        if p["rows"] != p["columns"]:
            raise InputError(f"{results.file}: problem '{p['name']}' is not square")
    return rows_by(results, lambda p: p["rows"])


def compared_kernels(sizes: BySize) -> list[str]:
    """The kernels whose contract is bit-exact, the fastest on the largest matrix first."""
    rows = [m.record for by_kernel in reversed(sizes.values()) for m in by_kernel.values()]
    held = [r.kernel for r in rows if not r.is_ceiling and not r.deviation]
    return list(dict.fromkeys([r.kernel for r in rows if r.ranked] + held))


def sizes_table(run: Run) -> Table:
    """GB/s, one row per size and one column per kernel; the CSV has every row in full."""
    results, sizes = run["sizes"], measure_sizes(run["sizes"])
    by_alignment = sorted(sizes.items(), key=lambda item: NAMES.index(alignment(item[0])))
    rows = [
        {"_under": alignment(size), "rows": Noted(size, did_not_fit(by_kernel), text=str(size))}
        | {kernel: speed(m) for kernel, m in by_kernel.items()}
        for size, by_kernel in by_alignment
    ]
    data = [
        {"problem": m.record.problem["name"], **bandwidth.values_of(m)}
        for by_kernel in sizes.values()
        for m in by_kernel.values()
    ]
    notes = [f"{bandwidth.GB_NOTE} Bytes per cycle of the SM clock: sizes.csv."]
    notes += [bandwidth.BEST_NOTE, NONE_NOTE, *left_out_note(results)]
    notes += check_notes(results)
    columns = [Column("rows", "rows")]
    for kernel in (*compared_kernels(sizes), COPY):
        columns.append(Column(kernel, kernel, bandwidth.gb_text, wrap=1))
    title = "Transpose of a square fp32 matrix by its number of rows, GB/s"
    return Table("sizes", title, columns, rows, notes, machine_notes(results), data)


def did_not_fit(by_kernel: dict[str, Measured]) -> tuple[str, ...]:
    """A footnote with the reasons if nothing could run at this size."""
    records = [m.record for m in by_kernel.values()]
    if any(r.outcome != Outcome.UNSUPPORTED for r in records):
        return ()
    reasons = dict.fromkeys(r.reason or "no reason given" for r in records)
    return (f"{records[0].problem['name']}: {'; '.join(reasons)}",)


def speed(m: Measured) -> Noted | None:
    """GB/s, or the outcome; unsupported rows are left out."""
    if m.gb_s is None and m.record.outcome == Outcome.UNSUPPORTED:
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
    ranges = {name: [s for s in large if alignment(s) == name] for name in NAMES[1:]}
    ranges = {name: group for name, group in ranges.items() if group}
    columns = [KERNEL, *(Column(str(name), str(name), wrap=1) for name in (*shown, *ranges))]
    rows, data = [], []
    for kernel in compared_kernels(sizes):
        of_size = {s: by_kernel[kernel] for s, by_kernel in sizes.items() if kernel in by_kernel}
        row: Values = {"_under": "% of the copy", "kernel": kernel}
        for s, m in of_size.items():
            row[str(s)] = share(m)
            values = {"kernel": kernel, "rows": s, "alignment": alignment(s)}
            values |= {"gb_per_s": m.gb_s, "bytes_per_cycle": m.record.bytes_per_cycle}
            data.append(values | {"share_of_copy": m.of_copy})
        for name, group in ranges.items():
            row[name] = share_range([of_size[s] for s in group if s in of_size])
        rows.append(row)
    copy = {"_under": "the copy itself, GB/s", "kernel": COPY}
    cycles = {"_under": "the copy itself, B/cycle", "kernel": COPY}
    for size in shown:
        if m := sizes[size].get(COPY):
            gb_s, per_cycle = speed(m), m.record.bytes_per_cycle
            copy[str(size)] = gb_s and replace(gb_s, text=gb_s.text or bandwidth.gb_text(m.gb_s))
            cycles[str(size)] = per_cycle and rounded(per_cycle)
    notes = [bandwidth.COPY_NOTE, bandwidth.CYCLE_NOTE, bandwidth.BEST_NOTE]
    for name, group in ranges.items():
        listed = ", ".join(map(str, group))
        notes.append(f"{name.capitalize()}: median and range over {listed}.")
    notes += [f"Did not fit: {note}." for s in shown for note in did_not_fit(sizes[s])]
    notes += [NONE_NOTE, *left_out_note(results)]
    title = "Transpose of a square fp32 matrix by its number of rows: share of the copy"
    rows += [copy, cycles]
    return Table("sizes_summary", title, columns, rows, notes, machine_notes(results), data)


def share(m: Measured) -> Noted | None:
    """The time as a share of the copy's; without a time, the outcome."""
    if m.of_copy is None:
        return speed(m) if m.gb_s is None else None
    return Noted(m.of_copy, m.marks, m.best, text=bandwidth.percent(m.of_copy))


def share_range(rows: Sequence[Measured]) -> Noted | None:
    """'81.2 (70.4-90.1)', in percent; preceded by an output that is wrong at one size."""
    for m in rows:
        if m.record.outcome in WRONG:
            return bandwidth.speed_or_outcome(m)
    shares = [100 * m.of_copy for m in rows if m.of_copy is not None]
    if not shares:
        return None
    text = f"{median(shares):.1f} ({min(shares):.1f}-{max(shares):.1f})"
    return Noted(median(shares), text=text)


def sizes_figure(run: Run) -> Figure:
    """One panel per measured alignment; the only ceilings are those of a copy."""
    results = run["sizes"]
    records = [r for r in results.records if r.kernel != sample_figures.SAME_BYTES]
    every = {r.kernel for r in records if not r.is_ceiling}
    panels = {name: [r for r in records if alignment(rows_of(r)) == name] for name in NAMES}
    panels = {name: of_name for name, of_name in panels.items() if of_name}
    axis = (MARKED_SIZES, "rows of the square matrix")
    figure = sample_figures.bandwidth_figure(panels, STRESSED, rows_of, *axis)
    drawn = [rows_of(r) for r in [r for r in records if r.timed] or records]
    for axes in figure.axes:
        axes.set_xlim(min(drawn) / 1.3, max(drawn) * 1.3)
    shown = {line.get_gid() for axes in figure.axes for line in axes.lines}
    notes = ["A kernel in Mojo is as fast as the one in CUDA next to it: the table."]
    notes *= any(name.startswith(MOJO) for name in every - shown)
    notes += draw_left_out(every, shown) + left_out_note(results)
    add_caption(figure, results, notes, run.recorded)
    return figure


def rows_of(record: Record) -> int:
    return record.problem["rows"]

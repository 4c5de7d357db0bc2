"""The effect of divergence: the same kernels, shape and traffic, with codes in other orders."""

from dataclasses import replace

from matplotlib.figure import Figure

from plots import bandwidth
from plots import figures as draw
from plots.bandwidth import Rows, compared, rows_by
from plots.counter_tables import Counted, shown
from plots.counter_values import Counts, counts_of, derived_notes
from plots.experiments import Run
from reprolab.captions import machine_notes
from reprolab.counter_table import WARP
from reprolab.errors import InputError
from reprolab.results import Record
from reprolab.stats import INTERVAL_NOTE, Estimate
from reprolab.tables import KERNEL, NONE, Column, Noted, Table, rounded

PASS, COUNTERS = "divergence", "divergence_counters"
SHOWN = ("instructions_per_element", "threads_per_instruction", "divergent_targets")
NORMAL, EQUAL = "normal", "equal"  # of weights as they come, and where no warp diverges
# From most to least agreement within warps.
DATA = {
    EQUAL: "one code alone",
    "sorted": "codes of normal weights in ascending order",
    NORMAL: "codes of normal weights, as in every other table",
    "uniform": "each code equally often, at random",
}

ByData = dict[str, Rows]


def by_data(run: Run) -> ByData:
    """The rows of each data set; InputError unless the problems differ only in their data."""
    results = run[PASS]
    rows = rows_by(results, lambda p: p.get("data", NORMAL), run.compared[0])
    shapes = {tuple(p.get(k) for k in ("rows", "columns")) for p in results.problems()}
    if len(shapes) > 1 or not rows.keys() <= DATA.keys():
        raise InputError(f"{results.file}: needs one shape, once on each of {', '.join(DATA)}")
    return {data: rows[data] for data in DATA if data in rows}


def divergence_table(run: Run) -> Table:
    """One row per data set and kernel."""
    results, baseline = run[PASS], run.compared[0]
    columns = [KERNEL, bandwidth.OUTCOME, bandwidth.MEDIAN]
    columns += [replace(bandwidth.INTERVAL, detail=True), bandwidth.GB_S]
    columns += [Column(f"over {EQUAL}", "_over_equal", times, wrap=1)]
    columns += [Column(f"{baseline} takes", "_gain", wrap=1)]
    heads = ("instr. per weight", "threads per instr.", "divergent targets")
    columns += [Column(h, name, wrap=1) for h, name in zip(heads, SHOWN, strict=True)]
    by_data_set, data = by_data(run), []
    for name, by_kernel in by_data_set.items():
        for m in by_kernel.values():
            row = {"_under": f"{name}: {DATA[name]}", "data": name} | bandwidth.values_of(m)
            row |= {"outcome": m.outcome, "gb_per_s": m.gb_s}
            equal = by_data_set.get(EQUAL, {}).get(m.record.kernel) if name != EQUAL else None
            slower = compared(m, equal)
            row |= bandwidth.estimate_values("over_equal", slower)
            if m.record.summary:
                gain = times(m.ratio) if m.ratio else NONE
                row |= {"_over_equal": slower, "_gain": Noted(None, m.time_marks, text=gain)}
            c = Counted(m.record, None, counts(run, m.record), None)
            data.append(row | {counter: shown(c, counter) for counter in SHOWN})
    notes = [
        f"Over {EQUAL}: the row's time over the same kernel's with equal codes, with which no "
        f"warp diverges. {baseline} takes: its time over the row's, on the same codes.",
        "Every row reads and writes equally many bytes, and its output is compared in full. "
        "constant_lut does not branch: its table is read once for each different code of a warp.",
        bandwidth.GB_NOTE,
        f"{derived_notes(run[COUNTERS].family)[0]} Threads: active in an instruction, of "
        f"{WARP}. Divergent targets: branches that diverged. The counters are from "
        f"{run[COUNTERS].name}, a run without times.",
    ]
    shape = results.problems()[0]
    title = f"The effect of divergence: {shape['rows']} x {shape['columns']} weights in four orders"
    rows = [row for row in data if row["origin"] != "ceiling"]
    return Table(PASS, title, columns, rows, notes, machine_notes(results), data)


def counts(run: Run, record: Record) -> Counts:
    """The counters of a row's kernel on the same codes."""
    counters = run[COUNTERS]
    row = counters.find(record.problem["name"], record.kernel)
    return counts_of(counters, row, None) if row else {}


def times(speedup: Estimate) -> str:
    return f"{speedup.value:.2f}" if speedup.differs_from_one else "no difference seen"


def divergence_reading(run: Run) -> list[str]:
    """The share of divergence in the paper's gain; empty if a row is missing."""
    by_data_set, (baseline, subject) = by_data(run), run.compared
    wanted = [(data, kernel) for data in (NORMAL, EQUAL) for kernel in (baseline, subject)]
    rows = [by_data_set.get(data, {}).get(kernel) for data, kernel in wanted]
    if not all(m and m.record.ranked for m in rows):
        return []
    us = {w: m.record.times.median for w, m in zip(wanted, rows, strict=True)}
    saved = us[NORMAL, baseline] - us[NORMAL, subject]
    if saved <= 0:
        return []
    share = 100 * (us[NORMAL, baseline] - us[EQUAL, baseline]) / saved
    gain = {data: us[data, baseline] / us[data, subject] for data in (NORMAL, EQUAL)}
    lines = [
        f"On normal weights {subject} is {gain[NORMAL]:.2f}x as fast as {baseline} and saves "
        f"{rounded(saved)} of {rounded(us[NORMAL, baseline])} us. With equal codes, "
        f"where no warp diverges, {baseline} takes {rounded(us[EQUAL, baseline])} us: "
        f"{share:.0f} % of what is saved is divergence, and without it the gain is "
        f"{gain[EQUAL]:.2f}x."
    ]
    counted = [counts(run, by_data_set[data][baseline].record) for data in (NORMAL, EQUAL)]
    values = [[row.get(name) for name in SHOWN] for row in counted]
    if all(v and v.number is not None for shown in values for v in shown):
        normal, equal = (
            f"{instructions.shown} instructions per weight with {threads.shown} of {WARP} threads "
            f"active and {targets.shown} divergent targets"
            for instructions, threads, targets in values
        )
        lines.append(f"{baseline} runs {normal} on normal weights, {equal} on equal codes.")
    return lines


def divergence_figure(run: Run) -> Figure:
    """A group of bars per data set, one bar per kernel."""
    by_data_set = by_data(run)
    kernels = list(
        dict.fromkeys(
            k for rows in by_data_set.values() for k, m in rows.items() if m.record.ranked
        )
    )
    kernels = [k for k in run.compared if k in kernels] + sorted(set(kernels) - set(run.compared))
    figure, (axes,) = draw.panels(3.4)
    width = 0.8 / max(1, len(kernels))
    for k, kernel in enumerate(kernels):
        colour = draw.colour(kernel)
        for place, (data, rows) in enumerate(by_data_set.items()):
            m = rows.get(kernel)
            if m is None or not m.record.ranked:
                continue
            s, x = m.record.times, place + (k - (len(kernels) - 1) / 2) * width
            axes.bar(x, s.median, 0.9 * width, color=colour, label=kernel, gid=f"{data}/{kernel}")
            draw.whiskers(axes, [(x, s.estimate)], fmt="none", ecolor=draw.BLACK, capsize=3)
    if not kernels:
        draw.annotate_empty(axes, "no timed row")
    axes.set_xticks(range(len(by_data_set)), list(by_data_set))
    axes.set_xlabel("codes")
    axes.set_ylabel("time (us)")
    axes.grid(axis="x", visible=False)
    draw.legend_above(figure, [axes])
    notes = [f"Whiskers: intervals. {INTERVAL_NOTE}"]
    draw.add_caption(figure, run[PASS], notes, run.recorded)
    return figure

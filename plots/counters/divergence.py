"""Divergence alone: the same kernels, shape and traffic, with codes in other orders."""

from dataclasses import replace

from matplotlib.figure import Figure

from claims.occupancy import WARP
from plots import bandwidth
from plots import figures as draw
from plots.bandwidth import Measured, measure
from plots.captions import clock_warning, machine_notes
from plots.counter_tables import Counted, shown
from plots.counter_values import Counts, counts_of, derived_notes
from plots.experiments import Run
from plots.tables import KERNEL, NONE, Column, Noted, Table, Values
from records.errors import InputError
from records.results import Record
from records.stats import INTERVAL_NOTE, Estimate, ratio, significant

PASS, COUNTERS = "divergence", "divergence_counters"
SHOWN = ("instructions_per_element", "threads_per_instruction", "divergent_targets")
NORMAL, EQUAL = "normal", "equal"  # of weights as they come, and where no warp diverges
# In the order in which warps agree less.
DATA = {
    EQUAL: "one code alone",
    "sorted": "codes of normal weights in ascending order",
    NORMAL: "codes of normal weights, as in every other table",
    "uniform": "each code equally often, at random",
}

ByData = dict[str, dict[str, Measured]]  # by data, and by kernel


def by_data(run: Run) -> ByData:
    """The rows of each data set; InputError unless the problems differ in their data alone."""
    results = run[PASS]
    found: ByData = {}
    shapes = {tuple(p.get(k) for k in ("rows", "columns")) for p in results.problems()}
    for problem in results.problems():
        data = problem.get("data", NORMAL)
        if len(shapes) > 1 or data in found or data not in DATA:
            raise InputError(f"{results.file}: needs one shape, once on each of {', '.join(DATA)}")
        rows = measure(results, problem["name"], run.compared[0])
        found[data] = {m.record.kernel: m for m in rows}
    return {data: found[data] for data in DATA if data in found}


def divergence_table(run: Run) -> Table:
    """One row per data set and kernel."""
    results, baseline = run[PASS], run.compared[0]
    columns = [
        KERNEL,
        bandwidth.OUTCOME,
        bandwidth.MEDIAN,
        replace(bandwidth.INTERVAL, detail=True),
    ]
    columns += [Column("GB/s", "gb_per_s", bandwidth.gb_text)]
    columns += [Column(f"over {EQUAL}", "_over_equal", times, wrap=1)]
    columns += [Column(f"{baseline} takes", "_gain", wrap=1)]
    heads = ("instr. per weight", "threads per instr.", "divergent targets")
    columns += [Column(h, name, wrap=1) for h, name in zip(heads, SHOWN, strict=True)]
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for name, by_kernel in by_data(run).items():
        rows = [values_of(run, name, m) for m in by_kernel.values()]
        groups[f"{name}: {DATA[name]}"] = [row for row in rows if row["origin"] != "ceiling"]
        data += rows
    notes = [
        f"Over {EQUAL}: the row's time over the same kernel's where all codes are equal, so that "
        f"no warp diverges. {baseline} takes: its time over the row's, on the same codes.",
        "Every row reads and writes equally many bytes, and its output is compared in full. "
        "constant_lut does not branch: its table is read once for each different code of a warp.",
        bandwidth.GB_NOTE,
        f"{derived_notes(run[COUNTERS].family)[0]} Threads: that are active in an instruction, of "
        f"{WARP}. Divergent targets: branches that parted a warp. The counters are of "
        f"{run[COUNTERS].name}, a run without times.",
        *divergence_reading(run),
    ]
    shape = results.problems()[0]
    title = f"Divergence alone: {shape['rows']} x {shape['columns']} weights in four orders"
    return Table(PASS, title, columns, groups, notes, machine_notes(results), data)


def values_of(run: Run, data: str, m: Measured) -> Values:
    slower = over_equal(by_data(run), m.record)
    found = {"data": data} | bandwidth.values_of(m)
    found |= {"outcome": m.outcome, "gb_per_s": m.gb_s}
    found |= bandwidth.estimate_values("over_equal", slower)
    if m.record.summary:
        gain = times(m.ratio) if m.ratio else NONE
        found |= {"_over_equal": slower}
        found |= {"_gain": Noted(None, clock_warning(m.base, m.record), text=gain)}
    counted = Counted(m.record, None, counts(run, m.record), None)
    return found | {name: shown(counted, name) for name in SHOWN}


def counts(run: Run, record: Record) -> Counts:
    """The counters of a row's kernel on the same codes."""
    counters = run[COUNTERS]
    found = counters.find(record.problem["name"], record.kernel)
    return counts_of(counters, found, None) if found else {}


def over_equal(found: ByData, record: Record) -> Estimate | None:
    """A kernel's time over its own on equal codes."""
    reference = found.get(EQUAL, {}).get(record.kernel)
    if reference is None or reference.record is record:
        return None
    if not (record.ranked and reference.record.ranked):
        return None
    return ratio(record.times, reference.record.times)


def times(found: Estimate) -> str:
    return f"{found.value:.2f}" if found.differs_from_one else "no difference seen"


def divergence_reading(run: Run) -> list[str]:
    """How much of the paper's gain is divergence, in a sentence; none where a row is missing."""
    found, (baseline, subject) = by_data(run), run.compared
    wanted = [(data, kernel) for data in (NORMAL, EQUAL) for kernel in (baseline, subject)]
    rows = {w: m for w in wanted if (m := found.get(w[0], {}).get(w[1])) and m.record.ranked}
    if len(rows) < len(wanted):
        return []
    us = {w: m.record.times.median for w, m in rows.items()}
    saved = us[NORMAL, baseline] - us[NORMAL, subject]
    if saved <= 0:
        return []
    share = 100 * (us[NORMAL, baseline] - us[EQUAL, baseline]) / saved
    gain = {data: us[data, baseline] / us[data, subject] for data in (NORMAL, EQUAL)}
    return [
        f"On normal weights {subject} is {gain[NORMAL]:.2f}x as fast as {baseline} and saves "
        f"{significant(saved, 3)} of {significant(us[NORMAL, baseline], 3)} us. With equal codes, "
        f"where no warp diverges, {baseline} takes {significant(us[EQUAL, baseline], 3)} us: "
        f"{share:.0f} % of what is saved is divergence, and without it the gain is "
        f"{gain[EQUAL]:.2f}x.",
        *counters_reading(run, rows[NORMAL, baseline].record, rows[EQUAL, baseline].record),
    ]


def counters_reading(run: Run, *records: Record) -> list[str]:
    """What the counters say of the baseline on normal weights and on equal codes."""
    found = [[counts(run, r).get(name) for name in SHOWN] for r in records]
    if any(v is None or v.number is None for values in found for v in values):
        return []
    texts = [
        f"{instructions.shown} instructions per weight with {threads.shown} of {WARP} threads "
        f"active and {targets.shown} divergent targets"
        for instructions, threads, targets in found
    ]
    return [f"{records[0].kernel} runs {texts[0]} on normal weights, {texts[1]} on equal codes."]


def divergence_figure(run: Run) -> Figure:
    """A group of bars per data set, one bar per kernel."""
    found = by_data(run)
    kernels = list(
        dict.fromkeys(k for rows in found.values() for k, m in rows.items() if m.record.ranked)
    )
    kernels = [k for k in run.compared if k in kernels] + sorted(set(kernels) - set(run.compared))
    figure, (axes,) = draw.panels(3.4)
    warnings: list[str] = []
    width = 0.8 / max(1, len(kernels))
    for k, kernel in enumerate(kernels):
        colour = draw.colour(kernel)
        for place, (data, rows) in enumerate(found.items()):
            m = rows.get(kernel)
            if m is None or not m.record.ranked:
                continue
            warnings += clock_warning(m.base, m.record)
            s, x = m.record.times, place + (k - (len(kernels) - 1) / 2) * width
            axes.bar(x, s.median, 0.9 * width, color=colour, label=kernel, gid=f"{data}/{kernel}")
            draw.whiskers(axes, [x], [s.estimate], fmt="none", ecolor=draw.BLACK, capsize=3)
    if not kernels:
        draw.annotate_empty(axes, "no timed row")
    axes.set_xticks(range(len(found)), list(found))
    axes.set_xlabel("codes")
    axes.set_ylabel("time (us)")
    axes.grid(axis="x", visible=False)
    draw.legend_above(figure, [axes])
    notes = [*divergence_reading(run), f"Whiskers: intervals. {INTERVAL_NOTE}"]
    draw.add_caption(figure, run[PASS], notes, run.recorded, warnings)
    return figure

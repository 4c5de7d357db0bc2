"""Figures of hardware counters: instructions by pipe, stall reasons, and a roofline."""

from collections.abc import Callable, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import figures as draw
from plots.counter_tables import Counted, counted, largest
from plots.counter_values import PARTS_OF_FMA, PIPES, STALLS
from plots.experiments import Run
from reprolab.counter_table import WARP
from reprolab.results import COPY, Results
from reprolab.tables import rounded

Parts = dict[str, float]  # of one bar, by what it is

# Full names of pipes and stall reasons, as in Nsight Compute's guide.
SPELT = {
    "alu": "integer and logic (ALU)",
    "fma": "fp32 arithmetic (FMA)",
    "uniform": "uniform datapath",
    "lsu": "loads and stores (LSU)",
    "adu": "addresses and barriers (ADU)",
    "cbu": "branches (CBU)",
    "xu": "conversions (XU)",
    "long scoreboard": "global or local memory (long scoreboard)",
    "short scoreboard": "shared memory (short scoreboard)",
    "mio throttle": "full memory queue (MIO throttle)",
    "lg throttle": "full queue of global memory (LG throttle)",
    "not selected": "another warp issued (not selected)",
    "wait": "fixed latency (wait)",
    "barrier": "barrier",
    "math pipe throttle": "busy arithmetic pipe (math pipe throttle)",
    "no instruction": "instruction fetch (no instruction)",
    "branch resolving": "branch (branch resolving)",
    "sleeping": "sleeping",
}
MOST_PARTS = 5  # of a bar, besides the rest
OTHER = "other"
SCHEDULERS = 4  # of an SM, each issues one warp instruction per cycle (Volta and newer)
OTHERS, LIGHT = "other kernels", "#B0B0B0"


def counted_and_timed(run: Run, family: str) -> tuple[Results, Results]:
    """Counters, and times with launches."""
    return run[f"{family}_counters"], run[f"{family}_launches"]


def families(run: Run) -> dict[str, tuple[Results, ...]]:
    """By the title of a figure's panel: these results, and others that may contain the copy."""
    return {
        "NF4 dequantization": (*counted_and_timed(run, "nf4"), run["divergence"]),
        "transpose": counted_and_timed(run, "transpose"),
    }


def rows_of(passes: Sequence[Results]) -> list[Counted]:
    """The kernels on the largest problem, the baseline first, then from fast to slow."""
    counters, launches, *_ = passes
    baseline = counters.family.baseline
    return counted(counters, largest(counters)["name"], launches, baseline)


def parts_of(c: Counted, group: str, left_out: Sequence[str], per: float) -> Parts:
    return {
        v.counter.title.removeprefix("stall: ").removesuffix(" pipe"): v.number / per
        for v in c.values.values()
        if v.counter.group == group and v.counter.id not in left_out and v.number
    }


def pipes_of(c: Counted) -> Parts:
    """Instructions per element of each pipe, and of all pipes without a counter."""
    total, n = c.values.get("instructions_per_element"), c.record.problem.get("n")
    if total is None or total.number is None or not n:
        return {}
    parts = parts_of(c, PIPES, PARTS_OF_FMA, n / WARP)
    return parts | {OTHER: max(0.0, total.number - sum(parts.values()))} if parts else {}


def stalls_of(c: Counted) -> Parts:
    return parts_of(c, STALLS, ("stall_selected",), 1)


def instructions_figure(run: Run) -> Figure:
    note = (
        "Warp instructions x 32 / weights (or elements), by the pipe that ran them; right of "
        "each bar their sum. other: the other pipes, and instructions of pipes without a "
        "counter."
    )
    return bars_figure(run, pipes_of, "instructions per {element}", note)


def stalls_figure(run: Run) -> Figure:
    note = (
        "Cycles that warps wait, of all warps together, per issued instruction, by reason (not "
        "selected: could also have issued); right of each bar their sum. If few instructions are "
        "issued, that exceeds the warps of a scheduler. A long bar alone is harmless: a kernel "
        "that only waits for memory has many waiting warps."
    )
    return bars_figure(run, stalls_of, "warp-cycles waited per issued instruction", note)


def bars_figure(run: Run, parts: Callable[[Counted], Parts], label: str, note: str) -> Figure:
    """A panel per family, a stacked bar per kernel, one legend for all."""
    every = {title: rows_of(passes) for title, passes in families(run).items()}
    panels = {title: some_of(rows) for title, rows in every.items()}
    bars_of = {title: [parts(c) for c in rows] for title, rows in panels.items()}
    colours = part_colours([bar for bars in bars_of.values() for bar in bars])
    longest = max(len(rows) for rows in panels.values())
    figure, all_axes = draw.panels(1.0 + 0.3 * max(3, longest), len(panels))
    for axes, (title, rows) in zip(all_axes, panels.items(), strict=True):
        stack(axes, rows, bars_of[title], colours)
        counters = families(run)[title][0]
        axes.set_title(f"{title},\n{largest(counters)['name']}", loc="left")
        axes.set_xlabel(label.format(element=counters.family.element))
    draw.legend_above(figure, all_axes, columns=2, last=OTHER)
    notes = [note]
    for title, rows in every.items():
        left = draw.left_out_note(names_of(rows), names_of(panels[title]))
        notes += [f"{title}: {text}" for text in left]
    draw.add_caption(figure, run["nf4_counters"], notes, run.recorded)
    return figure


def some_of(rows: list[Counted]) -> list[Counted]:
    """The kernels that a panel shows."""
    shown = draw.chosen(names_of(rows))
    return [c for c in rows if c.record.kernel in shown]


def names_of(rows: list[Counted]) -> list[str]:
    return [c.record.kernel for c in rows]


def part_colours(bars: list[Parts]) -> dict[str, str]:
    """The parts with the largest shares of bars, which get a colour each."""
    shares: Parts = {}
    for bar in bars:
        for name, value in bar.items():
            share = value / (sum(bar.values()) or 1)
            shares[name] = max(shares.get(name, 0.0), share)
    names = sorted(shares.keys() - {OTHER}, key=lambda name: (-shares[name], name))
    return dict(zip(names[:MOST_PARTS], draw.COLOURS, strict=False)) | {OTHER: "#BBBBBB"}


def stack(axes: Axes, rows: list[Counted], bars: list[Parts], colours: dict[str, str]) -> None:
    """The parts with a colour, in the legend's order, then all others together."""
    for row, (c, bar) in enumerate(zip(rows, bars, strict=True)):
        kept = {name: bar[name] for name in colours if name in bar and name != OTHER}
        rest = sum(bar.values()) - sum(kept.values())
        left = 0.0
        for name, value in (kept | {OTHER: rest} if rest > 0 else kept).items():
            look = {"color": colours[name], "label": SPELT.get(name, name)}
            look |= {"gid": f"{c.record.kernel}/{name}"}
            axes.barh(row, value, 0.72, left, **look)
            left += value
        draw.write_right(axes, row, rounded(left) if bar else "not counted")
    if not any(bars):
        draw.annotate_empty(axes, "nothing was counted: see the table")
    draw.kernel_rows(axes, [c.record.kernel for c in rows])


def roofline_figure(run: Run) -> Figure:
    """A panel per family: GB/s over warp instructions per byte, under the issue limit and DRAM."""
    panels = families(run)
    figure, all_axes = draw.panels(4.6, len(panels))
    notes = []
    for axes, (title, passes) in zip(all_axes, panels.items(), strict=True):
        notes += [f"{title}: {note}" for note in roofline(axes, passes)]
        axes.set_title(f"{title},\n{largest(passes[0])['name']}")
        draw.legend_below(axes)
    all_axes[0].set_ylabel("bandwidth, read and written (GB/s)")
    deviates = any(r.deviates for passes in panels.values() for r in passes[1].records)
    notes = list(dict.fromkeys(notes))
    notes += [draw.DEVIATES_NOTE] * deviates
    draw.add_caption(figure, run["nf4_launches"], notes, run.recorded)
    return figure


def roofline(axes: Axes, passes: Sequence[Results]) -> list[str]:
    """Draws one panel and returns the description of its roofs."""
    launches = passes[1]
    points = {}
    for c in rows_of(passes):
        inst = c.values.get("warp_instructions")
        if c.launched and c.launched.bandwidth and inst and inst.number:
            per_byte = inst.number / c.launched.bytes_moved
            points[c.record.kernel] = (per_byte, c.launched.bandwidth.value, c)
    axes.set_xlabel("warp instructions per byte")
    if not points:
        draw.annotate_empty(axes, "no kernel with both a time and its instructions")
        return []
    clocks = [c.launched.sm_mhz for *_, c in points.values() if c.launched.sm_mhz]
    seen = launches.provenance["clocks"]["sm_mhz"]
    mhz = median(clocks) if clocks else (seen or {}).get("median")
    sms = launches.provenance["gpu"]["multiprocessors"]
    # The copy of the same problem if a pass of the run has one, else the theoretical peak.
    problem, label = largest(passes[0])["name"], "copy (cudaMemcpy)"
    copies = [(r, copy) for r in passes[1:] if (copy := r.find(problem, COPY)) and copy.bandwidth]
    notes = [
        f"Copy on {problem}: {c.bandwidth.value:.0f} GB/s, in {r.name}." for r, c in copies[:1]
    ]
    roof = copies[0][1].bandwidth.value if copies else launches.peak_gb_s
    if roof and not copies:
        label = "theoretical bandwidth"
        remark = f"its roof is the theoretical {roof:.0f} GB/s."
        notes = [f"No pass of this run copies {problem}: {remark}"]
    top = 1.15 * max(*(y for _, y, _ in points.values()), roof or 0)
    right = 1.12 * max(x for x, _, _ in points.values())
    if roof:
        look = {"color": draw.BLACK, "linewidth": 1.6, "linestyle": "-" if copies else ":"}
        axes.axhline(roof, label=label, gid="memory", **look)
    if mhz:
        limit = sms * SCHEDULERS * mhz * 1e6  # warp instructions a second
        xs = [limit / 1e9 / top * 0.9 * 1.005**k for k in range(2000)]
        xs = [x for x in xs if x <= right] or [right]
        ys = [limit / 1e9 / x for x in xs]
        look = {"color": draw.GREY, "linestyle": "--", "gid": "issue"}
        axes.plot(xs, ys, label="issue limit", **look)
        notes.append(
            f"Issue limit: {sms} SMs x {SCHEDULERS} warp instructions per cycle x {mhz:.0f} MHz, "
            f"{limit / 1e9:.0f} billion warp instructions a second, over the instructions per byte."
        )
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    draw_points(axes, points)
    return notes


def draw_points(axes: Axes, points: dict[str, tuple[float, float, Counted]]) -> None:
    """A few kernels with their names in the legend, the others without."""
    shown = draw.chosen(points)
    for kernel, (x, y, c) in sorted(points.items(), key=lambda point: point[0] not in shown):
        if kernel in shown:
            look = draw.look(kernel) | {"label": kernel + draw.DEVIATES * c.record.deviates}
        else:
            look = {"color": LIGHT, "marker": "o", "label": OTHERS, "markersize": 3.5}
        face = "white" if c.record.deviates else look["color"]
        look |= {
            "linestyle": "none",
            "markerfacecolor": face,
            "zorder": 4 if kernel in shown else 3,
        }
        axes.plot([x], [y], gid=kernel, **look)

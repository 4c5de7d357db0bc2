"""Experiment puzzle: the post's table next to ours, in seconds, GB/s and shares of the measured
ceiling.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.puzzle.rules import WALL_TIME, mlps
from experiments.streaming.views import OURS
from plots import bandwidth
from plots import figures as draw
from plots.bandwidth import Measured, Rows, measure, with_interval
from plots.experiments import Run, one_problem
from plots.neighbours import pass_for, rows_of_both
from reprolab.captions import date, machine_notes
from reprolab.code import differing, unknown, unknown_note
from reprolab.results import KERNEL_TIME, Record
from reprolab.stats import INTERVAL_NOTE, Summary, gb_per_s, significant
from reprolab.tables import KERNEL, NONE, WORDS, Column, Noted, Table, Values, columns_of, rounded

# The names of the post's rows, in its table and in ours.
MAKERS = {"unsloth": "Unsloth (CUDA)", "mojo": "the post (Mojo)"}
HEADLINE = "mojo-1.07-1.84"  # the claim
QUESTION = "Is the post's Mojo kernel faster than Unsloth's in CUDA?"
BESIDE = (OURS, "mojo_packed_512")  # kernels in README's table, with the libraries
WARM_NOTE = (
    "Every launch reads and writes the same few buffers, as published: data that fits into the "
    "L2 cache is warm there, so the smaller MLPs may be faster than memory."
)
PEERS_BYTES_PER_BLOCK = 16  # its fp32 scale: written, read, written with the offset, and read
MARKED = [digit * power for power in (0.01, 0.1, 1, 10) for digit in (1, 1.5, 2, 3, 5, 7)]
COLUMNS = [
    KERNEL,
    Column("timed as published s (interval)", "_seconds", wrap=1),
    Column("GB/s", "as_published_gb_per_s", bandwidth.gb_text, wrap=1),
    Column("by graphs s (interval)", "_graphs", wrap=1),
    bandwidth.GB_S,
    Column("ceiling %", "share_of_ceiling", bandwidth.percent),
    Column("outcome", "outcome", **WORDS),
]


class Published(NamedTuple):
    """One value of the post's table: Unsloth's, or its own."""

    what: str
    gpu: str
    seconds: float
    gb_s: float


def published(run: Run) -> list[Published]:
    """On each of the post's GPUs."""
    results = run.source.table("results")
    return [
        Published(what, gpu, columns[f"{name}_s"], columns[f"{name}_gb_s"])
        for gpu, columns in results.items()
        for name, what in MAKERS.items()
    ]


def puzzle_rows(run: Run) -> Rows:
    """Ranked by the time through graphs; then deviations, failures and ceilings."""
    return measure(run["mlps"], one_problem(run["mlps"]))


def wall(record: Record) -> Summary | None:
    """The time as published, in us; None if no time may be shown."""
    return record.shown(WALL_TIME)


def in_seconds(us: Summary | None) -> str:
    """'0.1660 (0.1658-0.1663)'"""
    return with_interval(us and us.estimate.scaled(1e-6), significant)


def brief(run: Run) -> list[Measured]:
    """The fastest rows, the peers', Triton's, and those of the post's claim."""
    names = {c.arguments["fast"] for c in run.decision(HEADLINE).claim.comparisons}
    return [
        m
        for m in puzzle_rows(run).values()
        if m.best
        or m.record.origin == "peer"
        or m.record.kernel in names
        or run["mlps"].kernel(m.record).language == "triton"
    ]


def puzzle_table(run: Run) -> Table:
    """The post's rows, then ours: ranked, deviating, without a graph, failed, ceilings."""
    results, measured = run["mlps"], puzzle_rows(run).values()
    posts = [
        {"_under": f"The post, on {p.gpu}", "kernel": p.what, "_seconds": f"{p.seconds:.2f}"}
        | {"as_published_gb_per_s": p.gb_s}
        for p in published(run)
    ]
    moved = max((m.record.bytes_moved for m in measured if not m.record.is_ceiling), default=0)
    title = f"Unsloth's NF4 puzzle: {one_problem(results)}, {moved / 1e9:.2f} GB"
    rows = [values_of(m) for m in measured]
    provenance = machine_notes(results)
    return Table("puzzle", title, COLUMNS, posts + rows, notes_of(run), provenance, rows)


def values_of(m: Measured) -> Values:
    us, values, graphs = wall(m.record), bandwidth.values_of(m), m.record.metric(KERNEL_TIME)
    why = graphs.missing if graphs and us else ""  # it was timed as published alone
    notes = (f"{m.record.kernel}: no time by graphs: {why}",) if why else m.outcome.notes
    gpu = m.results.gpu
    if m.record.is_ceiling:
        under = f"Ceilings of this {gpu}"
    elif m.record.ranked:
        under = f"Here, on {gpu}: bit-exact, ranked by the time by graphs"
    elif m.record.timed:
        under = "Deviates as declared: left out of the ranking"
    else:
        alone = "Timed as published alone: left out of the ranking"
        under = alone if why else f"No time: {m.outcome.text}"
    values |= {"_under": under, "outcome": replace(m.outcome, notes=notes), "no_graph": why}
    values |= {"gb_per_s": Noted(m.gb_s)} | bandwidth.time_values(us, "as_published_")
    gb_s = gb_per_s(m.record.bytes_moved, us).value if us else None
    seconds = Noted(None, m.marks, m.best, text=in_seconds(m.record.summary))
    return values | {"as_published_gb_per_s": gb_s, "_seconds": in_seconds(us), "_graphs": seconds}


def notes_of(run: Run) -> list[str]:
    rows = puzzle_rows(run).values()
    best = bandwidth.ceiling([m.record for m in rows])
    counts = sorted({us.n for m in rows if (us := wall(m.record))})
    notes = [
        "As published: the host's clock over launches that are each waited for. By graphs: the "
        "same launches in CUDA graphs, between two events, with no wait of the GPU for the host. "
        f"Samples per row: {', '.join(map(str, counts)) or NONE}. {INTERVAL_NOTE}",
        "GB/s: bytes read and written, once each, over the median; GB = 1e9 bytes. "
        f"{bandwidth.BEST_NOTE}",
        f"The post's numbers: {run.source.author}, timed as published.",
        WARM_NOTE,
    ]
    if best is not None:
        notes.append(
            f"Ceiling %: share of the bandwidth by graphs of {best.kernel}, the fastest of "
            "the ceilings measured in this run, in the same buffers."
        )
    peers = [m.record for m in rows if m.record.origin == "peer" and wall(m.record)]
    if peers:  # what the library's way with nested scales moves besides
        p = peers[0].problem
        extra = p["iterations"] * p["weights"] // p["block_size"] * PEERS_BYTES_PER_BLOCK
        whole = (peers[0].bytes_moved + extra) / 1e9
        notes.append(
            f"{', '.join(r.kernel for r in peers)}: two calls of the library, and the offset added "
            f"in between. The fp32 scales are written and read twice, so {whole:.2f} GB really "
            f"move, {extra / 1e9:.2f} GB of them for that, mostly in the L2 cache. GB/s counts "
            "the bytes that a single kernel needs, as for all rows."
        )
    return notes


def mlps_table(run: Run) -> Table:
    """One launch in each MLP: microseconds in both ways, and the bandwidth by graphs."""
    results, shares = run["mlps"], mlps(run["mlps"])
    as_published = Column("{} timed as published us", "us", rounded, wrap=1)
    by_graphs = Column("by graphs us (GB/s)", "graphs", wrap=1)
    columns = [KERNEL, *columns_of(shares, as_published, by_graphs)]
    rows, data = [], []
    for record in [m.record for m in puzzle_rows(run).values() if wall(m.record)]:
        row: Values = {"kernel": record.kernel}
        for name, share in shares.items():
            launches = record.problem["launches"] / len(shares)
            metrics = (record.metric(f"{metric}.{name}") for metric in (WALL_TIME, KERNEL_TIME))
            us, graphs = (m.summary.median / launches if m and m.summary else None for m in metrics)
            gb_s = share * record.bytes_moved / launches / graphs / 1e3 if graphs else None
            text = f"{rounded(graphs)} ({gb_s:.0f})" if graphs else None
            row |= {f"{name} us": us, f"{name} graphs": text}
            entry = {"kernel": record.kernel, "mlp": name, "as_published_us": us}
            data.append(entry | {"by_graphs_us": graphs, "by_graphs_gb_per_s": gb_s})
        rows.append(row)
    notes = [
        "One launch: the median of a run over its launches in that MLP. GB/s: bytes read and "
        "written, once each, over the time by graphs; GB = 1e9 bytes.",
        WARM_NOTE,
    ]
    title = "One launch in each MLP of the puzzle, timed as published and by graphs"
    return Table("mlps", title, columns, rows, notes, machine_notes(results), data)


def peers_table(run: Run) -> Table | None:
    """Unsloth through Python, with the post's kernel; None for a run without that pass."""
    results = run.passes.get("peers")
    if results is None:
        return None
    kernel = run.decision(HEADLINE).claim.arguments["fast"]
    measured = [*measure(results, one_problem(results)).values()]
    measured += [m for m in puzzle_rows(run).values() if m.record.kernel == kernel]
    rows: list[Values] = []
    for m in measured:
        us, launches = wall(m.record), m.record.problem["launches"]
        row: Values = {"kernel": m.record.kernel, "_seconds": in_seconds(us)}
        row |= {"us": rounded(us.median / launches) if us else None}
        rows.append(row | {"outcome": replace(m.outcome, notes=()) if us else m.outcome})
    columns = [
        KERNEL,
        Column("timed as published s (interval)", "_seconds", wrap=1),
        Column("of one launch us", "us", wrap=1),
        Column("outcome", "outcome", **WORDS),
    ]
    notes = [
        "Each launch is called in Python and waited for, so these times are the host's, too. "
        f"{kernel}, for comparison, is launched in C++, in the pass mlps. {INTERVAL_NOTE}",
        *(f"{m.record.kernel}: {m.record.lineage}." for m in measured),
    ]
    title = "The puzzle with Unsloth, as its Python calls it"
    return Table("peers", title, columns, rows, notes, machine_notes(results))


def short_table(run: Run) -> Table:
    """The post's rows on the last of its GPUs, and our main rows."""
    last = published(run)[-1].gpu
    rows: list[Values] = [
        {"kernel": f"{p.what}, {p.gpu}", "_seconds": f"{p.seconds:.2f}"}
        for p in published(run)
        if p.gpu == last
    ]
    main_rows = [m for m in brief(run) if m.record.origin == "peer" or m.record.kernel in BESIDE]
    for values in map(values_of, main_rows):
        rows.append(values | {"_under": "", "outcome": replace(values["outcome"], notes=())})
    columns = [column for column in COLUMNS if column.name != "GB/s"]
    return Table("short", puzzle_table(run).title, columns, rows)


def highlights(run: Run) -> list[str]:
    """The fastest kernel, or all within its interval."""
    rows, lines = puzzle_rows(run), []
    for m in [m for m in rows.values() if m.best][:1]:
        times = f"{in_seconds(m.record.summary)} s by graphs, {in_seconds(wall(m.record))} s as"
        lines.append(f"Fastest: {bandwidth.fastest(rows)}; {times} published.")
    return lines + one_by_one(run)


def one_by_one(run: Run) -> list[str]:
    """Our kernel by graphs, compared with as many launches measured alone with a cold cache."""
    alone = pass_for(run["mlps"], "streaming", "shapes_nested")
    row = run["mlps"].find(one_problem(run["mlps"]), OURS)
    if alone is None or row is None or row.summary is None:
        return []
    parts = run["mlps"].family.parts
    shapes = [(parts[name].rows, parts[name].columns) for name in mlps(run["mlps"])]
    launches = row.problem["launches"] / len(shapes)
    times = {
        (r.problem["rows"], r.problem["columns"]): r.summary.median
        for r in alone.records
        if r.kernel == OURS and r.summary and not r.problem.get("offset")
    }
    if not set(shapes) <= times.keys():
        return []
    both = rows_of_both({OURS}, run["mlps"], alone)
    if why := differing(both):
        return [f"{OURS} by graphs is not compared with launches one by one: {why}."]
    whole = sum(launches * times[shape] for shape in shapes)
    return [
        f"{OURS} by graphs takes {row.summary.median / whole:.3f} times as long as "
        f"{row.problem['launches']} launches one by one and cold, {whole / 1e6:.4f} s by "
        f"{alone.experiment}/{alone.file.name}, {alone.gpu}, {date(alone)}.",
        *unknown_note(unknown(both)),
    ]


def seconds_figure(chosen: Callable[[Run], Iterable[Measured]], run: Run) -> Figure:
    """One row per GPU of the post and per kernel here; both ways on one logarithmic axis."""
    shown = [m for m in chosen(run) if wall(m.record) and not m.record.is_ceiling]
    gpus = list(dict.fromkeys(p.gpu for p in published(run)))
    figure, (axes,) = draw.panels(1.5 + 0.24 * max(3, len(gpus) + len(shown)))
    for which, what in enumerate(MAKERS.values()):
        points = [(p.seconds, gpus.index(p.gpu)) for p in published(run) if p.what == what]
        draw.mark(axes, points, which, label=f"published: {what}", gid=what)
    few = len(shown) <= draw.MANY_ROWS
    coloured = draw.chosen(
        (m.record.kernel for m in shown), len(shown) if few else draw.MOST_SERIES
    )
    for row, m in enumerate(shown, len(gpus)):
        draw_row(axes, row, m.record, m.record.kernel in coloured)
    best = bandwidth.ceiling([m.record for m in puzzle_rows(run).values()])
    if best is not None:
        seconds = best.times.median / 1e6
        text = f"ceiling by graphs ({best.kernel}): {significant(seconds)} s"
        axes.axvline(seconds, color=draw.BLACK, linewidth=1.6, label=text, gid="ceiling")
    if not shown:
        draw.annotate_empty(axes, "no timed row", 0.15)
    labels = [m.record.kernel + draw.DEVIATES * bool(m.record.deviation) for m in shown]
    draw.kernel_rows(axes, [*(f"the post's {gpu}" for gpu in gpus), *labels])
    draw.logarithmic(axes.xaxis, MARKED, "seconds")
    draw.explain(axes, "timed as published", marker="o", markerfacecolor="white")
    draw.explain(axes, "by graphs", marker="o")
    draw.legend_above(figure, [axes], columns=3, last="published")
    notes = [f"Medians and intervals; right of each row: its median by graphs. {INTERVAL_NOTE}"]
    if any(m.record.deviation for m in shown):
        notes.append(draw.DEVIATES_NOTE)
    draw.add_caption(figure, run["mlps"], notes, run.recorded)
    return figure


def draw_row(axes: Axes, row: int, record: Record, coloured: bool) -> None:
    """As published hollow, by graphs filled; all but a few kernels in grey."""
    look = {"color": draw.colour(record.kernel) if coloured else draw.GREY, "marker": "o"}
    look |= {"linestyle": "none", "capsize": 3, "markersize": 6}
    for us, face in ((wall(record), "white"), (record.summary, look["color"])):
        seconds, style = us and us.estimate.scaled(1e-6), look | {"markerfacecolor": face}
        draw.whiskers(axes, [(row, seconds)], upright=False, **style)
    if record.summary is not None:
        draw.write_right(axes, row, f"{significant(record.summary.median / 1e6)} s")


TABLES = (puzzle_table, mlps_table, peers_table)
ON_TERMINAL = ("puzzle", "claims")
BRIEF = brief
SHORT_TABLE = short_table
FIGURES = {
    "brief": (
        "Seconds, timed as published and by graphs, with the post's GPUs",
        partial(seconds_figure, brief),
    ),
    "seconds": (
        "The same of every kernel",
        partial(seconds_figure, lambda run: puzzle_rows(run).values()),
    ),
}

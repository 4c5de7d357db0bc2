"""The post's table with ours beside it: seconds, GB/s and share of the measured ceiling."""

from dataclasses import dataclass, replace

from claims.puzzle import WALL_TIME
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import machine_notes
from plots.experiments import Run, one_problem
from plots.tables import KERNEL, NONE, WORDS, Column, Noted, Table, Values
from records.families import in_cuda
from records.results import KERNEL_TIME, Record, Results
from records.stats import INTERVAL_NOTE, Summary, gb_per_s, significant

# How the post's rows are named: in its table, and in ours.
MAKERS = {"unsloth": "Unsloth (CUDA)", "mojo": "the post (Mojo)"}
WARM_NOTE = (
    "Every launch reads and writes the same few buffers, as published: what fits into the L2 cache "
    "is warm there, so the smaller MLPs may be faster than memory."
)


@dataclass(frozen=True)
class Published:
    """One value of the post's table."""

    what: str
    gpu: str
    seconds: float
    gb_s: float


def published(run: Run) -> list[Published]:
    """Unsloth's and the post's own on each of the post's GPUs."""
    results = run.source.table("results")
    return [
        Published(what, gpu, found[f"{name}_s"], found[f"{name}_gb_s"])
        for gpu, found in results.items()
        for name, what in MAKERS.items()
    ]


def puzzle_rows(run: Run) -> list[Measured]:
    """Ranked by the time through graphs; then deviations, failures and ceilings."""
    return measure(run["mlps"], one_problem(run["mlps"]))


def wall(record: Record) -> Summary | None:
    """As published, in us; None where no time may be shown."""
    found = record.metric(WALL_TIME)
    return found.summary if found and (record.is_verified or record.is_ceiling) else None


def why_no_graph(record: Record) -> str:
    """Why a row was timed as published alone."""
    found = record.metric(KERNEL_TIME)
    return found.missing if found and wall(record) else ""


def mlps(results: Results) -> dict[str, float]:
    """Each MLP with times of its own, and its share of all weights: {"2048x8192": 0.21}."""
    measured = {name for r in results.records for name in r.metrics}
    parts = [p for p in results.family.parts.values() if f"{WALL_TIME}.{p.name}" in measured]
    weights = sum(p.weights for p in parts)
    return {p.name: p.weights / weights for p in parts}


def in_seconds(us: Summary | None) -> str:
    """'0.1660 (0.1658-0.1663)'"""
    return bandwidth.with_interval(us and us.estimate.scaled(1e-6), significant)


def brief(run: Run) -> list[Measured]:
    """The fastest rows, the peers', Triton's, and what the post's claim is about, as it may be
    read.
    """
    claimed = [c.arguments for c in run.decision("mojo-1.07-1.84").claim.comparisons]
    names = {kernel for given in claimed for kernel in (given["fast"], in_cuda(given["fast"]))}
    return [
        m
        for m in puzzle_rows(run)
        if m.best
        or m.record.origin == "peer"
        or m.record.kernel in names
        or run["mlps"].kernel(m.record).language == "triton"
    ]


PEERS_BYTES_PER_BLOCK = 16  # its fp32 scale: written, read, written with the offset, and read


COLUMNS = [
    KERNEL,
    Column("timed as published s (interval)", "_seconds", wrap=1),
    Column("GB/s", "as_published_gb_per_s", bandwidth.gb_text, wrap=1),
    Column("by graphs s (interval)", "_graphs", wrap=1),
    bandwidth.GB_S,
    Column("ceiling %", "share_of_ceiling", bandwidth.percent),
    Column("outcome", "outcome", **WORDS),
]


def puzzle_table(run: Run) -> Table:
    """The post's rows, then ours: ranked, deviating, without a graph, failed, ceilings."""
    results, rows = run["mlps"], puzzle_rows(run)
    groups: dict[str, list[Values]] = {}
    for p in published(run):
        found = {"kernel": p.what, "_seconds": f"{p.seconds:.4f}", "as_published_gb_per_s": p.gb_s}
        groups.setdefault(f"The post, on {p.gpu}", []).append(found)
    for m in rows:
        groups.setdefault(standing(run, m), []).append(values_of(m))
    title, notes = f"Unsloth's NF4 puzzle: {one_problem(results)}, {rows_gb(rows)}", notes_of(run)
    data = [values_of(m) for m in rows]
    return Table("puzzle", title, COLUMNS, groups, notes, machine_notes(results), data)


def rows_gb(rows: list[Measured]) -> str:
    moved = max((m.record.bytes_moved for m in rows if not m.record.is_ceiling), default=0)
    return f"{moved / 1e9:.2f} GB"


def standing(run: Run, m: Measured) -> str:
    """The heading of the group that a row belongs to."""
    gpu = run["mlps"].gpu
    if m.record.is_ceiling:
        return f"Ceilings of this {gpu}"
    if m.record.ranked:
        return f"Here, on {gpu}: bit-exact, ranked by the time by graphs"
    if m.record.timed:
        return "Deviates as declared: left out of the ranking"
    if why_no_graph(m.record):
        return "Timed as published alone: left out of the ranking"
    return f"No time: {m.outcome.text}"


def values_of(m: Measured) -> Values:
    us, found, why = wall(m.record), bandwidth.values_of(m), why_no_graph(m.record)
    notes = (f"{m.record.kernel}: no time by graphs: {why}",) if why else m.outcome.notes
    found |= {"outcome": replace(m.outcome, notes=notes), "no_graph": why}
    found |= {"gb_per_s": Noted(m.gb_s)} | bandwidth.time_values(us, "as_published_")
    gb_s = gb_per_s(m.record.bytes_moved, us).value if us else None
    graphs = Noted(None, m.marks, m.best, text=in_seconds(m.record.summary))
    return found | {"as_published_gb_per_s": gb_s, "_seconds": in_seconds(us), "_graphs": graphs}


def notes_of(run: Run) -> list[str]:
    rows = puzzle_rows(run)
    best = bandwidth.ceiling([m.record for m in rows])
    counts = sorted({us.n for m in rows if (us := wall(m.record))})
    found = [
        "As published: the host's clock over launches that are each waited for. By graphs: the "
        "same launches in CUDA graphs, between two events, with no wait of the GPU for the host. "
        f"Samples per row: {', '.join(map(str, counts)) or NONE}. {INTERVAL_NOTE}",
        "GB/s: bytes read and written, once each, over the median; GB = 1e9 bytes. "
        f"{bandwidth.BEST_NOTE}",
        f"The post's numbers: {run.source.author}, timed as published.",
        WARM_NOTE,
    ]
    if best is not None:
        found.append(
            f"Ceiling %: share of the bandwidth by graphs of {best.kernel}, the fastest of "
            "the ceilings measured in this run, in the same buffers."
        )
    return [*found, *peer_notes(rows)]


def peer_notes(rows: list[Measured]) -> list[str]:
    """What the library's way with nested scales moves besides."""
    peers = [m.record for m in rows if m.record.origin == "peer" and wall(m.record)]
    if not peers:
        return []
    p = peers[0].problem
    extra = p["iterations"] * p["weights"] // p["block_size"] * PEERS_BYTES_PER_BLOCK
    whole = (peers[0].bytes_moved + extra) / 1e9
    return [
        f"{', '.join(r.kernel for r in peers)}: two calls of the library, and the offset added in "
        f"between. The fp32 scales are written and read twice, so {whole:.2f} GB really move, "
        f"{extra / 1e9:.2f} GB of them for that, mostly in the L2 cache. GB/s counts what a single "
        "kernel needs, as for all rows."
    ]


def mlps_table(run: Run) -> Table:
    """One launch in each MLP: microseconds both ways, and the bandwidth by graphs."""
    results = run["mlps"]
    shares = mlps(results)
    columns = [KERNEL]
    for name in shares:
        columns.append(Column(f"{name} timed as published us", f"{name} us", brief_us, wrap=1))
        columns.append(Column("by graphs us (GB/s)", f"{name} graphs", graphs_text, wrap=1))
    rows: list[Values] = []
    data: list[Values] = []
    for record in [m.record for m in puzzle_rows(run) if wall(m.record)]:
        row: Values = {"kernel": record.kernel}
        for name, share in shares.items():
            launches = record.problem["launches"] / len(shares)
            published = launch_us(record, f"{WALL_TIME}.{name}", launches)
            graphs = launch_us(record, f"{KERNEL_TIME}.{name}", launches)
            gb_s = share * record.bytes_moved / launches / graphs / 1e3 if graphs else None
            row |= {f"{name} us": published, f"{name} graphs": graphs and (graphs, gb_s)}
            found = {"kernel": record.kernel, "mlp": name, "as_published_us": published}
            data.append(found | {"by_graphs_us": graphs, "by_graphs_gb_per_s": gb_s})
        rows.append(row)
    notes = [
        "One launch: the median of a run over its launches in that MLP. GB/s: bytes read and "
        "written, once each, over the time by graphs; GB = 1e9 bytes.",
        WARM_NOTE,
    ]
    title = "One launch in each MLP of the puzzle, timed as published and by graphs"
    return Table("mlps", title, columns, {"": rows}, notes, machine_notes(results), data)


def brief_us(us: float) -> str:
    return significant(us, 3)


def graphs_text(found: tuple[float, float]) -> str:
    us, gb_s = found
    return f"{significant(us, 3)} ({gb_s:.0f})"


def launch_us(record: Record, metric: str, launches: float) -> float | None:
    found = record.metric(metric)
    return found.summary.median / launches if found and found.summary else None


def short_table(run: Run) -> Table:
    """The post on the last of its GPUs, and the rows in brief."""
    last = published(run)[-1].gpu
    rows: list[Values] = [
        {"kernel": f"{p.what}, {p.gpu}", "_seconds": f"{p.seconds:.4f}"}
        for p in published(run)
        if p.gpu == last
    ]
    for m in brief(run):
        found = values_of(m)
        rows.append(found | {"outcome": replace(found["outcome"], notes=())})
    columns = [column for column in COLUMNS if column.name != "GB/s"]
    return Table("short", puzzle_table(run).title, columns, {"": rows})

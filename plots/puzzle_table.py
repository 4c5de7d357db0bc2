"""The post's table with ours beside it: seconds, GB/s and share of the measured ceiling."""

from claims.stats import INTERVAL_NOTE, gb_per_s
from plots import bandwidth
from plots.bandwidth import Measured
from plots.captions import machine_notes, outcome_words
from plots.experiments import Run, one_problem
from plots.puzzle_rows import (
    WARM_NOTE,
    brief,
    in_seconds,
    published,
    puzzle_rows,
    wall,
    why_no_graph,
)
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers, words

PEERS_BYTES_PER_BLOCK = 16  # its fp32 scale: written, read, written with the offset, and read


def puzzle_table(run: Run) -> Table:
    """The post's rows, then ours: ranked, deviating, without a graph, failed, ceilings."""
    results, rows = run["mlps"], puzzle_rows(run)
    columns = [KERNEL, *numbers("timed as published s (interval)", "GB/s", wrap=1)]
    columns += numbers("by graphs s (interval)", wrap=1)
    columns += [*numbers("GB/s", "ceiling %"), *words("outcome")]
    shown: list[Row | Group] = []
    data: list[dict[str, object]] = []
    groups: dict[str, list[Row]] = {}
    for p in published(run):
        cells = [p.what, f"{p.seconds:.4f}", f"{p.gb_s:.0f}", *[NONE] * 4]
        groups.setdefault(f"The post, on {p.gpu}", []).append(cells)
    for m in rows:
        groups.setdefault(standing(run, m), []).append(display(m))
        data.append(csv_values(m))
    for name, group in groups.items():
        shown += [Group(name), *group]
    title = f"Unsloth's NF4 puzzle: {one_problem(results)}, {rows_gb(rows)}"
    return Table("puzzle", title, columns, shown, data, notes(run, rows), machine_notes(results))


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


def outcome(m: Measured) -> Cell:
    why = why_no_graph(m.record)
    if not why:
        return m.outcome
    return Cell(outcome_words(m.record), (f"{m.record.kernel}: no time by graphs: {why}",))


def display(m: Measured) -> list[Cell | str]:
    r, us, of_ceiling = m.record, wall(m.record), m.of_ceiling
    gb_s = NONE if us is None else f"{gb_per_s(r.bytes_moved, us).value:.0f}"
    by_graphs = Cell(in_seconds(r.summary), m.marks, m.best)
    speed = NONE if m.gb_s is None else f"{m.gb_s:.0f}"
    percent = NONE if of_ceiling is None else f"{100 * of_ceiling:.1f}"
    return [r.kernel, in_seconds(us), gb_s, by_graphs, speed, percent, outcome(m)]


def csv_values(m: Measured) -> dict[str, object]:
    us = wall(m.record)
    found = bandwidth.csv_row(m)
    found |= {"no_graph": why_no_graph(m.record)} | bandwidth.time_columns(us, "as_published_")
    gb_s = gb_per_s(m.record.bytes_moved, us).value if us else None
    return found | {"as_published_gb_per_s": gb_s}


def notes(run: Run, rows: list[Measured]) -> list[str]:
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


def short_table(run: Run) -> Table:
    """The post on the last of its GPUs, and the rows in brief."""
    whole, last = puzzle_table(run), published(run)[-1].gpu
    kept: list[Row | Group] = [
        [f"{p.what}, {p.gpu}", f"{p.seconds:.4f}", *[NONE] * 5]
        for p in published(run)
        if p.gpu == last
    ]
    for m in brief(run):
        *cells, said = display(m)
        kept.append([*cells, said.text if isinstance(said, Cell) else said])
    columns = [i for i, c in enumerate(whole.columns) if c.name != "GB/s"]
    return Table("short", whole.title, whole.columns, kept).only(columns)

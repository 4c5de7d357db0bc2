"""Experiment puzzle: what there is to see of it."""

from claims.code import differing, unknown, unknown_note
from claims.puzzle import WALL_TIME
from claims.results import KERNEL_TIME, Record
from claims.stats import significant
from plots import bandwidth
from plots.captions import date, machine_notes
from plots.experiments import Run
from plots.neighbours import pass_for, rows_of_both
from plots.puzzle_figures import brief_figure, seconds_figure
from plots.puzzle_rows import WARM_NOTE, in_seconds, mlps, puzzle_rows, wall
from plots.puzzle_table import puzzle_table, short_table
from plots.streaming_rows import OURS
from plots.tables import KERNEL, NONE, Group, Row, Table, numbers


def mlps_table(run: Run) -> Table:
    """One launch in each MLP: microseconds both ways, and the bandwidth by graphs."""
    results = run["mlps"]
    shares = mlps(results)
    columns = [KERNEL]
    for name in shares:
        columns += numbers(f"{name} timed as published us", "by graphs us (GB/s)", wrap=1)
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for record in [m.record for m in puzzle_rows(run) if wall(m.record)]:
        cells = [record.kernel]
        for name, share in shares.items():
            launches = record.problem["launches"] / len(shares)
            us = {way: launch_us(record, f"{way}.{name}", launches) for way in WAYS}
            published, graphs = us.values()
            gb_s = share * record.bytes_moved / launches / graphs / 1e3 if graphs else None
            cells.append(NONE if published is None else significant(published, 3))
            cells.append(f"{significant(graphs, 3)} ({gb_s:.0f})" if graphs else NONE)
            found = {"kernel": record.kernel, "mlp": name, "as_published_us": published}
            data.append(found | {"by_graphs_us": graphs, "by_graphs_gb_per_s": gb_s})
        rows.append(cells)
    notes = [
        "One launch: the median of a run over its launches in that MLP. GB/s: bytes read and "
        "written, once each, over the time by graphs; GB = 1e9 bytes.",
        WARM_NOTE,
    ]
    title = "One launch in each MLP of the puzzle, timed as published and by graphs"
    return Table("mlps", title, columns, rows, data, notes, machine_notes(results))


def launch_us(record: Record, metric: str, launches: float) -> float | None:
    found = record.metric(metric)
    return found.summary.median / launches if found and found.summary else None


def highlights(run: Run) -> list[str]:
    """The fastest kernel, or all not told apart from it."""
    rows, lines = puzzle_rows(run), []
    for m in [m for m in rows if m.best][:1]:
        times = f"{in_seconds(m.record.summary)} s by graphs, {in_seconds(wall(m.record))} s as"
        lines.append(f"Fastest: {bandwidth.fastest(rows)}; {times} published.")
    return lines + one_by_one(run)


def one_by_one(run: Run) -> list[str]:
    """Our kernel by graphs against as many launches measured alone, in memory that is cold."""
    alone = pass_for(run["mlps"], "streaming", "shapes_nested")
    row = next((m.record for m in puzzle_rows(run) if m.record.kernel == OURS), None)
    if alone is None or row is None or row.summary is None:
        return []
    shapes = [tuple(map(int, name.split("x"))) for name in mlps(run["mlps"])]
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


WAYS = (WALL_TIME, KERNEL_TIME)
PASSES = {"mlps": ("puzzle",)}
TABLES = (puzzle_table, mlps_table)
ON_TERMINAL = ("puzzle", "claims")
SHORT_TABLE = short_table
HEADLINE = "mojo-1.07-1.84"  # the claim
FIGURES = {
    "brief": ("Seconds, timed as published and by graphs, beside the post's GPUs", brief_figure),
    "seconds": ("The same of every kernel", seconds_figure),
}

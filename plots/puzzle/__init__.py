"""Experiment puzzle: what there is to see of it."""

from plots import bandwidth
from plots.captions import date
from plots.experiments import Run
from plots.neighbours import pass_for, rows_of_both
from plots.puzzle.figures import brief_figure, seconds_figure
from plots.puzzle.tables import (
    brief,
    in_seconds,
    mlps,
    mlps_table,
    puzzle_rows,
    puzzle_table,
    short_table,
    wall,
)
from plots.streaming import OURS
from records.code import differing, unknown, unknown_note


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


TABLES = (puzzle_table, mlps_table)
ON_TERMINAL = ("puzzle", "claims")
BRIEF = brief
SHORT_TABLE = short_table
HEADLINE = "mojo-1.07-1.84"  # the claim
FIGURES = {
    "brief": ("Seconds, timed as published and by graphs, beside the post's GPUs", brief_figure),
    "seconds": ("The same of every kernel", seconds_figure),
}

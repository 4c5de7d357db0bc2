"""The views of experiment table2."""

from matplotlib.figure import Figure

from experiments.table2.views import models
from experiments.table2.views.speedup import (
    paper_and,
    paper_and_ours,
    speedup_figure,
    speedup_table,
    subject_of,
)
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.experiments import MAIN_CLAIM, Run
from plots.figures import add_caption, left_out_note
from plots.sample_figures import bandwidth_figure, samples_figure
from reprolab.captions import machine_notes
from reprolab.results import COPY, Results
from reprolab.stats import INTERVAL_NOTE
from reprolab.tables import CODE, WORDS, Column, Noted, Table, rounded


def shapes_table(run: Run) -> Table:
    title, shapes = "Bandwidth per distinct shape", run["shapes"]
    return bandwidth.bandwidth_table(shapes, "shapes", title, run.compared[0])


def shapes_summary(run: Run) -> Table:
    """One row per shape: baseline, the paper's kernel, the best kernel, and the copy."""
    shapes, (baseline, subject) = run["shapes"], run.compared
    columns = [
        Column("shape", "_shape", **WORDS),
        Column(f"{baseline} GB/s", "baseline_gb_s", bandwidth.gb_text),
        Column(f"{subject} GB/s", "subject_gb_s", bandwidth.gb_text),
        Column("best kernel", "best", **CODE),
        Column("GB/s", "best_gb_s", bandwidth.gb_text),
        Column("B/cycle", "best_bytes_per_cycle", rounded),
        Column("of copy", "of_copy", lambda share: f"{100 * share:.1f} %"),
        Column("copy GB/s", "copy_gb_s", bandwidth.gb_text),
    ]
    rows = []
    for problem in shapes.problems():
        by_name = measure(shapes, problem["name"])
        best = [m for m in by_name.values() if m.best]
        first = best[0] if best else None
        chosen = [*map(by_name.get, (baseline, subject, COPY)), first]
        gb_s = [Noted(m.gb_s, m.marks) if m else None for m in chosen]
        row = {"_shape": bandwidth.describe(problem), "problem": problem["name"]}
        row |= {"baseline_gb_s": gb_s[0], "subject_gb_s": gb_s[1], "best_gb_s": gb_s[3]}
        row |= {"best": ", ".join(m.record.kernel for m in best) or None}
        row |= {"best_bytes_per_cycle": first.record.bytes_per_cycle if first else None}
        rows.append(row | {"of_copy": first.of_copy if first else None, "copy_gb_s": gb_s[2]})
    title = "Bandwidth per distinct shape: baseline, the paper's kernel, and the best"
    notes = [
        "GB = 1e9 bytes, read and written once each, over the median. Best: lowest median of the "
        "bit-exact rows; several names where their intervals overlap. " + INTERVAL_NOTE,
        bandwidth.CYCLE_NOTE,
    ]
    return Table("shapes_summary", title, columns, rows, notes, machine_notes(shapes))


def brief(run: Run) -> list[Measured]:
    """On the largest shape: the baseline, all readings of the paper's kernel, peers, the best."""
    largest = max(run["shapes"].problems(), key=lambda p: p["n"])
    names = {run.compared[0], *map(subject_of, run.decision(MAIN_CLAIM).verdicts)}
    return [
        m
        for m in measure(run["shapes"], largest["name"]).values()
        if m.best or m.record.kernel in names or m.record.origin == "peer"
    ]


def sample_panels(run: Run) -> list[tuple[Results, str, str]]:
    """The largest and the smallest shape, and one replayed forward pass."""
    replay, shapes = run["replay"], run["shapes"]
    by_size = sorted(shapes.problems(), key=lambda p: p["n"])
    chosen = [by_size[-1]] + by_size[:1] * (len(by_size) > 1)
    panels = [(shapes, p["name"], p["name"]) for p in chosen]
    passes, cell = models.replay_problems(run), models.papers_share(run).at
    wanted = [p for p in passes if cell.items() <= p.items()] or passes
    return panels + [(replay, p["name"], f"forward passes,\n{p['name']}") for p in wanted[:1]]


def highlights(run: Run) -> list[str]:
    """The fastest kernels of the forward passes, and of all shapes."""
    shapes, baseline, lines = run["shapes"], run.compared[0], []
    for model, by_kernel in models.shown_passes(run).items():
        best = [m for m in by_kernel.values() if m.best]
        if best:
            speedup = best[0].ratio
            gain = (
                f", {speedup.value:.2f}x {baseline}" if speedup and speedup.differs_from_one else ""
            )
            where = f"{model} at batch {models.shown_batch(run)}"
            lines.append(f"Fastest for {where}: {bandwidth.fastest(by_kernel)}{gain}.")
    every = [measure(shapes, p["name"]).values() for p in shapes.problems()]
    shares = {m.of_copy: m for rows in every for m in rows if m.best and m.of_copy}
    if shares:
        m = shares[max(shares)]
        speed = f"{m.gb_s:.0f} GB/s, {100 * max(shares):.1f} %"
        lines.append(f"Highest share of the copy: {m.record.place}, {speed}.")
    lines += models.share_lines(run)
    return lines


def shapes_figure(run: Run) -> Figure:
    """One curve per kernel over the millions of weights of a shape."""
    shapes, kernels = run["shapes"], run.compared[::-1]
    panels = {"": list(shapes.records)}
    figure = bandwidth_figure(panels, kernels)
    drawn = {line.get_gid() for axes in figure.axes for line in axes.lines}
    notes = left_out_note((r.kernel for r in shapes.records if not r.is_ceiling), drawn)
    add_caption(figure, shapes, notes, run.recorded)
    return figure


def raw_samples(run: Run) -> Figure:
    return samples_figure(sample_panels(run), run.recorded)


TABLES = (speedup_table, models.kernels_table, shapes_table, shapes_summary, models.share_table)
ON_TERMINAL = ("table2",)
BRIEF = brief
SHORT_TABLE, CLOSING = paper_and_ours, paper_and
HEADLINE = MAIN_CLAIM
QUESTION = "Is the paper's dequantization kernel twice as fast?"
FIGURES = {
    "speedup": ("Speed-up per model and batch, ours and the paper's", speedup_figure),
    "kernels": ("Every kernel's speed-up over the baseline", models.kernels_figure),
    "bandwidth": ("Bandwidth per shape, against the measured copy", shapes_figure),
    "samples": ("Raw samples", raw_samples),
}

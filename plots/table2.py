"""Experiment table2: what there is to see of it."""

from dataclasses import replace

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from claims.results import COPY, Results
from claims.stats import INTERVAL_NOTE
from plots import bandwidth
from plots import table2_models as models
from plots.bandwidth import measure
from plots.captions import machine_notes
from plots.experiments import Run
from plots.figures import add_caption
from plots.neighbours import with_neighbours
from plots.sample_figures import bandwidth_figure, samples_figure
from plots.table2_figures import kernels_figure, share_figure, speedup_figure
from plots.table2_speedup import compared_kernels, short_table, speedup_table
from plots.tables import KERNEL, NONE, Group, Row, Table, numbers, words


def shapes_table(run: Run) -> Table:
    title, shapes = "Bandwidth per distinct shape", run["shapes"]
    table = bandwidth.bandwidth_table(shapes, "shapes", title, compared_kernels(run)[0])
    return with_neighbours(table, shapes)


def shapes_summary(run: Run) -> Table:
    """One row per shape: baseline, the paper's kernel, the best kernel, and the copy."""
    shapes, (baseline, subject) = run["shapes"], compared_kernels(run)
    columns = [*words("shape"), *numbers(f"{baseline} GB/s", f"{subject} GB/s")]
    columns += [replace(KERNEL, name="best kernel")]
    columns += numbers("GB/s", "B/cycle", "of copy", "copy GB/s")
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for problem in shapes.problems():
        by_name = {m.record.kernel: m for m in measure(shapes, problem["name"])}
        best = [m for m in by_name.values() if m.best]
        names, first = ", ".join(m.record.kernel for m in best), best[0] if best else None
        chosen = [*map(by_name.get, (baseline, subject, COPY)), first]
        cells = [replace(bandwidth.speed_cell(m), best=False) if m else NONE for m in chosen]
        of_copy, cycle = (first.of_copy, bandwidth.cycle_text(first)) if first else (None, NONE)
        share = NONE if of_copy is None else f"{100 * of_copy:.1f} %"
        head = [bandwidth.describe(problem), *cells[:2], names or NONE]
        rows.append([*head, cells[3], cycle, share, cells[2]])
        gb_s = [m.gb_s if m else None for m in chosen]
        found = {"problem": problem["name"], "baseline_gb_s": gb_s[0], "subject_gb_s": gb_s[1]}
        found |= {"best": names, "best_gb_s": gb_s[3]}
        found |= {"best_bytes_per_cycle": first.record.bytes_per_cycle if first else None}
        data.append(found | {"of_copy": of_copy, "copy_gb_s": gb_s[2]})
    title = "Bandwidth per distinct shape: baseline, the paper's kernel, and the best"
    notes = [
        "GB = 1e9 bytes, read and written once each, over the median. Best: lowest median of the "
        "bit-exact rows; several names where their intervals overlap. " + INTERVAL_NOTE,
        bandwidth.CYCLE_NOTE,
    ]
    return Table("shapes_summary", title, columns, rows, data, notes, machine_notes(shapes))


def sample_panels(run: Run) -> list[tuple[Results, str, str]]:
    """The largest and the smallest shape, and one replayed forward pass."""
    replay, shapes = run["replay"], run["shapes"]
    by_size = sorted(shapes.problems(), key=lambda p: p["n"])
    chosen = [by_size[-1]] + by_size[:1] * (len(by_size) > 1)
    panels = [(shapes, p["name"], p["name"]) for p in chosen]
    passes, cell = models.replay_problems(run), models.papers_share(run).at
    wanted = [p for p in passes if cell.items() <= p.items()] or passes
    return panels + [(replay, p["name"], f"forward passes, {p['name']}") for p in wanted[:1]]


def highlights(run: Run) -> list[str]:
    """The fastest kernels of the forward passes, and of all shapes."""
    shapes, baseline, lines = run["shapes"], compared_kernels(run)[0], []
    for model, by_kernel in models.shown_passes(run).items():
        best = [m for m in by_kernel.values() if m.best]
        if best:
            found = best[0].ratio
            gain = f", {found.value:.2f}x {baseline}" if found and found.differs_from_one else ""
            where = f"{model} at batch {models.shown_batch(run)}"
            lines.append(f"Fastest for {where}: {bandwidth.fastest(best)}{gain}.")
    rows = [m for p in shapes.problems() for m in measure(shapes, p["name"])]
    shares = {m.of_copy: m for m in rows if m.best and m.of_copy}
    if shares:
        m = shares[max(shares)]
        speed = f"{m.gb_s:.0f} GB/s, {100 * max(shares):.1f} %"
        lines.append(f"Highest share of the copy: {m.record.place}, {speed}.")
    return lines


def shapes_figure(run: Run) -> Figure:
    """One curve per kernel over the millions of weights of a shape."""
    shapes, kernels = run["shapes"], compared_kernels(run)[::-1]
    panels = {"": list(shapes.records)}
    figure = bandwidth_figure(panels, lambda r: r.problem["n"] / 1e6, kernels)
    (axes,) = figure.axes
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_xlabel("weights (millions)")
    add_caption(figure, shapes, recorded=run.recorded)
    return figure


def raw_samples(run: Run) -> Figure:
    return samples_figure(sample_panels(run), run.recorded)


PASSES = {"replay": ("nf4",), "shapes": ("nf4",)}
TABLES = (speedup_table, models.kernels_table, shapes_table, shapes_summary, models.share_table)
ON_TERMINAL = ("table2",)
SHORT_TABLE = short_table
HEADLINE = "kernel-speedup"  # the claim
FIGURES = {
    "speedup": ("Speed-up per model and batch, ours and the paper's", speedup_figure),
    "kernels": ("Every kernel's speed-up over the baseline", kernels_figure),
    "bandwidth": ("Bandwidth per shape, against the measured copy", shapes_figure),
    "samples": ("Raw samples", raw_samples),
    "share": ("Dequantization's share of dequantize and multiply", share_figure),
}

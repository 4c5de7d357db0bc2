"""Table 2's figures about forward passes: speed-ups, all kernels, and shares."""

from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, MultipleLocator

from plots.captions import clock_warning, first_warning
from plots.figures import (
    BLACK,
    BLUE,
    ORANGE,
    SERIES,
    add_caption,
    annotate_empty,
    legend_above,
    new_figure,
)
from plots.published import MODELS, PAPER_NAME, Paper
from plots.results import Record, Results
from plots.stats import INTERVAL_NOTE, Ratio, speed_up
from plots.table2_claim import BASELINE, SUBJECT, pair, speedup_verdicts
from plots.table2_models import (
    SHARE_CLAIM,
    baseline_of,
    ranking,
    replay_problems,
    share,
    shown_batch,
)

INTERVAL_BARS = f"Bars: intervals. {INTERVAL_NOTE}"
MIN_SPAN = 0.4  # of the speed-up axis, so that small differences stay small


def speedup_figure(results: Results, published: Paper, recorded: bool) -> Figure:
    """A panel a model: our speed-up with its interval, and the paper's value, per batch."""
    figure = new_figure(10, 3.3)
    panels = figure.subplots(1, len(MODELS), sharey=True)
    verdicts = speedup_verdicts(results, published)
    places = range(len(published.batches))
    extremes: list[float] = []
    warnings: list[str] = []
    for axes, model in zip(panels, MODELS, strict=True):
        paper = [published.speedup(model, batch) for batch in published.batches]
        extremes += paper
        axes.plot(
            [x - 0.14 for x in places],
            paper,
            linestyle="none",
            marker="D",
            markersize=6,
            markerfacecolor="white",
            markeredgecolor=ORANGE,
            markeredgewidth=1.5,
            label=f"paper ({published.gpu}, {published.clock_mhz:.0f} MHz)",
            gid="paper",
        )
        ours = []
        for x, batch in zip(places, published.batches, strict=True):
            verdict = verdicts.get((model, batch))
            if verdict is not None and verdict.our_value is not None:
                low, high = verdict.our_interval or (verdict.our_value,) * 2
                ours.append((x + 0.14, verdict.our_value, low, high))
                extremes += [low, high]
                base, subject = pair(results, model, batch)
                warnings += clock_warning(base, subject) if base and subject else ()
        if ours:
            xs, values, lows, highs = zip(*ours, strict=True)
            below = [max(0.0, v - low) for v, low in zip(values, lows, strict=True)]
            above = [max(0.0, high - v) for v, high in zip(values, highs, strict=True)]
            axes.errorbar(
                xs,
                values,
                yerr=[below, above],
                fmt="o",
                color=BLUE,
                capsize=3,
                elinewidth=1.2,
                label=f"ours ({results.provenance['gpu']['name']}) with its interval",
                gid="ours",
            )
        else:
            was_run = any(key[0] == model for key in verdicts)
            annotate_empty(axes, "no value: see the table" if was_run else "not run", 0.92)
        paper_name = PAPER_NAME[model]
        axes.set_title(model + (f"\n(paper: {paper_name})" if paper_name != model else "\n"))
        axes.set_xticks(list(places), [str(batch) for batch in published.batches])
        axes.set_xlim(-0.6, len(published.batches) - 0.4)
        axes.set_xlabel("batch (sequences)")
        axes.grid(axis="x", visible=False)
    middle, span = (max(extremes) + min(extremes)) / 2, max(extremes) - min(extremes)
    half = max(span * 1.25, MIN_SPAN) / 2
    panels[0].set_ylim(middle - half, middle + half)
    panels[0].yaxis.set_major_formatter(FormatStrFormatter("%.2f"))
    panels[0].set_ylabel(f"speed-up of {SUBJECT}\nover {BASELINE} (x)")
    legend_above(figure, panels, last="paper")
    notes = [f"The axis does not start at 0. {INTERVAL_NOTE}", *first_warning(warnings)]
    add_caption(figure, results, notes, recorded)
    return figure


def kernels_figure(results: Results, published: Paper, recorded: bool) -> Figure:
    """Every timed kernel's speed-up per model at one batch; deviations hollow and last."""
    batch = shown_batch(results)
    problems = [p for p in replay_problems(results) if p["batch"] == batch]
    kernels = [k for k in ranking(results, problems) if k != BASELINE]
    kernels = [k for k in kernels if any(compared(results, p["name"], k) for p in problems)]
    figure = new_figure(8, 1.4 + 0.4 * max(3, len(kernels)))
    axes = figure.subplots()
    values = [v for column in published.speedups.values() for v in column]
    axes.axvspan(min(values), max(values), color=ORANGE, alpha=0.18, linewidth=0, gid="paper")
    axes.text(
        (min(values) + max(values)) / 2,
        1.01,
        f"paper's {SUBJECT}: {min(values):.2f}-{max(values):.2f}",
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="bottom",
        fontsize=8,
        color="#A04000",
    )
    axes.axvline(1, color=BLACK, linewidth=1)
    labels: list[str] = []
    warnings: list[str] = []
    for row, kernel in enumerate(kernels):
        records = [results.find(p["name"], kernel) for p in problems]
        deviates = any(r.deviation for r in records if r)
        labels.append(kernel + "\n(declared deviation, unranked)" * deviates)
        for k, problem in enumerate(problems):
            ratio = compared(results, problem["name"], kernel)
            if ratio is None:
                continue
            pair_of_rows = baseline_of(results, problem["name"]), records[k]
            warnings += clock_warning(*(r for r in pair_of_rows if r is not None))
            colour, marker, _ = SERIES[k % len(SERIES)]
            axes.errorbar(
                ratio.value,
                row + (k - (len(problems) - 1) / 2) * 0.19,
                xerr=[[ratio.value - ratio.low], [ratio.high - ratio.value]],
                fmt=marker,
                color=colour,
                markerfacecolor="white" if deviates else colour,
                markersize=4.4,
                capsize=2,
                label=problem["model"],
            )
    if not kernels:
        annotate_empty(axes, f"nothing to compare with {BASELINE}")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        f"speed-up over {BASELINE} in dequantization per forward pass, batch {batch} (x)"
    )
    legend_above(figure, [axes])
    add_caption(figure, results, [INTERVAL_BARS, *first_warning(warnings)], recorded)
    return figure


def compared(results: Results, problem: str, kernel: str) -> Ratio | None:
    """Speed-up over the baseline of any timed kernel, deviations too: they are drawn hollow."""
    record: Record | None = results.find(problem, kernel)
    base = baseline_of(results, problem)
    if record is None or base is None or record.summary is None or record.role == "ceiling":
        return None
    return speed_up(base.times, record.times)


def share_figure(results: Results, published: Paper, recorded: bool) -> Figure:
    """A panel for each of the two kernels: share of dequantization against batch, per model."""
    figure = new_figure(8, 3.3)
    panels = figure.subplots(1, 2, sharey=True)
    problems = replay_problems(results)
    models = list(dict.fromkeys(p["model"] for p in problems))
    batches = sorted({p["batch"] for p in problems})
    for axes, kernel in zip(panels, (BASELINE, SUBJECT), strict=True):
        for k, model in enumerate(models):
            points = [
                (p["batch"], s)
                for p in problems
                if p["model"] == model and (s := share(results.find(p["name"], kernel)))
            ]
            if not points:
                continue
            xs, summaries = zip(*points, strict=True)
            colour, marker, line = SERIES[k % len(SERIES)]
            axes.errorbar(
                xs,
                [s.median for s in summaries],
                yerr=[
                    [s.median - s.low for s in summaries],
                    [s.high - s.median for s in summaries],
                ],
                fmt=marker,
                linestyle=line,
                color=colour,
                capsize=2,
                label=model,
            )
        if not any(share(results.find(p["name"], kernel)) for p in problems):
            annotate_empty(axes, "no time: see the table")
        axes.set_title(kernel)
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.minorticks_off()
        axes.set_xlabel("batch (sequences)")
        axes.set_xlim(min(batches, default=1) / 1.3, max(batches, default=2) * 1.3)
        axes.set_ylim(0, 100)
        axes.yaxis.set_major_locator(MultipleLocator(20))
    value, cell = published.value(SHARE_CLAIM), published.cell(SHARE_CLAIM)
    if value is not None and cell is not None:
        panels[0].plot(
            cell[1],
            value,
            linestyle="none",
            marker="*",
            markersize=15,
            markerfacecolor="none",
            markeredgecolor=BLACK,
            label=f"paper, {cell[0]} at batch {cell[1]} ({published.gpu})",
            gid="paper",
            zorder=5,
        )
    panels[0].set_ylabel("dequantization's share of\ndequantize and multiply (%)")
    legend_above(figure, panels, columns=3, last="paper")
    add_caption(figure, results, [INTERVAL_BARS], recorded)
    return figure

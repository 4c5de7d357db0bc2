"""The ladder's figures: each step's factor beside its instructions, and bandwidth against size."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import figures as draw
from plots import sample_figures as shared
from plots.captions import clock_warning
from plots.experiments import Run
from plots.ladder.tables import LADDERS, StepResult, output_mib, size_text, step_results
from records.results import COPY, Record
from records.stats import significant

MIN_WITH_TEXT = 1.13  # the factor of a bar that holds its text
FACTORS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8)
STRESSED = ("streaming", "branch_tree")
MARKED_MIB = (1 / 16, 1, 16, 256, 3072)


def steps_figure(run: Run) -> Figure:
    """A waterfall of factors on a logarithmic axis, so that equal factors are equally long; beside
    it the instructions per weight. The nested step has an axis of its own below.
    """
    found = {ladder: step_results(run, ladder) for ladder in LADDERS}
    heights = [len(steps) + 0.6 for steps in found.values()]
    figure = draw.new_figure(1.3 + 0.42 * sum(heights))
    ratios = {"height_ratios": heights, "width_ratios": (2.1, 1)}
    panels = figure.subplots(len(found), 2, gridspec_kw=ratios, sharex="col", squeeze=False)
    for (factors, instructions), (ladder, steps) in zip(panels, found.items(), strict=True):
        draw_factors(factors, steps, ceiling_of(steps))
        draw_instructions(instructions, steps)
        labels = [f"{result.step.change}\n{result.step.kernel}" for result in steps]
        draw.kernel_rows(factors, labels)
        draw.kernel_rows(instructions, [""] * len(steps))
        for label in factors.get_yticklabels():
            label.set_fontsize(7)
        factors.set_title(f"{ladder} scales, over {steps[0].step.kernel}", loc="left")
    scale_factors(panels[:, 0], found["plain"] + found["nested"])
    panels[0][1].set_xlim(left=0)
    panels[-1][1].set_xlabel("instructions per weight")
    draw.legend_above(figure, [axes for axes, _ in panels], columns=3, last="fastest ceiling")
    every = [
        result.measured.record for steps in found.values() for result in steps if result.measured
    ]
    notes = [
        "A bar goes from the speed of the step above to that of its own, and has their factor; "
        "right of the row: what the steps so far come to."
    ]
    warnings = [w for r in every for w in clock_warning(r, every[0])]
    draw.add_caption(figure, run["plain"], notes, run.recorded, warnings)
    return figure


def ceiling_of(steps: Sequence[StepResult]) -> tuple[str, float] | None:
    """The fastest ceiling, and how many times the first step's bandwidth it has."""
    first = steps[0].measured
    if first is None or not first.record.ranked or not first.ceiling or not first.of_ceiling:
        return None
    return first.ceiling.kernel, 1 / first.of_ceiling


def draw_factors(
    axes: Axes, steps: Sequence[StepResult], ceiling: tuple[str, float] | None
) -> None:
    name, limit = ceiling or ("", None)
    reached = 1.0  # by the last step that has a time
    for row, result in enumerate(steps):
        factor = result.factor
        if factor is None:
            draw.write_right(axes, row, "no time: see the table")
            continue
        if row == 0:
            axes.plot([1], [row], "o", color=draw.BLACK, gid=result.step.kernel)
            continue
        faster = factor >= reached
        look = {"color": draw.GREY, "label": "faster"}
        look = look if faster else {"color": "#B0B0B0", "label": "slower"}
        axes.barh(row, factor - reached, 0.62, reached, gid=result.step.kernel, **look)
        axes.plot([reached, reached], [row - 1, row + 0.31], color=draw.GREY, linewidth=0.8)
        if result.over_before is not None:
            write_factor(axes, row, result.over_before.value, (reached, factor), limit)
        draw.write_right(axes, row, f"{factor:.2f}")
        reached = factor
    if limit is not None:
        text = f"fastest ceiling: {name}"
        axes.axvline(limit, color=draw.BLACK, linewidth=1.6, label=text, gid="ceiling")


def write_factor(
    axes: Axes, row: int, value: float, bar: tuple[float, float], limit: float | None
) -> None:
    """In the middle of a bar that is long enough, else beside it, where there is more room, and
    beyond the ceiling where that is too near.
    """
    low, high = sorted(bar)
    before = limit is not None and low > sqrt(limit)
    look: dict[str, Any] = {"va": "center", "fontsize": 8}
    if high >= MIN_WITH_TEXT * low:
        axes.text(sqrt(low * high), row, f"x{value:.2f}", color="white", ha="center", **look)
    else:
        near = limit is not None and high <= limit < MIN_WITH_TEXT * high
        high = limit if near else high
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        look |= {"textcoords": "offset points", "bbox": box, "zorder": 6}
        look |= {"xytext": (-5 if before else 5, 0), "ha": "right" if before else "left"}
        axes.annotate(f"x{value:.2f}", (low if before else high, row), **look)


def scale_factors(panels: Sequence[Axes], steps: Sequence[StepResult]) -> None:
    """One logarithmic axis from a little below the slowest step on."""
    lines = [line for line in panels[0].lines if line.get_gid() == "ceiling"]
    ends = [result.factor for result in steps if result.factor]
    ends += [*(line.get_xdata()[0] for line in lines), 1.2]
    panels[0].set_xlim(min([*ends, 1.0]) / 1.06, max(ends) * 1.06)
    for axes in panels[:-1]:
        draw.logarithmic(axes.xaxis, FACTORS, "")
    draw.logarithmic(panels[-1].xaxis, FACTORS, "times as fast as the first step")


def draw_instructions(axes: Axes, steps: Sequence[StepResult]) -> None:
    for row, result in enumerate(steps):
        number = result.instructions.number if result.instructions else None
        if number is None:
            draw.write_right(axes, row, "not counted")
            continue
        axes.barh(row, number, 0.62, color="#B0B0B0", gid=result.step.kernel)
        draw.write_right(axes, row, significant(number, 3))


def sizes_figure(run: Run) -> Figure:
    """GB/s against the size of the output, cold and warm."""
    panels = {
        "cold: every launch in other memory": drawn(run, "cold"),
        "warm: all launches in the same memory": drawn(run, "warm"),
    }
    figure = shared.bandwidth_figure(panels, lambda r: output_mib(r.problem), STRESSED)
    l2_mib = run["cold"].provenance["gpu"]["l2_bytes"] / 2**20
    for axes, records in zip(figure.axes, panels.values(), strict=True):
        draw.logarithmic(axes.xaxis, MARKED_MIB, "size of the output", size_text)
        of_all = [r.bytes_moved / (2 * r.problem["n"]) for r in records]
        if of_all:
            axes.axvline(l2_mib / max(of_all), color=draw.GREY, linestyle=":", gid="l2")
    notes = [
        "Dotted: where codes, scales and output together are as large as the L2 cache, "
        f"{l2_mib:.0f} MiB. Warm rows rank with warm rows alone. Medians; intervals: the table."
    ]
    draw.add_caption(figure, run["cold"], notes, run.recorded)
    return figure


def drawn(run: Run, name: str) -> list[Record]:
    """The kernels, and of the ceilings the copy alone."""
    return [r for r in run[name].records if not r.is_ceiling or r.kernel == COPY]

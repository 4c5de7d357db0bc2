"""Experiment ladder: what there is to see of it."""

from plots.experiments import Run
from plots.ladder.figures import sizes_figure, steps_figure
from plots.ladder.tables import LADDERS, sizes_table, step_results, steps_table


def highlights(run: Run) -> list[str]:
    """The product of the steps, as far as all of them have a time."""
    lines = []
    for ladder in LADDERS:
        steps = step_results(run, ladder)
        last = steps[-1]
        if last.over_first is None or any(result.over_before is None for result in steps[1:]):
            continue
        parts = [f"{result.step.kernel} {result.over_before.value:.2f}" for result in steps[1:]]
        product = f" = {' x '.join(parts)}" * (len(parts) > 1)
        lines.append(
            f"With {ladder} scales, {last.step.kernel} is {last.over_first.value:.2f} times as "
            f"fast as {steps[0].step.kernel}{product}."
        )
    return lines


TABLES = (steps_table, sizes_table)
ON_TERMINAL = ("ladder", "sizes")
FIGURES = {
    "steps": ("Speed-up step by step, and instructions per weight", steps_figure),
    "sizes": ("Bandwidth by the size of the output, cold and warm", sizes_figure),
}

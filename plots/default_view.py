"""The default view of an experiment: a table of each pass, and a figure of each pass with times."""

from functools import partial
from typing import Any

from matplotlib.figure import Figure

from plots import bandwidth, sample_figures
from plots import figures as draw
from plots.bandwidth import Measured, bandwidth_table, measure
from plots.counter_tables import facts_table
from plots.counter_values import by_family
from plots.single_files import counter_tables
from reprolab.counter_table import COUNTERS
from reprolab.declared import Experiment
from reprolab.results import COPY, Results
from reprolab.tables import Table


def of(experiment: Experiment) -> dict[str, Any]:
    """The views by their names in experiments/<name>/views."""
    timed = [
        name
        for name, step in experiment.passes.items()
        if not step.compiled and COUNTERS not in step.arguments
    ]
    what = "Every kernel on every problem"
    figures = {name: (f"{what}: {name}", partial(figure, name)) for name in timed}
    return {
        "TABLES": (tables,),
        "ON_TERMINAL": tuple(timed),
        "FIGURES": figures,
        "BRIEF": partial(brief, timed[:1]),
        "SHORT_TABLE": None,
        "CLOSING": None,
        "HEADLINE": None,
        "QUESTION": "",
        "SUMMARY": None,
        "highlights": partial(highlights, timed),
    }


def tables(run: Any) -> list[Table]:
    """Times compared with the baseline and the copy; the most informative counters; facts of the
    code."""
    made = []
    for name, results in run.passes.items():
        title = f"{results.experiment}, {name}"
        if results.gpu is None:
            of_pass = [facts_table(results)]
        elif results.provenance["instrument"] == COUNTERS:
            of_pass = counter_tables(results, title)
        else:
            of_pass = [bandwidth_table(results, name, title, baseline(results))]
        for i, table in enumerate(of_pass, 1):
            table.name = name if i == 1 else f"{name}_{i}"
        made += of_pass
    return made


def brief(passes: list[str], run: Any) -> list[Measured]:
    """Every kernel with a bandwidth on the last problem of the passes."""
    measured = [measure(run[name], run[name].problems()[-1]["name"]) for name in passes]
    return [m for rows in measured for m in rows.values() if m.gb_s and not m.record.is_ceiling]


def baseline(results: Results) -> str:
    """The baseline of the pass's only family, if it was measured; else ''."""
    name = results.family.baseline if len(by_family(results)) == 1 else ""
    return name if any(r.kernel == name for r in results.records) else ""


def figure(name: str, run: Any) -> Figure:
    """Bandwidth over the problems, or times if nothing is moved."""
    results = run[name]
    problems = [p["name"] for p in results.problems()]
    moves = any(r.bandwidth for r in results.records)
    curves: sample_figures.Curves = {}
    for r in results.records:
        y = r.bandwidth.value if r.bandwidth else r.summary and r.summary.median
        if y and (r.ranked or r.kernel == COPY):
            curves.setdefault(r.kernel, []).append((problems.index(r.problem["name"]), y))
    drawn, (axes,) = draw.panels(4.6)
    sample_figures.draw_curves([(axes, curves)], sample_figures.looks(curves, (baseline(results),)))
    axes.set_xticks(range(len(problems)), problems, rotation=90 if len(problems) > 3 else 0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("bandwidth, read and written (GB/s)" if moves else "median time (us)")
    draw.add_caption(drawn, results, ["Medians; intervals: the table."], run.recorded)
    return drawn


def highlights(timed: list[str], run: Any) -> list[str]:
    """The fastest kernels of each pass, on its last problem."""
    lines = []
    for name in timed:
        problem = run[name].problems()[-1]["name"]
        rows = measure(run[name], problem, baseline(run[name]))
        if names := bandwidth.fastest(rows):
            over = next(m.ratio for m in rows.values() if m.best)
            gain = f", {over.value:.2f}x {baseline(run[name])}" if over else ""
            lines.append(f"{name}: fastest on {problem}: {names}{gain}.")
    return lines

"""Experiment table2: its two result files in, all its tables and figures out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plots import console
from plots.bandwidth import COPY, NONE, Measured, bandwidth_table, describe, measure
from plots.captions import banner, machine_notes
from plots.claims import claims_table
from plots.figures import figure_files, house_style, save
from plots.output import write_tables
from plots.published import Paper, load_paper
from plots.results import Results, is_recorded
from plots.runs import closing_lines, load_run
from plots.sample_figures import bandwidth_figure, samples_figure
from plots.stats import INTERVAL_NOTE
from plots.table2_claim import BASELINE, CLAIM, SUBJECT, table2
from plots.table2_figures import kernels_figure, share_figure, speedup_figure
from plots.table2_models import (
    SHARE_CLAIM,
    kernels_table,
    replay_problems,
    share_table,
    shown_batch,
)
from plots.tables import Column, Group, Row, Table

NAME = "table2"
PASSES = ("replay", "shapes")
BLOCKS = {
    "table2": "table2",
    "table2-kernels": "kernels",
    "table2-shapes": "shapes_summary",  # the full table is too long for a README
    "table2-share": "share",
    "table2-claims": "claims",
}
FIGURE_FILES = figure_files(("speedup", "kernels", "bandwidth", "samples", "share"))
CLAIMS_NOTE = f"{INTERVAL_NOTE} Over several cells: median of the cells, widest of their intervals."


@dataclass(frozen=True)
class Inputs:
    """Both passes of the experiment and the numbers they are held against."""

    replay: Results
    shapes: Results
    published: Paper
    recorded: bool

    @property
    def passes(self) -> tuple[Results, ...]:
        return self.replay, self.shapes


def read(replay: Path, shapes: Path, published: Path, recorded: bool) -> Inputs:
    """Load and check the files: two passes of one run; a path may say `recorded` too."""
    passes = load_run(NAME, {"replay": replay, "shapes": shapes})
    recorded = recorded or any(is_recorded(results.file) for results in passes)
    return Inputs(*passes, load_paper(published), recorded)


def tables(inputs: Inputs) -> list[Table]:
    replay, shapes = inputs.replay, inputs.shapes
    title = "Bandwidth per distinct shape"
    found = [
        table2(replay, inputs.published),
        kernels_table(replay),
        bandwidth_table(shapes, "shapes", title, BASELINE),
        shapes_summary(shapes),
        share_table(replay, inputs.published),
        claims_table("Verdicts on other claims of the source", inputs.passes, [CLAIMS_NOTE], CLAIM),
    ]
    if inputs.recorded:
        for table in found:
            table.banner = banner(replay)
    return found


def shapes_summary(shapes: Results) -> Table:
    """A row a shape: baseline, the paper's kernel, the best kernel, and the copy."""
    columns = [
        Column("shape", "l", wrap=True),
        Column(f"{BASELINE} GB/s"),
        Column(f"{SUBJECT} GB/s"),
        Column("best kernel", "l", wrap=True, code=True),
        Column("GB/s"),
        Column("of copy"),
        Column("copy GB/s"),
    ]
    rows: list[Row | Group] = []
    data: list[Sequence[object]] = [
        ["problem", "baseline_gb_s", "subject_gb_s", "best", "best_gb_s", "of_copy", "copy_gb_s"]
    ]
    for problem in shapes.problems():
        by_name = {m.record.kernel: m for m in measure(shapes, problem["name"], BASELINE)}
        values = [by_name[k].gb_s if k in by_name else None for k in (BASELINE, SUBJECT, COPY)]
        best = [m for m in by_name.values() if m.best]
        names = ", ".join(m.record.kernel for m in best)
        top = best[0] if best else None
        numbers = [*values[:2], top and top.gb_s]
        texts = [NONE if v is None else f"{v:.0f}" for v in [*numbers, values[2]]]
        of_copy = top.of_copy if top else None
        share = NONE if of_copy is None else f"{100 * of_copy:.1f} %"
        rows.append([describe(problem), *texts[:2], names or NONE, texts[2], share, texts[3]])
        data.append([problem["name"], *numbers[:2], names, numbers[2], of_copy, values[2]])
    title = "Bandwidth per distinct shape: baseline, the paper's kernel, and the best"
    notes = [
        "GB = 1e9 bytes, read and written once each, over the median. Best: lowest median of the "
        "bit-exact rows; several names where their intervals overlap. " + INTERVAL_NOTE
    ]
    return Table("shapes_summary", title, columns, rows, data, notes, machine_notes(shapes))


def write_figures(inputs: Inputs, directory: Path) -> None:
    replay, shapes, published = inputs.replay, inputs.shapes, inputs.published
    with house_style():
        made = {
            "speedup": speedup_figure(replay, published, inputs.recorded),
            "kernels": kernels_figure(replay, published, inputs.recorded),
            "bandwidth": bandwidth_figure(
                shapes, "weights (millions)", inputs.recorded, (SUBJECT, BASELINE)
            ),
            "samples": samples_figure(sample_panels(inputs), inputs.recorded),
            "share": share_figure(replay, published, inputs.recorded),
        }
        for name, figure in made.items():
            save(figure, directory, name)


def sample_panels(inputs: Inputs) -> list[tuple[Results, str, str]]:
    """The largest and the smallest shape, and one replayed forward pass."""
    replay, shapes = inputs.replay, inputs.shapes
    by_size = sorted(shapes.problems(), key=lambda p: p.get("n", 0))
    chosen = [by_size[-1]] + by_size[:1] * (len(by_size) > 1)
    panels = [(shapes, p["name"], p["name"]) for p in chosen]
    passes = replay_problems(replay)
    cell = inputs.published.cell(SHARE_CLAIM)
    wanted = [p for p in passes if (p["model"], p["batch"]) == cell] or passes
    return panels + [(replay, p["name"], f"forward passes, {p['name']}") for p in wanted[:1]]


def render(inputs: Inputs, directory: Path) -> str:
    """Write everything to `directory` and return the text for the terminal."""
    found = tables(inputs)
    write_tables(found, directory)
    write_figures(inputs, directory)
    head = console.box(banner(inputs.replay)) + "\n" if inputs.recorded else ""
    return head + console.render(found[0]) + "\n" + summary(inputs, directory)


def fastest(best: list[Measured]) -> str:
    """The fastest kernel, or all not told apart from it, and its speed-up where one is seen."""
    first, names = best[0], ", ".join(m.record.kernel for m in best)
    ratio = f"{first.ratio.value:.2f}x {BASELINE}" if first.ratio and first.ratio.seen else ""
    if len(best) == 1:
        return names + (f", {ratio}" if ratio else "")
    return f"no difference seen between {names}" + (
        f"; {first.record.kernel} is {ratio}" if ratio else ""
    )


def summary(inputs: Inputs, directory: Path) -> str:
    """A few lines on the other tables, and where everything is."""
    replay, lines = inputs.replay, []
    batch = shown_batch(replay)
    for problem in replay_problems(replay):
        best = [m for m in measure(replay, problem["name"], BASELINE) if m.best]
        if problem["batch"] == batch and best:
            lines += console.wrap(f"Fastest for {problem['name']}: {fastest(best)}.", indent="  ")
    top = [m for p in inputs.shapes.problems() for m in measure(inputs.shapes, p["name"], None)]
    shares = [m for m in top if m.best and m.of_copy is not None]
    if shares:
        m = max(shares, key=lambda m: m.of_copy or 0)
        name = m.record.problem["name"]
        lines.append(
            f"Nearest to the copy: {m.record.kernel} on {name}, {m.gb_s:.0f} GB/s, "
            f"{100 * (m.of_copy or 0):.1f} %."
        )
    lines += closing_lines(inputs.passes, "table2", directory)
    return "\n".join(lines) + "\n"

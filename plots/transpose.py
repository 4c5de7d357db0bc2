"""Experiment transpose: its two result files in, all its tables and figures out."""

from dataclasses import dataclass
from pathlib import Path

from plots import console
from plots.bandwidth import measure
from plots.captions import banner
from plots.claims import claims_table
from plots.errors import InputError
from plots.figures import figure_files, house_style, save
from plots.nodes import Node
from plots.output import write_tables
from plots.published import TransposePost, check_source_value, load_transpose_post
from plots.results import Results, is_recorded
from plots.runs import closing_lines, load_run
from plots.sample_figures import samples_figure
from plots.stats import INTERVAL_NOTE
from plots.tables import Table
from plots.transpose_figures import kernels_figure, sizes_figure
from plots.transpose_matrix import CONSTANT, RANDOM, matrix_table, random_matrix
from plots.transpose_sizes import sizes_summary, sizes_table

NAME = "transpose"
PASSES = ("matrix", "sizes")
BLOCKS = {
    "transpose": "matrix",
    "transpose-sizes": "sizes_summary",  # the full table is too wide for a README
    "transpose-claims": "claims",
}
FIGURE_FILES = figure_files(("kernels", "sizes", "samples"))
SOURCE = "transpose_blog"


@dataclass(frozen=True)
class Inputs:
    """Both passes of the experiment and the numbers they are held against."""

    matrix: Results
    sizes: Results
    published: TransposePost
    recorded: bool

    @property
    def passes(self) -> tuple[Results, ...]:
        return self.matrix, self.sizes


def read(matrix: Path, sizes: Path, published: Path, recorded: bool) -> Inputs:
    """Load and check the files: two passes of one run; a path may say `recorded` too."""
    passes = load_run(NAME, {"matrix": matrix, "sizes": sizes})
    post = load_transpose_post(published)
    for results in passes:
        check_problems(results)
        check_verdicts(results, post)
    random_matrix(passes[0])
    recorded = recorded or any(is_recorded(results.file) for results in passes)
    return Inputs(*passes, post, recorded)


def check_problems(results: Results) -> None:
    """The fields that the tables rest on, and, where sizes are compared, squares."""
    seen: set[int] = set()
    for problem in results.problems():
        node = Node(results.file, f"problem '{problem['name']}'", problem)
        node.one_of("data", (RANDOM, CONSTANT))
        rows, columns = node.take("rows", "an integer"), node.take("columns", "an integer")
        if results.pass_name != "sizes":
            continue
        if rows != columns:
            raise node.fail("columns", f"must be as rows, {rows}, not {columns}")
        if rows in seen:
            raise node.fail("rows", f"comes a second time: {rows}")
        seen.add(rows)


def check_verdicts(results: Results, post: TransposePost) -> None:
    """The post's claims alone, held against the post's own numbers."""
    for verdict in results.verdicts:
        where = f"{results.file}: {verdict.claim}"
        if verdict.source != SOURCE or verdict.claim not in post.claims:
            raise InputError(f"{where}: is no claim of data/published's {SOURCE}")
        if verdict.source_value is None:
            continue
        value, unit = post.claim_value(verdict.claim) or (None, "")
        if value is None:
            raise InputError(f"{where}: has a source_value, but data/published has none")
        if verdict.unit != unit:
            raise InputError(f"{where}: unit is '{verdict.unit}', but '{unit}' is needed here")
        check_source_value(verdict.source_value, value, where)


def tables(inputs: Inputs) -> list[Table]:
    found = [
        matrix_table(inputs.matrix, inputs.published),
        sizes_table(inputs.sizes),
        sizes_summary(inputs.sizes),
        claims_table("Verdicts on the post's claims", inputs.passes, [INTERVAL_NOTE]),
    ]
    if inputs.recorded:
        for table in found:
            table.banner = banner(inputs.matrix)
    return found


def write_figures(inputs: Inputs, directory: Path) -> None:
    matrix, recorded = inputs.matrix, inputs.recorded
    name = random_matrix(matrix)["name"]
    with house_style():
        made = {
            "kernels": kernels_figure(matrix, inputs.published, recorded),
            "sizes": sizes_figure(inputs.sizes, recorded),
            "samples": samples_figure([(matrix, name, name)], recorded),
        }
        for file, figure in made.items():
            save(figure, directory, file)


def render(inputs: Inputs, directory: Path) -> str:
    """Write everything to `directory` and return the text for the terminal."""
    found = tables(inputs)
    write_tables(found, directory)
    write_figures(inputs, directory)
    head = [console.box(banner(inputs.matrix))] if inputs.recorded else []
    shown = [console.render(table) for table in found if table.name in BLOCKS.values()]
    return "\n".join([*head, *shown, summary(inputs, directory)])


def summary(inputs: Inputs, directory: Path) -> str:
    """The fastest kernel of the post's matrix, the verdicts, and where everything is."""
    lines = []
    rows = measure(inputs.matrix, random_matrix(inputs.matrix)["name"], None)
    best = [m for m in rows if m.best]
    if best:
        first, names = best[0], ", ".join(m.record.kernel for m in best)
        names = names if len(best) == 1 else f"no difference seen between {names}"
        share = "" if first.of_copy is None else f", {100 * first.of_copy:.1f} % of the copy"
        lines += console.wrap(f"Fastest: {names}; {first.gb_s:.0f} GB/s{share}.", indent="  ")
    return "\n".join([*lines, *closing_lines(inputs.passes, "matrix", directory)]) + "\n"

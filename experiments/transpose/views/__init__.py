"""The views of experiment transpose."""

from matplotlib.figure import Figure

from experiments.transpose.views import matrix, sizes
from plots import bandwidth
from plots.experiments import Run
from plots.sample_figures import samples_figure


def highlights(run: Run) -> list[str]:
    """The fastest kernel of the post's matrix, or all within its interval."""
    rows = matrix.random_rows(run)
    for m in [m for m in rows.values() if m.best][:1]:
        share = f", {100 * m.of_copy:.1f} % of the copy" if m.of_copy else ""
        return [f"Fastest: {bandwidth.fastest(rows)}; {m.gb_s:.0f} GB/s{share}."]
    return []


def raw_samples(run: Run) -> Figure:
    name = matrix.random_matrix(run)["name"]
    return samples_figure([(run["matrix"], name, name)], run.recorded)


TABLES = (matrix.matrix_table, matrix.languages_table, sizes.sizes_table, sizes.sizes_summary)
ON_TERMINAL = ("matrix", "languages", "sizes_summary", "claims")
BRIEF = matrix.brief
SHORT_TABLE = matrix.short_table
HEADLINE = "mojo-is-cuda-like"  # the claim
QUESTION = "Is a transpose in Mojo as fast as in CUDA?"
FIGURES = {
    "kernels": ("Bandwidth on the post's matrix, with the post's values", matrix.kernels_figure),
    "sizes": ("Bandwidth by size and alignment", sizes.sizes_figure),
    "samples": ("Raw samples", raw_samples),
}

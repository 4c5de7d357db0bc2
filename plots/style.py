"""The look of all figures, their names and colours of kernels, and SVGs that are the same each run.

experiments/<name>/figures.py has a function for each figure: FIGURES by name, each with the pass
that it needs, made of the prepared frame (plots/frame.py) of one GPU or several. Rows of older code
are in no figure.
"""

import hashlib
import importlib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from plots.frame import right_of, short_name
from reprolab.declared import module
from reprolab.results import KERNEL_TIME, RIGHT

Draw = Callable[[pd.DataFrame], Figure]  # of the rows of the experiment

WIDTH = 8.6  # inches, of a page on GitHub
BASE, THEIRS, OURS, LIBRARY, RED = "#8a8a8a", "#0b8a68", "#c05a1c", "#3b6fb5", "#b03030"
LIMIT = "#333333"
LINES = ("-", "--", ":", "-.")  # of GPUs
NAMES = {
    "branch_tree": "tree of branches (the baseline)",
    "branch_tree_constant": "tree of branches, values in constant memory",
    "bitsandbytes_0.47.0": "bitsandbytes 0.47 (tree of branches)",
    "bitsandbytes_0.48.2": "bitsandbytes 0.48 (table)",
    "bitsandbytes_0.49.2": "bitsandbytes 0.49 (table)",
    "bitsandbytes_0.50.2": "bitsandbytes 0.50 (table)",
    "shared_lut": "the paper's kernel",
    "shared_lut_algorithm1": "the paper's Algorithm 1, as printed",
    "shared_lut_tile512": "the paper's kernel, 512 weights per block",
    "shared_lut_cooperative": "the paper's kernel, filled by 16 threads",
    "shared_lut_immediates": "the paper's kernel, filled from literals",
    "global_lut": "table in global memory",
    "constant_lut": "table in constant memory",
    "warp_shuffle_lut": "table in registers (pull request 1747)",
    "streaming": "streaming (ours)",
    "packed_512": "the Mojo post's kernel, in CUDA",
    "mojo_packed_512": "the Mojo post's kernel",
    "mojo_packed_512_store_each": "the Mojo post's kernel, byte by byte",
    "triton_lut": "table in Triton (ours)",
    "two_launches": "two launches, as in the library",
    "column_walk": "column walk (ours)",
    "column_walk_plain_reads": "column walk, plain reads",
    "column_walk_six_blocks": "column walk, six blocks per SM",
    "tiled": "tile in shared memory, float4",
    "tma_naive": "the post, naive (CUDA)",
    "tma_swizzle": "the post, swizzled (CUDA)",
    "tma_batched": "the post, batched (CUDA), right indices",
    "tma_batched_as_published": "the post, batched (CUDA), Mojo's indices",
    "mojo_tma_naive": "the post, naive (Mojo)",
    "mojo_tma_swizzle": "the post, swizzled (Mojo)",
    "mojo_tma_batched": "the post, batched (Mojo), right indices",
    "mojo_tma_batched_as_published": "the post, batched (Mojo), as published",
    "cublas_sgeam": "cuBLAS",
    "copy": "a copy (cudaMemcpy)",
    "copy_kernel": "a copy by a kernel",
    "same_bytes": "same bytes, only moved",
    "read_only": "reading only",
    "write_only": "writing only",
}
# By role; in one figure of lines no two series share a colour.
OTHER = "#b9b9b9"
COLOURS = {
    **dict.fromkeys(("copy", "copy_kernel", "same_bytes"), LIMIT),
    **dict.fromkeys(("branch_tree", "bitsandbytes_0.47.0", "tma_naive"), BASE),
    **dict.fromkeys(("shared_lut", "tma_batched", "mojo_packed_512"), THEIRS),
    **dict.fromkeys(("streaming", "column_walk", "triton_lut"), OURS),
    **dict.fromkeys(("bitsandbytes_0.50.2", "cublas_sgeam"), LIBRARY),
    "global_lut": "#7fb8a4",
    "constant_lut": "#a56cc1",
}
REST = ("#d0a215", "#882255", "#5f9ed1", "#7a5c3e", "#99993a", "#cc79a7")


def label(kernel: str) -> str:
    return NAMES.get(kernel, kernel.replace("bitsandbytes_", "bitsandbytes "))


def colours(kernels: Iterable[str]) -> dict[str, str]:
    """One for each kernel, none twice while there are enough."""
    given: dict[str, str] = {}
    for kernel in kernels:
        own = COLOURS.get(kernel)
        free = [c for c in REST if c not in given.values()] or REST
        given[kernel] = own if own and own not in given.values() else free[0]
    return given


def colour(kernel: str) -> str:
    """A bar's colour; its name tells it from others."""
    return COLOURS.get(kernel, OTHER)


def times(
    rows: pd.DataFrame, of: str, problem: str = "", metric: str = KERNEL_TIME
) -> pd.DataFrame:
    """The right rows of a pass with a time, by kernel, or of the pass by kernel and problem."""
    timed = rows[(rows["pass"] == of) & (rows.metric == metric) & rows["median"].notna()]
    timed = timed[right_of(timed) & ~timed.older_code.astype(bool)]
    return timed[timed.problem == problem].set_index("kernel") if problem else timed


def largest(rows: pd.DataFrame) -> str:
    """The problem with the most weights or elements."""
    return rows.loc[rows.problem_n.idxmax()].problem if len(rows) else ""


def by_gpu(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(short_name(gpu), own) for gpu, own in rows.groupby("gpu", sort=True)]


def panels(
    count: int, height: float, lines: int = 1, **shared: Any
) -> tuple[Figure, np.ndarray[Any, np.dtype[np.object_]]]:
    """A figure with `count` panels side by side, in so many lines."""
    matplotlib.rcdefaults()
    matplotlib.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, max(count, 1), squeeze=False, **shared)
    return figure, grid


def panels_by_gpu(
    rows: pd.DataFrame, height: float, **shared: Any
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with a panel for each GPU, and the panels with the GPU's rows."""
    gpus = by_gpu(rows)
    figure, grid = panels(len(gpus), height, **shared)
    for axes, (gpu, _) in zip(grid[0], gpus, strict=False):
        axes.set_title(gpu, loc="left")
    return figure, [(axes, own) for axes, (_, own) in zip(grid[0], gpus, strict=False)]


def bar(axes: Axes, place: float, value: float, text: str, end: float = 0, **look: Any) -> None:
    """A bar with its text at the right, after `end` if a mark is there."""
    axes.barh(place, value, **({"height": 0.72} | look))
    at, gap = (max(value, end), place), (5 if end else 3, 0)
    axes.annotate(text, at, gap, textcoords="offset points", va="center", fontsize=6.5)


def rows_of_bars(axes: Axes, names: Sequence[str], size: float = 6.5) -> None:
    """Names at the rows, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0, labelsize=size)
    axes.grid(visible=False, axis="y")


def bandwidths(axes: Axes, rows: pd.DataFrame, kernels: Sequence[str], x: pd.Series) -> None:
    """Each kernel's bandwidth over `x`, a column of the rows."""
    rows = rows.assign(x=x.astype(float)).sort_values("x")
    for kernel, colour in colours(kernels).items():
        own = rows[rows.kernel == kernel]
        axes.plot(own.x, own.gb_per_s, "o-", color=colour, markersize=3, label=label(kernel))


def logarithmic(axis: Any, marks: Sequence[float]) -> None:
    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_locator(FixedLocator(list(marks)))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([f"{mark:g}" for mark in marks])


def legend(figure: Figure, columns: int = 4) -> None:
    """One legend for all panels, above them."""
    each = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes)
    found = {text: handle for handles in each for handle, text in handles}
    if found:
        figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=columns)


def numbers(figure: Figure) -> list[float]:
    """What is drawn: ends of bars, points of lines, offsets of marks."""
    drawn: list[float] = []
    for axes in figure.axes:
        for patch in axes.patches:
            drawn += list(patch.get_path().get_extents(patch.get_patch_transform()).extents)
        for line in axes.lines:
            drawn += list(np.asarray(line.get_xydata(), float).ravel())
        for image in axes.images:
            drawn += list(np.asarray(image.get_array(), float).ravel())
    return drawn


def digest(figure: Figure) -> str:
    """Of the numbers to four digits, and of the texts: libraries' versions do not change it."""
    texts = [t.get_text() for a in figure.axes for t in (*a.texts, a.title, a.xaxis.label)]
    shown = [f"{number:.4g}" for number in numbers(figure)] + texts
    return hashlib.sha256("\n".join(shown).encode()).hexdigest()[:16]


def svg(figure: Figure) -> bytes:
    """With the digest of its data; without a date, so that the same data give the same bytes."""
    out = io.BytesIO()
    about = {"Date": None, "Creator": None, "Description": f"data {digest(figure)}"}
    figure.savefig(out, format="svg", facecolor="white", metadata=about)
    return re.sub(rb"[ \t]+\n", b"\n", out.getvalue())


def figures(experiment: str, rows: pd.DataFrame, only: str = "") -> dict[str, Figure]:
    """The figures whose pass has numbers of a right kernel, or `only` one of them, by name."""
    draws: dict[str, tuple[str, Draw]]
    draws = importlib.import_module(module(experiment, "figures")).FIGURES
    own = rows[rows.experiment == experiment]
    right = own.outcome.isin(RIGHT) & (own.origin != "ceiling") & ~own.older_code.astype(bool)
    passes = set(own["pass"][own["median"].notna() & right])
    chosen = {name: draw for name, (of, draw) in draws.items() if of in passes}
    return {name: draw(own) for name, draw in chosen.items() if only in ("", name)}

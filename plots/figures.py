"""The look of all figures, and their writing: the same results give the same bytes."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from plots.captions import banner, small_print
from plots.files import write_atomically
from plots.results import Results

FORMATS = ("pdf", "png", "svg")
DPI = 200
# Without dates and program versions, which would differ from run to run.
METADATA = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}

# Okabe and Ito's palette, which colour-blind readers can tell apart, and a brown as its seventh.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, BROWN = "#56B4E9", "#E69F00", "#8C510A"
GREY, BLACK = "#6B6B6B", "#000000"  # for ceilings
SERIES = [
    (BLUE, "o", "-"),
    (ORANGE, "s", "--"),
    (GREEN, "^", "-."),
    (PINK, "D", ":"),
    (SKY, "v", "-"),
    (AMBER, "P", "--"),
    (BROWN, "X", "-."),
]

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#D9D9D9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.4,
    "lines.markersize": 5.5,
    "svg.hashsalt": "reprolab",
    "pdf.fonttype": 42,
    "figure.dpi": 100,
}

CAPTION_SIZE = 7.5
CAPTION_LINE_INCHES = 0.148
CHARACTERS_PER_INCH = 17  # of the caption's font, on average


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's own defaults and ours, whatever the user's matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def new_figure(width: float, height: float) -> Figure:
    """A figure in inches that needs no display."""
    engine = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    figure = Figure(figsize=(width, height), layout=engine)
    FigureCanvasAgg(figure)
    return figure


def add_caption(
    figure: Figure, results: Results, notes: Sequence[str] = (), recorded: bool = False
) -> None:
    """Put machine, clocks and notes at the bottom, and the recorded run's banner over them.

    The figure grows by just the height that this takes.
    """
    width, height = figure.get_size_inches()
    lines: list[str] = []
    # Parts such as "commit 0123abc" stay together: textwrap leaves a no-break space alone.
    machine = "; ".join(part.replace(" ", "\u00a0") for part in small_print(results)) + "."
    for paragraph in [machine, *notes]:
        lines += textwrap.wrap(paragraph, int(width * CHARACTERS_PER_INCH))
    strip = (len(lines) + recorded) * CAPTION_LINE_INCHES + 0.16
    height += strip
    figure.set_size_inches(width, height)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, strip / height, 1, 1 - strip / height))
    style: dict[str, Any] = {"fontsize": CAPTION_SIZE, "color": "#333333", "linespacing": 1.35}
    left, bottom = 0.1 / width, 0.06 / height
    figure.text(
        left, bottom, "\n".join(lines).replace("\u00a0", " "), va="bottom", gid="caption", **style
    )
    if recorded:
        above = bottom + (len(lines) * CAPTION_LINE_INCHES + 0.02) / height
        text = banner(results)
        figure.text(left, above, text, va="bottom", weight="bold", gid="banner", **style)


def figure_files(names: Sequence[str]) -> tuple[str, ...]:
    """The files that `save` writes for figures of these names."""
    return tuple(f"{name}.{kind}" for name in names for kind in FORMATS)


def legend_above(figure: Figure, panels: Sequence[Axes], columns: int = 4, last: str = "") -> None:
    """One legend for all panels, outside of them; labels that begin with `last` close it."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    labels = sorted(entries, key=lambda label: bool(last) and label.startswith(last))
    handles = [entries[label] for label in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def annotate_empty(axes: Axes, text: str, height: float = 0.5) -> None:
    """Says why there is nothing to see, at a fraction of the axes' height."""
    axes.text(
        0.5,
        height,
        text,
        ha="center",
        va="center",
        transform=axes.transAxes,
        color=GREY,
        backgroundcolor="white",
    )


def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write the figure in every format; to be called within `house_style`."""
    paths = []
    for kind in FORMATS:
        path = directory / f"{name}.{kind}"
        options: dict[str, Any] = {"format": kind, "dpi": DPI, "metadata": METADATA[kind]}
        write_atomically(path, partial(figure.savefig, **options))
        paths.append(path)
    return paths

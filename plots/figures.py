"""The look of all figures, and their writing: the same results give the same bytes."""

import io
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, NullLocator

from claims.results import Results
from plots.captions import banner, machine

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
COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER, BROWN)
LINES = ("-", "--", "-.", ":", "-", "--", "-.")
SERIES = list(zip(COLOURS, "os^DvPX", LINES, strict=True))  # colour, marker and line

DEVIATES = " \u2020"  # behind a kernel's name; tables mark the best rows with *
DEVIATES_NOTE = "\u2020: its output deviates as declared; left out of rankings."
CAPTION_SIZE = 7.5
CAPTION_LINE_INCHES = 0.148
CHARACTERS_PER_INCH = 17  # of the caption's font, on average


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's own defaults and ours, whatever the user's matplotlibrc says.

    A letter that the font lacks, or a name too long for its panel, is seen in the figure: no
    warning of it for each time that it is drawn.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.style.use(Path(__file__).with_name("house.mplstyle"))
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
    sentence = "; ".join(part.replace(" ", "\u00a0") for part in machine(results)) + "."
    for paragraph in [sentence, *notes]:
        lines += textwrap.wrap(paragraph, int(width * CHARACTERS_PER_INCH))
    strip = (len(lines) + recorded) * CAPTION_LINE_INCHES + 0.16
    height += strip
    figure.set_size_inches(width, height)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, strip / height, 1, 1 - strip / height))
    style: dict[str, Any] = {"fontsize": CAPTION_SIZE, "color": "#333333", "linespacing": 1.35}
    style |= {"va": "bottom"}
    left, bottom = 0.1 / width, 0.06 / height
    figure.text(left, bottom, "\n".join(lines).replace("\u00a0", " "), gid="caption", **style)
    if recorded:
        above = bottom + (len(lines) * CAPTION_LINE_INCHES + 0.02) / height
        figure.text(left, above, banner(results), weight="bold", gid="banner", **style)


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
    place = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, height, text, color=GREY, backgroundcolor="white", **place)


def logarithmic(
    axis: Axis, ticks: Sequence[float], text: Callable[[float], str] = "{:g}".format
) -> None:
    """Marked at `ticks` alone."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: text(value))


def kernel_rows(axes: Axes, labels: Sequence[str]) -> None:
    """One kernel per row, the first at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def mark(axes: Axes, xs: Sequence[float], ys: Sequence[float], marker: str, **look: Any) -> None:
    """Published values: markers without a line."""
    axes.plot(xs, ys, linestyle="none", marker=marker, zorder=5, **look)


def write_right(axes: Axes, row: float, text: str) -> None:
    """A value at the right of a row, outside of the axes."""
    place = {"xycoords": ("axes fraction", "data"), "va": "center"}
    axes.annotate(text, (1.02, row), fontsize=8, color="#333333", **place)


def encode(figure: Figure, kind: str) -> bytes:
    """The figure as a file of this format; to be called within `house_style`."""
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=DPI, metadata=METADATA[kind])
    return out.getvalue()

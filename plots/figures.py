"""The style of all figures, and writing them: the same results give the same bytes."""

import io
import re
import textwrap
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from reprolab.captions import banner, clocks_apart, machine
from reprolab.code import older_notes
from reprolab.results import Results
from reprolab.stats import Estimate

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
WINE, INDIGO, OLIVE = "#882255", "#332288", "#999933"  # Paul Tol's
COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER, BROWN)
# Colours for a dark page; names of report.css for colours outside of the palette: background, text,
# grid lines, and bars without a kernel.
DARK = {
    **{BLUE.lower(): "#4aa8e0", ORANGE.lower(): "#f08a3c", GREEN.lower(): "#34c99a"},
    **{PINK.lower(): "#e79cc5", SKY.lower(): "#9ad6f8", AMBER.lower(): "#f2b838"},
    **{BROWN.lower(): "#c98f4e", WINE.lower(): "#d9709f", INDIGO.lower(): "#9a8cf0"},
    **{OLIVE.lower(): "#c6c653", GREY.lower(): "var(--quiet)", BLACK: "var(--ink)"},
    **{"#ffffff": "var(--paper)", "#333333": "var(--ink)", "#d9d9d9": "var(--line)"},
    **{"#b0b0b0": "#707780", "#bbbbbb": "#707780"},
}
MARKERS = "os^DvPX"  # for models and other series if colours stand for kernels
LINES = ("-", "--", "-.", ":")

# A kernel has one colour and marker in all figures. These are by role: ours, the baseline, the
# subject of a paper or post, other people's, and ceilings.
LOOKS = {
    **dict.fromkeys(("streaming", "column_walk"), (BLUE, "o")),
    **dict.fromkeys(("branch_tree", "tma_naive"), (ORANGE, "s")),
    **dict.fromkeys(("shared_lut", "tma_batched"), (GREEN, "^")),
    "branch_tree_constant": (BROWN, "s"),
    "bitsandbytes_0.47.0": (WINE, "D"),
    "cublas_sgeam": (PINK, "D"),
    "bitsandbytes_0.50.2": (PINK, "v"),
    "triton_lut": (AMBER, "s"),
    **dict.fromkeys(("bitsandbytes_0.47.0_gemv", "bitsandbytes_0.50.2_gemv"), (PINK, "D")),
    "bitsandbytes_0.50.2_gemm": (PINK, "v"),
    "cublas_16bit": (AMBER, "P"),
    "few_rows": (BLUE, "o"),
    "few_rows_exact": (SKY, "o"),
    "few_rows_99kib": (BLUE, "s"),
    "few_rows_exact_99kib": (SKY, "s"),
    "many_rows": (BLUE, "X"),
    "many_rows_exact": (SKY, "X"),
    "many_rows_rounded": (BLUE, "D"),
    "streaming_then_cublas": (ORANGE, "s"),
    "shared_lut_then_cublas": (GREEN, "^"),
    "copy": (BLACK, "None"),
    "copy_kernel": (BLACK, "x"),
    "same_bytes": (GREY, "None"),
    "read_only": (GREY, "<"),
    "write_only": (GREY, ">"),
}
# The others, in the order in which they get a colour; a kernel that is not listed gets one by its
# name.
OTHERS = """
constant_lut global_lut packed_512 packed_store scalar_store shared_lut_algorithm1
shared_lut_cooperative shared_lut_immediates shared_lut_tile512 two_launches warp_shuffle_lut
wide_store wide_store_hints wide_store_unrolled packed_1024 packed_1024_registers
packed_512_as_published packed_512_registers packed_512_store_each tiled_packed triton_lut
warp_per_block weight_per_thread mojo_packed_512 mojo_packed_512_store_each mojo_tiled_2d
mojo_warp_per_block column_walk_plain_reads column_walk_six_blocks tiled tma_swizzle
tma_batched_as_published mojo_tma_batched mojo_tma_batched_as_published mojo_tma_naive
mojo_tma_swizzle
""".split()
# A kernel in Mojo has the look of its counterpart in CUDA, except for the marker.
MOJO, MOJO_MARKER, COUNTERPARTS = "mojo_", "8", {"mojo_tiled_2d": "tiled_packed"}
# Maximum number of series in a panel. Kernels are chosen in this order: the users', then ours, the
# baseline, the sources' and the libraries'.
MOST_SERIES = 6
FIRST = """
streaming branch_tree shared_lut bitsandbytes_0.50.2 packed_512 triton_lut constant_lut wide_store
column_walk cublas_sgeam tma_batched tma_swizzle tma_naive tiled
""".split()
OTHER_COLOURS, OTHER_MARKERS = (SKY, AMBER, BROWN, WINE, INDIGO, OLIVE), "vPXd<>hp"
PUBLISHED = {"color": BLACK, "markerfacecolor": "none", "markersize": 10}
PUBLISHED_MARKERS = "*P"

DEVIATES = " \u2020"  # after a kernel's name; tables mark the best rows with *
DEVIATES_NOTE = "\u2020: its output deviates as declared; left out of rankings."
# In inches: the width of one column of a paper and of two side by side, and the height of its page
# without margins.
WIDTHS, PAGE = {1: 3.3, 2: 7.0}, 9.0
MANY_ROWS = 24  # beyond them, names are smaller
CAPTION_SIZE = 6.5
CAPTION_LINE_INCHES = 0.128
CHARACTERS_PER_INCH = 20.5  # in the caption's font, on average
# Characters in a line of an axis' label, and of a row's, in a figure that is one column wide.
NARROW_LABEL, NARROW_NAME = 24, 24


@contextmanager
def figure_style(columns: int = 2) -> Iterator[None]:
    """Matplotlib's defaults and ours, independent of the user's matplotlibrc; figures are as wide
    as `columns` columns of a paper if they can be.

    Suppresses warnings about a letter that the font lacks, or a name too long for its panel, which
    are visible in the figure.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.style.use(Path(__file__).with_name("figures.mplstyle"))
        matplotlib.rcParams["figure.figsize"] = (WIDTHS[columns], PAGE)
        yield


def new_figure(height: float, width: float = WIDTHS[2]) -> Figure:
    """A figure as wide as a page, its height in inches, that needs no display."""
    engine = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    figure = Figure(figsize=(width, height), layout=engine)
    FigureCanvasAgg(figure)
    return figure


def panels(height: float, count: int = 1, **shared: bool) -> tuple[Figure, list[Axes]]:
    """A figure with panels of this height, side by side, or below each other in a narrow one."""
    figure = new_figure(height, width_of_figures())
    rows, columns = (count, 1) if is_narrow(figure) else (1, count)
    figure.set_figheight(height * rows)
    return figure, list(figure.subplots(rows, columns, squeeze=False, **shared).flat)


def width_of_figures() -> float:
    """The width that `figure_style` set, in inches."""
    return matplotlib.rcParams["figure.figsize"][0]


def is_narrow(figure: Figure) -> bool:
    """Whether the figure is as wide as one column."""
    return figure.get_figwidth() < WIDTHS[2]


def look(kernel: str) -> dict[str, Any]:
    """The kernel's colour, marker and line."""
    counterpart = COUNTERPARTS.get(kernel, kernel.removeprefix(MOJO))
    if kernel.startswith(MOJO) and (counterpart in LOOKS or counterpart in OTHERS):
        return look(counterpart) | {"marker": MOJO_MARKER, "linestyle": "--"}
    if kernel in LOOKS:
        colour, marker = LOOKS[kernel]
        return {"color": colour, "marker": marker, "linestyle": "-"}
    known = kernel in OTHERS
    place = OTHERS.index(kernel) if known else zlib.crc32(kernel.encode("utf-8", "replace"))
    colours, markers = len(OTHER_COLOURS), len(OTHER_MARKERS)
    marker = OTHER_MARKERS[(place + place // colours) % markers]  # so all pairs occur
    line = LINES[place % len(LINES)]
    return {"color": OTHER_COLOURS[place % colours], "marker": marker, "linestyle": line}


def chosen(kernels: Iterable[str], count: int = MOST_SERIES) -> list[str]:
    """At most `count` kernels, in their order."""
    names = list(dict.fromkeys(kernels))

    def place(name: str) -> tuple[bool, int]:
        known = name in LOOKS or name in OTHERS or name.startswith(MOJO)
        return known, FIRST.index(name) if name in FIRST else len(FIRST)

    kept = sorted(names, key=place)[:count]
    return [name for name in names if name in kept]


def left_out_note(kernels: Iterable[str], shown: Iterable[str]) -> list[str]:
    """A remark under a figure that shows only some of the kernels."""
    count = len(set(kernels) - set(shown))
    return [f"{count} more kernel{'s' * (count > 1)}: the table."] * bool(count)


def colour(kernel: str) -> str:
    return look(kernel)["color"]


def add_caption(
    figure: Figure,
    results: Results,
    notes: Sequence[str] = (),
    recorded: bool = False,
) -> None:
    """Puts machine, notes, differences of clocks and kernels of older code at the bottom, under a
    recorded run's banner.
    """
    # Parts such as "commit 0123abc" stay together: textwrap leaves a no-break space alone.
    sentences = [
        "; ".join(part.replace(" ", "\u00a0") for part in machine(run)) + "."
        for run in results.runs()
    ]
    paragraphs = [*sentences, *notes, *clocks_apart(results), *older_notes(results)]
    write_caption(figure, paragraphs, banner(results) if recorded else "")


def write_caption(figure: Figure, paragraphs: Sequence[str], heading: str = "") -> None:
    """Puts the paragraphs at the bottom, under a heading.

    The figure grows by their height, up to the height of a page. A label that several panels share
    is written once.
    """
    share_label([axes for axes in figure.axes if axes.get_xlabel()])
    for axis in [a for axes in figure.axes for a in (axes.xaxis, axes.yaxis)]:
        if is_narrow(figure):
            axis.set_label_text(textwrap.fill(axis.get_label_text(), NARROW_LABEL))
    width, height = figure.get_size_inches()
    wrap = partial(textwrap.wrap, width=int(width * CHARACTERS_PER_INCH))
    lines = [line for paragraph in paragraphs for line in wrap(paragraph)]
    above = wrap(heading, width=int(0.9 * width * CHARACTERS_PER_INCH))  # bold is wider
    strip = (len(lines) + len(above)) * CAPTION_LINE_INCHES + 0.16
    height = min(height + strip, PAGE)
    figure.set_figheight(height)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, strip / height, 1, 1 - strip / height))
    style: dict[str, Any] = {"fontsize": CAPTION_SIZE, "color": "#333333", "linespacing": 1.35}
    style |= {"va": "bottom"}
    left, bottom = 0.1 / width, 0.06 / height
    figure.text(left, bottom, "\n".join(lines).replace("\u00a0", " "), gid="caption", **style)
    if above:
        bottom += (len(lines) * CAPTION_LINE_INCHES + 0.02) / height
        figure.text(left, bottom, "\n".join(above), weight="bold", gid="banner", **style)


def take_caption(figure: Figure) -> str:
    """Removes the text of `write_caption` and returns it for a document's own caption."""
    texts = [text for text in figure.texts if text.get_gid() in ("banner", "caption")]
    parts = [" ".join(text.get_text().split()) for text in reversed(texts)]
    for text in texts:
        text.remove()
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    figure.set_figheight(figure.get_figheight() * engine.get()["rect"][3])
    engine.set(rect=(0, 0, 1, 1))
    return " ".join(parts)


def share_label(panels: Sequence[Axes]) -> None:
    """Places the label that all panels share once: in the middle of panels side by side, and below
    the last of panels one below another.
    """
    labels = {axes.get_xlabel() for axes in panels}
    if len(panels) < 2 or len(labels) > 1:
        return
    if panels[0].get_gridspec().ncols == 1:
        for axes in panels[:-1]:
            axes.set_xlabel("")
        return
    for axes in panels:
        axes.set_xlabel(" ")  # keeps its space
    middle = panels[(len(panels) - 1) // 2]
    x = 1.1 if len(panels) % 2 == 0 else 0.5
    middle.set_xlabel(labels.pop(), x=x).set_in_layout(False)


def legend_above(figure: Figure, panels: Sequence[Axes], columns: int = 4, last: str = "") -> None:
    """One legend for all panels, above them; labels that begin with `last` come last."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    labels = sorted(entries, key=lambda label: bool(last) and label.startswith(last))
    handles = [entries[label] for label in labels]
    legend(figure, handles, labels, columns)


def legend_below(axes: Axes) -> None:
    """A panel's own legend."""
    entries = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    widest = 0.5 + max(map(len, entries), default=0) / CHARACTERS_PER_INCH
    room = axes.get_figure().get_figwidth() / axes.get_gridspec().ncols
    columns = max(1, int(room / widest))
    below = ScaledTranslation(0, -0.45, axes.get_figure().dpi_scale_trans)  # inches
    look = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "fontsize": 7}
    look |= {"bbox_transform": axes.transAxes + below}
    axes.legend(entries.values(), entries.keys(), ncols=columns, **look)


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], columns: int) -> None:
    """A legend above all panels; in a narrow figure with as many columns as fit."""
    if is_narrow(figure):
        widest = 0.5 + max(map(len, labels), default=0) / CHARACTERS_PER_INCH * 1.2
        columns = max(1, int(figure.get_figwidth() / widest))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def annotate_empty(axes: Axes, text: str, height: float = 0.5) -> None:
    """Writes why the axes are empty, at a fraction of their height."""
    place = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, height, text, color=GREY, backgroundcolor="white", **place)


def grid_of(figure: Figure, rows: int, columns: int, **shared: Any) -> list[list[Axes]]:
    """Panels by row and column; transposed in a narrow figure."""
    if not is_narrow(figure):
        return figure.subplots(rows, columns, squeeze=False, **shared).tolist()
    transposed = {"sharex": shared.get("sharex", False), "sharey": shared.get("sharey", False)}
    swap = {"row": "col", "col": "row"}
    transposed = {name: swap.get(value, value) for name, value in transposed.items()}
    return figure.subplots(columns, rows, squeeze=False, **transposed).T.tolist()


def logarithmic(
    axis: Axis, ticks: Sequence[float], label: str, text: Callable[[float], str] = "{:g}".format
) -> None:
    """Ticks only at `ticks`; the label, if the axis has one, says that it is logarithmic."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    if is_narrow(axis.axes.figure) and axis.axis_name == "x":
        ticks = ticks[:: 1 + len(ticks) * axis.axes.get_gridspec().ncols // 8]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: text(value))
    axis.set_label_text(f"{label}, logarithmic" if label else "")


def kernel_rows(axes: Axes, labels: Sequence[str]) -> None:
    """One kernel per row, the first at the top; long names are broken in a narrow figure."""
    size = {"fontsize": 6} if len(labels) > MANY_ROWS else {}
    if is_narrow(axes.figure) and not size:
        size = {"fontsize": 7}
        labels = ["\n".join(broken(label)) for label in labels]
    axes.set_yticks(range(len(labels)), labels, **size)
    axes.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def broken(label: str) -> list[str]:
    """Lines of a name, which may end after its underscores, and of the text below it."""
    parts = [re.sub(r"_", "_ ", line) for line in label.split("\n")]
    lines = [wrapped for part in parts for wrapped in textwrap.wrap(part, NARROW_NAME)]
    return [line.replace("_ ", "_") for line in lines]


def mark(axes: Axes, points: Iterable[tuple[float, float]], which: int = 0, **look: Any) -> None:
    """Published values: markers without a line; `which` distinguishes several sets of them."""
    style = PUBLISHED | {"linestyle": "none", "marker": PUBLISHED_MARKERS[which], "zorder": 5}
    if points := list(points):
        axes.plot(*zip(*points, strict=True), **style | look)


def whiskers(
    axes: Axes, points: Iterable[tuple[float, Estimate | None]], upright: bool = True, **look: Any
) -> None:
    """Values with their intervals, each at its place on the other axis; None is left out."""
    shown = [(at, e) for at, e in points if e is not None]
    if not shown:
        return
    at, values = [at for at, _ in shown], [e.value for _, e in shown]
    ends = [[e.value - e.low for _, e in shown], [e.high - e.value for _, e in shown]]
    if upright:
        axes.errorbar(at, values, yerr=ends, **look)
    else:
        axes.errorbar(values, at, xerr=ends, **look)


def explain(axes: Axes, label: str, **look: Any) -> None:
    """A line in the legend for what is drawn in several kernels' colours."""
    axes.plot([], [], **{"color": BLACK, "linestyle": "none", "label": label} | look)


def write_right(axes: Axes, row: float, text: str) -> None:
    """A value at the right of a row, outside of the axes."""
    place = {"xycoords": ("axes fraction", "data"), "va": "center"}
    axes.annotate(text, (1.02, row), fontsize=7, color="#333333", **place)


def encode(figure: Figure, kind: str) -> bytes:
    """The figure as a file of this format; to be called within `figure_style`."""
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=DPI, metadata=METADATA[kind])
    return out.getvalue()

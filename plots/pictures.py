"""The pictures of README and other pages, drawn from the recorded runs: those of experiments, and
README's first, which says where the time goes, who was first, and which elements are wrong.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.dates as dates
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from plots import style
from reprolab.json_files import ROOT, read_json, read_text

FOLDER = ROOT / "docs/figures"
SHOWN = {
    "table2": "speedup",
    "counters": "stalls",
    "end_to_end": "figure4",
    "puzzle": "seconds",
    "transpose": "kernels",
    "product": "rows",
    "reductions": "overhead",
}

STEPS = {
    "branch_tree": "tree of branches, as in\nbitsandbytes 0.47 (the baseline)",
    "equal": "the same tree without divergence\n(all codes equal)",
    "global_lut": "a table in global memory\ninstead of the tree",
    "shared_lut": "the paper's kernel:\nthe table in shared memory",
    "copy": "limit: a copy of\nas many bytes",
}
SHADES = {"H100": 1.0, "H200": 0.55}
TILE = 32
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # over lines


def pictures(rows: pd.DataFrame) -> dict[Path, Figure]:
    """By their files; `rows` is the prepared frame of all recorded GPUs."""
    drawn = {FOLDER / "first.svg": first(rows)}
    for experiment, name in SHOWN.items():
        drawn[FOLDER / f"{experiment}.svg"] = style.figures(experiment, rows, name)[name]
    return drawn


def is_current(path: Path, figure: Figure) -> bool:
    """Whether the file shows the same data; versions of libraries may draw them otherwise."""
    return path.exists() and f"data {style.digest(figure)}" in read_text(path)


def first(rows: pd.DataFrame) -> Figure:
    """Where the time of one layer goes on both GPUs; what bitsandbytes had when; and which
    elements of a tile the published transpose gets wrong."""
    figure, grid = style.panels(3, 3.3, gridspec_kw={"width_ratios": (1.75, 1.6, 1)})
    steps(grid[0][0], rows)
    history(grid[0][1], rows[rows.experiment == "bitsandbytes"])
    grid[0][1].set_title("2. bitsandbytes had a table before", loc="left")
    tile(grid[0][2], rows[rows.experiment == "transpose"])
    return figure


def steps(axes: Axes, rows: pd.DataFrame) -> None:
    """Bars per step and GPU; the bracket is divergence's part of what the table saves."""
    gpus = style.by_gpu(rows)
    height, shares, ends = 0.8 / len(gpus), [], []
    for i, (gpu, own) in enumerate(gpus):
        codes = own[own.experiment == "counters"]
        layer = style.largest(style.times(codes, "divergence"))
        shapes = own[own.experiment == "table2"]
        drawn = style.times(shapes, "shapes", layer.split("/equal")[0])["median"]
        tree, same = (style.times(codes, "divergence", p) for p in (layer, f"{layer}/equal"))
        means, equal = tree.geometric_mean, same["median"]["branch_tree"]
        saved = means["branch_tree"] - means["shared_lut"]
        shares.append((means["branch_tree"] - same.geometric_mean["branch_tree"]) / saved)
        ends.append((equal, tree["median"]["branch_tree"]))
        for row, (kernel, _) in enumerate(STEPS.items()):
            us = equal if kernel == "equal" else drawn[kernel]
            colour = style.COLOURS.get(kernel, style.BASE)
            y = row + (i - (len(gpus) - 1) / 2) * height
            axes.barh(y, us, height * 0.9, color=colour, alpha=SHADES.get(gpu, 0.75))
            axes.text(us + 8, y, f"{us:.0f}", va="center", fontsize=6.5)
            if row == 0:
                on_bar = "white" if SHADES.get(gpu) == 1 else "black"
                axes.text(8, y, gpu, va="center", fontsize=6.5, color=on_bar, weight="bold")
    left, right = (sum(values) / len(values) for values in zip(*ends, strict=True))
    bracket = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": style.RED}
    axes.annotate("", (left, 1.62), (right, 1.62), arrowprops=bracket)
    parts = " and ".join(f"{share:.0%}" for share in shares)
    text = f"divergence:\n{parts} of\nthe time saved"
    axes.text(left + 8, 1.72, text, color=style.RED, fontsize=7, va="top")
    style.rows_of_bars(axes, list(STEPS.values()))
    axes.tick_params(axis="y", labelsize=6.5)
    axes.set_xlim(0, 620)
    axes.set_xlabel("time of one layer, 28672x8192 (µs)")
    axes.set_title("1. The gain is real, and mostly divergence", loc="left")


def setup(source: str) -> dict[str, Any]:
    return read_json(ROOT / f"data/published/{source}.json")["setup"]


def releases(rows: pd.DataFrame) -> Iterator[tuple[str, np.datetime64, float]]:
    """Version, date and time of the largest layer, of each library that ran."""
    timed = style.times(rows, "layers")
    own = timed[timed.problem == style.largest(timed)]
    for version, day in setup("bitsandbytes")["releases"].items():
        for us in own[own.maker == f"bitsandbytes {version}"]["median"]:
            yield version, np.datetime64(day), us


def history(axes: Axes, rows: pd.DataFrame) -> None:
    """A release is the library until the next one."""
    paper = np.datetime64(setup("paper")["date"])
    merged = np.datetime64(setup("bitsandbytes")["dates"]["1746"].partition("merged ")[2][:10])
    for gpu, own in style.by_gpu(rows):
        found = list(releases(own))
        days = [day for _, day, _ in found] + [np.datetime64("2026-11-29")]
        us = [time for *_, time in found]
        look = {"color": style.LIBRARY, "alpha": SHADES.get(gpu, 0.75)}
        steps = look | {"where": "post", "label": gpu, "linewidth": 1.6}
        axes.step(days, [*us, us[-1] if us else np.nan], **steps)
        axes.plot(days[:-1], us, "o", **look)
        timed = style.times(own, "layers")
        kernel = timed[timed.problem == style.largest(timed)].set_index("kernel")["median"]
        axes.plot([paper], [kernel.get("shared_lut")], "*", color=style.THEIRS, markersize=8)
    for version, day, time in found:
        look = {"textcoords": "offset points", "fontsize": 6.5, "bbox": WHITE}
        axes.annotate(version, (day, time), (3, 5) if time > 400 else (2, -18), **look)
    for day, text, up in (
        (merged, "table\nmerged", 0.27),
        (paper, "the paper's\nkernel (star)", 0.72),
    ):
        axes.axvline(day, color=style.RED, linewidth=0.9, linestyle="--")
        look = {"color": style.RED, "fontsize": 7, "va": "top"}
        place = {"x": day + np.timedelta64(6, "D"), "transform": axes.get_xaxis_transform()}
        axes.text(y=up, s=text, **place, **look)
    axes.xaxis.set_major_locator(dates.MonthLocator((1, 7)))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%Y-%m"))
    axes.set_ylim(0, 620)
    axes.set_ylabel("time of the same layer (µs)")
    axes.legend(loc="lower right", fontsize=6.5)


def right_in_tile() -> np.ndarray:
    """Which elements of a tile are right, by the published indices as they stand in
    kernels/transpose/tiles.hpp: 128 threads with the rows of 1024, and j only in the swizzle."""

    def swizzled(row: int, column: int) -> int:
        return ((column // 4 % 8) ^ (row + column // TILE)) % 8 * 4 + column % 4

    read = np.zeros(TILE * TILE, int)
    for j in range(8):
        for thread in range(128):
            row, column = divmod(thread, TILE)
            stored = column * TILE + swizzled(column + j, row)
            read[stored] = row * TILE + swizzled(row, column + j)
    return np.array(
        [
            [read[r * TILE + swizzled(r, c)] == c * TILE + swizzled(c, r) for c in range(TILE)]
            for r in range(TILE)
        ]
    )


def tile(axes: Axes, rows: pd.DataFrame) -> None:
    wrong = rows[rows.kernel.str.endswith("tma_batched_as_published") & rows.mismatches.notna()]
    axes.imshow(right_in_tile(), cmap=ListedColormap(["#e8b7b0", style.THEIRS]), vmin=0, vmax=1)
    axes.set_xticks(np.arange(-0.5, TILE, 4), range(0, TILE + 1, 4), fontsize=6)
    axes.set_yticks(np.arange(-0.5, TILE, 4), range(0, TILE + 1, 4), fontsize=6)
    axes.grid(color="white", linewidth=0.5)
    axes.set_xlabel("element of an output tile")
    share = (wrong.mismatches / wrong.problem_n).astype(float)
    if len(wrong):
        look = {"ha": "center", "va": "center"}
        axes.text(17.5, 15.5, f"{share.iloc[0]:.1%}\nwrong", fontsize=11, color=style.RED, **look)
        axes.text(1.6, 15.5, "right", rotation=90, color="white", fontsize=8, **look)
    axes.set_title("3. A published\ntranspose's output", loc="left")

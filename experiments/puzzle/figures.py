"""The figure of the puzzle: seconds of three MLPs, as the post times them and by graphs."""

import pandas as pd
from matplotlib.figure import Figure

from plots import style
from reprolab.json_files import ROOT, read_json

SHOWN = (
    "bitsandbytes_0.47.0",
    "branch_tree",
    "bitsandbytes_0.50.2",
    "shared_lut",
    "mojo_packed_512_store_each",
    "mojo_packed_512",
    "global_lut",
    "triton_lut",
    "streaming",
    "copy",
)


def seconds(rows: pd.DataFrame) -> Figure:
    """Three MLPs, 1000 times: dequantization timed by the host's clock, and by graphs (lines)."""
    own = rows[(rows["pass"] == "mlps") & rows.kernel.isin(SHOWN) & ~rows.older_code.astype(bool)]
    published = read_json(ROOT / "data/published/modular_blog.json")["tables"]["results"]
    gpus = style.by_gpu(own[own.metric == "wall_time"])
    figure, grid = style.panels(
        1 + len(gpus), 3.0, gridspec_kw={"width_ratios": (0.7, *(1 for _ in gpus))}
    )
    first = grid[0][0]
    for i, values in enumerate(published.values()):
        for place, what, text, colour in (
            (i - 0.18, "unsloth_s", "Unsloth", style.LIBRARY),
            (i + 0.18, "mojo_s", "Mojo", style.THEIRS),
        ):
            look = {"height": 0.34, "color": colour, "label": f"published: {text}"}
            style.bar(first, place, values[what], f"{values[what]:.2f}", **look)
    style.rows_of_bars(first, list(published), 8)
    first.set_title("The post's GPUs", loc="left")
    first.set_xlabel("seconds, as published")
    first.set_xlim(0, 5)
    for axes, (gpu, timed) in zip(grid[0][1:], gpus, strict=True):
        wall = timed.set_index("kernel")["median"] / 1e6
        graphs = own[(own.metric == "kernel_time") & (own.gpu == timed.gpu.iloc[0])]
        graphs = graphs.set_index("kernel")["median"] / 1e6
        names = sorted(wall.index, key=lambda kernel: -wall[kernel])
        for i, kernel in enumerate(names):
            colour = style.OTHER if kernel == "shared_lut" else style.colour(kernel)
            style.bar(axes, i, wall[kernel], f"{wall[kernel]:.3f}", color=colour)
            look = {"color": style.RED, "label": "timed in a CUDA graph"}
            axes.plot([graphs[kernel]] * 2, [i - 0.35, i + 0.35], **look)
        style.rows_of_bars(axes, [style.label(kernel) for kernel in names], 6)
        axes.set_title(gpu, loc="left")
        axes.set_xlabel("seconds, timed as published")
        axes.set_xlim(0, 1.25 * max(wall))
    style.legend(figure)
    return figure


FIGURES = {"seconds": ("mlps", seconds)}

"""The figure of products: time by the number of rows, of each backend of 4-bit matmuls."""

import pandas as pd
from matplotlib.figure import Figure

from plots import style

SHOWN = {
    "few_rows": ("few rows (ours)", style.OURS),
    "many_rows": ("many rows (ours)", "#d0a215"),
    "few_rows_exact": ("few rows, exact (ours)", "#e3b08f"),
    "bitsandbytes_0.50.2_gemm": ("bitsandbytes 0.50, fused (used to 64 rows)", style.LIBRARY),
    "shared_lut_then_cublas": ("the paper's kernel, then cuBLAS", style.THEIRS),
    "streaming_then_cublas": ("streaming, then cuBLAS (ours)", "#882255"),
    "cublas_16bit": ("cuBLAS on 16-bit weights: not 4-bit", style.LIMIT),
}


def by_rows(rows: pd.DataFrame) -> Figure:
    """Time of a product with the largest layer by the number of rows of activations."""
    timed = style.times(rows, "layers")
    weights = timed["rows"] * timed["columns"]
    timed = timed[weights == weights.max()]
    figure, panels = style.panels_by_gpu(timed, 3.3, sharey=True)
    for axes, own in panels:
        layer = own.problem.str.partition("x")[2].iloc[0]
        own = own[own.problem.str.partition("x")[2] == layer]
        for kernel, (text, colour) in SHOWN.items():
            of = own[own.kernel == kernel].sort_values("batch")
            line = "--" if kernel == "cublas_16bit" else "-"
            look = {"marker": "o", "markersize": 3, "color": colour, "label": text}
            axes.plot(of.batch.astype(float), of["median"], line, **look)
        style.logarithmic(axes.xaxis, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
        style.logarithmic(axes.yaxis, (50, 100, 200, 500, 1000, 2000, 5000))
        axes.set_title(f"{axes.get_title('left')}, {layer.partition('/')[0]}", loc="left")
        axes.set_xlabel("rows of activations, logarithmic")
    figure.axes[0].set_ylabel("time of one product (µs), logarithmic")
    style.legend(figure)
    return figure


FIGURES = {"rows": ("layers", by_rows)}

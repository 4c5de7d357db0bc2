"""The figure of streaming: each layer of the models, against the copy."""

import pandas as pd
from matplotlib.figure import Figure

from plots import style

KERNELS = ("branch_tree", "shared_lut", "bitsandbytes_0.50.2", "streaming")


def layers(rows: pd.DataFrame) -> Figure:
    """Bandwidth over that of a copy of as many bytes, by the number of weights."""
    figure, panels = style.panels_by_gpu(style.times(rows, "layers"), 3.0, sharey=True)
    for axes, own in panels:
        for kernel, colour in style.colours(KERNELS).items():
            of = own[own.kernel == kernel].sort_values("problem_n")
            text = style.label(kernel)
            axes.plot(of.problem_n / 1e6, 100 * of.of_copy, "o", color=colour, label=text)
        axes.axhline(100, color=style.LIMIT, linewidth=1)
        style.logarithmic(axes.xaxis, (3, 10, 30, 100, 300))
        axes.set_xlabel("million weights of the layer, logarithmic")
    figure.axes[0].set_ylim(bottom=0)
    figure.axes[0].set_ylabel("percent of the copy's bandwidth")
    style.legend(figure)
    return figure


FIGURES = {"layers": ("layers", layers)}

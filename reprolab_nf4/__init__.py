"""Replaces an installed bitsandbytes' dequantization and matmuls of NF4 weights: docs/drop-in.md.

    import reprolab_nf4
    reprolab_nf4.install()

Needs nothing but the standard library; install() imports bitsandbytes, which imports torch.
"""

from os import PathLike

from reprolab_nf4 import timing_table
from reprolab_nf4.c_functions import DropinError
from reprolab_nf4.installation import PRODUCTS, Installed, install
from reprolab_nf4.library import BUILT, Library
from reprolab_nf4.native import measuring_module

__all__ = ["BUILT", "PRODUCTS", "DropinError", "Installed", "Library", "install"]


def advise(model, batch: int = 2) -> str:
    """The gain of install() for a model with layers in NF4, on one GPU or several, as text.

    Measures the quantized matmuls of one decoding step of `batch` sequences and of their prompts:
    with the installed bitsandbytes, and as install() computes them. Takes seconds. Raises
    DropinError if there is nothing to measure, or a library is installed.
    """
    measuring = measuring_module()
    gpu = measuring.Gpu()
    return measuring.advise(gpu, type(model).__name__, measuring.layers_of(gpu, model), batch)


def tune(model, table: str | PathLike) -> None:
    """Measures the backends of a matmul on this GPU, for each shape of a loaded model's layers in
    NF4 and 1 to 512 rows, and writes their times to a file for install(table=...). Takes seconds
    per shape. Raises DropinError as advise() does.
    """
    measuring = measuring_module()
    gpu, place = measuring.Gpu(), timing_table.writable(table)
    shapes = dict.fromkeys(map(measuring.shape_of, measuring.layers_of(gpu, model)))
    timing_table.write(place, measuring.tune(gpu, list(shapes)))

"""Replaces an installed bitsandbytes' dequantization and matmuls of NF4 weights: docs/drop-in.md.

    import reprolab_nf4
    reprolab_nf4.install()

Needs nothing but the standard library; install() imports bitsandbytes, which imports torch.
"""

import importlib
import re
from os import PathLike
from pathlib import Path

from reprolab_nf4 import timing_table
from reprolab_nf4.c_functions import DropinError, NoCodeError, shown
from reprolab_nf4.installation import PRODUCTS, Installed, install
from reprolab_nf4.library import BUILT, Library
from reprolab_nf4.machine import needs_code
from reprolab_nf4.native import measuring_module

__all__ = ["BUILT", "PRODUCTS", "DropinError", "Installed", "Library", "NoCodeError", "install"]


def __getattr__(name: str) -> str:
    """__version__, read on demand: of the checkout, or of the installed package."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    sources = Path(__file__).resolve().parents[1] / "CMakeLists.txt"
    if sources.is_file():
        version = re.search(rb"project\(reprolab VERSION ([0-9.]+)", sources.read_bytes())
        if version:
            return version[1].decode()
    metadata = importlib.import_module("importlib.metadata")
    try:
        return metadata.version("reprolab-nf4")
    except metadata.PackageNotFoundError as error:  # neither of the two
        raise AttributeError(f"module {__name__!r} has no version: {error}") from None


@needs_code()
def advise(model, batch: int = 2) -> str:
    """The gain of install() for a model with layers in NF4, on one GPU or several, as text.

    Measures the quantized matmuls of one decoding step of `batch` sequences and of their prompts:
    with the installed bitsandbytes, and as install() computes them. Takes a minute, and the memory
    of a few more layers. Raises DropinError if there is nothing to measure, or a library is
    installed.
    """
    if type(batch) is not int or batch < 1:
        wanted = "give a number of sequences, 1 at least"
        raise DropinError(f"batch: {wanted}, not {shown(batch)}")
    measuring = measuring_module()
    gpu = measuring.Gpu()
    layers = measuring.layers_of(gpu, model)
    counts = {shape: len(weights) for shape, weights in layers.items()}
    weights_of = lambda shape: measuring.weights_in(gpu, shape, layers[shape])  # noqa: E731
    return measuring.advise(gpu, type(model).__name__, counts, weights_of, batch)


@needs_code()
def tune(model, table: str | PathLike) -> None:
    """Measures the backends of a matmul on this GPU for a loaded model's layers in NF4, at 1 to 512
    rows, and writes their times to a file for install(table=...). Takes seconds per distinct shape
    of a layer. Raises DropinError as advise() does.
    """
    measuring = measuring_module()
    gpu, place = measuring.Gpu(), timing_table.writable(table)
    layers = measuring.layers_of(gpu, model)
    weights_of = lambda shape: measuring.weights_in(gpu, shape, layers[shape])  # noqa: E731
    timing_table.write(place, measuring.tune(gpu, list(layers), weights_of))

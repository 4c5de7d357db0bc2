"""The matmuls of the newest installed Unsloth, with bitsandbytes' and ours, all with
bitsandbytes' codes.
"""

from dataclasses import replace
from functools import partial

import torch

from experiments import unsloth_peer
from experiments.end_to_end.rows import Facts
from experiments.product.layers import EXACT, Held, Layer, Way, in_own_format, peer
from reprolab.errors import InputError
from reprolab_nf4.quantized import linear

LINEAGE = "fast_linear_forward: one row by its GEMV, more in the way that it chooses for the GPU"
OFF = "its own kernels for NF4 are off, or do not compile"


def versions() -> dict[str, str]:
    return {unsloth_peer.NAME: version} if (version := newest()) else {}


def newest() -> str:
    """Empty if none is installed."""
    return (unsloth_peer.versions() or [""])[-1]


def ways(gpu: Facts) -> list[Way]:
    """bitsandbytes first: the others are measured for as long as it needs."""
    version = newest()
    described = peer(unsloth_peer.NAME, f"Unsloth {version}", LINEAGE, EXACT)
    own = Way(described, partial(decoding, version), install=unsloth_peer.INSTALL)
    return [*in_own_format(gpu), own]


def decoding(version: str, layer: Layer) -> Held:
    """As its models decode: each row of activations is a sequence of one token."""
    kernels = unsloth_peer.kernels(version)

    def multiply(own: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        product = kernels.fast_linear_forward(own, x[:, None])[:, 0]
        if not unsloth_peer.own_kernels_run(kernels):
            raise InputError(OFF)
        return product

    made = [linear(*copy, torch.float16).eval() for copy in layer.quantized]
    return replace(layer.nf4, products=[partial(multiply, own) for own in made])

"""Makes weights and layers in NF4 by bitsandbytes. Needs torch and bitsandbytes."""

from typing import Any

import bitsandbytes
import torch
from bitsandbytes import functional


def nf4(weight: torch.Tensor, block_size: int, nested: bool = False) -> tuple[torch.Tensor, Any]:
    """Codes and bitsandbytes' quantization state."""
    how = {"blocksize": block_size, "compress_statistics": nested, "quant_type": "nf4"}
    return functional.quantize_4bit(weight, **how)


def linear(codes: torch.Tensor, state: Any, compute: torch.dtype) -> torch.nn.Module:
    """bitsandbytes' layer for quantized weights."""
    n, k = state.shape
    how = {"compress_statistics": state.nested, "quant_type": "nf4"}
    layer = bitsandbytes.nn.Linear4bit(
        k, n, bias=False, compute_dtype=compute, device="meta", **how
    )
    how |= {"quant_state": state, "blocksize": state.blocksize, "bnb_quantized": True}
    layer.weight = bitsandbytes.nn.Params4bit(codes, requires_grad=False, module=layer, **how)
    layer.quant_state = state
    return layer

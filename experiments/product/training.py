"""A step of QLoRA's training in one layer, with PEFT's own code: forward, and backward to the
activations and the adapters. bitsandbytes dequantizes in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from experiments.end_to_end import SEED
from experiments.end_to_end.rows import Facts, Row
from experiments.product import layers
from experiments.product.layers import INSTALL, JUDGED, Held, Layer, Way
from reprolab_nf4.bounds import Wrong, interval
from reprolab_nf4.quantized import linear

PACKAGE = "peft"
RANK = 16  # of the adapters, as in PEFT's guide to quantization
BOUND = (
    f"{JUDGED}the exact NF4 weights, outputs and the activations' gradients; and these and the "
    "adapters' gradients are the same bits in all rows and times"
)


@dataclass(frozen=True)
class Step:
    """`layer`: one of PEFT; `arriving`: the gradients of its outputs, for the first rows."""

    layer: nn.Module
    arriving: torch.Tensor

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs, then the gradients of the activations and of the adapters."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            output = self.layer(x)
            asked = [x, *(p for p in self.layer.parameters() if p.requires_grad)]
            gradients = torch.autograd.grad(output, asked, self.arriving[: len(x)])
        return (output.detach(), *gradients)


def steps(layer: Layer) -> Held:
    """With new adapters, whose product is 0 before training."""
    chance = torch.Generator(layer.gpu.device).manual_seed(SEED)
    size = (layer.max_rows, layer.n)
    arriving = torch.randn(size, generator=chance, device=layer.gpu.device).half()
    made = [Step(adapted(*copy), arriving) for copy in layer.quantized]
    weights = layer.exact.T
    backward = interval(arriving, weights, weights.abs())

    def check(tensors: Sequence[torch.Tensor], first: int) -> None:
        layer.nf4.check(tensors[0], first)
        backward.check(tensors[1], 0)
        key = (first, len(tensors[0]))
        seen = layer.seen.setdefault(key, [tensor.clone() for tensor in tensors])
        for tensor, other in zip(tensors, seen, strict=True):
            if count := int((bits(tensor) != bits(other)).sum()):
                numbers = " x ".join(map(str, tensor.shape))
                raise Wrong(count, f"{count} of {numbers} outputs or gradients are other bits")

    return Held(made, check, layer.nf4.bytes)


def adapted(codes: torch.Tensor, state: Any) -> nn.Module:
    from peft import LoraConfig, inject_adapter_in_model

    holder = nn.Module()
    holder.layer = linear(codes, state, torch.float16)
    torch.manual_seed(SEED)
    inject_adapter_in_model(LoraConfig(r=RANK, target_modules=["layer"]), holder)
    return holder.layer


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


def versions() -> dict[str, str]:
    return layers.versions([PACKAGE])


def ways(gpu: Facts) -> list[Way]:
    """bitsandbytes first: the others must give its bits."""
    rows = (Row("", "installed"), Row("streaming"))
    fields = [row.described(gpu) | {"deviation": None, "bound": BOUND} for row in rows]
    return [
        Way(described, steps, row.in_place, f"{INSTALL} {PACKAGE}")
        for row, described in zip(rows, fields, strict=True)
    ]

"""Subjects of the measurement under torch: a layer, and the backends of its matmul, each with
the weights in its own format. Needs torch and bitsandbytes; other libraries are optional.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import bitsandbytes
import torch

from experiments.end_to_end import SEED, build, reference
from experiments.end_to_end.rows import Facts, Row
from experiments.end_to_end.sizes import BLOCK_SIZE
from reprolab_nf4 import measuring
from reprolab_nf4.bounds import Wrong, activations, interval
from reprolab_nf4.checkpoint import Shape

PACKAGES = ("humming-kernels", "gemlite")
INSTALL = '"$(cat build/end_to_end/python)" -m pip install'
JUDGED = "rounds to 16 bits up to four times, adds in fp32; judged by the fp64 product of "
EXACT = f"{JUDGED}the exact NF4 weights"
INT4_STEPS = 7  # from 0 to the largest weight of a group, at least


@dataclass(frozen=True)
class Held:
    """A layer in a backend's format. `products`: the matmul of each copy; `check`: raises Wrong if
    outputs are not those of the rows of Layer.x from a given row on; `bytes`: codes and scales of
    one copy.
    """

    products: Sequence[Callable[[torch.Tensor], Any]]
    check: Callable[[Any, int], None]
    bytes: int


@dataclass(frozen=True)
class Layer:
    """Random fp16 weights, in enough copies that each has left the cache before its next use."""

    gpu: Any
    n: int
    k: int
    max_rows: int

    @cached_property
    def x(self) -> torch.Tensor:
        return activations(self.max_rows, self.k, self.gpu.device)

    @property
    def copies(self) -> int:
        shape = Shape(self.n, self.k, BLOCK_SIZE, False, "float16")
        return measuring.copies_needed(self.gpu, shape)

    @cached_property
    def weight(self) -> torch.Tensor:
        chance = torch.Generator(self.gpu.device).manual_seed(SEED)
        empty = torch.empty((self.n, self.k), dtype=torch.float16, device=self.gpu.device)
        return empty.normal_(0, build.SCALE, generator=chance)

    @cached_property
    def quantized(self) -> Sequence[tuple[torch.Tensor, Any]]:
        """Codes and bitsandbytes' state of each copy."""
        return [build.nf4(self.weight, BLOCK_SIZE) for _ in range(self.copies)]

    @property
    def exact(self) -> torch.Tensor:
        """The weights in NF4, in fp32."""
        return reference.weights(*self.quantized[0], torch.float32).to(self.gpu.device)

    @cached_property
    def nf4(self) -> Held:
        size = self.n * self.k // 2 + 4 * self.n * self.k // BLOCK_SIZE
        products = [partial(multiply_4bit, *copy) for copy in self.quantized]
        weights = self.exact
        return Held(products, interval(self.x, weights, weights.abs()).check, size)


def multiply_4bit(codes: torch.Tensor, state: Any, x: torch.Tensor) -> torch.Tensor:
    """By bitsandbytes' matmul_4bit at the time of the call."""
    return bitsandbytes.matmul_4bit(x, codes.t(), quant_state=state)


def in_nf4(row: Row, gpu: Facts, layer: Layer) -> Held:
    row.require(gpu)
    return layer.nf4


def in_16_bits(layer: Layer) -> Held:
    made = [layer.weight.clone() for _ in range(layer.copies)]
    products = [partial(torch.nn.functional.linear, weight=weight) for weight in made]
    weights = layer.weight.float()
    return Held(products, interval(layer.x, weights, weights.abs()).check, layer.weight.nbytes)


def humming(group: int, layer: Layer) -> Held:
    from humming.layer import HummingLayer

    made = []
    for _ in range(layer.copies):
        config = {"dtype": "int4", "group_size": group}
        sizes = {"shape_n": layer.n, "shape_k": layer.k}
        own = HummingLayer(**sizes, weight_config=config, torch_dtype=torch.float16)
        own = own.to(layer.gpu.device)
        own.load_from_unquantized(layer.weight)
        made.append(own)
    weights = made[0].weight_schema.dequant_tensors(made[0].state_dict()).float()
    check_int4(weights, layer.weight, group)
    for own in made:
        own.transform()
    size = layer.n * layer.k // 2 + 2 * layer.n * layer.k // group
    return Held(made, interval(layer.x, weights, weights.abs()).check, size)


def gemlite(group: int, layer: Layer) -> Held:
    from gemlite import DType, GemLiteLinear

    codes, scales, zeros = int4(layer.weight, group)
    made = []
    for _ in range(layer.copies):
        sizes = {"in_features": layer.k, "out_features": layer.n}
        types = {"input_dtype": DType.FP16, "output_dtype": DType.FP16}
        own = GemLiteLinear(4, group_size=group, **sizes, **types)
        own.pack(codes, scales, zeros, bias=None)
        made.append(own)
    # gemlite adds two numbers, each rounded: code * scale and zero * scale.
    added, taken = codes.float().view(layer.n, -1, group), zeros[..., None].float()
    weights, magnitudes = (
        ((added + sign * taken) * scales[..., None].float()).view(layer.n, layer.k)
        for sign in (-1, 1)
    )
    check_int4(weights, layer.weight, group)
    size = layer.n * layer.k // 2 + 4 * layer.n * layer.k // group
    return Held(made, interval(layer.x, weights, magnitudes).check, size)


def int4(weight: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes [n, k] in uint8, scales and zeros [n, k / group] in fp16; a weight is (code - zero) *
    scale, from the least of its group to the greatest.
    """
    groups = weight.float().view(weight.shape[0], -1, group)
    least, greatest = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
    scales = ((greatest - least) / 15).clamp(min=2.0**-14).half()
    zeros = (-least / scales).round()
    codes = (groups / scales[..., None].float()).round() + zeros[..., None]
    return codes.clamp(0, 15).to(torch.uint8).view(weight.shape), scales, zeros.half()


def check_int4(held: torch.Tensor, weight: torch.Tensor, group: int) -> None:
    """Each weight may be off by one step: a library may have no code for the extreme of a group."""
    groups = weight.float().view(-1, group)
    step = groups.abs().amax(1, keepdim=True) / INT4_STEPS
    if count := int((~((held.view(-1, group) - groups).abs() <= step)).sum()):
        raise Wrong(count, f"{count} of {held.numel()} weights are held wrong by more than a step")


@dataclass(frozen=True)
class Backend:
    """`described`: the row's fields in a result file; `hold`: prepares the layer for it; `install`:
    the command for the package that it needs in addition to torch and bitsandbytes.
    """

    described: dict[str, Any]
    hold: Callable[[Layer], Held]
    in_place: Callable[[], AbstractContextManager] = nullcontext
    install: str = ""

    @property
    def name(self) -> str:
        return self.described["kernel"]


def in_own_format(gpu: Facts) -> list[Backend]:
    """The backends that multiply by bitsandbytes' codes."""
    rows = (Row("", "installed"), Row("fused", "fused"), Row("fused_exact", "fused"))
    exact = {"bound": EXACT}
    return [
        Backend(row.described(gpu) | exact, partial(in_nf4, row, gpu), row.in_place) for row in rows
    ]


def backends(gpu: Facts) -> list[Backend]:
    """bitsandbytes first: the others are measured for as long as it needs."""
    compared = in_own_format(gpu)
    for package, hold, group in (
        (PACKAGES[0], humming, 64),
        (PACKAGES[0], humming, 128),
        (PACKAGES[1], gemlite, 64),
    ):
        lineage = f"int4 in groups of {group}, repacked once: not NF4"
        name = f"{hold.__name__}_int4_g{group}"
        judged = f"{JUDGED}the int4 weights that it holds, each within a step of the layer's"
        described = peer(name, f"{package} {installed(package)}", lineage, judged)
        how = f"{INSTALL} {package}"
        compared.append(Backend(described, partial(hold, group), install=how))
    torch_version = f"PyTorch {torch.__version__}"
    judged = f"{JUDGED}the 16-bit weights"
    described = peer("torch_16bit", torch_version, "cuBLAS on 16-bit weights: not 4-bit", judged)
    return [*compared, Backend(described, in_16_bits)]


def peer(name: str, maker: str, lineage: str, bound: str) -> dict[str, Any]:
    origin = {"kind": "peer", "maker": maker.strip()}
    row = {"kernel": name, "origin": origin, "lineage": lineage, "bound": bound}
    return row | {"source_file": "", "deviation": None, "code": None}


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Versions of the installed packages."""
    return {name: number for name in packages if (number := installed(name))}


def installed(package: str) -> str:
    """The package's version; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

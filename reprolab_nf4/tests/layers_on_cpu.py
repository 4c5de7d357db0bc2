"""bitsandbytes' layers on the CPU in place of a GPU, with products that a table chooses."""

from pathlib import Path

import pytest
import stand_in_product
from bitsandbytes_on_cpu import bitsandbytes, torch

from reprolab_nf4 import generate
from reprolab_nf4.timing_table import DEQUANTIZE, OWN, Layer, Table

OWN_PRODUCT = bitsandbytes.matmul_4bit
N, K = 64, 128
TIMES = {
    8: {"few_rows": 1.0},
    16: {OWN: 1.0},
    32: {DEQUANTIZE: 1.0},
    64: {"many_rows": 1.0},
}

needs_whole_graphs = pytest.mark.skipif(
    torch.__version__ < generate.WHOLE_GRAPHS,
    reason=f"NOT TESTED, torch {torch.__version__}: whole graphs of 4-bit layers need 2.8",
)


@pytest.fixture(name="matmul")
def put_multiplying():
    from reprolab_nf4 import matmul

    return matmul


@pytest.fixture(name="settled")
def put_settled():
    """The operator's calls, and whether their weights were settled."""
    return []


@pytest.fixture(name="called")
def put_called(monkeypatch, matmul, settled):
    """The operator's calls after bitsandbytes' product is replaced; the CPU replaces the GPU."""
    from reprolab_nf4 import layers

    calls = []

    def multiply(library, kernel, A, B, n, absmax, blocksize, bias, *more):
        assert type(A) is torch.Tensor  # subclasses may have no memory
        calls.append((kernel, A.shape[0]))
        settled.append(more[4:5] == (True,))
        weight = stand_in_product.weights(A, B, n, absmax, blocksize, *more[:4])
        return torch.nn.functional.linear(A, weight, bias)

    monkeypatch.setattr(matmul, "multiply", multiply)
    monkeypatch.setattr(matmul, "capability", lambda device: "9.0")
    monkeypatch.setattr(matmul, "runs", lambda *given: True)
    monkeypatch.setattr(layers, "EXTENSION", Path("none"))  # no call is planned
    replace(monkeypatch, matmul)
    torch.compiler.reset()
    return calls


def replace(monkeypatch, matmul, times=TIMES, products="fastest"):
    table = Table("a GPU", "9.0", "made up", (Layer(N, K, "fp16", False, times),))
    ways = matmul.Ways(None, products, table)
    monkeypatch.setattr(bitsandbytes, "matmul_4bit", OWN_PRODUCT)
    for owner, name, ours in ways.replaced(bitsandbytes):
        monkeypatch.setattr(owner, name, ours)


def layer(nested=False, scale=1.0, n=N):
    linear = bitsandbytes.nn.Linear4bit(
        K, n, compute_dtype=torch.float16, quant_type="nf4", compress_statistics=nested
    )
    with torch.no_grad():
        linear.weight.mul_(scale)
    linear.half().weight = linear.weight._quantize("cpu")
    linear.support_avx512bf16_for_cpu = False  # its layout of codes is left to bitsandbytes
    return linear.requires_grad_(False).eval()


X = torch.randn(3, K).half()

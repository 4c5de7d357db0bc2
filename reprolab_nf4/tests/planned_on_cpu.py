"""Layers whose calls are planned on the CPU, for tests."""

import pytest
from bitsandbytes_on_cpu import bitsandbytes, torch

import reprolab_nf4
from reprolab_nf4 import layers

OWN, OWN_PRODUCT = bitsandbytes.nn.Linear4bit.forward, bitsandbytes.matmul_4bit

from cpu_as_gpu import (  # noqa: E402
    Counts,
    K,
    N,
    compile_extension,
    compile_library,
    compiled,
    layer,
    put_cpu_in_place_of_gpu,
    table,
)

__all__ = ["K", "N", "put_cpu_in_place_of_gpu"]
PLANNED, UNPLANNED = {"times_run": 1, "runs_of_settled_weights": 1}, {"times_multiplied": 1}


@pytest.fixture(name="built", scope="session")
def put_built():
    return compiled(compile_extension), compiled(compile_library)


@pytest.fixture(name="cpu")
def put_cpu(built, monkeypatch, tmp_path):
    """Arguments of install(), for layers of 64 inputs and outputs."""
    if not layers.has_c_exchange():
        pytest.skip(f"NOT TESTED, torch {torch.__version__}: planned calls need 2.10")
    extension, library = built
    put_cpu_in_place_of_gpu(monkeypatch.setattr, extension)
    times = {2: {"few_rows": 1.0}, 512: {"many_rows": 1.0}}
    return {"library": library, "table": table(tmp_path / "t.json", times, 64, 64)}


@pytest.fixture(name="installed")
def put_installed(built, monkeypatch, tmp_path):
    if not layers.has_c_exchange():
        needed = "planned calls need 2.10, or 2.7 and torch-c-dlpack-ext"
        pytest.skip(f"NOT TESTED, torch {torch.__version__}: {needed}")
    extension, library = built
    put_cpu_in_place_of_gpu(monkeypatch.setattr, extension)
    path = table(tmp_path / "table.json")
    with reprolab_nf4.install(library, table=path) as installation, torch.no_grad():
        yield installation
    assert Counts(library).alive() == 0


@pytest.fixture(name="counts")
def put_counts(built, installed):
    return Counts(built[1])


def inputs(rows=3, dtype=torch.bfloat16, k=K):
    return torch.randn(rows, k).to(dtype)


def planned(*given, x=None, **more):
    """A layer whose product with x is planned."""
    linear = layer(*given, **more)
    for _ in range(3):
        linear(inputs() if x is None else x)
    return linear


def bits(tensor):
    return tensor.detach().view(torch.int16)


def same(output, expected):
    assert type(output) is type(expected) and output.requires_grad == expected.requires_grad
    assert (output.shape, output.dtype, output.stride()) == (
        *(expected.shape, expected.dtype, expected.stride()),
    )
    return torch.equal(bits(output), bits(expected))


def called(counts, call, expected_call=None):
    """The library's calls during `call`, whose output must equal that of `expected_call`."""
    expected = expected_call() if expected_call else None
    counts.look()
    output = call()
    seen = counts.look()
    assert expected is None or same(output, expected)
    return seen


def taken(counts, one, x):
    return called(counts, lambda: one(x), lambda: OWN(one, x))

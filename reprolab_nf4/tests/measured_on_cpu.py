"""Fixtures of tests that run the measurements on the CPU."""

import on_cpu
import pytest

from reprolab_nf4 import __main__ as products
from reprolab_nf4 import matmul, measuring


@pytest.fixture(name="timed_weights")
def put_timed_weights(monkeypatch):
    """The weights whose products were timed, with a cache that holds no layer."""
    timed, own = [], measuring.times
    monkeypatch.setattr(measuring, "times", lambda *given: timed.append(given[2]) or own(*given))
    monkeypatch.setattr(measuring, "SHORTEST_US", 1)
    monkeypatch.setattr(measuring, "CACHES", 0)
    return timed


@pytest.fixture(name="command")
def put_command(monkeypatch, timed_weights):
    """Runs the command of `make advise` or `make tune` and returns its exit status."""
    monkeypatch.setattr(measuring, "Gpu", on_cpu.Cpu)
    monkeypatch.setattr(measuring, "ROWS", (1, 16))
    monkeypatch.setattr(measuring, "SAMPLES", 2)
    monkeypatch.setattr(matmul, "capability", lambda device: "9.0")
    # The CPU has none of the library's kernels.
    monkeypatch.setattr(matmul, "runs", lambda *given: False)
    return lambda *given: products.main(list(map(str, given)))

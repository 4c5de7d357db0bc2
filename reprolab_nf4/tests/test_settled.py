"""Weights that a product need not wait for."""

import gc

import layers_on_cpu
import pytest
from bitsandbytes_on_cpu import bitsandbytes, torch
from layers_on_cpu import K, N, X, layer, put_called, put_multiplying, put_settled, replace  # noqa: F401

import reprolab_nf4


def in_place(of):
    return lambda layer: of(layer).add_(0)


def in_other_memory(of):
    def change(layer):
        of(layer).data = of(layer).data.clone()

    return change


def in_place_of_others(layer):
    """New scales at another offset of the same memory."""
    state = layer.weight.quant_state
    state.absmax = torch.cat([state.absmax, state.absmax]).chunk(2)[1]


CODES, ABSMAX = (lambda layer: layer.weight), (lambda layer: layer.weight.quant_state.absmax)
SECOND = (
    lambda layer: layer.weight.quant_state.state2.absmax,
    lambda layer: layer.weight.quant_state.state2.code,
)
CHANGES = [
    (change(of), nested)
    for change in (in_place, in_other_memory)
    for of, nested in [*((of, n) for n in (False, True) for of in (CODES, ABSMAX))]
    + [(of, True) for of in SECOND]
]


@pytest.mark.parametrize(("change", "nested"), [*CHANGES, (in_place_of_others, False)])
def test_weights_are_settled_after_a_product_until_they_change(change, nested, called, settled):
    changed, other = layer(nested), layer(nested)
    for one in (changed, changed, changed, other):
        one(X)
    assert settled == [False, True, True, False]
    settled.clear()
    change(changed)
    for one in (other, changed, changed, other):
        one(X)
    assert settled == [True, False, True, True]


def test_new_weights_at_the_address_of_others_are_not_settled(called, settled):
    memory, linear = bytearray(N * K // 2), layer()
    for _ in range(2):
        linear.weight.data = torch.frombuffer(memory, dtype=torch.uint8).view(-1, 1)
        linear(X), linear(X)
    assert settled == [False, True] * 2
    # Other scales in the same memory are not settled either.
    settled.clear()
    state = linear.weight.quant_state
    for half in torch.cat([state.absmax, state.absmax]).chunk(2):
        state.absmax = half
        linear(X), linear(X)
    assert settled == [False, True] * 2


@pytest.mark.parametrize("freed", [0, 1])
def test_weights_that_are_freed_are_forgotten(freed, matmul):
    settled, kept = matmul.SettledWeights(), []
    for _ in range(100):
        weights = [torch.zeros(64, dtype=torch.uint8), torch.zeros(2)]
        settled.add((2, 64, 64), weights)
        assert settled.has((2, 64, 64), weights)
        kept.append(weights.pop(1 - freed))
    del weights
    gc.collect()
    assert len(settled._known) == 0


def test_weights_are_settled_for_their_own_sizes(called, settled, matmul, monkeypatch):
    monkeypatch.setattr(layers_on_cpu, "OWN_PRODUCT", lambda *a, **k: "own")
    replace(monkeypatch, matmul)
    codes, product = layer().weight, bitsandbytes.matmul_4bit
    for _ in range(2):
        product(X, codes.t(), codes.quant_state)
    assert settled == [False, True]
    codes.quant_state.blocksize //= 2  # there are too few scales for it
    assert product(X, codes.t(), codes.quant_state) == "own"


def test_weights_whose_writes_are_not_counted_are_never_settled(called, settled):
    with torch.inference_mode():
        made = layer()
        assert made.weight.quant_state.absmax.is_inference()
        made(X), made(X)
    assert settled == [False, False]


def test_captured_or_failed_products_settle_no_weights(called, settled, matmul, monkeypatch):
    before, within = layer(), layer()
    before(X)
    with monkeypatch.context() as capturing:
        capturing.setattr("reprolab_nf4.settled.is_capturing", lambda tensor: True)
        before(X), within(X), within(X)
    assert settled == [False, True, False, False]

    def fail(*given):
        raise reprolab_nf4.DropinError("no memory")

    with monkeypatch.context() as failing, pytest.raises(reprolab_nf4.DropinError):
        failing.setattr(matmul, "multiply", fail)
        within(X)
    within(X), within(X)
    assert settled[4:] == [False, True]

"""Layers under vLLM's plugin, on the CPU: matmuls of ours are calls of a library that multiplies on
the CPU.
"""

import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
from needs_torch import functional, torch
from on_cpu import SMALL, Cpu, put_gpu
from planned_on_cpu import Counts, put_built, put_cpu  # noqa: F401, fixtures

import reprolab_nf4
from experiments.end_to_end.sizes import known
from experiments.product import host, serving
from experiments.product.serving import Linear, Served, exact_weights, shapes_of
from experiments.product.ways import OWN, PLANNED, SHARDS, installed
from reprolab.errors import InputError
from reprolab_nf4 import measuring, shards
from reprolab_nf4.quantized import nf4
from reprolab_nf4.tests import stub_vllm

TINY = replace(
    SMALL["llama-3.3-70b"], hidden=64, intermediate=128, heads=2, head_dim=32, kv_heads=1
)
REQUESTS, COPIES = 2, 2


@pytest.fixture
def counts(cpu, monkeypatch):
    """Counts the calls of our library."""
    monkeypatch.setattr(reprolab_nf4, "BUILT", cpu["library"])
    monkeypatch.setattr(measuring, "copies_needed", lambda gpu, shape: COPIES)
    monkeypatch.setattr(serving, "installed", partial(installed, **cpu))
    return Counts(cpu["library"])


@pytest.fixture
def method(counts):
    if not stub_vllm.PLUGIN.is_dir():
        pytest.skip(f"NOT TESTED, no vllm-bnb-plugin: {stub_vllm.INSTALL_IT}")
    with serving.plugin(Cpu()) as (plugin_method, facts):
        assert facts["plugin"] and facts["has_vllm"] is False
        yield plugin_method


@pytest.mark.parametrize(("part", "launches"), [("qkv", 3), ("gate_up", 2), ("layer", 7)])
def test_ways_of_a_layer_differ_in_their_launches(part, launches, method, counts, monkeypatch):
    counts_by_way = {}

    def check(self, way, outputs, *args):
        counts_by_way.setdefault(way, []).append(counts.look().get("times_multiplied", 0))
        original(self, way, outputs, *args)

    original = Served.check
    monkeypatch.setattr(Served, "check", check)
    with torch.no_grad():
        cell = Served(Cpu(), method, TINY, part, REQUESTS).measure(REQUESTS)
    assert cell["wrong"] == {}
    assert {way: len(us) for way, us in cell["us"].items()} == dict.fromkeys(
        (PLANNED, SHARDS, OWN), measuring.SAMPLES
    )
    steps = 2  # before the first check: one of its own, and that of the capture
    once = {PLANNED: len(Served.parts[part]), SHARDS: launches, OWN: 0}
    assert {way: launched[0] for way, launched in counts_by_way.items()} == {
        way: steps * COPIES * count for way, count in once.items()
    }


def test_a_way_with_wrong_outputs_gets_no_time(method, monkeypatch):
    def wrong_join(states):
        state = original(states)
        state.absmax = state.absmax * 2
        return state

    original = shards.join
    monkeypatch.setattr(shards, "join", wrong_join)
    with torch.no_grad():
        cell = Served(Cpu(), method, TINY, "qkv", REQUESTS).measure(REQUESTS)
    assert set(cell["us"]) == {SHARDS, OWN}
    assert set(cell["wrong"]) == {PLANNED} and "wrong" in cell["wrong"][PLANNED]


def test_exact_weights_are_those_that_dequantization_rounds():
    dense = torch.randn(3, 128).bfloat16()
    codes, state = nf4(dense, 64)
    expected = functional.dequantize_4bit(codes, state)
    assert torch.equal(exact_weights(codes, state).bfloat16(), expected)


def test_copies_have_the_same_weights_in_other_memory(counts):
    linear = Linear.of(Cpu(), (64, 32), 64, 1)
    copy, held = linear.copy().weight, linear.held.weight
    assert torch.equal(copy, held) and copy.data_ptr() != held.data_ptr()
    assert torch.equal(copy.bnb_shard_offsets, held.bnb_shard_offsets)
    for state, held_state in zip(*(w.bnb_quant_state.values() for w in (copy, held)), strict=True):
        assert torch.equal(state.absmax, held_state.absmax) and state.shape == held_state.shape
        assert state.absmax.data_ptr() != held_state.absmax.data_ptr()


def test_shapes_are_those_of_the_model():
    shapes = shapes_of(known()["llama-3.1-8b"])
    assert shapes["qkv"] == ((4096, 1024, 1024), 4096) and shapes["o"] == ((4096,), 4096)
    assert shapes["gate_up"] == ((14336, 14336), 4096) and shapes["down"] == ((4096,), 14336)


def test_a_run_measures_the_requests_that_its_file_lacks(method, monkeypatch, tmp_path, capsys):
    put_gpu(monkeypatch)
    monkeypatch.setattr(host, "known", lambda: {TINY.id: TINY})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *args: "a GPU")
    path = tmp_path / "host.json"

    def measured(requests, status=0):
        arguments = ["--model", TINY.id, "--requests", requests, "--output", str(path)]
        assert host.reproduce(host.parser().parse_args(arguments)) == status
        return json.loads(path.read_text())["requests"], capsys.readouterr().out

    facts = {"plugin": "0.0.3", "has_vllm": False}
    monkeypatch.setattr(serving, "plugin", lambda gpu: nullcontext((method, facts)))
    cells, printed = measured("1")
    assert "qkv, 1 requests" in printed and len(cells) == len(Served.parts)
    cells, printed = measured("1,2")
    assert "1 requests" not in printed and "layer, 2 requests" in printed
    assert [(cell["part"], cell["requests"]) for cell in cells] == [
        (part, requests) for requests in (1, 2) for part in Served.parts
    ]
    monkeypatch.setattr(Served, "measure", lambda *args: {"us": {}, "wrong": {OWN: "1 of 2"}})
    measured("3", status=1)


def test_a_missing_plugin_is_an_error_that_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr(stub_vllm, "PLUGIN", tmp_path)
    with pytest.raises(InputError, match="pip install"), serving.plugin(Cpu()):
        pass

"""4-bit checkpoints under tensor parallelism, by the loader of vLLM's plugin, on the CPU; stub_vllm
is in place of vLLM.
"""

import importlib
import importlib.util
import sys
import types
from contextlib import contextmanager

import pytest
from needs_torch import functional, torch
from safetensors.torch import load_file, save_file

from experiments.product.serving import exact_weights
from reprolab_nf4 import matmul, tensor_parallel
from reprolab_nf4.imports import Awaited
from reprolab_nf4.tests import stub_vllm

METHOD = {"quant_method": "bitsandbytes"}
PACKED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}
KINDS = ("QKVParallel", "MergedColumnParallel", "ColumnParallel", "RowParallel", "Replicated")
QKV, MERGED, COLUMN, ROW, WHOLE = (stub_vllm.KNOWN[f"{kind}Linear"] for kind in KINDS)
UNSPLIT = type("UnsplitLinear", (COLUMN,), {"disable_tp": True})
# The kind, the outputs of each part, and the inputs, of all ranks. Blocks of qkv_proj cross rows.
LAYERS = {
    "qkv_proj": (QKV, (256, 128, 64), 160),
    "gate_up_proj": (MERGED, (384, 384), 256),
    "in_proj": (COLUMN, (96,), 64),
    "o_proj": (ROW, (96,), 256),
    "down_proj": (ROW, (256,), 384),
    "router": (WHOLE, (3,), 64),
    "unsplit": (UNSPLIT, (3,), 64),
}
O_PROJ = {"o_proj": LAYERS["o_proj"]}


@pytest.fixture
def module(plugin, monkeypatch):
    """The plugin's loader module on rank 0 of 2. The test must restore the loader's methods."""
    if not isinstance(importlib.util.find_spec("vllm").loader, stub_vllm.Finder):
        pytest.skip("NOT TESTED, vLLM is installed: its layers need several processes")
    loader_module = importlib.import_module(tensor_parallel.MODULE)
    monkeypatch.setattr(stub_vllm.TENSOR_PARALLEL, "ranks", 2)
    monkeypatch.setattr(stub_vllm.TENSOR_PARALLEL, "rank", 0)
    before = methods(loader_module)
    yield loader_module
    assert methods(loader_module) == before
    assert not any(isinstance(finder, Awaited) for finder in sys.meta_path)


def methods(module):
    loader = getattr(module, tensor_parallel.CLASS)
    return {name: vars(loader).get(name) for name in tensor_parallel.PARAMETERS}


@contextmanager
def replacing():
    loader = tensor_parallel.Loader()
    try:
        yield
    finally:
        loader.end()


@pytest.fixture
def replaced(module):
    with replacing():
        yield module


class Model(torch.nn.Module):
    """A rank's layers. As in vLLM, they accept only codes of the rank's size."""

    packed_modules_mapping, experts = PACKED, ()

    def __init__(self, layers):
        super().__init__()
        made = {name: kind(*outputs, inputs=k) for name, (kind, outputs, k) in layers.items()}
        self.block = torch.nn.ModuleDict(made)

    def load_weights(self, weights):
        codes = dict(weights)
        for name, layer in self.block.items():
            parts = [f"block.{part}.weight" for part in PACKED.get(name, [])]
            if not set(parts) <= set(codes) or not parts:
                parts = [f"block.{name}.weight"]
            joined = torch.cat([codes[part] for part in parts])
            assert layer.weight.shape == joined.shape
            layer.weight.copy_(joined)


def write(folder, layers, fused=False, kind="nf4", nested=False, lacks=0):
    """A checkpoint, in which each part of a layer is a weight, or all are one. Returns its
    dequantized weights by layer.
    """
    torch.manual_seed(1)
    tensors, exact = {"block.norm.weight": torch.ones(4)}, {}
    for layer, (_, outputs, k) in layers.items():
        parts = {layer: sum(outputs)}
        if not fused and layer in PACKED:
            parts = dict(zip(PACKED[layer], outputs, strict=True))
        weights = []
        for name, n in parts.items():
            weight, dense = f"block.{name}.weight", torch.randn(n, k).bfloat16()
            codes, state = functional.quantize_4bit(
                dense, blocksize=64, quant_type=kind, compress_statistics=nested
            )
            states = state.as_dict(packed=True)
            tensors |= {f"{weight}.{key}": states[key] for key in states}
            tensors[weight] = codes[: len(codes) - lacks]
            if nested:
                state.absmax = functional.dequantize_blockwise(state.absmax, state.state2)
                state.absmax += state.offset
            weights.append(exact_weights(codes, state))
        exact[layer] = torch.cat(weights)
    save_file(tensors, folder / "model.safetensors")
    return exact


def load(module, folder, layers, rank=0, model=Model, **config):
    """A rank's dequantized weights by layer."""
    stub_vllm.TENSOR_PARALLEL.rank = rank
    loader = getattr(module, tensor_parallel.CLASS)(types.SimpleNamespace(use_tqdm_on_load=False))
    config = types.SimpleNamespace(quantization_config=dict(METHOD, **config))
    how, of_rank = {"model": str(folder), "revision": None, "hf_config": config}, model(layers)
    loader.load_weights(of_rank, types.SimpleNamespace(**how))
    return {name: dequantized(layer.weight) for name, layer in of_rank.block.items()}


def dequantized(weight):
    states, ends = weight.bnb_quant_state, weight.bnb_shard_offsets.tolist()
    scales = [state.absmax for state in states.values()]
    assert all(x.untyped_storage().nbytes() == x.nbytes for x in scales)  # the rest is freed
    parts = [weight.data[ends[i] : ends[i + 1]] for i in range(len(states))]
    return torch.cat([exact_weights(part, states[i]) for i, part in enumerate(parts)])


def joined(layer, ranks):
    """The weight of all ranks."""
    kind, outputs, _ = LAYERS[layer]
    if kind in (WHOLE, UNSPLIT):
        assert all(torch.equal(weight, ranks[0]) for weight in ranks)
        return ranks[0]
    if kind == ROW:
        return torch.cat(ranks, 1)
    parts = [weight.split([n // len(ranks) for n in outputs]) for weight in ranks]
    return torch.cat([part for of_all in zip(*parts, strict=True) for part in of_all])


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_the_weights_of_all_ranks_are_those_of_the_checkpoint(fused, nested, replaced, tmp_path):
    exact = write(tmp_path, LAYERS, fused, nested=nested)
    ranks = [load(replaced, tmp_path, LAYERS, rank) for rank in range(2)]
    for layer, weight in exact.items():
        assert torch.equal(joined(layer, [slices[layer] for slices in ranks]), weight), layer


def test_one_rank_is_loaded_by_the_plugin_alone(replaced, tmp_path, monkeypatch):
    monkeypatch.setattr(stub_vllm.TENSOR_PARALLEL, "ranks", 1)
    monkeypatch.delattr(tensor_parallel, "sliced")
    exact = write(tmp_path, LAYERS, nested=True)
    weights = load(replaced, tmp_path, LAYERS)
    assert all(torch.equal(weights[layer], exact[layer]) for layer in LAYERS)


def with_experts(layers):
    model = Model(layers)
    model.experts = [("experts.w2", "experts.0.down_proj.", 0, "w2")]
    return model


def few_heads(layers):
    """vLLM replicates v_proj's only head, of 64 outputs, on each rank."""
    return Model({"qkv_proj": (QKV, (256, 128, 128), 64)})


REFUSED = {
    "inputs": ({"o_proj": (ROW, (64,), 192)}, {}, {}),
    "outputs": ({"qkv_proj": (QKV, (6, 2, 2), 96)}, {}, {}),
    "odd": ({"gate_up_proj": (MERGED, (65, 65), 64)}, {}, {}),
    "fused": ({"gate_up_proj": (MERGED, (65, 63), 64)}, {"fused": True}, {}),
    "heads": ({"qkv_proj": (QKV, (256, 128, 64), 64)}, {}, {"model": few_heads}),
    "fp4": (O_PROJ, {"kind": "fp4"}, {}),
    "lacks codes": (O_PROJ, {"lacks": 32}, {}),
    "8 bits": (O_PROJ, {}, {"load_in_8bit": True}),
    "experts": (O_PROJ, {}, {"model": with_experts}),
}


def refusal(module, *given, **config):
    with pytest.raises(ValueError) as refused:
        load(module, *given, **config)
    assert str(refused.value).isprintable()
    return str(refused.value)


@pytest.mark.parametrize("case", REFUSED)
def test_weights_without_slices_are_refused_as_by_the_plugin(case, module, tmp_path):
    layers, how, given = REFUSED[case]
    write(tmp_path, layers, **how)
    plugins = refusal(module, tmp_path, layers, **given)
    with replacing():
        said = refusal(module, tmp_path, layers, **given)
    own, _, _ = said.partition(" reprolab_nf4: ")
    assert own == plugins and "pipeline parallelism" in own
    assert refusal(module, tmp_path, layers, **given) == plugins


def test_other_faults_of_a_checkpoint_raise_the_plugins_error(replaced, tmp_path):
    write(tmp_path, O_PROJ)
    assert "gptq" in refusal(replaced, tmp_path, O_PROJ, quant_method="gptq")


def test_a_weight_that_the_checkpoint_has_in_16_bits_is_sliced(replaced, tmp_path):
    layers = dict(O_PROJ, in_proj=LAYERS["in_proj"])
    write(tmp_path, O_PROJ)
    dense, tensors = torch.randn(96, 64).bfloat16(), load_file(tmp_path / "model.safetensors")
    save_file(dict(tensors, **{"block.in_proj.weight": dense}), tmp_path / "model.safetensors")
    exact = functional.dequantize_4bit(
        *functional.quantize_4bit(dense, quant_type="nf4", compress_statistics=True)
    )
    ranks = [load(replaced, tmp_path, layers, rank)["in_proj"] for rank in range(2)]
    assert torch.equal(joined("in_proj", ranks).bfloat16(), exact)


@pytest.mark.parametrize("is_imported", [False, True])
def test_install_replaces_the_loader_until_undo(is_imported, module, monkeypatch):
    ways = matmul.Ways(None, "dequantize", None)
    if not is_imported:
        monkeypatch.delitem(sys.modules, module.__name__)
    ways.begin()
    imported = importlib.import_module(module.__name__)
    assert (imported is module) is is_imported
    assert {method.__module__ for method in methods(imported).values()} == {
        tensor_parallel.__name__
    }
    ways.end()
    assert {method.__module__ for method in methods(imported).values()} == {module.__name__}


@pytest.mark.parametrize("name", tensor_parallel.PARAMETERS)
def test_a_loader_with_other_methods_is_unchanged_with_one_line(name, module, monkeypatch, caplog):
    loader = getattr(module, tensor_parallel.CLASS)
    for change in ("setattr", "delattr"):
        with monkeypatch.context() as changed:
            changed.delattr(loader, name)
            if change == "setattr":
                changed.setattr(loader, name, lambda self, files: None, raising=False)
            before = methods(module)
            tensor_parallel.Loader().end()
            assert methods(module) == before
    assert len(caplog.messages) == 2
    assert all(name in line and line.isprintable() for line in caplog.messages)

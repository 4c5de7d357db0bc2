"""The CPU's answer against what bitsandbytes made on a GPU: the golden vectors, every bit."""

import json
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from experiments.end_to_end import reference  # noqa: E402
from records.json_files import ROOT  # noqa: E402

CONTENT = (ROOT / "tests/golden/golden_seed1.safetensors").read_bytes()
HEADER = json.loads(CONTENT[8 : 8 + int.from_bytes(CONTENT[:8], "little")])
CASES = json.loads(HEADER["__metadata__"]["index"])


@pytest.fixture(scope="module")
def tensors():
    return safetensors.load(CONTENT)


def state_of(case, tensors):
    """As bitsandbytes has it in memory."""
    stored = {
        name: tensors.get(f"{case['name']}.weight.{name}") for name in ("absmax", "quant_map")
    }
    text = tensors[f"{case['name']}.weight.quant_state.bitsandbytes__nf4"]
    written = json.loads(bytes(text.tolist()))
    state = {"shape": torch.Size(case["shape"]), "dtype": getattr(torch, case["dtype"])}
    state |= {"blocksize": case["blocksize"], "nested": case["nested"]}
    state |= {"code": stored["quant_map"], "absmax": stored["absmax"]}
    if case["nested"]:
        own = {name: tensors[f"{case['name']}.weight.nested_{name}"] for name in stored}
        second = {"code": own["quant_map"], "absmax": own["absmax"]}
        second["blocksize"] = written["nested_blocksize"]
        state["state2"] = SimpleNamespace(**second)
        state["offset"] = torch.tensor(written["nested_offset"])
    return SimpleNamespace(**state)


@pytest.mark.parametrize("case", CASES, ids=[f"{c['name']}-{c['kind']}" for c in CASES])
@pytest.mark.parametrize("chunk", [reference.CHUNK, 1 << 11])
def test_every_bit_is_bitsandbytes_own(case, chunk, tensors, monkeypatch):
    monkeypatch.setattr(reference, "CHUNK", chunk)
    codes, wanted = (tensors[f"{case['name']}.{name}"] for name in ("weight", "dequantized"))
    found = reference.dequantized(codes, state_of(case, tensors))
    assert torch.equal(found, wanted.view(torch.int16).flatten())


def test_the_cases_are_of_every_format():
    kinds = {(case["dtype"], case["nested"]) for case in CASES}
    assert kinds == {(dtype, nested) for dtype in ("float16", "bfloat16") for nested in (0, 1)}

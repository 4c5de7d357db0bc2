"""The CPU's answer against what bitsandbytes made on a GPU: the golden vectors, every bit."""

import json

import pytest
from needs_torch import bitsandbytes, torch
from safetensors import torch as safetensors

from experiments.end_to_end import reference
from records.json_files import ROOT

CONTENT = (ROOT / "tests/golden/golden_seed1.safetensors").read_bytes()
HEADER = json.loads(CONTENT[8 : 8 + int.from_bytes(CONTENT[:8], "little")])
CASES = json.loads(HEADER["__metadata__"]["index"])


@pytest.fixture(scope="module")
def tensors():
    return safetensors.load(CONTENT)


def state_of(case, tensors):
    of = f"{case['name']}.weight."
    stored = {name.removeprefix(of): t for name, t in tensors.items() if name.startswith(of)}
    return bitsandbytes.functional.QuantState.from_dict(stored, torch.device("cpu"))


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

"""The CPU reference against the golden vectors, which bitsandbytes made on a GPU, bit by bit."""

import json
from types import SimpleNamespace

import pytest
from needs_torch import bitsandbytes, torch
from safetensors import torch as safetensors

from experiments.end_to_end import reference
from reprolab.json_files import ROOT

CONTENT = (ROOT / "tests/golden/golden_seed1.safetensors").read_bytes()
HEADER = json.loads(CONTENT[8 : 8 + int.from_bytes(CONTENT[:8], "little")])
CASES = json.loads(HEADER["__metadata__"]["index"])


@pytest.fixture(scope="module")
def tensors():
    return safetensors.load(CONTENT)


def state_of(case, tensors):
    prefix = f"{case['name']}.weight."
    stored = {
        name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)
    }
    return bitsandbytes.functional.QuantState.from_dict(stored, torch.device("cpu"))


@pytest.mark.parametrize("case", CASES, ids=[f"{c['name']}-{c['kind']}" for c in CASES])
def test_every_bit_is_bitsandbytes_own(case, tensors):
    codes, wanted = (tensors[f"{case['name']}.{name}"] for name in ("weight", "dequantized"))
    state = state_of(case, tensors)
    bits = reference.dequantized(codes, state)
    assert torch.equal(bits, wanted.view(torch.int16).flatten())
    if case["kind"] not in ("huge", "subnormal_product"):  # whose error is not of rounding alone
        rounded = reference.weights(codes, state, torch.float32).to(state.dtype).flatten()
        assert torch.equal(rounded.view(torch.int16), bits)


def test_sizes_that_disagree_are_refused(tensors):
    for case in CASES:
        codes, state = tensors[f"{case['name']}.weight"], state_of(case, tensors)
        for wrong in ({"absmax": state.absmax[1:]}, {"code": state.code[1:]}, {"blocksize": 48}):
            with pytest.raises(ValueError, match=r"scales|size"):
                reference.weights(codes, SimpleNamespace(**vars(state) | wrong), torch.float32)
        with pytest.raises(ValueError, match="codes"):
            reference.dequantized(codes[1:], state)


def test_the_cases_are_of_every_format():
    kinds = {(case["dtype"], case["nested"]) for case in CASES}
    assert kinds == {(dtype, nested) for dtype in ("float16", "bfloat16") for nested in (0, 1)}

"""The functions that stand in for those of old bitsandbytes, against those of a newer one."""

import bitsandbytes_on_cpu as stand_in
import pytest
from needs_torch import functional, torch


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("nested", [False, True])
def test_they_quantize_and_multiply_as_bitsandbytes_does(nested, dtype):
    torch.manual_seed(1)
    weights, x = torch.randn(96, 256).to(dtype), torch.randn(1, 256).to(dtype)
    how = {"compress_statistics": nested, "quant_type": "nf4"}
    codes, state = stand_in.quantize_4bit(weights, **how)
    own_codes, own_state = functional.quantize_4bit(weights, **how)
    assert torch.equal(codes, own_codes) and torch.equal(state.absmax, own_state.absmax)
    assert state.as_dict().keys() == own_state.as_dict().keys()
    for column in (codes, codes.t()):
        weights = stand_in.dequantize_4bit(column, state)
        assert torch.equal(weights, functional.dequantize_4bit(column, state))
    product = stand_in.gemv_4bit(x, codes, state=state)
    torch.testing.assert_close(product, functional.gemv_4bit(x, codes, state=own_state))

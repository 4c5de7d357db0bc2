"""The substitutes for functions of old bitsandbytes, against those of a newer one."""

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
        ours = stand_in.dequantize_4bit(column, state)
        # Before 0.50 bitsandbytes' CPU dequantizes in 16 bits.
        torch.testing.assert_close(ours, functional.dequantize_4bit(column, state))
    own = functional.gemv_4bit(x, codes, state=own_state)
    off = stand_in.gemv_4bit(x, codes, state=state) - own
    sums = x.float().abs() @ weights.float().abs().T
    assert (off.float().abs() <= 2**-7 * sums).all()

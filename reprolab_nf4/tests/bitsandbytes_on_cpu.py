"""bitsandbytes with 4-bit layers on the CPU. Versions before 0.46 compute them on a GPU alone: the
three functions that launch its kernels are replaced by PyTorch's, the rest is bitsandbytes' own.
"""

import pytest

torch = pytest.importorskip("torch")
bitsandbytes = pytest.importorskip("bitsandbytes")
functional = bitsandbytes.functional


def quantize_4bit(
    A, blocksize=64, compress_statistics=False, quant_type="fp4", quant_storage=torch.uint8
):
    assert quant_storage is torch.uint8
    code = functional.get_4bit_type(quant_type, device="cpu")
    blocks = A.detach().float().view(-1, blocksize)
    absmax = blocks.abs().amax(1)
    distances = ((blocks / absmax[:, None])[..., None] - code).abs()
    first, second = distances.argmin(-1).to(torch.uint8).view(-1, 2).unbind(1)
    codes = (first << 4 | second).view(-1, 1)
    more = {"shape": A.shape, "dtype": A.dtype, "blocksize": blocksize, "code": code}
    if compress_statistics:
        offset = absmax.mean()
        absmax, state2 = functional.quantize_blockwise(absmax - offset, blocksize=256)
        state2.code = state2.code.clone()  # a GPU has a copy of each state
        more |= {"offset": offset, "state2": state2}
    return codes, functional.QuantState(absmax, quant_type=quant_type, **more)


def dequantize_4bit(A, quant_state):
    absmax = quant_state.absmax
    if quant_state.nested:
        absmax = functional.dequantize_blockwise(absmax, quant_state.state2) + quant_state.offset
    codes = A.detach().reshape(-1)
    code = functional.get_4bit_type(quant_state.quant_type, device="cpu")
    values = code[torch.stack((codes >> 4, codes & 15), 1).long()]
    weights = values.view(-1, quant_state.blocksize) * absmax[:, None]
    weights = weights.to(quant_state.dtype).view(quant_state.shape)
    return weights.t() if A.shape[0] == 1 else weights


def gemv_4bit(A, B, out=None, state=None):
    assert out is None
    weights = dequantize_4bit(B, state)
    return torch.nn.functional.linear(A.float(), weights.float()).to(A.dtype)


if not hasattr(torch.ops.bitsandbytes, "quantize_4bit"):
    for function in (quantize_4bit, dequantize_4bit, gemv_4bit):
        setattr(functional, function.__name__, function)

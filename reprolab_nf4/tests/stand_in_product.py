"""What the library's products multiply by, from what matmul.multiply() is given, by
bitsandbytes on a CPU.
"""

from bitsandbytes_on_cpu import functional, torch


def weights(A, B, n, absmax, blocksize, codes=None, map=None, offset=0.0, blocksize2=0):
    if codes is not None:
        absmax = map[codes.long()] * absmax.repeat_interleave(blocksize2)[: codes.numel()]
        absmax = absmax + offset
    state = {"shape": torch.Size((n, A.shape[-1])), "blocksize": blocksize, "dtype": A.dtype}
    state |= {"absmax": absmax, "code": torch.zeros(16), "quant_type": "nf4"}
    return functional.dequantize_4bit(B.view(-1, 1), functional.QuantState(**state))

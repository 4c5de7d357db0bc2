"""bitsandbytes' products with NF4 weights, each computed in the way that a table of measured times
has as the fastest. Needs torch and bitsandbytes.
"""

import functools

import torch
from bitsandbytes import functional

from reprolab_nf4 import DropinError, Library, NoCodeError, give_up
from reprolab_nf4.choices import DEQUANTIZE, EXACT, OWN, Table, recorded

TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}

_library: Library | None = None  # which the operator calls: the one that was installed last


def multiply(
    kernel: str,
    A: torch.Tensor,
    B: torch.Tensor,
    n: int,
    absmax: torch.Tensor,
    blocksize: int,
    bias: torch.Tensor | None,
    absmax_codes: torch.Tensor | None,
    code2: torch.Tensor | None,
    offset: float,
    blocksize2: int,
) -> torch.Tensor:
    """A [..., k] times the transposed n x k weights, by that kernel: reprolab_nf4.h.

    Workspace is PyTorch's, so that a captured call has memory of its graph, which each replay
    clears before it is used.
    """
    A, B = aligned(A.contiguous()), aligned(B)
    bias = None if bias is None else bias.contiguous()
    k = A.shape[-1]
    m = A.numel() // k
    out = A.new_empty((*A.shape[:-1], n))
    call = getattr(_library, f"reprolab_nf4_multiply_{TYPES[A.dtype]}")
    with torch.cuda.device_of(A):
        size = workspace_bytes(_library, A.device, kernel, m, n, k, blocksize)
        workspace = A.new_zeros(size, dtype=torch.uint8) if size else None
        stream = torch.cuda.current_stream().cuda_stream
        scales = map(address, (absmax, absmax_codes, code2))
        sizes = (m, n, k, blocksize, blocksize2)
        call(
            *(kernel, A.data_ptr(), B.data_ptr(), *scales, offset, address(bias), out.data_ptr()),
            *(*sizes, address(workspace), stream),
        )
    return out


# The same for torch.compile, which keeps it as it is; elsewhere it would cost the host time.
operator = torch.library.custom_op(
    "reprolab_nf4::multiply", multiply, mutates_args=(), device_types="cuda"
)


@operator.register_fake
def _(kernel, A, B, n, *_):
    return A.new_empty((*A.shape[:-1], n))


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """Itself, but for a view that begins where kernels cannot read 16 bytes at once."""
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


def address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@functools.lru_cache(10000)
def workspace_bytes(library, device, *product) -> int:
    """`device` is the current one."""
    return library.workspace(*product)


class Ways:
    """Which way multiplies by a layer's weights: in install()'s words, those of `products`."""

    def __init__(self, library: Library, products: str, table: Table | None):
        self.usual = OWN if products == "fastest" else DEQUANTIZE
        self.library, self._products, self._table = library, products, table
        self._known: dict = {}

    @torch.compiler.assume_constant_result
    def of(self, device: torch.device, n: int, k: int, blocksize: int, type: str, nested: bool):
        """Up to which number of rows which way, as in Table.ways; for more, the usual one."""
        key = (device, n, k, blocksize, type, nested)
        if key not in self._known:
            self._known[key] = tuple(self._measured(*key))
        return self._known[key]

    def _measured(self, device, n, k, blocksize, type, nested) -> list[tuple[int, str]]:
        found = capability(device) if self._products != DEQUANTIZE else None
        table = self._table
        if found and (table is None or table.compute_capability != found):
            table = recorded(found)
        if not found or table is None:
            return []

        def can(way: str, rows: int) -> bool:
            if self._products == "exact" and way not in EXACT:
                return False
            return way in (OWN, DEQUANTIZE) or runs(
                self.library, device, way, rows, n, k, blocksize
            )

        return table.ways(n, k, type, nested, can, self.usual)


class Always(Ways):
    """One way for every product."""

    def __init__(self, library: Library, way: str):
        super().__init__(library, way, None)
        self.usual = way

    def of(self, *_):
        return ()


def capability(device: torch.device) -> str:
    """Such as 9.0; empty for what is no GPU."""
    found = torch.cuda.get_device_capability(device) if device.type == "cuda" else ()
    return ".".join(map(str, found))


def runs(library: Library, device: torch.device, *product) -> bool:
    try:
        with torch.cuda.device(device):
            workspace_bytes(library, device, *product)
        return True
    except NoCodeError as error:
        give_up(error)
    except DropinError:  # a shape that the kernel cannot do
        pass
    return False


@torch.compiler.assume_constant_result
def read_offset(offset: torch.Tensor) -> float:
    """Of nested scales, which are few; kernels take it from the host. Read once, because that waits
    for the GPU.
    """
    if not hasattr(offset, "reprolab_nf4_value"):
        if offset.is_cuda and torch.cuda.is_current_stream_capturing():
            raise DropinError("a capture cannot read nested scales; run the model once before")
        offset.reprolab_nf4_value = offset.item()
    return offset.reprolab_nf4_value


def replacement(own, ways: Ways):
    """bitsandbytes' matmul_4bit, but that `ways` decides how products are computed.

    Training, FP4, fp32, and codes in its layout for CPUs stay `own`.
    """
    global _library
    _library = ways.library

    def matmul_4bit(A, B, quant_state, out=None, bias=None):
        if out is not None or not is_ours(A, quant_state, bias):
            return own(A, B, quant_state, out=out, bias=bias)
        n, k = quant_state.shape
        way = ways.usual
        # Of a product by exact weights none was dequantized to another type first.
        if ways.usual == OWN or quant_state.dtype == A.dtype:
            m = A.numel() // k
            known = ways.of(
                A.device, n, k, quant_state.blocksize, TYPES[A.dtype], quant_state.nested
            )
            for most, fastest in known:
                if m <= most:
                    way = fastest
                    break
        if way == OWN:
            return own(A, B, quant_state, bias=bias)
        if way == DEQUANTIZE:
            # As a column, so that a transposed view of the codes gives the matrix itself.
            weight = functional.dequantize_4bit(B.data.view(-1, 1), quant_state)
            return torch.nn.functional.linear(A, weight.to(A.dtype), bias)
        if not quant_state.nested:
            scales, more = quant_state.absmax, (None, None, 0.0, 0)
        else:
            second = quant_state.state2
            offset = read_offset(quant_state.offset)
            scales, more = second.absmax, (quant_state.absmax, second.code, offset)
            more = (*more, second.blocksize)
        codes = B.data.view(-1, 1)
        call = operator if torch.compiler.is_compiling() else multiply
        return call(way, A, codes, n, scales, quant_state.blocksize, bias, *more)

    return matmul_4bit


def is_ours(A, state, bias) -> bool:
    if getattr(state, "quant_type", None) != "nf4" or len(state.shape) != 2:
        return False
    if getattr(state, "packing_format_for_cpu", False) or A.dtype not in TYPES:
        return False
    trains = A.requires_grad or (bias is not None and bias.requires_grad)
    if (torch.is_grad_enabled() and trains) or (bias is not None and bias.dtype != A.dtype):
        return False
    # Weights that were quantized as k x n are a case of bitsandbytes' own.
    return A.numel() > 0 and A.shape[-1] == state.shape[1]

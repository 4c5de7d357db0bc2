"""bitsandbytes' products with NF4 weights, each computed in the way that a table of measured times
has as the fastest. Needs torch and bitsandbytes.
"""

import contextlib
import functools
import itertools
import warnings
import weakref

import torch
from bitsandbytes import functional

from reprolab_nf4 import Library, give_up
from reprolab_nf4.c_functions import DropinError, NoCodeError
from reprolab_nf4.choices import DEQUANTIZE, EXACT, OWN, Table, recorded

TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
NO_CHANGE = contextlib.nullcontext()

_library: Library | None = None  # which the operator calls: the one that was installed last


def multiply(
    kernel: str,
    A: torch.Tensor,
    B: torch.Tensor,
    n: int,
    absmax: torch.Tensor,
    blocksize: int,
    bias: torch.Tensor | None,
    absmax_codes: torch.Tensor | None = None,
    code2: torch.Tensor | None = None,
    offset: float = 0.0,
    blocksize2: int = 0,
    weights_are_settled: bool = False,
) -> torch.Tensor:
    """A [..., k] times the transposed n x k weights, by that kernel: reprolab_nf4.h.

    Workspace is PyTorch's, so that a captured call has memory of its graph.
    """
    A, codes = aligned(A.contiguous()), aligned(B)
    settled = weights_are_settled and codes is B  # and not just copied
    bias = None if bias is None else bias.contiguous()
    k = A.shape[-1]
    m = A.numel() // k
    out = A.new_empty(*A.shape[:-1], n)
    call = _library.multiply[TYPES[A.dtype]]
    arrays = map(address, (A, codes, absmax, absmax_codes, code2))
    with on_device_of(A):
        size = workspace_bytes(_library, A.device, kernel, m, n, k, blocksize)
        workspace = A.new_empty(size, dtype=torch.uint8) if size else None
        sizes = (m, n, k, blocksize, blocksize2, settled)
        last = (address(workspace), stream_of(A))
        call(kernel.encode(), *arrays, offset, address(bias), address(out), *sizes, *last)
    return out


@torch.library.custom_op("reprolab_nf4::multiply", mutates_args=(), device_types="cuda")
def operator(
    kernel: str,
    A: torch.Tensor,
    B: torch.Tensor,
    n: int,
    absmax: torch.Tensor,
    blocksize: int,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """The same of plain scales, for what records or transforms calls of operators, such as
    torch.compile; elsewhere it would cost the host time.
    """
    return multiply(kernel, A, B, n, absmax, blocksize, bias)


@operator.register_fake
def _(kernel, A, B, n, *_):
    return A.new_empty(*A.shape[:-1], n)


def is_recorded(A: torch.Tensor) -> bool:
    """Whether a call's operators are recorded or transformed, so that it must be one; what is a
    tensor of a class of its own, such as a collective's that has not ended, does so as well.
    """
    return (
        torch.compiler.is_compiling()
        or type(A) is not torch.Tensor
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.maybe_current_level() is not None
    )


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """Itself, but for a view that begins where kernels cannot read 16 bytes at once."""
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


def on_device_of(tensor: torch.Tensor):
    """As torch.cuda.device_of, which costs the host more where nothing is to change."""
    is_current = tensor.get_device() == torch.cuda.current_device()
    return NO_CHANGE if is_current else torch.cuda.device_of(tensor)


def stream_of(tensor: torch.Tensor) -> int:
    """The current one of its device, asked as Triton asks: no object is made of it."""
    return torch._C._cuda_getCurrentRawStream(tensor.get_device())


def address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@functools.lru_cache(10000)
def workspace_bytes(library, device, *product) -> int:
    """`device` is the current one."""
    return library.workspace(*product)


class SettledWeights:
    """Codes and scales that a product of ours was enqueued with, of the same sizes, in the memory
    that they still have and with no write since that PyTorch counts (Tensor._version).

    That product waited for all before it, and so for what wrote them, so that later products on its
    stream need not; on another stream, such as a capture's, what makes the first use there wait for
    them still does. (Not behind a writer there that lets the next launch begin before it has
    written; PyTorch's kernels do not.) A write that PyTorch does not count, such as one to `.data`,
    by address or by the replay of a graph, must be synchronized with before the next product.
    """

    def __init__(self):
        # By the address of the codes, and the sizes: of the matrix and of its blocks.
        self._known: dict[tuple[int, ...], list] = {}

    def has(self, sizes: tuple[int, ...], weights: list[torch.Tensor]) -> bool:
        known = self._known.get((weights[0].data_ptr(), *sizes), ())
        for array, (memory, place, writes) in zip(weights, known, strict=False):
            if memory() is not array.untyped_storage() or not array.is_contiguous():
                return False
            if array.data_ptr() != place or array._version != writes:
                return False
        return len(known) == len(weights)

    def add(self, sizes: tuple[int, ...], weights: list[torch.Tensor]) -> None:
        # A captured product has not run; writes to inference tensors are not counted.
        if is_capturing(weights[0]) or any(array.is_inference() for array in weights):
            return
        self._known[weights[0].data_ptr(), *sizes] = [
            (weakref.ref(array.untyped_storage()), array.data_ptr(), array._version)
            for array in weights
        ]


def is_capturing(tensor: torch.Tensor) -> bool:
    with torch.cuda.device_of(tensor):
        return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


class Ways:
    """Which way multiplies by a layer's weights: in install()'s words, those of `products`."""

    _numbers = itertools.count()

    def __init__(self, library: Library, products: str, table: Table | None):
        self.usual = OWN if products == "fastest" else DEQUANTIZE
        self.library, self._products, self._table = library, products, table
        self._known: dict = {}
        self.number = str(next(self._numbers))

    @torch.compiler.assume_constant_result
    def of(self, _number, device: torch.device, n, k, blocksize: int, type: str, nested: bool):
        """Up to which number of rows which way, as in Table.ways; for more, the usual one.

        `_number` is its own, which torch.compile compares: it takes the results of two objects for
        the same constant.
        """
        key = (device, n, k, blocksize, type, nested)
        if key not in self._known:
            self._known[key] = tuple(self._measured(*key))
        return self._known[key]

    def way(self, A: torch.Tensor, state) -> str:
        # Of a product by exact weights none was dequantized to another type first.
        if self.usual == OWN or state.dtype == A.dtype:
            n, k = state.shape
            m = A.numel() // k
            layer = (n, k, state.blocksize, TYPES[A.dtype], state.nested)
            for most, fastest in self.of(self.number, A.device, *layer):
                if m <= most:
                    return fastest
        return self.usual

    def _measured(self, device, n, k, blocksize, type, nested) -> list[tuple[int, str]]:
        found = capability(device) if self._products != DEQUANTIZE else None
        table = self._table
        if found and (table is None or table.compute_capability != found):
            table = recorded(torch.cuda.get_device_name(device), found)
            if self._table is not None:
                given, taken = self._table.compute_capability, "recorded" if table else "no"
                what = f"is of compute capability {given}, this GPU of {found}"
                then = f"{taken} times are taken; make tune measures this GPU's"
                warnings.warn(f"reprolab_nf4: table: {what}: {then}", stacklevel=1)
        if not found or table is None:
            return []

        def can(way: str, rows: int) -> bool:
            if self._products == "exact" and way not in EXACT:
                return False
            product = (way, rows, n, k, blocksize)
            return way in (OWN, DEQUANTIZE) or runs(self.library, device, *product)

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


def read_offset(offset: torch.Tensor) -> float:
    """Of nested scales, which are few; kernels take it from the host. Read once, because that waits
    for the GPU, and again when it has changed.
    """
    state = (offset.data_ptr(), None if offset.is_inference() else offset._version)
    known, value = getattr(offset, "reprolab_nf4_value", (None, None))
    if known != state:
        if is_capturing(offset):
            raise DropinError("a capture cannot read nested scales; run the model once before")
        value = offset.item()
        offset.reprolab_nf4_value = state, value
    return value


def replacement(own, ways: Ways):
    """bitsandbytes' matmul_4bit, but that `ways` decides how products are computed.

    Training, FP4, fp32, codes in its layout for CPUs, and what is amiss stay `own`.
    """
    global _library
    _library = ways.library
    settled = SettledWeights()
    # Without it, square weights are transposed only where the codes are given as a row.
    always_transposes = knows_fused_products()

    def matmul_4bit(A, B, quant_state, out=None, bias=None):
        if out is not None or not is_ours(A, quant_state, bias):
            return own(A, B, quant_state, out=out, bias=bias)
        n, k = quant_state.shape
        if not always_transposes and n == k and B.shape[0] != 1:
            return own(A, B, quant_state, bias=bias)
        way = ways.way(A, quant_state)
        if way == OWN:
            return own(A, B, quant_state, bias=bias)
        if way == DEQUANTIZE:
            # As a column, so that a transposed view of the codes gives the matrix itself.
            weight = functional.dequantize_4bit(B.data.view(-1, 1), quant_state)
            return torch.nn.functional.linear(A, weight.to(A.dtype), bias)
        if is_recorded(A):
            # What is recorded may run with other weights, whose nested scales have another offset.
            codes, scales = B.data.view(-1, 1), scales_of(quant_state)
            if not fits(A.device, quant_state, codes, scales):
                return own(A, B, quant_state, bias=bias)
            return operator(way, A, codes, n, scales, quant_state.blocksize, bias)
        with torch._C.DisableTorchFunctionSubclass():  # that of bitsandbytes' parameters is slow
            codes = B.detach()
        if not quant_state.nested:
            weights, more = [codes, quant_state.absmax], (None, None, 0.0, 0)
        else:
            second = quant_state.state2
            weights = [codes, second.absmax, quant_state.absmax, second.code]
            more = (*weights[2:], read_offset(quant_state.offset), second.blocksize)
        sizes = (n, k, quant_state.blocksize, more[-1])
        are_settled = codes.get_device() == A.get_device() and settled.has(sizes, weights)
        if not are_settled and not fits(A.device, quant_state, *weights):
            return own(A, B, quant_state, bias=bias)
        given = (weights[1], quant_state.blocksize, bias, *more, are_settled)
        try:
            product = multiply(way, A, codes, n, *given)
        except NoCodeError as error:
            give_up(error)
            return own(A, B, quant_state, bias=bias)
        if not are_settled:
            settled.add(sizes, weights)
        return product

    return matmul_4bit


def knows_fused_products() -> bool:
    """Whether the installed bitsandbytes multiplies by codes, which it does from 0.50 on."""
    return hasattr(torch.ops.bitsandbytes, "gemm_4bit")


def is_ours(A, state, bias) -> bool:
    if getattr(state, "quant_type", None) != "nf4" or len(state.shape) != 2:
        return False
    if A.dtype not in TYPES or (bias is not None and bias.dtype != A.dtype):
        return False
    if not A.is_cuda and getattr(state, "packing_format_for_cpu", False):
        return False
    if torch.is_grad_enabled() and (A.requires_grad or (bias is not None and bias.requires_grad)):
        return False
    kind = A.device.type
    if torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) != A.dtype:
        return False
    n, k = state.shape
    if bias is not None and (tuple(bias.shape) != (n,) or bias.device != A.device):
        return False
    # Weights that were quantized as k x n are a case of bitsandbytes' own.
    return A.numel() > 0 and n > 0 and A.shape[-1] == k


def scales_of(state) -> torch.Tensor:
    """In fp32; nested ones are decoded as bitsandbytes does before it dequantizes."""
    if not state.nested:
        return state.absmax
    return functional.dequantize_blockwise(state.absmax, state.state2) + state.offset


def fits(device, state, codes, scales, scale_codes=None, map=None) -> bool:
    """Whether the arrays are what kernels read by address: there, dense, and long enough."""
    arrays = [array for array in (codes, scales, scale_codes, map) if array is not None]
    if not all(array.device == device and array.is_contiguous() for array in arrays):
        return False
    n, k = state.shape
    count = -(-n * k // state.blocksize)
    if 2 * codes.nbytes < n * k or scales.dtype != torch.float32:
        return False
    if scale_codes is None:
        return scales.numel() >= count
    if (scale_codes.dtype, map.dtype) != (torch.uint8, torch.float32):
        return False
    seconds = -(-count // state.state2.blocksize)
    sizes = (scale_codes.numel(), scales.numel(), map.numel())
    return all(size >= needed for size, needed in zip(sizes, (count, seconds, 256), strict=True))

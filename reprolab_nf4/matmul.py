"""bitsandbytes' matmul_4bit with NF4 weights, by the fastest backend of a table of measured times.
Needs torch and bitsandbytes.
"""

import functools
import warnings
from collections.abc import Callable

import torch
from bitsandbytes import functional

from reprolab_nf4.c_functions import DropinError
from reprolab_nf4.library import Library
from reprolab_nf4.timing_table import BITSANDBYTES, DEQUANTIZE, Table, recorded
from reprolab_nf4.training import left
from reprolab_nf4.weights import (
    PLAIN,
    Offsets,
    SettledWeights,
    arrays_of,
    fits,
    is_offset,
    on_device_of,
    scales_of,
)

TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
MAX_ROWS = 512  # of a table of times

# bitsandbytes' matmul_4bit and the dispatcher of the last install(), for the operator, which
# exported programs call too.
_dispatch: tuple[Callable, "Dispatcher"] | None = None


def multiply(
    library: Library,
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
    weights_ready: bool = False,
) -> torch.Tensor:
    """A [..., k] times the transposed n x k weights, by `kernel`: csrc/reprolab_nf4.h.

    PyTorch allocates the workspace, so a captured call uses memory of its graph.
    """
    A, codes = aligned(A.contiguous()), aligned(B)
    ready = weights_ready and codes is B  # not a new copy
    bias = None if bias is None else bias.contiguous()
    k = A.shape[-1]
    m = A.numel() // k
    out = A.new_empty((*A.shape[:-1], n))
    arrays = map(address, (A, codes, absmax, absmax_codes, code2))
    with on_device_of(A):
        size = workspace_bytes(library, A.device, kernel, m, n, k, blocksize)
        workspace = A.new_empty(size, dtype=torch.uint8) if size else None
        sizes = (m, n, k, blocksize, blocksize2, ready)
        last = (address(workspace), stream_of(A))
        given = (kernel.encode(), A.dtype == torch.bfloat16, *arrays, offset, address(bias))
        library.reprolab_nf4_multiply(*given, address(out), *sizes, *last)
    return out


@torch.library.custom_op("reprolab_nf4::matmul_4bit", mutates_args=())
def operator(
    A: torch.Tensor,
    B: torch.Tensor,
    n: int,
    absmax: torch.Tensor,
    code: torch.Tensor,
    blocksize: int,
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
    absmax2: torch.Tensor | None = None,
    code2: torch.Tensor | None = None,
    offset: torch.Tensor | None = None,
    blocksize2: int = 0,
) -> torch.Tensor:
    """bitsandbytes' matmul_4bit with its dispatch, for tools that record or transform operators,
    such as torch.compile and torch.export; elsewhere it would take host time.

    It may run later, with another number of rows, other weights, or after another install(). So
    each run chooses the backend, checks the arrays and decodes nested scales.
    """
    if _dispatch is None:
        raise DropinError("reprolab_nf4 is not installed: call install() before the program runs")
    own, dispatcher = _dispatch
    check_devices(A, B, absmax, code, bias, absmax2, code2, offset)
    state = functional.QuantState(
        absmax, torch.Size((n, A.shape[-1])), code, blocksize, "nf4", dtype
    )
    if absmax2 is not None:
        second = functional.QuantState(absmax2, code=code2, blocksize=blocksize2)
        second.dtype = torch.float32
        state.offset, state.state2, state.nested = offset, second, True
    backend, codes = dispatcher.backend(A, state), B.reshape(-1, 1)
    can_read = (
        has_values(A, bias)
        and is_bias(bias, A, n)
        and fits(A.device, state, *arrays_of(codes, state))
    )
    if backend == BITSANDBYTES or not can_read:
        return own(A, codes.t(), state, bias=bias)
    if backend == DEQUANTIZE:
        return dequantized(A, codes, state, bias)
    scales = scales_of(state)
    return multiply(dispatcher.library, backend, A, codes, n, scales, blocksize, bias)


@operator.register_fake
def _(A, B, n, *_, **__):
    return A.new_empty(*A.shape[:-1], n)


def check_devices(*tensors: torch.Tensor | None) -> None:
    """DropinError if tensors are on several devices: a kernel, also of bitsandbytes, would read the
    address of another device's memory. torch.export.save() moves a layer's scales to the CPU.
    """
    devices = sorted({str(tensor.device) for tensor in tensors if tensor is not None})
    if len(devices) > 1:
        what = f"a matmul's tensors are on {' and '.join(devices)}"
        raise DropinError(f"{what}: move them, scales by layer.weight.quant_state.to(device)")


def recorded_product(A, B, state, bias) -> torch.Tensor:
    """Passes all tensors of the quantization state as inputs, so that none becomes a constant."""
    given = (state.absmax, state.code, state.blocksize, state.dtype, bias)
    if state.nested:
        second = state.state2
        given += (second.absmax, second.code, state.offset, second.blocksize)
    return operator(A, B, state.shape[0], *given)


def dequantized(A, codes, state, bias) -> torch.Tensor:
    """`codes`: a column, for which bitsandbytes returns the matrix, not its transpose."""
    weight = functional.dequantize_4bit(codes, state)
    return torch.nn.functional.linear(A, weight.to(A.dtype), bias)


def is_recorded(A: torch.Tensor) -> bool:
    """Whether operators are recorded or transformed, so that the matmul must be one. Also for
    tensors of other classes, such as the pending result of a collective.
    """
    return (
        torch.compiler.is_compiling()
        or type(A) is not torch.Tensor
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.maybe_current_level() is not None
    )


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy if it is not aligned to the 16 bytes that kernels load at once."""
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


def stream_of(tensor: torch.Tensor) -> int:
    """The handle of the current stream of its device, without an object for it."""
    return torch._C._cuda_getCurrentRawStream(tensor.get_device())


def address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@functools.lru_cache(10000)
def workspace_bytes(library, device, *product) -> int:
    """`device` is the current one."""
    return library.workspace(*product)


class Dispatcher:
    """Chooses the backend of a matmul by a layer's weights. `products`: as in install()."""

    def __init__(self, library: Library, products: str, table: Table | None):
        self.default = BITSANDBYTES if products == "fastest" else DEQUANTIZE
        self.library = library
        self._products, self._table, self._known = products, table, {}
        self.has_warned, self.closed_by = False, []  # called by end()
        self._settled, self.offsets = SettledWeights(), Offsets()
        # Otherwise all products dequantize, and bitsandbytes' operators are recorded.
        self.varies = products != DEQUANTIZE

    def warn_of_fp32(self) -> None:
        self.has_warned = True
        what = "a 4-bit layer computes in float32, for which reprolab_nf4 has no matmul"
        then = "set bnb_4bit_compute_dtype, or Linear4bit's compute_dtype, to torch.bfloat16"
        warnings.warn(f"{what}: {then}", stacklevel=3)

    def end(self) -> None:
        """Makes bitsandbytes compute again, also for callers that kept the replacements."""
        self.default = self._products = BITSANDBYTES
        self._known = {}
        self.offsets.forget()
        workspace_bytes.cache_clear()  # which keeps the library
        while self.closed_by:
            self.closed_by.pop()()

    def backend(self, A: torch.Tensor, state) -> str:
        """The backend of the matmul with these activations."""
        # Exact weights were not rounded to another type first.
        if not self.varies or (self.default != BITSANDBYTES and state.dtype != A.dtype):
            return self.default
        n, k = state.shape
        rows = A.numel() // k
        for most, backend in self.by_rows(
            A.device, n, k, state.blocksize, TYPES[A.dtype], state.nested
        ):
            if rows <= most:
                return backend
        return self.default

    def by_kernel(self, backend: str, A, B, state, bias) -> torch.Tensor | None:
        """By a kernel of ours; None if it cannot read the arrays."""
        with torch._C.DisableTorchFunctionSubclass():  # bitsandbytes' is slow
            codes = B.detach()
        arrays, more = arrays_of(codes, state), (None, None, 0.0, 0)
        (n, k), blocksize = state.shape, state.blocksize
        sizes = (n, k, blocksize, state.state2.blocksize if state.nested else 0)
        ready = codes.get_device() == A.get_device() and self._settled.has(sizes, arrays)
        if not ready and not fits(A.device, state, *arrays):
            check_devices(A, *arrays)
            return None
        if state.nested:
            if not is_offset(state.offset):
                return None
            more = (*arrays[2:], self.offsets.read(state.offset), state.state2.blocksize)
        given = (A, codes, n, arrays[1], blocksize, bias, *more, ready)
        product = multiply(self.library, backend, *given)
        if not ready:
            self._settled.add(sizes, arrays)
        return product

    def by_rows(self, *layer) -> tuple[tuple[int, str], ...]:
        """The backends by number of rows, as Table.backends(); for more rows the default.

        `layer`: device, n, k, block size, type, and whether scales are nested.
        """
        if layer not in self._known:
            self._known[layer] = tuple(self._measured(*layer))
        return self._known[layer]

    def _measured(self, device, n, k, blocksize, type, nested) -> list[tuple[int, str]]:
        current = capability(device) if self._products in ("fastest", "exact") else None
        table = self._table
        if current and (table is None or table.compute_capability != current):
            table = recorded(torch.cuda.get_device_name(device), current)
            if self._table is not None:
                given, taken = self._table.compute_capability, "recorded" if table else "no"
                what = f"is of compute capability {given}, this GPU of {current}"
                then = f"{taken} times are taken; make tune measures this GPU's"
                warnings.warn(f"reprolab_nf4: table: {what}: {then}", stacklevel=1)
        if not current or table is None:
            return []

        is_exact = self._products == "exact"
        exact = (DEQUANTIZE, *self.library.exact_products()) if is_exact else ()

        def can(backend: str, rows: int) -> bool:
            if is_exact and backend not in exact:
                return False
            is_ours = backend not in (BITSANDBYTES, DEQUANTIZE)
            return not is_ours or runs(self.library, device, backend, rows, n, k, blocksize)

        return table.backends(n, k, type, nested, can, self.default)


def capability(device: torch.device) -> str:
    """The compute capability, such as 9.0; empty for other devices."""
    version = torch.cuda.get_device_capability(device) if device.type == "cuda" else ()
    return ".".join(map(str, version))


def runs(library: Library, device: torch.device, *product) -> bool:
    """Whether a kernel supports the shape."""
    try:
        with torch.cuda.device(device):
            workspace_bytes(library, device, *product)
        return True
    except DropinError:
        return False


def replacement(own, dispatcher: Dispatcher):
    """bitsandbytes' matmul_4bit, by the backend that `dispatcher` chooses.

    Training, layers in training mode, FP4, fp32, codes in the layout for CPUs, and malformed inputs
    go to `own`; the most frequent of these after the fewest checks.
    """
    # Older versions transpose square weights only if the codes are a row.
    always_transposes = knows_fused_products()
    leaves_many_rows = dispatcher.default == BITSANDBYTES
    is_compiling = torch.compiler.is_compiling  # one graph serves all numbers of rows

    def matmul_4bit(A, B, quant_state, out=None, bias=None):
        if left.is_on or out is not None or getattr(quant_state, "quant_type", None) != "nf4":
            return own(A, B, quant_state, out=out, bias=bias)
        if A.dtype not in TYPES:
            if not dispatcher.has_warned and A.dtype == torch.float32 and not is_recorded(A):
                dispatcher.warn_of_fp32()
            return own(A, B, quant_state, bias=bias)
        if A.requires_grad and torch.is_grad_enabled():
            return own(A, B, quant_state, bias=bias)
        if leaves_many_rows and not is_compiling() and A.numel() > MAX_ROWS * A.shape[-1]:
            return own(A, B, quant_state, bias=bias)
        if not is_ours(A, B, quant_state, bias):
            return own(A, B, quant_state, bias=bias)
        n, k = quant_state.shape
        if not always_transposes and n == k and B.shape[0] != 1:
            return own(A, B, quant_state, bias=bias)
        if dispatcher.varies and is_recorded(A):
            return recorded_product(A, B, quant_state, bias)
        backend = dispatcher.backend(A, quant_state)
        if backend == DEQUANTIZE:
            return dequantized(A, B.view(-1, 1), quant_state, bias)
        if backend == BITSANDBYTES or not has_values(A, bias):
            return own(A, B, quant_state, bias=bias)
        try:
            product = dispatcher.by_kernel(backend, A, B, quant_state, bias)
        except (AttributeError, TypeError):  # malformed, for which bitsandbytes has its own error
            product = None
        return own(A, B, quant_state, bias=bias) if product is None else product

    return matmul_4bit


def put_in_place_of(own, dispatcher: Dispatcher):
    """The replacement, which the operator calls from now on, too."""
    global _dispatch
    _dispatch = (own, dispatcher)
    return replacement(own, dispatcher)


def knows_fused_products() -> bool:
    """Whether the installed bitsandbytes multiplies by codes, as 0.50 and later do."""
    return hasattr(torch.ops.bitsandbytes, "gemm_4bit")


def needs_gradient(*tensors) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def is_ours(A, B, state, bias) -> bool:
    """Whether a backend other than bitsandbytes' own may multiply."""
    if state.quant_type != "nf4" or len(state.shape) != 2 or A.dtype not in TYPES:
        return False
    n, k = state.shape
    # bitsandbytes handles weights that were quantized as k x n.
    if A.layout is not torch.strided or A.numel() == 0 or n == 0 or A.shape[-1] != k:
        return False
    if needs_gradient(A, B, bias) or torch.autograd.forward_ad._current_level >= 0:
        return False
    # A tensor of vmap hides whether it needs a gradient.
    if not torch.compiler.is_compiling() and torch._C._functorch.is_batchedtensor(A):
        return False
    if not is_bias(bias, A, n):
        return False
    kind = "cuda" if A.is_cuda else A.device.type  # makes an object
    if kind == "meta" or (kind == "cpu" and getattr(state, "packing_format_for_cpu", False)):
        return False
    return not (torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) != A.dtype)


def has_values(*tensors) -> bool:
    """Whether the values are those in memory: neither of the other sign, nor zeros without any."""
    given = (tensor for tensor in tensors if tensor is not None)
    return not any(tensor.is_neg() or tensor._is_zerotensor() for tensor in given)


def is_bias(bias, A, n: int) -> bool:
    """Whether kernels can add it, or there is none."""
    if bias is None:
        return True
    if type(A) is torch.Tensor and type(bias) not in PLAIN:  # others are recorded as operators
        return False
    return bias.dtype == A.dtype and tuple(bias.shape) == (n,) and bias.device == A.device

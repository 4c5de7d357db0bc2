"""bitsandbytes' matmul_4bit with NF4 weights, in the fastest way by a table of measured times.
Needs torch and bitsandbytes.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable

import torch
from bitsandbytes import functional

from reprolab_nf4 import Library, give_up
from reprolab_nf4.arrays import Offsets, arrays_of, fits, scales_of
from reprolab_nf4.c_functions import DropinError, NoCodeError
from reprolab_nf4.settled import SettledWeights
from reprolab_nf4.timing_table import DEQUANTIZE, OWN, Table, recorded
from reprolab_nf4.training import marking_training, training

TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
NO_CHANGE = contextlib.nullcontext()

# bitsandbytes' matmul_4bit and the ways of the last install(), for the operator, which exported
# programs call too.
_dispatch: tuple[Callable, "Ways"] | None = None


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
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """A [..., k] times the transposed n x k weights, by `kernel`: reprolab_nf4.h.

    PyTorch allocates the workspace, so a captured call uses memory of its graph.
    """
    A, codes = aligned(A.contiguous()), aligned(B)
    ready = weights_ready and codes is B  # not a new copy
    bias = None if bias is None else bias.contiguous()
    k = A.shape[-1]
    m = A.numel() // k
    if out is None:
        out = A.new_empty((*A.shape[:-1], n))
    call = library.multiply[TYPES[A.dtype]]
    arrays = map(address, (A, codes, absmax, absmax_codes, code2))
    with on_device_of(A):
        size = workspace_bytes(library, A.device, kernel, m, n, k, blocksize)
        workspace = A.new_empty(size, dtype=torch.uint8) if size else None
        sizes = (m, n, k, blocksize, blocksize2, ready)
        last = (address(workspace), stream_of(A))
        call(kernel.encode(), *arrays, offset, address(bias), address(out), *sizes, *last)
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
    each run chooses the way, checks the arrays and decodes nested scales.
    """
    if _dispatch is None:
        raise DropinError("reprolab_nf4 is not installed: call install() before the program runs")
    own, ways = _dispatch
    state = functional.QuantState(
        absmax, torch.Size((n, A.shape[-1])), code, blocksize, "nf4", dtype
    )
    if absmax2 is not None:
        second = functional.QuantState(absmax2, code=code2, blocksize=blocksize2)
        second.dtype = torch.float32
        state.offset, state.state2, state.nested = offset, second, True
    way, codes = ways.way(A, state), B.view(-1, 1)
    can_read = is_bias(bias, A, n) and fits(A.device, state, *arrays_of(codes, state))
    if way == OWN or not can_read:
        return own(A, B, state, bias=bias)
    if way == DEQUANTIZE:
        return dequantized(A, codes, state, bias)
    try:
        return multiply(ways.library, way, A, codes, n, scales_of(state), blocksize, bias)
    except NoCodeError as error:
        give_up(error)
        return own(A, B, state, bias=bias)


@operator.register_fake
def _(A, B, n, *_, **__):
    return A.new_empty(*A.shape[:-1], n)


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


def on_device_of(tensor: torch.Tensor):
    """torch.cuda.device_of, in less host time if the device is current."""
    is_current = tensor.get_device() == torch.cuda.current_device()
    return NO_CHANGE if is_current else torch.cuda.device_of(tensor)


def stream_of(tensor: torch.Tensor) -> int:
    """The handle of the current stream of its device, without an object for it."""
    return torch._C._cuda_getCurrentRawStream(tensor.get_device())


def address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@functools.lru_cache(10000)
def workspace_bytes(library, device, *product) -> int:
    """`device` is the current one."""
    return library.workspace(*product)


class Ways:
    """Chooses the way of a matmul by a layer's weights. `products`: as in install()."""

    def __init__(self, library: Library, products: str, table: Table | None):
        self.usual = OWN if products == "fastest" else DEQUANTIZE
        self.library, self._products, self._table = library, products, table
        self._known: dict = {}
        self._has_warned, self._calls, self._engines = False, None, []
        self._settled, self.offsets = SettledWeights(), Offsets()
        # Otherwise all take the usual way, and bitsandbytes' operators are recorded.
        self.vary = products != DEQUANTIZE

    def replaced(self, bitsandbytes) -> list[tuple]:
        """The replaced functions of bitsandbytes: owner, name, replacement."""
        from reprolab_nf4 import layers  # which imports this module

        global _dispatch
        _dispatch = (bitsandbytes.matmul_4bit, self)
        product, layer = replacement(*_dispatch), bitsandbytes.nn.Linear4bit
        call = marking_training(layer)
        planner = layers.planner(self, product) if self.vary else None
        if planner is None:
            forward = layers.forward_in_python(layer.forward)
            methods = [(layer, "__call__", call), (layer, "forward", forward)]
        else:
            self._calls, methods = planner.calls, planner.replaced(layer, call)
        return [(bitsandbytes, "matmul_4bit", product), *methods]

    def begin(self) -> None:
        """From when the functions are replaced until end()."""
        from reprolab_nf4 import shards, tensor_parallel  # the former imports this module

        self._engines.append(tensor_parallel.Loader())
        if self.vary:
            self._engines.append(shards.Shards(self))

    def warn_of_fp32(self, state) -> None:
        """Once."""
        if not self._has_warned and getattr(state, "quant_type", None) == "nf4":
            self._has_warned = True
            what = "a 4-bit layer computes in float32, for which reprolab_nf4 has no matmul"
            then = "set bnb_4bit_compute_dtype, or Linear4bit's compute_dtype, to torch.bfloat16"
            warnings.warn(f"{what}: {then}", stacklevel=3)

    def end(self) -> None:
        """Makes bitsandbytes compute again, also for callers that kept the replacements."""
        self.usual = self._products = OWN
        self._known = {}
        self.offsets.forget()
        workspace_bytes.cache_clear()  # which keeps the library
        if self._calls is not None:
            self._calls.close()
        while self._engines:
            self._engines.pop().end()

    def way(self, A: torch.Tensor, state) -> str:
        """The way of the matmul with these activations."""
        # Exact weights were not rounded to another type first.
        if self.usual != OWN and state.dtype != A.dtype:
            return self.usual
        n, k = state.shape
        rows = A.numel() // k
        for most, way in self.by_rows(
            A.device, n, k, state.blocksize, TYPES[A.dtype], state.nested
        ):
            if rows <= most:
                return way
        return self.usual

    def by_kernel(self, way: str, A, B, state, bias, out=None) -> torch.Tensor | None:
        """By a kernel of ours, into `out` if given. None if it cannot read the arrays, or the
        library has no code for the GPU.
        """
        with torch._C.DisableTorchFunctionSubclass():  # bitsandbytes' is slow
            codes = B.detach()
        arrays, more = arrays_of(codes, state), (None, None, 0.0, 0)
        if state.nested:
            more = (*arrays[2:], self.offsets.read(state.offset), state.state2.blocksize)
        (n, k), blocksize = state.shape, state.blocksize
        sizes = (n, k, blocksize, more[-1])
        ready = codes.get_device() == A.get_device() and self._settled.has(sizes, arrays)
        if not ready and not fits(A.device, state, *arrays):
            return None
        given = (A, codes, n, arrays[1], blocksize, bias, *more, ready, out)
        try:
            product = multiply(self.library, way, *given)
        except NoCodeError as error:
            give_up(error)
            return None
        if not ready:
            self._settled.add(sizes, arrays)
        return product

    def by_rows(self, *layer) -> tuple[tuple[int, str], ...]:
        """The ways by number of rows, as Table.ways(); for more rows the usual one.

        `layer`: device, n, k, block size, type, and whether scales are nested.
        """
        known = self._known  # end() may replace it in another thread
        if layer not in known:
            known[layer] = tuple(self._measured(*layer))
        return known[layer]

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

        def can(way: str, rows: int) -> bool:
            if is_exact and way not in exact:
                return False
            product = (way, rows, n, k, blocksize)
            return way in (OWN, DEQUANTIZE) or runs(self.library, device, *product)

        return table.ways(n, k, type, nested, can, self.usual)


class Always(Ways):
    """One way for every matmul."""

    def __init__(self, library: Library, way: str):
        super().__init__(library, way, None)
        self.usual = way

    def way(self, *_):
        return self.usual


def capability(device: torch.device) -> str:
    """The compute capability, such as 9.0; empty for other devices."""
    version = torch.cuda.get_device_capability(device) if device.type == "cuda" else ()
    return ".".join(map(str, version))


def runs(library: Library, device: torch.device, *product) -> bool:
    try:
        with torch.cuda.device(device):
            workspace_bytes(library, device, *product)
        return True
    except NoCodeError as error:
        give_up(error)
    except DropinError:  # the kernel does not support the shape
        pass
    return False


def replacement(own, ways: Ways):
    """bitsandbytes' matmul_4bit, in the way that `ways` chooses.

    Training, layers in training mode, FP4, fp32, codes in the layout for CPUs, and malformed inputs
    go to `own`.
    """
    # Older versions transpose square weights only if the codes are a row.
    always_transposes = knows_fused_products()

    def matmul_4bit(A, B, quant_state, out=None, bias=None):
        if out is not None or training.is_on or not is_ours(A, B, quant_state, bias):
            if A.dtype == torch.float32 and not is_recorded(A):
                ways.warn_of_fp32(quant_state)
            return own(A, B, quant_state, out=out, bias=bias)
        n, k = quant_state.shape
        if not always_transposes and n == k and B.shape[0] != 1:
            return own(A, B, quant_state, bias=bias)
        if ways.vary and is_recorded(A):
            return recorded_product(A, B, quant_state, bias)
        way = ways.way(A, quant_state) if ways.vary else ways.usual
        if way == OWN:
            return own(A, B, quant_state, bias=bias)
        if way == DEQUANTIZE:
            return dequantized(A, B.view(-1, 1), quant_state, bias)
        product = ways.by_kernel(way, A, B, quant_state, bias)
        return own(A, B, quant_state, bias=bias) if product is None else product

    return matmul_4bit


def knows_fused_products() -> bool:
    """Whether the installed bitsandbytes multiplies by codes, as 0.50 and later do."""
    return hasattr(torch.ops.bitsandbytes, "gemm_4bit")


def is_ours(A, B, state, bias) -> bool:
    if getattr(state, "quant_type", None) != "nf4" or len(state.shape) != 2:
        return False
    n, k = state.shape
    if A.layout is not torch.strided or A.dtype not in TYPES or not is_bias(bias, A, n):
        return False
    if not A.is_cuda and getattr(state, "packing_format_for_cpu", False):
        return False
    given = (A, B) if bias is None else (A, B, bias)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return False
    kind = "cuda" if A.is_cuda else A.device.type  # makes an object
    if kind == "meta":
        return False
    if torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) != A.dtype:
        return False
    # bitsandbytes handles weights that were quantized as k x n.
    return A.numel() > 0 and n > 0 and A.shape[-1] == k


def is_bias(bias, A, n: int) -> bool:
    """Whether kernels can add it, or there is none."""
    if bias is None:
        return True
    return bias.dtype == A.dtype and tuple(bias.shape) == (n,) and bias.device == A.device

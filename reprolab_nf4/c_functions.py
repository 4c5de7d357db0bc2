"""The C functions of libreprolab_nf4.so: parameters, conversion of arguments, errors."""

import contextlib
import ctypes
import operator
from collections.abc import Callable

# The functions of bitsandbytes' CUDA library that are replaced.
REPLACED = ("cdequantize_blockwise_fp16_nf4", "cdequantize_blockwise_bf16_nf4")
TEXTS = tuple(
    f"reprolab_nf4_{name}" for name in ("kernels", "products", "exact_products", "build", "error")
)
NESTED = ("reprolab_nf4_dequantize_nested_fp16", "reprolab_nf4_dequantize_nested_bf16")
MULTIPLY = ("reprolab_nf4_multiply_fp16", "reprolab_nf4_multiply_bf16")
PLAN = ("reprolab_nf4_plan_fp16", "reprolab_nf4_plan_bf16")
ROW_BOUNDS = ("reprolab_nf4_row_bounds_fp16", "reprolab_nf4_row_bounds_bf16")
WORKSPACE = "reprolab_nf4_workspace"
NO_CODE = 209  # cudaErrorNoKernelImageForDevice


def one_line(message: str) -> str:
    """A printable line of limited length."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    return line if len(line) <= 1000 else f"{line[:500]}...{line[-400:]}"


class DropinError(RuntimeError):
    """An error as one line, whatever the input."""

    __module__ = "reprolab_nf4"  # where users import it from; defined here, it outlives a reload

    def __init__(self, message: str):
        super().__init__(one_line(message))


class NoCodeError(DropinError):
    """The library was not built for this GPU."""

    __module__ = "reprolab_nf4"


def shown(value) -> str:
    """A value for a message: itself if it is simple, otherwise, such as for a tensor, its type."""
    with contextlib.suppress(ValueError):  # a number with more digits than Python writes
        if isinstance(value, (int, float, str, bytes, list, type(None))):
            return repr(value)
    return f"a value of type {type(value).__name__}"


class Parameter:
    """Accepts integers in a range, and what ctypes accepts except numbers and text: ctypes would
    truncate other numbers, and pass the address of a text.
    """

    def __init__(self, kind: type, least: int, most: int, wanted: str):
        self.kind, self._least, self._most, self._wanted = kind, least, most, wanted

    def from_param(self, value):
        if type(value) is int and self._least <= value <= self._most:  # the usual case
            return self.kind(value)
        value = getattr(value, "_as_parameter_", value)  # a stream of torch's has one
        with contextlib.suppress(TypeError):
            if not hasattr(value, "__index__") and not isinstance(value, (float, str, bytes)):
                return self.kind.from_param(value)
            number = operator.index(value)
            if not isinstance(value, bool) and self._least <= number <= self._most:
                return self.kind(number)
        raise TypeError(f"give {self._wanted}, not {shown(value)}")


class Text:
    """Accepts the name of a kernel."""

    kind = ctypes.c_char_p

    @staticmethod
    def from_param(value):
        if isinstance(value, str) and value.isascii() and value.isprintable():
            return ctypes.c_char_p(value.encode())
        raise TypeError(f"give a kernel's name, not {shown(value)}")


MOST_WEIGHTS = 2**30  # of one call, whose `n` is an int; a multiple of every block size


def in_parts(dequantize: Callable) -> Callable:
    """A function of REPLACED that supports more weights than an int counts, by several calls."""

    def call(code, A, absmax, out, blocksize, n, stream=None):
        if type(n) is not int or n <= MOST_WEIGHTS:
            return dequantize(code, A, absmax, out, blocksize, n, stream)
        for first in range(0, n, MOST_WEIGHTS):
            addresses = (A + first // 2, absmax + 4 * (first // blocksize), out + 2 * first)
            count = min(MOST_WEIGHTS, n - first)
            dequantize(code, *addresses, blocksize, count, stream)

    return call


def unchecked(parameter: type | Parameter | Text) -> type:
    """The type of ctypes alone, which takes a tenth of the host time."""
    return getattr(parameter, "kind", parameter)


def whole(kind: type, bits: int) -> Parameter:
    return Parameter(
        kind, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, f"a whole number of {bits} bits"
    )


# Parameters by name, as in reprolab_nf4.h.
ADDRESS = Parameter(ctypes.c_void_p, 0, 2**64 - 1, "an address, such as tensor.data_ptr()")
INT, INT64 = whole(ctypes.c_int, 32), whole(ctypes.c_int64, 64)
PLAIN_PARAMETERS = {
    **dict.fromkeys(("code", "A", "absmax", "out"), ADDRESS),
    **dict.fromkeys(("blocksize", "n"), INT),
    "stream": ADDRESS,
}
NESTED_PARAMETERS = {
    **dict.fromkeys(("A", "absmax_codes", "code2", "absmax2"), ADDRESS),
    **{"offset": ctypes.c_float, "out": ADDRESS},
    **dict.fromkeys(("blocksize", "blocksize2"), INT),
    **{"n": INT64, "stream": ADDRESS},
}
MULTIPLY_PARAMETERS = {
    "kernel": Text,
    **dict.fromkeys(("A", "B", "absmax", "absmax_codes", "code2"), ADDRESS),
    "offset": ctypes.c_float,
    **dict.fromkeys(("bias", "out"), ADDRESS),
    **dict.fromkeys(("m", "n", "k"), INT64),
    **dict.fromkeys(("blocksize", "blocksize2", "weights_ready"), INT),
    **dict.fromkeys(("workspace", "stream"), ADDRESS),
}
PLAN_PARAMETERS = {
    "kernel": Text,
    **dict.fromkeys(("B", "absmax", "absmax_codes", "code2"), ADDRESS),
    **{"offset": ctypes.c_float, "bias": ADDRESS},
    **dict.fromkeys(("m", "n", "k"), INT64),
    **dict.fromkeys(("blocksize", "blocksize2"), INT),
    **dict.fromkeys(("plan", "bytes"), ADDRESS),
}
RUN_PARAMETERS = {
    **dict.fromkeys(("plan", "A", "out"), ADDRESS),
    "weights_ready": INT,
    **dict.fromkeys(("workspace", "stream"), ADDRESS),
}
WORKSPACE_PARAMETERS = {
    "kernel": Text,
    **dict.fromkeys(("m", "n", "k"), INT64),
    **{"blocksize": INT, "bytes": ADDRESS},
}
ROW_BOUNDS_PARAMETERS = {
    **dict.fromkeys(("nonzero", "magnitude"), ADDRESS),
    "offset": ctypes.c_float,
    **dict.fromkeys(("m", "k"), INT64),
    **dict.fromkeys(("relative", "absolute", "limit"), ADDRESS),
}
# Functions that only libreprolab_nf4.so has.
OURS = {
    **dict.fromkeys(NESTED, NESTED_PARAMETERS),
    **dict.fromkeys(MULTIPLY, MULTIPLY_PARAMETERS),
    WORKSPACE: WORKSPACE_PARAMETERS,
    **dict.fromkeys(ROW_BOUNDS, ROW_BOUNDS_PARAMETERS),
    **dict.fromkeys(PLAN, PLAN_PARAMETERS),
    "reprolab_nf4_run": RUN_PARAMETERS,
    "reprolab_nf4_forget": {"plan": ADDRESS},
}

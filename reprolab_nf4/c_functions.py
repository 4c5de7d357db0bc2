"""The C functions of libreprolab_nf4.so: parameters, conversion of arguments, errors."""

import contextlib
import ctypes

# The functions of bitsandbytes' CUDA library that are replaced.
REPLACED = ("cdequantize_blockwise_fp16_nf4", "cdequantize_blockwise_bf16_nf4")
TEXTS = tuple(
    f"reprolab_nf4_{name}" for name in ("kernels", "products", "exact_products", "build", "error")
)
MULTIPLY, PLAN = "reprolab_nf4_multiply", "reprolab_nf4_make_plan"
WORKSPACE = "reprolab_nf4_workspace"


def one_line(message: str) -> str:
    """A printable line of limited length."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    return line if len(line) <= 1000 else f"{line[:500]}...{line[-400:]}"


class DropinError(RuntimeError):
    """An error as one line, whatever the input."""

    __module__ = "reprolab_nf4"  # where users import it from; defined here, it outlives a reload

    def __init__(self, message: str):
        super().__init__(one_line(message))


def shown(value) -> str:
    """A value for a message: itself if it is simple, otherwise, such as for a tensor, its type."""
    with contextlib.suppress(ValueError):  # a number with more digits than Python writes
        if isinstance(value, (int, float, str, bytes, list, type(None))):
            return repr(value)
    return f"a value of type {type(value).__name__}"


# Parameters by name, as in reprolab_nf4.h.
ADDRESS, INT, INT64, TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p
PLAIN_PARAMETERS = {
    **dict.fromkeys(("code", "A", "absmax", "out"), ADDRESS),
    **dict.fromkeys(("blocksize", "n"), INT),
    "stream": ADDRESS,
}
MULTIPLY_PARAMETERS = {
    "kernel": TEXT,
    "is_bf16": INT,
    **dict.fromkeys(("A", "B", "absmax", "absmax_codes", "code2"), ADDRESS),
    "offset": ctypes.c_float,
    **dict.fromkeys(("bias", "out"), ADDRESS),
    **dict.fromkeys(("m", "n", "k"), INT64),
    **dict.fromkeys(("blocksize", "blocksize2", "weights_ready"), INT),
    **dict.fromkeys(("workspace", "stream"), ADDRESS),
}
PLAN_PARAMETERS = {
    "kernel": TEXT,
    "is_bf16": INT,
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
    "kernel": TEXT,
    **dict.fromkeys(("m", "n", "k"), INT64),
    **{"blocksize": INT, "bytes": ADDRESS},
}
# Functions that only libreprolab_nf4.so has.
OURS = {
    MULTIPLY: MULTIPLY_PARAMETERS,
    WORKSPACE: WORKSPACE_PARAMETERS,
    PLAN: PLAN_PARAMETERS,
    "reprolab_nf4_run": RUN_PARAMETERS,
    "reprolab_nf4_forget": {"plan": ADDRESS},
}

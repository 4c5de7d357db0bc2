"""The reference in C++ (reference/c_functions.cpp), for arrays of NumPy or PyTorch."""

import ctypes
import os
from functools import cache
from typing import Any

from reprolab.errors import InputError
from reprolab.json_files import ROOT

BIN = ROOT / os.environ.get("BIN", "build/cpu/bin")
TYPES = {"float16": 0, "bfloat16": 1, "float32": 2}  # in C++


class Array(ctypes.Structure):
    _fields_ = (("values", ctypes.c_void_p), ("count", ctypes.c_int64))


class Weight(ctypes.Structure):
    """The arrays must live as long as this."""

    _fields_ = (
        *((name, Array) for name in ("codes", "absmax", "map", "absmax2")),
        ("block_size2", ctypes.c_int),
        ("offset", ctypes.c_float),
        ("table", Array),
        ("block_size", ctypes.c_int),
        ("type", ctypes.c_int),
        ("shape", Array),
    )


class SharedWeight(ctypes.Structure):
    """A weight, the reference's values, and room for a kernel's, in memory of several processes."""

    _fields_ = (("weight", Weight), ("expected", Array), ("actual", Array))


def array(values: Any) -> Array:
    """Of contiguous values on the CPU: an array of NumPy, or a tensor of PyTorch."""
    if hasattr(values, "data_ptr"):
        return Array(values.data_ptr(), values.numel())
    return Array(values.ctypes.data, values.size)


@cache
def library() -> ctypes.CDLL:
    file = BIN / "libreprolab_reference.so"
    try:
        functions = ctypes.CDLL(str(file))
    except OSError as error:
        raise InputError(f"{file}: cannot be loaded: {error}; run make build") from None
    for name in ("self_test", "weights", "mismatch", "quantizer"):
        getattr(functions, f"reprolab_reference_{name}").restype = ctypes.c_char_p
    functions.reprolab_reference_is_nf4.restype = ctypes.c_bool
    return functions


def self_test() -> None:
    """Tests the comparison on planted faults."""
    if error := library().reprolab_reference_self_test():
        raise RuntimeError(error.decode())


def write_weights(weight: Weight, output: Any) -> None:
    """Dequantizes to bits of the weight's type, or to fp32. ValueError where sizes disagree."""
    if error := library().reprolab_reference_weights(ctypes.byref(weight), array(output)):
        raise ValueError(error.decode())


def mismatch(weight: Weight, expected: Any, actual: Any) -> str:
    """One line on the outputs that differ; empty if no bit does."""
    arrays = array(expected), array(actual)
    return library().reprolab_reference_mismatch(ctypes.byref(weight), *arrays).decode()


def quantizer_check(weight: Weight, source: Any) -> str:
    """One line on the codes and scales that differ; empty if none does."""
    functions = library()
    return functions.reprolab_reference_quantizer(ctypes.byref(weight), array(source)).decode()


def is_nf4(table: Any) -> bool:
    return library().reprolab_reference_is_nf4(array(table))

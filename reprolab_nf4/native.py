"""Finds the object by which bitsandbytes calls its CUDA library. Needs nothing but the standard
library.
"""

import ctypes
import importlib

from reprolab_nf4 import machine
from reprolab_nf4.c_functions import REPLACED, DropinError


def native_library():
    """The object through which all of bitsandbytes' modules call its CUDA library.

    Up to 0.43.0 it is a ctypes.CDLL, later a class of bitsandbytes that looks functions up in a
    CDLL. Both prefer an attribute of their own.
    """
    try:
        native = importlib.import_module("bitsandbytes.cextension").lib
    except Exception as error:  # such as a ValueError of NumPy's, for another version of it
        why = str(error).strip().partition("\n")[0] or repr(error)
        raise DropinError(f"bitsandbytes cannot be imported: {why}") from error
    try:
        library = native if isinstance(native, ctypes.CDLL) else vars(native).get("_lib")
        for name in REPLACED:
            library[name]  # looked up in a CDLL; an attribute would stay there
    except (TypeError, AttributeError) as error:
        why = machine.no_gpu() or "nothing to replace"
        raise DropinError(f"bitsandbytes runs without its CUDA library here: {why}") from error
    return native


def has_operators() -> bool:
    """Whether PyTorch, 2.4 or later, has operators in Python, which replaced matmuls need."""
    return hasattr(importlib.import_module("torch").library, "custom_op")


def measuring_module():
    """reprolab_nf4.measuring; DropinError where nothing can be measured."""
    native_library()
    if not has_operators():
        raise DropinError("measuring needs PyTorch 2.4")
    return importlib.import_module("reprolab_nf4.measuring")


def own_function(native, name: str):
    """bitsandbytes' function, even if an attribute replaces it."""
    if isinstance(native, ctypes.CDLL):
        return native[name]
    return type(native).__getattr__(native, name)

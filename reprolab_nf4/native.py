"""The object by which bitsandbytes calls its CUDA library, and what can run on this machine. Needs
nothing but the standard library.
"""

import ctypes
import importlib
import re
import sys
from collections.abc import Callable

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
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        is_visible = cuda is None or cuda.is_available()
        why = "nothing to replace" if is_visible else "no NVIDIA GPU is visible to PyTorch"
        raise DropinError(f"bitsandbytes runs without its CUDA library here: {why}") from error
    return native


def with_stream(dequantize: Callable) -> Callable:
    """Adds the default stream to the calls of bitsandbytes 0.43, which passes none."""
    if importlib.import_module("bitsandbytes").__version__.startswith("0.43."):
        return lambda *given: dequantize(*given, None)
    return dequantize


def has_operators() -> bool:
    """Whether PyTorch, 2.4 or later, has operators in Python, which replaced matmuls need."""
    return hasattr(importlib.import_module("torch").library, "custom_op")


def measuring_module():
    """reprolab_nf4.measuring; DropinError where nothing can be measured."""
    native_library()
    if not has_operators():
        raise DropinError("measuring needs PyTorch 2.4")
    return importlib.import_module("reprolab_nf4.measuring")


def check(path, nvcc: str, architectures: str) -> None:
    """Raises DropinError if calls would fail here, before anything is replaced.

    `nvcc` and `architectures`: what the library at `path` was built with and for; "" if unknown.
    """
    driver = driver_version()
    # A driver runs programs of newer toolkits with the same major version.
    if nvcc and driver and driver // 1000 < int(nvcc.partition(".")[0]):
        supported = f"{driver // 1000}.{driver % 1000 // 10}"
        raise DropinError(
            f"the NVIDIA driver supports CUDA {supported}, and {path} was built with CUDA {nvcc}: "
            "update the driver, or build with an older CUDA toolkit"
        )
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    for i in range(cuda.device_count() if architectures and cuda is not None else 0):
        if not has_code(architectures, *cuda.get_device_capability(i)):
            gpu = f"GPU {i} ({cuda.get_device_name(i)})"
            then = "build it with ARCH=, or hide the GPU by CUDA_VISIBLE_DEVICES"
            raise DropinError(f"{path} has no code for {gpu}, only for {architectures}: {then}")


def has_code(architectures: str, major: int, minor: int) -> bool:
    """Whether code for these architectures, as CMake names them, runs on a GPU: machine code on the
    same major version, PTX (a number alone) also on all later ones. True if none is a number.
    """
    every = re.findall(r"(\d+)(\d)([a-z-]*)", architectures)
    return not every or any(
        (int(built), int(of_built)) <= (major, minor) and (int(built) == major or not kind)
        for built, of_built, kind in every
    )


def driver_version() -> int:
    """The latest CUDA version that the driver supports, such as 13000; 0 without a driver."""
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value

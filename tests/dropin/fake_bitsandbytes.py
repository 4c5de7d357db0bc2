"""A package tree named bitsandbytes, laid out as bitsandbytes' own, in place of it and torch.

Its modules hold the library and call it as those of the real versions do: `dequantize(type, ...)`
is what reaches the library for a weight, and takes addresses where the real one takes tensors.
"""

from pathlib import Path

RAW_LIBRARY = """
import ctypes as ct
lib = ct.CDLL({library!r})
"""
# From 0.43.1: an object that looks functions up, from 0.46 on with a memory.
WRAPPED_LIBRARY = """
import ctypes as ct
import functools

class BNBNativeLibrary:
    def __init__(self, lib):
        self._lib = lib

    @functools.cache
    def __getattr__(self, name):
        found = getattr(self._lib, name, None)
        if found is not None:
            return found

        def throw_on_call(*args):
            raise RuntimeError(name)

        return throw_on_call

lib = BNBNativeLibrary(ct.CDLL({library!r}))
"""
NO_LIBRARY = """
class ErrorHandlerMockBNBNativeLibrary:
    def __getattr__(self, name):
        def throw_on_call(*args):
            raise RuntimeError("no library")

        return throw_on_call

lib = ErrorHandlerMockBNBNativeLibrary()
"""
WRAPPED_CPU_LIBRARY = WRAPPED_LIBRARY.replace("{library!r}", "None")

# ctypes objects, and no stream.
CALL_WITHOUT_STREAM = """
import ctypes as ct
from {where} import lib

def dequantize(kind, a, absmax, out, blocksize, n, stream):
    arguments = (None, ct.c_void_p(a), ct.c_void_p(absmax), ct.c_void_p(out))
    sizes = (ct.c_int(blocksize), ct.c_int(n))
    if kind == "fp16":
        lib.cdequantize_blockwise_fp16_nf4(*arguments, *sizes)
    elif kind == "bf16":
        lib.cdequantize_blockwise_bf16_nf4(*arguments, *sizes)
    else:
        lib.cdequantize_blockwise_fp16_fp4(*arguments, *sizes, None)
"""
# ctypes objects, and the stream as torch's object (0.44) or as a ctypes object.
CALL_WITH_STREAM = """
import ctypes as ct
from {where} import lib

class Stream:
    def __init__(self, address):
        self._as_parameter_ = ct.c_void_p(address)

def dequantize(kind, a, absmax, out, blocksize, n, stream):
    arguments = (None, ct.c_void_p(a), ct.c_void_p(absmax), ct.c_void_p(out))
    sizes = (ct.c_int(blocksize), ct.c_int(n), {stream})
    if kind == "fp16":
        lib.cdequantize_blockwise_fp16_nf4(*arguments, *sizes)
    elif kind == "bf16":
        lib.cdequantize_blockwise_bf16_nf4(*arguments, *sizes)
    else:
        lib.cdequantize_blockwise_fp16_fp4(*arguments, *sizes)
"""
# Plain numbers, for functions whose types were declared when the module was imported.
CALL_WITH_NUMBERS = """
import ctypes as ct
from {where} import lib

NAMES = ("fp16_nf4", "bf16_nf4", "fp16_fp4")
for function in [getattr(lib, "cdequantize_blockwise_" + name) for name in NAMES]:
    function.argtypes = [ct.c_void_p] * 4 + [ct.c_int32, ct.c_int32, ct.c_void_p]
    function.restype = None

def dequantize(kind, a, absmax, out, blocksize, n, stream):
    if kind == "fp16":
        fn = lib.cdequantize_blockwise_fp16_nf4
    elif kind == "bf16":
        fn = lib.cdequantize_blockwise_bf16_nf4
    else:
        fn = lib.cdequantize_blockwise_fp16_fp4
    fn(None, a, absmax, out, blocksize, n, stream)
"""
IN_FUNCTIONAL = {"functional.py": "{caller}"}
IN_BACKEND = {
    "functional.py": "from .cextension import lib",
    "backends/__init__.py": "",
    "backends/cuda/__init__.py": "",
    "backends/cuda/ops.py": "{caller}",
}
# By version: cextension.py, the calling code, and the files that hold it.
LAYOUTS = {
    "0.43.0": (RAW_LIBRARY, CALL_WITHOUT_STREAM, IN_FUNCTIONAL),
    "0.43.3": (WRAPPED_LIBRARY, CALL_WITHOUT_STREAM, IN_FUNCTIONAL),
    "0.44.0": (
        WRAPPED_LIBRARY,
        CALL_WITH_STREAM.replace("{stream}", "Stream(stream)"),
        IN_FUNCTIONAL,
    ),
    "0.47.0": (
        WRAPPED_LIBRARY,
        CALL_WITH_STREAM.replace("{stream}", "ct.c_void_p(stream)"),
        IN_BACKEND,
    ),
    "0.50.2": (WRAPPED_LIBRARY, CALL_WITH_NUMBERS, IN_BACKEND),
}


def write(folder: Path, version: str, library: Path, cextension: str | None = None) -> None:
    """The package as of `version` in `folder`; `cextension` replaces that module's text."""
    own_cextension, caller, files = LAYOUTS[version]
    caller = caller.replace("{where}", "bitsandbytes.cextension")
    package = folder / "bitsandbytes"
    texts = {name: text.replace("{caller}", caller) for name, text in files.items()}
    holder = "functional" if files is IN_FUNCTIONAL else "backends.cuda.ops"
    texts["cextension.py"] = (cextension or own_cextension).replace(
        "{library!r}", repr(str(library))
    )
    texts["__init__.py"] = "" if cextension else f"from .{holder} import dequantize\n"
    for name, text in texts.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)

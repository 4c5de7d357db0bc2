"""A package tree named bitsandbytes, laid out as bitsandbytes' own, in place of it and torch.

Its modules hold the library and call it as those of the real versions do: `dequantize(type, ...)`
is what reaches the library for a weight, and takes addresses where the real one takes tensors.
"""

from pathlib import Path

RAW_LIBRARY = """
import ctypes as ct
lib = ct.CDLL({library!r})
"""
# From 0.43.1: an object that looks functions up; from 0.46 on, with a cache.
WRAPPED_LIBRARY = """
import ctypes as ct
import functools

class BNBNativeLibrary:
    def __init__(self, lib):
        self._lib = lib

    @functools.cache
    def __getattr__(self, name):
        function = getattr(self._lib, name, None)
        if function is not None:
            return function

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

CALLER = """
import ctypes as ct
from bitsandbytes.cextension import lib

class Stream:
    def __init__(self, address):
        self._as_parameter_ = ct.c_void_p(address)

{before}
def dequantize(kind, a, absmax, out, blocksize, n, stream):
    format = "fp4" if kind == "fp4" else "nf4"
    function = getattr(lib, f"cdequantize_blockwise_{'fp16' if kind == 'fp4' else kind}_{format}")
    function({arguments})
"""
# ctypes objects: without a stream, with torch's object for it (0.44), with a ctypes object.
OBJECTS = "None, *map(ct.c_void_p, (a, absmax, out)), ct.c_int(blocksize), ct.c_int(n)"
# Plain numbers, for functions whose types were declared when the module was imported.
NUMBERS = "None, a, absmax, out, blocksize, n, stream"
DECLARED = """
for name in ("fp16_nf4", "bf16_nf4", "fp16_fp4"):
    function = getattr(lib, "cdequantize_blockwise_" + name)
    function.argtypes = [ct.c_void_p] * 4 + [ct.c_int32, ct.c_int32, ct.c_void_p]
    function.restype = None
"""
IN_FUNCTIONAL = {"functional.py": "{caller}"}
IN_BACKEND = {
    "functional.py": "from .cextension import lib",
    "backends/__init__.py": "",
    "backends/cuda/__init__.py": "",
    "backends/cuda/ops.py": "{caller}",
}
# By version: cextension.py, the arguments that the calling code passes, and its files.
LAYOUTS = {
    "0.43.0": (RAW_LIBRARY, OBJECTS, IN_FUNCTIONAL),
    "0.44.0": (WRAPPED_LIBRARY, f"{OBJECTS}, Stream(stream)", IN_FUNCTIONAL),
    "0.50.2": (WRAPPED_LIBRARY, NUMBERS, IN_BACKEND),
}


def write(folder: Path, version: str, library: Path, cextension: str | None = None) -> None:
    """The package as of `version` in `folder`; `cextension` replaces that module's text."""
    own_cextension, arguments, files = LAYOUTS[version]
    caller = CALLER.replace("{arguments}", arguments)
    caller = caller.replace("{before}", DECLARED if arguments == NUMBERS else "")
    package = folder / "bitsandbytes"
    texts = {name: text.replace("{caller}", caller) for name, text in files.items()}
    holder = "functional" if files is IN_FUNCTIONAL else "backends.cuda.ops"
    texts["cextension.py"] = (cextension or own_cextension).replace(
        "{library!r}", repr(str(library))
    )
    texts["__init__.py"] = f"__version__ = {version!r}\n"
    if not cextension:
        texts["__init__.py"] += f"from .{holder} import dequantize\n"
    for name, text in texts.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)

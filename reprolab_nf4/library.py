"""libreprolab_nf4.so, or another library with bitsandbytes' names, as Python calls it. Needs
nothing but the standard library.
"""

import ctypes
from os import PathLike
from pathlib import Path

from reprolab_nf4.c_functions import (
    OURS,
    PLAIN_PARAMETERS,
    REPLACED,
    TEXTS,
    WORKSPACE,
    DropinError,
    shown,
)

# pip installs it next to this file; in a checkout `make dropin` builds it.
BUILT = Path(__file__).resolve().with_name("libreprolab_nf4.so")
if not BUILT.is_file():
    BUILT = BUILT.parents[1] / "build/dropin" / BUILT.name


class Library:
    """The C functions of libreprolab_nf4.so, or of another library that has bitsandbytes' names.

    They are attributes with their C names and take addresses, such as `tensor.data_ptr()`, and
    numbers, which ctypes cuts to the C type. An error code of libreprolab_nf4.so raises
    DropinError; other libraries return nothing.
    """

    def __init__(self, path: str | PathLike | None = None):
        try:
            self.path = Path(BUILT if path is None else path)
            is_file = self.path.is_file()
        except (TypeError, ValueError, OSError):
            raise DropinError(f"library: give a file's path, not {shown(path)}") from None
        if not is_file:
            advice = "; run make dropin" if path is None else ""
            raise DropinError(f"{self.path}: no such file{advice}")
        try:
            self._library = ctypes.CDLL(str(self.path.absolute()))
        except OSError as error:
            raise DropinError(f"{self.path}: cannot be loaded: {error}") from error
        # Whether it is libreprolab_nf4.so: its functions return an error, and it has several
        # kernels.
        self._is_ours = hasattr(self._library, "reprolab_nf4_use")
        if self._is_ours:
            for name in TEXTS:
                self._named(name).restype = ctypes.c_char_p
            self._use = self._function("reprolab_nf4_use", {"kernel": ctypes.c_char_p})
        for name in REPLACED:
            setattr(self, name, self._function(name, PLAIN_PARAMETERS))
        for name in OURS if self._is_ours else ():
            setattr(self, name, self._function(name, OURS[name]))

    def _named(self, name: str):
        try:
            return getattr(self._library, name)
        except AttributeError:
            why = "exports no {}: it is older than this reprolab_nf4; run make dropin"
            raise DropinError(f"{self.path}: {why.format(name)}") from None

    def _function(self, name: str, parameters: dict):
        try:
            function = self._library[name]
        except AttributeError as error:
            raise DropinError(f"{self.path}: exports no {name}") from error
        # No names of parameters: ctypes would need 0.4 us more for a call.
        function.argtypes, function.restype = [*parameters.values()], None
        if self._is_ours:
            function.restype, function.errcheck = ctypes.c_int, self._check
        return function

    def _check(self, error, function, arguments):
        if error != 0:
            raise DropinError(self._text("error"))

    def _text(self, name: str) -> str:
        """Empty for another library."""
        return self._named(f"reprolab_nf4_{name}")().decode() if self._is_ours else ""

    def kernels(self) -> list[str]:
        """The names that use() takes; none for a library without a choice."""
        return self._text("kernels").split()

    def products(self) -> list[str]:
        """The kernels that multiply by 4-bit weights; none for another library."""
        return self._text("products").split()

    def exact_products(self) -> list[str]:
        """The kernels of products() that multiply by exactly the dequantized weights."""
        return self._text("exact_products").split()

    def workspace(self, kernel: str, m: int, n: int, k: int, blocksize: int) -> int:
        """Bytes of workspace of a matmul on the current GPU; DropinError if it is not supported."""
        size = ctypes.c_uint64()
        getattr(self, WORKSPACE)(kernel.encode(), m, n, k, blocksize, ctypes.byref(size))
        return size.value

    def address(self, name: str) -> int:
        """The address of a function, for callers in C."""
        return ctypes.cast(self._named(name), ctypes.c_void_p).value

    def built(self) -> tuple[str, str]:
        """nvcc's version and the architectures, such as "90"; empty for another library."""
        nvcc, _, architectures = self._text("build").partition("\n")
        return nvcc, architectures

    def use(self, kernel: str | None) -> None:
        """Chooses the kernel of every call of this process; None: the fastest, "streaming"."""
        if not self._is_ours:
            raise DropinError(f"{self.path}: has no choice of kernels")
        is_name = isinstance(kernel, str) and kernel.isascii() and kernel.isprintable()
        if kernel is not None and not is_name:
            wanted = "give a name that kernels() lists"
            raise DropinError(f"kernel: {wanted}, not {shown(kernel)}")
        self._use(None if kernel is None else kernel.encode())

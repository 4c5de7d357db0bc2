"""Replaces an installed bitsandbytes' dequantization and matmuls of NF4 weights: docs/drop-in.md.

    import reprolab_nf4
    reprolab_nf4.install()

Needs nothing but the standard library; install() imports bitsandbytes, which imports torch.
"""

import ctypes
import importlib
import os
import re
import threading
import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from reprolab_nf4 import bypass, machine
from reprolab_nf4.c_functions import (
    MULTIPLY,
    MULTIPLY_PARAMETERS,
    NO_CODE,
    OURS,
    PLAIN_PARAMETERS,
    REPLACED,
    TEXTS,
    WORKSPACE,
    DropinError,
    NoCodeError,
    in_parts,
    shown,
    unchecked,
)
from reprolab_nf4.native import has_operators, measuring_module, native_library, own_function

# pip installs it next to this file; in a checkout `make dropin` builds it.
BUILT = Path(__file__).resolve().with_name("libreprolab_nf4.so")
if not BUILT.is_file():
    BUILT = BUILT.parents[1] / "build/dropin" / BUILT.name

# How a matmul is computed: the fastest way by measured times; the fastest by exactly the
# dequantized weights; always by dequantizing; as bitsandbytes does.
PRODUCTS = ("fastest", "exact", "dequantize", "bitsandbytes")


def __getattr__(name: str) -> str:
    """__version__, read on demand: of the checkout, or of the installed package."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    sources = Path(__file__).resolve().parents[1] / "CMakeLists.txt"
    if sources.is_file():
        version = re.search(rb"project\(reprolab VERSION ([0-9.]+)", sources.read_bytes())
        if version:
            return version[1].decode()
    metadata = importlib.import_module("importlib.metadata")
    try:
        return metadata.version("reprolab-nf4")
    except metadata.PackageNotFoundError as error:  # neither of the two
        raise AttributeError(f"module {__name__!r} has no version: {error}") from None


class Library:
    """The C functions of libreprolab_nf4.so, or of another library that has bitsandbytes' names.

    They are attributes with their C names and take addresses, such as `tensor.data_ptr()`, and
    numbers. A wrong argument raises DropinError, and so does an error code of libreprolab_nf4.so;
    other libraries return nothing. `multiply`: the matmul functions by type, fp16 or bf16, whose
    arguments are not checked, because every layer calls them.
    """

    def __init__(self, path: str | PathLike | None = None):
        try:
            # Path.resolve() would raise on a loop of links.
            self.path = Path(os.path.realpath(BUILT if path is None else path))
            is_file = self.path.is_file()
        except (TypeError, ValueError):
            raise DropinError(f"library: give a file's path, not {shown(path)}") from None
        except OSError:  # too long a name
            is_file = False
        if not is_file:
            advice = "; run make dropin" if path is None else ""
            raise DropinError(f"{self.path}: no such file{advice}")
        try:
            self._library = ctypes.CDLL(str(self.path))
        except OSError as error:
            raise DropinError(f"{self.path}: cannot be loaded: {error}") from error
        # Whether it is libreprolab_nf4.so: its functions return an error, and it has several
        # kernels.
        self._is_ours = hasattr(self._library, "reprolab_nf4_use")
        if self._is_ours:
            for name in TEXTS:
                self._named(name).restype = ctypes.c_char_p
            self._use = self._bound("reprolab_nf4_use", {"kernel": ctypes.c_char_p})
        for name in REPLACED:
            setattr(self, name, self._bound(name, PLAIN_PARAMETERS))
        for name in OURS if self._is_ours else ():
            setattr(self, name, self._bound(name, OURS[name]))
        self.multiply = {}
        for name in MULTIPLY if self._is_ours else ():
            kinds = map(unchecked, MULTIPLY_PARAMETERS.values())
            self.multiply[name.rpartition("_")[2]] = self._function(name, kinds)

    def _named(self, name: str):
        try:
            return getattr(self._library, name)
        except AttributeError:
            why = "exports no {}: it is older than this reprolab_nf4; run make dropin"
            raise DropinError(f"{self.path}: {why.format(name)}") from None

    def _function(self, name: str, kinds: Iterable, flags: tuple | None = None):
        result = ctypes.c_int if self._is_ours else None
        try:
            function = ctypes.CFUNCTYPE(result, *kinds)((name, self._library), flags)
        except AttributeError as error:
            raise DropinError(f"{self.path}: exports no {name}") from error
        if self._is_ours:
            function.errcheck = self._check
        return function

    def _bound(self, name: str, parameters: dict):
        # bitsandbytes before 0.44 passes no stream: the default one.
        flags = tuple((1, p, None) if p == "stream" else (1, p) for p in parameters)
        function = self._function(name, parameters.values(), flags)

        def call(*given, **by_name):
            try:
                return function(*given, **by_name)
            except (ctypes.ArgumentError, TypeError) as error:
                # ctypes writes "argument 2: TypeError: " before the reason.
                place = re.match(r"argument (\d+): .*?: ", str(error))
                why = str(error)
                if place:
                    why = f"{[*parameters][int(place[1]) - 1]}: {why[place.end() :]}"
                raise DropinError(f"{name}: {why}") from None

        return call

    def _check(self, error, function, arguments):
        if error != 0:
            kind = NoCodeError if error == NO_CODE else DropinError
            raise kind(self._text("error"))

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
        getattr(self, WORKSPACE)(kernel, m, n, k, blocksize, ctypes.byref(size))
        return size.value

    def plan(self, type: str, *given) -> tuple[int, int]:
        """A plan of matmuls in fp16 or bf16 on the current GPU, to be freed by reprolab_nf4_forget,
        and the bytes of their workspace.
        """
        made, size = ctypes.c_void_p(), ctypes.c_uint64()
        getattr(self, f"reprolab_nf4_plan_{type}")(*given, ctypes.byref(made), ctypes.byref(size))
        return made.value, size.value

    def row_bounds(self, type: str, *given) -> None:
        """Writes the error bounds of matmuls in fp16 or bf16, by row of activations."""
        getattr(self, f"reprolab_nf4_row_bounds_{type}")(*given)

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


ABSENT = ...  # marks an attribute that does not exist; the same object after a reload


class Installed:
    """An installed library, until undo(), the end of a `with` block, or the first call on a GPU
    that the library has no code for. use() and kernels() are the library's.
    """

    def __init__(self, library: Library, replacements: list, ways=None):
        self.library, self.use, self.kernels = library, library.use, library.kernels
        self._ways = ways
        self._replaced = [(*each, vars(each[0]).get(each[1], ABSENT)) for each in replacements]
        for owner, name, ours in replacements:
            setattr(owner, name, ours)

    def undo(self) -> bool:
        """Restores bitsandbytes' functions. A second call does nothing and returns False. Functions
        that other code has replaced since install() stay, with a warning.
        """
        global _installed
        with _lock:
            if _installed is not self:
                return False
            theirs = [
                name for owner, name, *both in self._replaced if not restored(owner, name, *both)
            ]
            if self._ways is not None:
                self._ways.end()
            _installed = None
            bypass.unwatch()
        if theirs:
            what = f"{', '.join(theirs)}: replaced by others since install()"
            warnings.warn(f"reprolab_nf4: {what}, and left as they are", stacklevel=2)
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo()


def restored(owner, name: str, ours, own) -> bool:
    """Restores `own` in place of `ours`; False if other code has replaced `ours`."""
    current = vars(owner).get(name, ABSENT)
    if current is not ours and current is not ABSENT:
        return False
    if own is not ABSENT:
        setattr(owner, name, own)
    elif current is ours:
        delattr(owner, name)
    return True


# importlib.reload() keeps both.
_installed: Installed | None = globals().get("_installed")
if "_lock" not in globals():
    _lock = threading.RLock()  # guards the line above and the replaced attributes
    # A forked child has no other thread that could release it.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


def install(
    library: str | PathLike | None = None,
    kernel: str | None = None,
    products: str = "fastest",
    table: str | PathLike | None = None,
    compile_generate: bool = True,
) -> Installed:
    """Makes bitsandbytes call `library` for NF4 weights: to dequantize them to fp16 or bf16, and to
    multiply by them.

    `library`: by default the one that comes with this package; or any with the same C names, such
    as another version's libbitsandbytes_cuda*.so, which only dequantizes. `kernel`: one of
    kernels(), for dequantization; by default the fastest. `products`:
      fastest       each matmul in the fastest way by the times in `table`, which tune() writes, or
                    by those recorded for the GPU's architecture; without times, bitsandbytes
                    chooses. Some ways sum in another order than bitsandbytes does, or round other
                    values, so the last bits may differ.
      exact         the fastest way that multiplies by exactly the dequantized weights; without
                    times, by dequantizing
      dequantize    dequantizes, then multiplies, as bitsandbytes did up to 0.49 for more than one
                    token
      bitsandbytes  as bitsandbytes chooses
    `compile_generate`: whether transformers' generate(cache_implementation="static") compiles 4-bit
    models as it does others. Not with `products="bitsandbytes"`.

    Training is unchanged: layers in training mode, and matmuls that need a gradient. On a GPU that
    the library has no code for, the first call warns and restores all of bitsandbytes' functions.

    Raises DropinError, and changes nothing, on bad arguments and if a library is installed. Thread
    safe: of several calls at once, one succeeds.
    """
    global _installed
    if not isinstance(products, str) or products not in PRODUCTS:
        raise DropinError(f"products: give one of {', '.join(PRODUCTS)}, not {shown(products)}")
    if type(compile_generate) is not bool:
        raise DropinError(f"compile_generate: give True or False, not {shown(compile_generate)}")
    from reprolab_nf4 import generate, timing_table

    times = None if table is None else timing_table.read(table)
    # Before the lock: an import may wait for another thread's, which may wait for this lock.
    loaded, native = Library(library), native_library()
    machine.check(loaded.path, loaded.built()[0])
    compiled = generate.replaced() if compile_generate and products != "bitsandbytes" else []
    with _lock:
        if _installed is not None:
            raise DropinError(f"{_installed.library.path} is already installed; undo() that first")
        ways = ways_of(loaded, products, times)
        if kernel is not None or loaded.kernels():
            loaded.use(kernel)
        replaced = [(native, name, or_own(native, name, loaded)) for name in REPLACED]
        if ways is not None:
            replaced += ways.replaced(importlib.import_module("bitsandbytes")) + compiled
        bypass.watch()
        _installed = Installed(loaded, replaced, ways)
        if ways is not None:
            ways.begin()
        return _installed


def or_own(native, name: str, library: Library):
    """The library's function; bitsandbytes' own on a GPU that it has no code for, and after undo(),
    for callers that kept this one.
    """
    ours, own = in_parts(getattr(library, name)), vars(native).get(name)

    def call(*given, **by_name):
        if _installed is not None and _installed.library is library:
            try:
                return ours(*given, **by_name)
            except NoCodeError as error:
                give_up(error)
        return (own or own_function(native, name))(*given, **by_name)

    return call


def give_up(error: NoCodeError) -> None:
    """Undoes the installation, with a warning."""
    installed = _installed
    if installed is not None and installed.undo():
        warnings.warn(f"reprolab_nf4: {error}: {machine.GIVEN_UP}", stacklevel=3)


def ways_of(library: Library, products: str, table):
    """The ways of a matmul, or None where bitsandbytes' matmul_4bit stays."""
    package = importlib.import_module("bitsandbytes")
    own = getattr(package, "matmul_4bit", None)
    if not library.kernels():  # another library has no products
        products = {"fastest": "bitsandbytes", "exact": "dequantize"}.get(products, products)
    if products == "bitsandbytes":
        return None
    if own is None or not has_operators():
        if products == "fastest":
            return None
        needed = "PyTorch 2.4, and a bitsandbytes with matmul_4bit"
        raise DropinError(f"products: {products}: needs {needed}")
    from reprolab_nf4 import matmul, timing_table

    if table is not None and library.products():
        timing_table.check(table, library.products())
    return matmul.Ways(library, products, table)


@machine.needs_code()
def advise(model, batch: int = 2) -> str:
    """The gain of install() for a model with layers in NF4, on one GPU or several, as text.

    Measures the quantized matmuls of one decoding step of `batch` sequences and of their prompts:
    with the installed bitsandbytes, with each kernel under it, and in the ways that install()
    chooses by recorded times. Takes a minute, and the memory of a few more layers. Raises
    DropinError if there is nothing to measure, or a library is installed.
    """
    if type(batch) is not int or batch < 1:
        wanted = "give a number of sequences, 1 at least"
        raise DropinError(f"batch: {wanted}, not {shown(batch)}")
    measuring = measuring_module()
    with install() as installed:
        kernels = installed.kernels()
    return measuring.advise(measuring.Gpu(), model, batch, kernels)


@machine.needs_code()
def tune(model, table: str | PathLike) -> None:
    """Measures the ways of a matmul on this GPU for a loaded model's layers in NF4, at 1 to 512
    rows, and writes their times to a file for install(table=...). Takes seconds per distinct shape
    of a layer. Raises DropinError as advise() does.
    """
    measuring = measuring_module()
    from reprolab_nf4 import timing_table

    gpu, place = measuring.Gpu(), timing_table.writable(table)
    layers = measuring.layers_of(gpu, model)
    weights_of = lambda shape: measuring.weights_in(gpu, shape, layers[shape])  # noqa: E731
    timing_table.write(place, measuring.tune(gpu, list(layers), weights_of))

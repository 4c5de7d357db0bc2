"""Puts a library under bitsandbytes, and takes it away. Needs nothing but the standard library;
install() imports bitsandbytes, which imports torch.
"""

import importlib
from os import PathLike

from reprolab_nf4 import native, timing_table
from reprolab_nf4.c_functions import REPLACED, DropinError, shown
from reprolab_nf4.library import Library

# How a matmul is computed: by the fastest backend of the measured times; by the fastest that
# multiplies by exactly the dequantized weights; always by dequantizing; as bitsandbytes does.
PRODUCTS = ("fastest", "exact", "dequantize", "bitsandbytes")
ABSENT = ...  # marks an attribute that does not exist
WHOLE_GRAPHS = (2, 8)  # the first PyTorch that compiles bitsandbytes' 4-bit layers without a break


class Installed:
    """An installed library, until undo() or the end of a `with` block. use() and kernels() are the
    library's.
    """

    def __init__(self, library: Library, replacements: list, dispatcher=None):
        self.library, self.use, self.kernels = library, library.use, library.kernels
        self._dispatcher = dispatcher
        self._replaced = [(x, name, vars(x).get(name, ABSENT)) for x, name, _ in replacements]
        for owner, name, ours in replacements:
            setattr(owner, name, ours)

    def undo(self) -> bool:
        """Restores what install() replaced, also if other code has replaced it since. A second call
        does nothing and returns False.
        """
        global _installed
        if _installed is not self:
            return False
        for owner, name, before in self._replaced:
            if before is not ABSENT:
                setattr(owner, name, before)
            elif name in vars(owner):
                delattr(owner, name)
        if self._dispatcher is not None:
            self._dispatcher.end()
        _installed = None
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo()


_installed: Installed | None = None


def installed() -> Installed | None:
    return _installed


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
      fastest       each matmul by the fastest backend of the times in `table`, which tune() writes,
                    or of those recorded for the GPU's architecture; without times, bitsandbytes
                    chooses. Some sum in another order than bitsandbytes does, or round other
                    values, so the last bits may differ.
      exact         the fastest that multiplies by exactly the dequantized weights; without times,
                    by dequantizing
      dequantize    dequantizes, then multiplies, as bitsandbytes did up to 0.49 for more than one
                    token
      bitsandbytes  as bitsandbytes chooses
    `compile_generate`: whether transformers' generate(cache_implementation="static") compiles 4-bit
    models as it does others. Not with `products="bitsandbytes"`.

    Training is unchanged: layers in training mode, and matmuls that need a gradient.

    Raises DropinError, and changes nothing, on bad arguments, if a library is installed, and if it
    has no code for a GPU of this process.
    """
    global _installed
    if not isinstance(products, str) or products not in PRODUCTS:
        raise DropinError(f"products: give one of {', '.join(PRODUCTS)}, not {shown(products)}")
    if type(compile_generate) is not bool:
        raise DropinError(f"compile_generate: give True or False, not {shown(compile_generate)}")
    times = None if table is None else timing_table.read(table)
    loaded, lib = Library(library), native.native_library()
    native.check(loaded.path, *loaded.built())
    compiled = compiling_generate() if compile_generate and products != "bitsandbytes" else []
    if _installed is not None:
        raise DropinError(f"{_installed.library.path} is already installed; undo() that first")
    dispatcher = dispatcher_of(loaded, products, times)
    if kernel is not None or loaded.kernels():
        loaded.use(kernel)
    replaced = [(lib, name, native.with_stream(getattr(loaded, name))) for name in REPLACED]
    if dispatcher is not None:
        from reprolab_nf4 import layers  # which needs torch

        replaced += layers.replaced(dispatcher) + compiled
    _installed = Installed(loaded, replaced, dispatcher)
    return _installed


def dispatcher_of(library: Library, products: str, table):
    """Chooses the backend of a matmul; None where bitsandbytes' matmul_4bit stays."""
    own = getattr(importlib.import_module("bitsandbytes"), "matmul_4bit", None)
    if not library.kernels():  # another library has no products
        products = {"fastest": "bitsandbytes", "exact": "dequantize"}.get(products, products)
    if products == "bitsandbytes":
        return None
    if own is None or not native.has_operators():
        if products == "fastest":
            return None
        needed = "PyTorch 2.4, and a bitsandbytes with matmul_4bit"
        raise DropinError(f"products: {products}: needs {needed}")
    from reprolab_nf4 import matmul  # which needs torch

    if table is not None and library.products():
        timing_table.check(table, library.products())
    return matmul.Dispatcher(library, products, table)


def compiling_generate() -> list[tuple]:
    """What makes transformers' generate(cache_implementation="static") compile and capture the
    decoding step of 4-bit models as of others: owner, name, replacement. Empty without a
    transformers that can be imported, if it compiles these models, and with an older PyTorch.
    """
    try:
        module = importlib.import_module("transformers.quantizers.quantizer_bnb_4bit")
        quantizer = module.Bnb4BitHfQuantizer
        torch = importlib.import_module("torch")
        operators = torch.ops.bitsandbytes
    except Exception:  # such as a ValueError of NumPy's, for another version of it
        return []
    name = "is_compileable"
    if not hasattr(quantizer, name) or name in vars(quantizer):
        return []
    if torch.__version__ < WHOLE_GRAPHS:
        return []
    # FP4 and fp32 stay bitsandbytes' own, which before 0.46 were no operators.
    return [(quantizer, name, True)] if hasattr(operators, "dequantize_4bit") else []

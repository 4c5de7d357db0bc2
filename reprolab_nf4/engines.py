"""Installation in serving engines: vLLM and SGLang call install_in_engine() by the entry points of
this package, in front end, engine and workers. Needs nothing but the standard library.
"""

import importlib.abc
import importlib.util
import logging
import os
import sys

from reprolab_nf4 import installation
from reprolab_nf4.c_functions import one_line

# "0": not installed; otherwise one of PRODUCTS. Engines have no option for it.
VARIABLE = "REPROLAB_NF4"
AWAITED = "bitsandbytes"


def install_in_engine() -> None:
    """install() in a process of an engine; never raises, and may be called again.

    It waits until the engine imports bitsandbytes, because that initializes CUDA: a front end that
    does not compute could not fork its workers afterwards.
    """
    if os.environ.get(VARIABLE) == "0":
        return
    if AWAITED in sys.modules:
        install()
    elif not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def install() -> None:
    products = os.environ.get(VARIABLE) or "1"
    try:
        if installation.installed() is None:
            chosen = "fastest" if products == "1" else products
            installation.install(products=chosen, compile_generate=False)
    except Exception as error:  # the engine would not catch it
        words = f"reprolab_nf4 is not installed, {VARIABLE}={products}: {error}".split()
        logging.getLogger("reprolab_nf4").warning("%s", one_line(" ".join(words)))


class Finder(importlib.abc.MetaPathFinder):
    """Finds bitsandbytes as the other finders do, and installs after the module has run."""

    def find_spec(self, fullname, path, target=None):
        if fullname != AWAITED or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # also if bitsandbytes cannot be imported
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_install(module) -> None:
                del spec.loader.exec_module
                run(module)
                install()

            spec.loader.exec_module = run_and_install  # of this loader, not of its class
        return spec

"""Installation in serving engines: vLLM and SGLang call install_in_engine() by the entry points of
this package, in front end, engine and workers. Needs nothing but the standard library.
"""

import os

import reprolab_nf4
from reprolab_nf4.imports import after_import, log

# "0": not installed; otherwise one of PRODUCTS. Engines have no option for it.
VARIABLE = "REPROLAB_NF4"


def install_in_engine() -> None:
    """install() in a process of an engine; never raises, and may be called again.

    It waits until the engine imports bitsandbytes, because that initializes CUDA: a front end that
    does not compute could not fork its workers afterwards.
    """
    if os.environ.get(VARIABLE) != "0":
        after_import("bitsandbytes", _install)


def _install() -> None:
    products = os.environ.get(VARIABLE) or "1"
    try:
        if reprolab_nf4._installed is None:
            chosen = "fastest" if products == "1" else products
            reprolab_nf4.install(products=chosen, compile_generate=False)
    except Exception as error:  # the engine would not catch it
        if reprolab_nf4._installed is None:  # and no other thread has installed it
            log(f" is not installed, {VARIABLE}={products}", error)

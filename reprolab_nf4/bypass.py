"""Warns about other packages that replace bitsandbytes' 4-bit matmuls. Needs only the standard
library.
"""

import os
import re
import warnings

from reprolab_nf4.imports import after_import, forget

UNSLOTH, SWITCH = "unsloth", "UNSLOTH_BNB_TRITON"
SINCE = (2026, 10)  # its first version with kernels of its own for bitsandbytes' NF4


def watch() -> None:
    """Warns when Unsloth is imported, or now if it has been."""
    after_import(UNSLOTH, warn_of_unsloth)


def unwatch() -> None:
    forget(UNSLOTH)


def warn_of_unsloth() -> None:
    from importlib import metadata  # slow, and rarely needed

    try:
        version = metadata.metadata(UNSLOTH).get("Version", "")  # none if damaged
    except metadata.PackageNotFoundError:
        return
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers >= SINCE and os.environ.get(SWITCH) != "0":
        what = f"unsloth {version} may replace 4-bit matmuls by its own kernels"
        then = f"set {SWITCH}=0 before it is imported, for those of reprolab_nf4"
        warnings.warn(f"reprolab_nf4: {what}: {then}", stacklevel=2)

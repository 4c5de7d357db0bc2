"""Checks whether the library can run on this machine. Needs nothing but the standard library."""

import ctypes
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from reprolab_nf4.c_functions import DropinError

GIVEN_UP = "bitsandbytes goes on by itself"  # ends the warning of an installation that is undone
OTHER_BUILDS = {"hip": "ROCm", "xpu": "XPU"}  # as torch.version names them


def check(path, nvcc: str) -> None:
    """Raises DropinError if every call would fail here, before anything is replaced.

    `nvcc`: the CUDA version that the library at `path` was built with; "" if unknown.
    """
    version = getattr(sys.modules.get("torch"), "version", None)
    for name, build in OTHER_BUILDS.items():  # their bitsandbytes has the same C names
        if getattr(version, name, None):
            raise DropinError(f"PyTorch is built for {build} here; {path} needs an NVIDIA GPU")
    driver = driver_version()
    # A driver runs programs of newer toolkits with the same major version.
    if nvcc and driver and driver // 1000 < int(nvcc.partition(".")[0]):
        supported = f"{driver // 1000}.{driver % 1000 // 10}"
        raise DropinError(
            f"the NVIDIA driver supports CUDA {supported}, and {path} was built with CUDA {nvcc}: "
            "update the driver, or build with an older CUDA toolkit"
        )


def driver_version() -> int:
    """The latest CUDA version that the driver supports, such as 13000; 0 without a driver."""
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value


def no_gpu() -> str:
    """Why bitsandbytes has no CUDA library, if PyTorch knows; otherwise ""."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_visible = cuda is None or cuda.is_available()
    return "" if is_visible else "no NVIDIA GPU is visible to PyTorch"


@contextmanager
def needs_code() -> Iterator[None]:
    """Raises DropinError where the library has no code for the GPU, instead of the warning: a
    measurement would go on with bitsandbytes' own kernels.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", f"reprolab_nf4: .*: {GIVEN_UP}")
        try:
            yield
        except UserWarning as warning:
            raise DropinError(str(warning)) from None

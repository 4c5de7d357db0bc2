"""Checks whether the library can run on this machine. Needs nothing but the standard library."""

import ctypes
import re
import sys

from reprolab_nf4.c_functions import DropinError

OTHER_BUILDS = {"hip": "ROCm", "xpu": "XPU"}  # as torch.version names them


def check(path, nvcc: str, architectures: str) -> None:
    """Raises DropinError if calls would fail here, before anything is replaced.

    `nvcc` and `architectures`: what the library at `path` was built with and for; "" if unknown.
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


def no_gpu() -> str:
    """Why bitsandbytes has no CUDA library, if PyTorch knows; otherwise ""."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_visible = cuda is None or cuda.is_available()
    return "" if is_visible else "no NVIDIA GPU is visible to PyTorch"

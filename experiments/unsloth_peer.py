"""Unsloth as `make peer VERSION=unsloth-2026.10.9` installs it: the functions of its module
`unsloth.kernels.utils`.

`import unsloth` needs some twenty packages and changes others, such as transformers. The module is
therefore imported alone: the packages around it are present, but their `__init__.py` does not run.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

PEERS = Path("build/peers")
NAME, ZOO = "unsloth", "unsloth_zoo"
AROUND = (NAME, f"{NAME}.kernels", ZOO, f"{ZOO}.temporary_patches")
MODULE = f"{NAME}.kernels.utils"
INSTALL = f"make peer VERSION={NAME}-2026.10.9"


def versions() -> list[str]:
    """The completely installed ones, by their metadata, the oldest first."""
    whole = (file.parent for file in PEERS.glob(f"{NAME}-*/ready"))
    files = [file for folder in whole for file in folder.glob(f"{NAME}-*.dist-info")]
    known = {file.name.removeprefix(f"{NAME}-").removesuffix(".dist-info") for file in files}
    return sorted(known, key=lambda version: [int(n) for n in version.split(".")])


def kernels(version: str) -> ModuleType:
    """The module of that version; ImportError where there is none. A later call with another
    version leaves the modules of the earlier one in use.
    """
    folder = PEERS.absolute() / f"{NAME}-{version}"
    if not (folder / NAME).is_dir():
        raise ImportError(f"no Unsloth {version} in {PEERS}")
    for name in [n for n in sys.modules if n.partition(".")[0] in (NAME, ZOO)]:
        del sys.modules[name]
    for name in AROUND:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module_from_spec(spec)
    return importlib.import_module(MODULE)


def own_kernels_run(module: ModuleType) -> bool:
    """Whether its Triton kernels for NF4 are in use, which it has since 2026.10: not with
    UNSLOTH_BNB_TRITON=0, nor after one that did not compile.
    """
    return getattr(module, "_USE_NF4_KERNELS", False)

"""Stands in for Unsloth, whose kernels need a GPU: its packages, of which only the modules that are
needed may run, and its functions.
"""

import sys

from experiments import unsloth_peer

REFUSED = "raise RuntimeError('this package must not run')\n"
UTILS = """
from unsloth_zoo.utils import VERSION
from ..device_type import DEVICE_TYPE
from bitsandbytes import functional

_USE_NF4_KERNELS = VERSION >= (2026, 10)


def fast_dequantize(W, quant_state=None):
    return functional.dequantize_4bit(W, quant_state)


def fast_linear_forward(proj, X):
    assert X.dim() == 3 and X.shape[1] == 1 and DEVICE_TYPE == "cuda"
    return (X.float() @ fast_dequantize(proj.weight, proj.weight.quant_state).float().T).half()
"""


def put(monkeypatch, folder, *versions):
    """Installs these versions as `make peer` does."""
    monkeypatch.setattr(unsloth_peer, "PEERS", folder)
    for version in versions:
        package = folder / f"unsloth-{version}"
        files = {f"{name.replace('.', '/')}/__init__.py": REFUSED for name in unsloth_peer.AROUND}
        files |= {"unsloth/kernels/utils.py": UTILS, "unsloth/device_type.py": "DEVICE_TYPE='cuda'"}
        files["unsloth_zoo/utils.py"] = f"VERSION = {tuple(map(int, version.split('.')))}"
        files |= dict.fromkeys((f"unsloth-{version}.dist-info/METADATA", "ready"), "")
        for name, text in files.items():
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(text)


def forget():
    for name in [n for n in sys.modules if n.partition(".")[0] in ("unsloth", "unsloth_zoo")]:
        del sys.modules[name]

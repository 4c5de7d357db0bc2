"""vLLM's plugin for bitsandbytes, with as much of vLLM as its linear layers import, where vLLM, of
5 GB, is absent.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch


def register_operator(op_name, op_func, mutates_args, fake_impl, dispatch_key):
    """Opaque to compilers, and called through PyTorch's dispatcher, as vLLM's are."""
    library = torch.library.Library("vllm", "FRAGMENT")
    schema = torch.library.infer_schema(op_func, mutates_args=mutates_args)
    library.define(op_name + schema)
    library.impl(op_name, op_func, dispatch_key)
    library._register_fake(op_name, fake_impl)
    LIBRARIES.append(library)  # an operator ends with its library


LIBRARIES: list = []
PLUGIN = Path(__file__).resolve().parents[2] / "build/vllm_plugin"
LINEAR = "vllm_bnb_plugin.quantization.linear"
PINNED = Path(__file__).with_name("vllm_plugin.txt")
INSTALL_IT = f"pip install --no-deps --target {PLUGIN} -r {PINNED}"
KNOWN = {
    "direct_register_custom_op": register_operator,
    "current_platform": types.SimpleNamespace(dispatch_key="CPU", is_rocm=lambda: False),
}


def decorator(*given):
    return given[0] if given and isinstance(given[0], type) else lambda decorated: decorated


class Stub(types.ModuleType):
    """Every class of it is empty, every function a decorator that changes nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {}) if name[0].isupper() else decorator
        return vars(self).setdefault(name, KNOWN.get(name, made))


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "vllm":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


@contextmanager
def linear_layers(device: str) -> Iterator[types.ModuleType]:
    """The plugin's module of linear layers, for a type of device. ImportError where there is no
    plugin.
    """
    path, finder = list(sys.path), Finder()
    KNOWN["current_platform"].dispatch_key = device.upper()
    try:
        if importlib.util.find_spec("vllm_bnb_plugin") is None:
            sys.path.append(str(PLUGIN))
        if importlib.util.find_spec("vllm_bnb_plugin") is None:
            raise ImportError(f"no vllm-bnb-plugin: {INSTALL_IT}")
        if importlib.util.find_spec("vllm") is None:
            sys.meta_path.append(finder)
        yield importlib.import_module(LINEAR)
    finally:
        sys.path[:] = path
        sys.meta_path[:] = [found for found in sys.meta_path if found is not finder]
        while LIBRARIES:
            LIBRARIES.pop()._destroy()
        for name in list(sys.modules):
            if name.partition(".")[0] in ("vllm", "vllm_bnb_plugin"):
                del sys.modules[name]

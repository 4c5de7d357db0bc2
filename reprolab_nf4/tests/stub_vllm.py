"""As much of vLLM as vllm-bnb-plugin's linear layers import, where vLLM itself (5 GB) is absent."""

import importlib.abc
import importlib.machinery
import types

from needs_torch import torch


def register_operator(op_name, op_func, mutates_args, fake_impl, dispatch_key):
    """Opaque to compilers, and called through PyTorch's dispatcher, as vLLM's are."""
    library = torch.library.Library("vllm", "FRAGMENT")
    schema = torch.library.infer_schema(op_func, mutates_args=mutates_args)
    library.define(op_name + schema)
    library.impl(op_name, op_func, dispatch_key)
    library._register_fake(op_name, fake_impl)
    LIBRARIES.append(library)  # an operator ends with its library


LIBRARIES: list = []
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

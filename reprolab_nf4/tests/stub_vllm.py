"""vLLM's plugin for bitsandbytes, with as much of vLLM as its linear layers and its loader import,
where vLLM, of 5 GB, is absent.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import logging
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import bitsandbytes
import torch
from torch.torch_version import TorchVersion


def register_operator(op_name, op_func, mutates_args, fake_impl, dispatch_key):
    """Opaque to compilers, and called through PyTorch's dispatcher, as vLLM's are."""
    library = torch.library.Library("vllm", "FRAGMENT")
    schema = torch.library.infer_schema(op_func, mutates_args=mutates_args)
    library.define(op_name + schema)
    library.impl(op_name, op_func, dispatch_key)
    library._register_fake(op_name, fake_impl)
    LIBRARIES.append(library)  # an operator is unregistered with its library


def set_attributes(weight, attributes):
    for name, value in attributes.items():
        setattr(weight, name, value)


def weights_of(files, use_tqdm):
    from safetensors.torch import load_file

    return itertools.chain.from_iterable(load_file(file).items() for file in files)


class LinearBase(torch.nn.Module):
    """A rank's layer. `outputs`: the number for each part, over all ranks."""

    is_split, disable_tp, quant_method = True, False, types.SimpleNamespace(quant_config=None)

    def __init__(self, *outputs, inputs):
        super().__init__()
        self.output_sizes = list(outputs)
        ranks = TENSOR_PARALLEL.ranks if self.is_split and not self.disable_tp else 1
        codes = torch.zeros(sum(outputs) * inputs // 2 // ranks, 1, dtype=torch.uint8)
        self.weight = torch.nn.Parameter(codes, requires_grad=False)
        self.weight.pack_factor = 2


class BaseModelLoader:
    def __init__(self, load_config):
        self.load_config = load_config


KINDS = ("ColumnParallel", "RowParallel", "MergedColumnParallel", "QKVParallel")
LAYERS = [type(f"{kind}Linear", (LinearBase,), {}) for kind in KINDS]
LAYERS += [LinearBase, type("ReplicatedLinear", (LinearBase,), {"is_split": False})]
TENSOR_PARALLEL = types.SimpleNamespace(ranks=1, rank=0)
LOADER = {
    "get_tensor_model_parallel_world_size": lambda: TENSOR_PARALLEL.ranks,
    "get_tensor_model_parallel_rank": lambda: TENSOR_PARALLEL.rank,
    "get_moe_expert_mapping": lambda model: model.experts,
    "get_packed_modules_mapping": lambda model: model.packed_modules_mapping,
    "init_logger": logging.getLogger,
    "is_moe_model": lambda model: bool(model.experts),
    "is_pooling_model": lambda model: False,
    "is_pp_missing_parameter": lambda name, model: False,
    "filter_duplicate_safetensors_files": lambda files, folder, index: files,
    "safetensors_weights_iterator": weights_of,
    "set_default_torch_dtype": nullcontext,
    "set_weight_attrs": set_attributes,
    **{made.__name__: made for made in (BaseModelLoader, *LAYERS)},
}
LIBRARIES: list = []
PLUGIN = Path(__file__).resolve().parents[2] / "build/vllm_plugin"
LINEAR = "vllm_bnb_plugin.quantization.linear"
PINNED = Path(__file__).with_name("vllm_plugin.txt")
INSTALL_IT = f"pip install --no-deps --target {PLUGIN} -r {PINNED}"
KNOWN = {
    "direct_register_custom_op": register_operator,
    "current_platform": types.SimpleNamespace(
        dispatch_key="CPU",
        device_type="cpu",
        is_rocm=lambda: False,
        is_cuda_alike=lambda: KNOWN["current_platform"].device_type == "cuda",
    ),
    **LOADER,
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
    plugin, or it does not run.
    """
    if not hasattr(torch.library, "infer_schema"):
        raise ImportError(f"torch {torch.__version__}: vLLM's operators need 2.5")
    if TorchVersion(bitsandbytes.__version__) < (0, 48, 1):
        raise ImportError(f"bitsandbytes {bitsandbytes.__version__}: {PLUGIN.name} needs 0.48.1")
    path, finder, platform = list(sys.path), Finder(), KNOWN["current_platform"]
    platform.dispatch_key, platform.device_type = device.upper(), device
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
        sys.meta_path[:] = [other for other in sys.meta_path if other is not finder]
        while LIBRARIES:
            LIBRARIES.pop()._destroy()
        for name in list(sys.modules):
            if name.partition(".")[0] in ("vllm", "vllm_bnb_plugin"):
                del sys.modules[name]

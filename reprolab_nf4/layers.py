"""Calls a Linear4bit in C if its matmul is planned, with PyTorch 2.10 or later. All other calls run
bitsandbytes' forward, which calls matmul_4bit.

A layer is planned at the first call with a number of rows: the plan is the kernel, its tiling, and
the addresses that it reads. A planned call first checks that the layer, its weights and PyTorch's
modes are as they were.

Needs torch and bitsandbytes.
"""

import functools
import importlib.util
import sysconfig
import warnings
from collections.abc import Callable

import bitsandbytes
import torch
from bitsandbytes import functional

from reprolab_nf4.c_functions import PLAN
from reprolab_nf4.library import BUILT
from reprolab_nf4.matmul import (
    MAX_ROWS,
    Dispatcher,
    address,
    has_values,
    is_bias,
    needs_gradient,
    put_in_place_of,
)
from reprolab_nf4.timing_table import BITSANDBYTES, DEQUANTIZE
from reprolab_nf4.training import left, marking_training
from reprolab_nf4.weights import arrays_of, fits, is_capturing, on_device_of

EXTENSION = BUILT.with_name("_layers.abi3.so")  # which CMake builds from csrc/layers/
OLDEST = (2, 10)  # the first PyTorch with DLPack's C exchange

WEIGHTS = (bitsandbytes.nn.Params4bit, torch.nn.Parameter)  # new, and unpickled


def extension():
    """The module in C; None if this Python, PyTorch or build does not support it."""
    if not EXTENSION.is_file() or torch.__version__ < OLDEST:
        return None
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    spec = importlib.util.spec_from_file_location("reprolab_nf4._layers", EXTENSION)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replaced(dispatcher: Dispatcher) -> list[tuple]:
    """The replaced functions of bitsandbytes: owner, name, replacement."""
    product, layer = (
        put_in_place_of(bitsandbytes.matmul_4bit, dispatcher),
        bitsandbytes.nn.Linear4bit,
    )
    call = marking_training(layer)
    planner = planner_of(dispatcher, product) if dispatcher.varies else None
    methods = [(layer, "__call__", call)] if planner is None else planner.replaced(layer, call)
    return [(bitsandbytes, "matmul_4bit", product), *methods]


def planner_of(dispatcher: Dispatcher, product: Callable) -> "Planner | None":
    """None without the extension; also, with a warning, if it cannot be used here, such as with a
    PyTorch that lacks a function. `product`: what replaces matmul_4bit.
    """
    try:
        module = extension()
        return None if module is None else Planner(module, dispatcher, product)
    except (ImportError, AttributeError, TypeError) as error:
        why = " ".join(str(error).split())
    warnings.warn(f"reprolab_nf4: layers are called in Python: {why}", stacklevel=1)
    return None


def forward_in_c(own: Callable, calls) -> Callable:
    """Replaces Linear4bit.forward, for hooks and subclasses. torch.compile traces bitsandbytes'
    own.
    """
    is_compiling, tracing_state = torch.compiler.is_compiling, torch._C._get_tracing_state

    @functools.wraps(own)
    def forward(self, x):
        return own(self, x) if is_compiling() or tracing_state() else calls.call(self, x)

    return forward


class Planner:
    """Plans the matmuls of layers."""

    def __init__(self, module, dispatcher: Dispatcher, product: Callable):
        own, self._dispatcher = bitsandbytes.nn.Linear4bit.forward, dispatcher
        self._new_plan, self._layer_call = module.plan, module.LayerCall
        names = (PLAN, "reprolab_nf4_run", "reprolab_nf4_forget")
        self._functions = [*map(dispatcher.library.address, names)]
        guards = [
            (torch._C._len_torch_function_stack, 0),
            (torch._C._len_torch_dispatch_stack, 0),
            (torch._C._functorch.maybe_current_level, None),
            (torch._C._is_any_autocast_enabled, False),
        ]
        settings = [
            (vars(torch.autograd.forward_ad), "_current_level", -1),
            (vars(torch.compiler), "_is_compiling_flag", False),
            (vars(bitsandbytes), "matmul_4bit", product),  # others may replace it later
        ]
        # The allocation of compiled code: a fifth of the host time of torch.empty.
        on_cpu = torch._C._dynamo.guards._empty_strided_cpu
        on_gpu = torch._C._dynamo.guards._empty_strided_cuda
        most_rows = MAX_ROWS if dispatcher.default == BITSANDBYTES else 2**62
        self.calls = module.Calls(
            *(own, left, self.plan, torch.Tensor.__dlpack_c_exchange_api__),
            *(torch.Tensor, *WEIGHTS, functional.QuantState, guards, settings),
            *(torch.is_grad_enabled, torch.cuda.is_current_stream_capturing, on_cpu, on_gpu),
            *(torch.uint8, torch.Tensor._version.__get__, torch.Tensor.is_neg),
            *(torch._C._disabled_torch_function_impl, most_rows),
        )
        dispatcher.closed_by.append(self.calls.close)

    def replaced(self, layer: type, call: Callable) -> list[tuple]:
        """Replaced methods of Linear4bit: owner, name, replacement. `call`: __call__ in Python."""
        module, forward = torch.nn.Module, forward_in_c(layer.forward, self.calls)
        kinds = ("forward", "forward_pre", "backward", "backward_pre")
        hooks = [getattr(torch.nn.modules.module, f"_global_{kind}_hooks") for kind in kinds]
        own = (layer, module._wrapped_call_impl, module._call_impl, torch._C._get_tracing_state)
        in_c = self._layer_call(self.calls, call, forward, *own, hooks)
        return [(layer, "forward", forward), (layer, "__call__", in_c)]

    def plan(self, layer, x: torch.Tensor) -> bool:
        """Whether the matmul is planned, or is known to have no plan."""
        with torch._C.DisableTorchFunctionSubclass():  # that of bitsandbytes' weights is slow
            if is_capturing(x):
                return False
            if not layer.compute_type_is_set:  # as bitsandbytes' forward does
                layer.set_compute_type(x)
                layer.compute_type_is_set = True
            bound = self.calls.bind(layer)  # before operands are read: a change needs another
            operands = operands_of(layer)
            if not bound or operands is None or needs_gradient(operands[0]):
                return False
            _, state, bias = operands
            computes = layer.compute_dtype in (None, x.dtype)
            # bitsandbytes' forward converts a bias, and refuses inputs of another size.
            is_converted = computes and bias is not None and bias.dtype != x.dtype
            if is_converted or x.shape[-1] != state.shape[-1]:
                return False
            self.calls.add(layer, x, self._plan(x, *operands) if computes else None, bound)
            return True

    def _plan(self, x: torch.Tensor, weight, state, bias):
        """False where the product is bitsandbytes' own; None if the fastest backend is not a kernel
        of ours, or the kernel does not support the matmul. The call in C has checked x.
        """
        n, k = state.shape
        has_bias = bias is not None
        if state.quant_type != "nf4" or (has_bias and not is_bias(bias, x, n)):
            return False
        backend = self._dispatcher.backend(x, state)
        if backend == BITSANDBYTES or (has_bias and not has_values(bias)):
            return False
        weights = arrays_of(weight, state)
        is_dense = not has_bias or bias.is_contiguous()
        if backend == DEQUANTIZE or not is_dense or not fits(x.device, state, *weights):
            return None
        scale_codes, map, offset, blocksize2 = 0, 0, 0.0, 0
        if state.nested:
            scale_codes, map = weights[2].data_ptr(), weights[3].data_ptr()
            offset, blocksize2 = self._dispatcher.offsets.read(state.offset), state.state2.blocksize
        arrays = (weights[0].data_ptr(), weights[1].data_ptr(), scale_codes, map, offset)
        sizes = (x.numel() // k, n, k, state.blocksize, blocksize2)
        given = (backend, x.dtype == torch.bfloat16, *arrays, address(bias) or 0, *sizes)
        with on_device_of(x):
            return self._new_plan(*self._functions, *given, x.dtype, allocating_on(x.device))


def allocating_on(device: torch.device) -> Callable:
    return lambda sizes, strides, dtype: torch.empty_strided(
        sizes, strides, dtype=dtype, device=device
    )


def operands_of(layer) -> tuple | None:
    """Weight, quantization state and bias, as the layer's dictionaries hold them; None if weights
    are not plain parameters: sharded, parametrized, not quantized.
    """
    own = vars(layer)
    parameters = own["_parameters"]
    weight, bias = parameters["weight"], parameters["bias"]
    state = getattr(weight, "quant_state", None)
    if type(weight) not in WEIGHTS or type(state) is not functional.QuantState:
        return None
    kind = type(layer)  # which may compute its attributes, as that of a parametrized layer does
    is_hidden = any(name in own or hasattr(kind, name) for name in ("weight", "bias"))
    getters = kind.__getattr__, kind.__getattribute__
    if is_hidden or getters != (torch.nn.Module.__getattr__, object.__getattribute__):
        return None
    return weight, state, bias

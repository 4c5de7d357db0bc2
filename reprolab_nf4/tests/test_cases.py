"""Each case is one call of a layer. With a library installed its output must be that of
bitsandbytes alone: the same bits where bitsandbytes computes it, and within the rounding of a
product where a kernel of ours does. On a CPU, the library's calls show which of the two did.
"""

import collections
import copy
import warnings

import pytest
from cpu_as_gpu import K, N, bitsandbytes, close, outcome, torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from reprolab_nf4.installation import installed

forward_ad = torch.autograd.forward_ad
functional = bitsandbytes.functional
Linear4bit = bitsandbytes.nn.Linear4bit
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
PLANNED, OURS, THEIRS = "planned", "ours", "theirs"


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), kwargs=None):
        return function(*arguments, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
        return function(*arguments, **(kwargs or {}))


class Subclass(torch.Tensor):
    pass


class Scaled(Linear4bit):
    def forward(self, x):
        return super().forward(x) * 2


class Called(torch.nn.Module):
    def __call__(self, x):
        return super().__call__(x) * 2


def under(mode):
    def call(one, x):
        with mode():
            return one(x)

    return call


def misaligned(x):
    """By 8 bytes."""
    moved = torch.empty(x.numel() + 4, dtype=x.dtype, device=x.device)[4:].view(x.shape)
    return moved.copy_(x)


def apart(x):
    """Rows that are not adjacent."""
    return torch.cat([x, x], 1)[:, :K]


def with_gradients(call):
    def run(one, x):
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            y = call(one, x)
            y.float().sum().backward()
            return y.detach(), x.grad

    return run


def dual(one, x):
    with forward_ad.dual_level():
        y = one(forward_ad.make_dual(x, torch.ones_like(x)))
        return forward_ad.unpack_dual(y).primal


def biased_gradient(one, x):
    one.bias.requires_grad_()
    with torch.enable_grad():
        return one(x).detach()


def hooked(one, x):
    handles = [
        one.register_forward_pre_hook(lambda module, given: (given[0] * 2,)),
        one.register_forward_hook(lambda module, given, output: -output),
    ]
    try:
        return one(x)
    finally:
        [handle.remove() for handle in handles]


def hooked_everywhere(one, x):
    register = torch.nn.modules.module.register_module_forward_hook
    handle = register(lambda module, given, output: -output)
    try:
        return one(x)
    finally:
        handle.remove()


def own_forward(one, x):
    """As by accelerate's hooks."""
    old = one.forward
    one.forward = lambda x: old(x) + 1
    try:
        return one(x)
    finally:
        del one.forward


def replaced_call(one, x):
    """As torch.fx does while it traces."""
    module, own = torch.nn.Module, torch.nn.Module.__call__
    try:
        module.__call__ = lambda self, *given: -own(self, *given)
        return one(x)
    finally:
        module.__call__ = own


def replaced_product(one, x):
    own = bitsandbytes.matmul_4bit
    try:
        bitsandbytes.matmul_4bit = lambda *given, **by_name: own(*given, **by_name) * 2
        return one(x)
    finally:
        bitsandbytes.matmul_4bit = own


def of_class(*bases):
    def change(one):
        one.__class__ = type("Made", bases, {})

    return change


def product(x, one, out=None, **different):
    """bitsandbytes' function itself, whose quantization state has other attributes."""
    state = copy.copy(one.weight.quant_state)
    for name, value in different.items():
        setattr(state, name, value(getattr(state, name)) if callable(value) else value)
    given = {} if out is None else {"out": out}
    return bitsandbytes.matmul_4bit(x, one.weight.t(), quant_state=state, **given)


def kept_forward_in_training(one, x):
    """As accelerate's hooks keep it, in the layer itself."""
    one.forward = one.forward
    try:
        return one.train()(x)
    finally:
        del one.forward


def checkpointed(use_reentrant):
    return with_gradients(lambda one, x: checkpoint(one.train(), x, use_reentrant=use_reentrant))


def in_fp16(device):
    return under(lambda: torch.autocast(device, FP16))


Case = collections.namedtuple("Case", "path call layer x change", defaults=({}, {}, None))
PLAIN = lambda one, x: one(x)  # noqa: E731
CASES = {
    **{
        f"{dtype}, {'nested' if nested else 'plain'}{', bias' * bias}": Case(
            PLANNED, PLAIN, {"nested": nested, "bias": bias, "dtype": dtype}, {"dtype": dtype}
        )
        for dtype in (FP16, BF16)
        for nested in (False, True)
        for bias in (False, True)
    },
    **{
        f"input of {list(shape)}": Case(PLANNED, PLAIN, {"bias": True}, {"shape": shape})
        for shape in ((K,), (1, K), (1, 1, K), (3, 1, K), (2, 2, 2, K), (16, K))
    },
    "by keyword": Case(PLANNED, lambda one, x: one(x=x)),
    "gradients enabled, none needed": Case(PLANNED, under(torch.enable_grad)),
    "inference mode": Case(PLANNED, under(torch.inference_mode), {"bias": True}),
    "hooks": Case(PLANNED, hooked),
    "hooks of all modules": Case(PLANNED, hooked_everywhere),
    "forward of the layer's own": Case(PLANNED, own_forward),
    "Module.__call__ replaced": Case(PLANNED, replaced_call),
    "a subclass with a forward": Case(PLANNED, PLAIN, change=of_class(Scaled)),
    "a __call__ of a base": Case(PLANNED, PLAIN, change=of_class(Linear4bit, Called)),
    "matmul_4bit replaced": Case(OURS, replaced_product),
    "function mode": Case(OURS, under(Functions)),
    "dispatch mode": Case(OURS, under(Dispatched)),
    "default device": Case(OURS, under(lambda: torch.device("cpu"))),
    "tensor subclass": Case(
        OURS, lambda one, x: torch.Tensor(one(x.as_subclass(Subclass)).float())
    ),
    "parameter": Case(OURS, lambda one, x: one(torch.nn.Parameter(x, False)).detach()),
    "non-contiguous": Case(OURS, lambda one, x: one(x.t().contiguous().t())),
    "two rows that are not adjacent": Case(OURS, lambda one, x: one(apart(x)), x={"shape": (2, K)}),
    # bitsandbytes' own kernel ends in a misaligned address on a GPU.
    "aligned to 8 bytes": Case(OURS, lambda one, x: one(misaligned(x) if installed() else x)),
    "more than 8 dimensions": Case(OURS, lambda one, x: one(x.view(*[1] * 8, *x.shape))),
    "vmap": Case(THEIRS, lambda one, x: torch.vmap(one)(x[:, None])),
    "jit trace": Case(OURS, lambda one, x: torch.jit.trace(one, x, check_trace=False)(x)),
    "input of another type": Case(OURS, PLAIN, {}, {"dtype": FP32}),
    "20 rows, which the table gives to bitsandbytes": Case(THEIRS, PLAIN, x={"shape": (20, K)}),
    "more rows than the table": Case(THEIRS, PLAIN, x={"shape": (513, K)}),
    "no rows": Case(THEIRS, PLAIN, x={"shape": (0, K)}),
    "wrong size": Case(THEIRS, PLAIN, x={"shape": (3, K // 4)}),
    "no input": Case(THEIRS, lambda one, x: one()),
    "computes in fp32": Case(THEIRS, PLAIN, {"dtype": FP32}),
    "FP4": Case(THEIRS, PLAIN, {"kind": "fp4"}),
    "training mode": Case(THEIRS, lambda one, x: one.train()(x), {"bias": True}),
    "training mode, autocast": Case(THEIRS, lambda one, x: in_fp16(x.device.type)(one.train(), x)),
    "autocast, of the function itself": Case(
        THEIRS, lambda one, x: in_fp16(x.device.type)(lambda x: product(x, one), x)
    ),
    "training mode, forward kept": Case(THEIRS, kept_forward_in_training),
    "training, checkpoints": Case(THEIRS, checkpointed(False)),
    "training, reentrant checkpoints": Case(THEIRS, checkpointed(True)),
    "gradient of the input": Case(THEIRS, with_gradients(PLAIN)),
    "gradient of the bias": Case(THEIRS, biased_gradient, {"bias": True}),
    "forward-mode derivative": Case(THEIRS, dual),
    "negative bit": Case(THEIRS, lambda one, x: one(torch._neg_view(x))),
    "zero tensor": Case(
        THEIRS,
        lambda one, x: one(torch._efficientzerotensor(x.shape, dtype=x.dtype, device=x.device)),
    ),
    "meta": Case(THEIRS, lambda one, x: one(x.to("meta")).shape),
    "sparse": Case(THEIRS, lambda one, x: one(x.to_sparse())),
    "into a given output": Case(THEIRS, lambda one, x: product(x, one, x.new_zeros(3, N))),
    "a block size beyond 32 bits": Case(
        THEIRS, lambda one, x: product(x, one, blocksize=2**32 + 64)
    ),
    "scales in fp16": Case(THEIRS, lambda one, x: product(x, one, absmax=lambda a: a.half())),
    "scales with gaps": Case(
        THEIRS, lambda one, x: product(x, one, absmax=lambda a: torch.stack([a, a], 1)[:, 0])
    ),
}
AUTOCAST = {
    f"autocast to {to}, {dtype} input, computes in {compute}": Case(
        "",
        under(lambda to=to: torch.autocast("cuda", to)),
        {"dtype": compute, "bias": True},
        {"dtype": dtype},
    )
    for to in (FP16, BF16)
    for dtype in (FP16, BF16, FP32)
    for compute in (FP16, BF16)
}


def run(bench, case, products="fastest", ready=3):
    """What the case's call does under install(), and with bitsandbytes alone; and its path."""
    torch.manual_seed(1)
    made = bench.layer(**case.layer)
    x = bench.inputs(*case.x.get("shape", ()), dtype=case.x.get("dtype", BF16))
    both, path = [], ""
    for installs in (True, False):
        one = copy.deepcopy(made)
        with bench.install(products) if installs else warnings.catch_warnings():
            for _ in range(ready):
                outcome(PLAIN, one, x)
            if case.change:
                case.change(one)
            bench.look()
            both.append(outcome(case.call, one, x))
            seen = bench.path()
            path = seen if installs else path
    return *both, path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_call_is_what_bitsandbytes_alone_gives(name, bench):
    case = CASES[name]
    ours, alone, path = run(bench, case)
    close(ours, alone, exact=case.path == THEIRS)
    assert not bench.counts_calls or path == case.path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("products", ["fastest", "exact", "dequantize"])
@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_gives_bitsandbytes_types(name, in_c, products, bench, monkeypatch):
    case = AUTOCAST[name]
    call = under(lambda: torch.autocast(bench.device, FP16 if f"to {FP16}" in name else BF16))
    if not in_c:
        monkeypatch.setattr("reprolab_nf4.layers.extension", lambda: None)
    ours, alone, _ = run(bench, case._replace(call=call), products)
    close(ours, alone)

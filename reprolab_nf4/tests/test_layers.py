"""The call of a layer in C, with bitsandbytes' layers on the CPU: which calls are planned, as
docs/drop-in-cases.md has them.
"""

import inspect
import re
from pathlib import Path

import planned_on_cpu
import pytest
from layers_on_cpu import needs_whole_graphs
from planned_on_cpu import (  # noqa: F401
    OWN,
    OWN_PRODUCT,
    PLANNED,
    UNPLANNED,
    K,
    N,
    called,
    inputs,
    layer,
    planned,
    put_built,
    put_counts,
    put_installed,
    same,
    taken,
    torch,
)
from python_calls import functions_of
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

bitsandbytes = planned_on_cpu.bitsandbytes
CASES = Path(__file__).resolve().parents[2] / "docs/drop-in-cases.md"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_that_is_called_again_is_planned(counts, nested, bias, dtype):
    one = layer(nested, bias, dtype)
    for shape in ((K,), (1, K), (1, 1, K), (3, K), (3, 1, K), (1, 3, K), (2, 2, 2, K), (16, K)):
        x = torch.randn(shape).to(dtype)
        few = x.numel() <= 8 * K
        expected = PLANNED if few else PLANNED | {"runs_with_workspace": 1}
        for _ in range(2):
            one(x)
        assert taken(counts, one, x) == expected


def test_the_first_two_calls_are_unplanned(counts):
    one, x = layer(), inputs()
    assert taken(counts, one, x) == UNPLANNED
    counts.look()
    one(x)  # makes the plan and compares its output
    assert counts.look() == PLANNED | UNPLANNED
    assert taken(counts, one, x) == PLANNED


def test_ways_other_than_our_kernels_are_unplanned(counts):
    one, x = planned(x=inputs(20)), inputs(20)
    assert taken(counts, one, x) == {}


def test_more_rows_than_a_table_has_are_unplanned(counts, installed):
    one, x = planned(x=inputs(513)), inputs(513)
    assert taken(counts, one, x) == {}


class Counting(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), kwargs=None):
        return function(*arguments, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
        return function(*arguments, **(kwargs or {}))


class Subclass(torch.Tensor):
    pass


def under(mode):
    def call(one, x):
        with mode():
            return one(x)

    return call


def misaligned(x):
    moved = torch.empty(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape)
    return moved.copy_(x)


NOT_PLANNED = {
    "function mode": under(Counting),
    "dispatch mode": under(Dispatched),
    "default device": under(lambda: torch.device("cpu")),
    "autocast": under(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "tensor subclass": lambda one, x: one(x.as_subclass(Subclass)).as_subclass(torch.Tensor),
    "parameter": lambda one, x: one(torch.nn.Parameter(x)).detach(),
    "non-contiguous": lambda one, x: one(x.t().contiguous().t()),
    "not aligned to 16 bytes": lambda one, x: one(misaligned(x)),
    "more than 8 dimensions": lambda one, x: one(x.view(*[1] * 8, *x.shape)).view(-1, N),
    "vmap": lambda one, x: torch.vmap(one)(x[:, None])[:, 0],
    "jit trace": lambda one, x: torch.jit.trace(one, x, check_trace=False)(x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", NOT_PLANNED)
def test_other_calls_than_plain_ones_are_unchanged(case, counts):
    one, x = planned(), inputs()
    seen = called(counts, lambda: NOT_PLANNED[case](one, x), lambda: OWN(one, x))
    assert seen.get("times_run", 0) == 0
    assert taken(counts, one, x) == PLANNED


@needs_whole_graphs
def test_compiled_layers_are_whole_graphs_and_unplanned(counts):
    torch.compiler.reset()
    one, x = planned(bias=True), inputs()
    compiled = torch.compile(one, fullgraph=True, backend="aot_eager")
    assert called(counts, lambda: compiled(x), lambda: OWN(one, x)) == UNPLANNED


@needs_whole_graphs
def test_compiled_models_are_whole_graphs(counts):
    """Inside a model, the compiler guards objects that the class' __call__ refers to."""
    torch.compiler.reset()
    one, x = planned(bias=True), inputs()
    model = torch.nn.Sequential(one, torch.nn.Identity())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert called(counts, lambda: compiled(x), lambda: OWN(one, x)) == UNPLANNED


def test_gradients_are_unplanned(counts):
    one, biased, stored = planned(), planned(bias=True), planned(quant_storage=torch.bfloat16)
    x = inputs()
    with torch.enable_grad():
        assert taken(counts, one, x) == PLANNED
        trained = inputs().requires_grad_()
        expected = OWN(one, trained)
        output = one(trained)
        assert same(output, expected)
        counts.look()
        output.sum().backward()
        assert trained.grad is not None and counts.look() == {}
        biased.bias.requires_grad_()
        counts.look()
        assert biased(x).requires_grad and "times_run" not in counts.look()
        stored.weight.requires_grad_()
        assert stored(x).requires_grad and counts.look() == {}
    assert taken(counts, biased, x) == PLANNED  # without gradients
    assert taken(counts, one, trained.detach()) == PLANNED


def test_forward_mode_derivatives_are_bitsandbytes_own(counts):
    forward_ad, one, x = torch.autograd.forward_ad, planned(), inputs()
    state = one.weight.quant_state
    counts.look()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, inputs())
        try:
            expected = OWN_PRODUCT(dual, one.weight.t(), state)
        except NotImplementedError as error:  # bitsandbytes 0.47 has none
            with pytest.raises(NotImplementedError, match=re.escape(str(error))):
                one(dual)
        else:
            outputs = map(forward_ad.unpack_dual, (one(dual), expected))
            assert all(same(*both) for both in zip(*outputs, strict=True))
    assert counts.look() == {} and taken(counts, one, x) == PLANNED


def test_training_mode_is_unplanned(counts):
    one, x = planned(), inputs()
    one.train()
    for _ in range(3):
        assert called(counts, lambda: one(x)) == {}
    one.eval()
    for _ in range(8):
        one(x)
    assert taken(counts, one, x) == PLANNED


def test_other_types_are_unplanned(counts):
    one = planned()
    single = inputs(dtype=torch.float32)
    for _ in range(3):
        assert taken(counts, one, single).get("times_run", 0) == 0
        assert taken(counts, one, inputs(dtype=torch.float16)).get("times_run", 0) == 0
    any_type = layer()
    any_type.compute_dtype, any_type.compute_type_is_set = None, True
    for dtype in (torch.float16, torch.bfloat16, torch.float16, torch.bfloat16):
        x = inputs(dtype=dtype)
        any_type(x), any_type(x)
        assert taken(counts, any_type, x) == PLANNED


def test_empty_and_wrong_inputs_are_unplanned(counts):
    one = planned()
    assert one(inputs(0)).shape == (0, N)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            one(inputs(k=K // 4))
    with pytest.raises(TypeError):
        one()
    x = inputs(1)
    assert same(one(x=x), OWN(one, x))
    assert taken(counts, one, inputs()) == PLANNED


def test_fp4_is_unplanned(counts):
    one = planned(kind="fp4")
    assert taken(counts, one, inputs()) == {}


def test_hooks_run_around_the_planned_call(counts):
    one, x, seen = planned(), inputs(), []
    before = one.register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    after = one.register_forward_hook(lambda module, given, output: seen.append(output) or -output)
    product = one(x)
    assert same(product, -OWN(one, x * 2)) and same(seen[0], -product)
    before.remove(), after.remove()
    assert taken(counts, one, x) == PLANNED


@pytest.mark.parametrize("nested", [False, True])
def test_a_planned_call_runs_no_python(counts, nested):
    one, x = planned(nested), inputs()
    with torch.enable_grad():
        assert functions_of(lambda: one(x)) == ["<lambda>"]
    assert taken(counts, one, x) == PLANNED


def test_its_call_is_a_python_function_as_an_attribute(counts):
    """The compiler, and code that inspects signatures, need it."""
    one = planned()
    assert inspect.isfunction(type(one).__call__)
    assert one.__call__.__func__ is type(one).__call__ and one.__call__.__self__ is one
    x = inputs()
    assert same(one.__call__(x), OWN(one, x)) and same(type(one).__call__(one, x), OWN(one, x))


GLOBAL_HOOKS = ("forward", "forward_pre", "full_backward", "full_backward_pre")


@pytest.mark.parametrize("kind", GLOBAL_HOOKS)
def test_hooks_of_all_modules_run_around_the_planned_call(counts, kind):
    one, x, seen = planned(), inputs(), []
    register = getattr(torch.nn.modules.module, f"register_module_{kind}_hook")
    handle = register(lambda module, *given: seen.append(module))
    try:
        if "backward" in kind:
            with torch.enable_grad():
                one(x.clone().requires_grad_()).sum().backward()
        else:
            assert taken(counts, one, x) == PLANNED
    finally:
        handle.remove()
    assert seen == [one]
    assert taken(counts, one, x) == PLANNED


@pytest.mark.parametrize("kind", ["full_backward", "full_backward_pre"])
def test_backward_hooks_are_called(counts, kind):
    one, x, seen = planned(), inputs(), []
    handle = getattr(one, f"register_{kind}_hook")(lambda *given: seen.append(given[0]))
    with torch.enable_grad():
        one(x.clone().requires_grad_()).sum().backward()
    handle.remove()
    assert seen == [one] and taken(counts, one, x) == PLANNED


def counted(own, seen):
    def call(self, *given, **by_name):
        seen.append(self)
        return own(self, *given, **by_name)

    return call


@pytest.mark.parametrize("name", ["__call__", "_call_impl"])
def test_a_module_call_that_is_replaced_is_called(counts, monkeypatch, name):
    """As torch.fx does while it traces."""
    one, x, seen = planned(), inputs(), []
    with monkeypatch.context() as replaced:
        module = torch.nn.Module
        replaced.setattr(module, name, counted(getattr(module, name), seen))
        assert taken(counts, one, x) == PLANNED
    assert seen == [one] and taken(counts, one, x) == PLANNED


def test_a_product_that_is_replaced_is_called(counts, monkeypatch):
    one, x, own = planned(), inputs(), bitsandbytes.matmul_4bit
    with monkeypatch.context() as replaced:
        replaced.setattr(bitsandbytes, "matmul_4bit", lambda *x, **by_name: own(*x, **by_name) * 2)
        output = one(x)
    assert same(output, OWN(one, x) * 2) and taken(counts, one, x) == PLANNED


@needs_whole_graphs
def test_a_compiled_call_of_the_layers_own_is_called(counts):
    torch.compiler.reset()
    one, x, seen = planned(), inputs(), []

    def backend(graph, _):
        return counted(lambda _, *given: graph(*given), seen).__get__(one)

    one.compile(backend=backend)
    assert taken(counts, one, x) == UNPLANNED and seen == [one]


def test_a_call_of_a_subclass_is_called(counts):
    class Counted(bitsandbytes.nn.Linear4bit):
        def __call__(self, x):
            return super().__call__(x) * 2

    one, x = planned(), inputs()
    one.__class__ = Counted
    counts.look()
    output = one(x)
    assert counts.look() == PLANNED and same(output, OWN(one, x) * 2)


def test_a_forward_of_the_layers_own_is_called(counts):
    """As by accelerate's hooks."""
    one, x = planned(), inputs()
    old = one.forward
    one.forward = lambda x: old(x) + 1
    assert same(one(x), OWN(one, x) + 1)
    del one.forward
    assert taken(counts, one, x) == PLANNED


def test_subclasses_that_call_it_are_planned(counts):
    class Scaled(bitsandbytes.nn.Linear4bit):
        def forward(self, x):
            return super().forward(x) * 2

    one, x = layer(), inputs()
    one.__class__ = Scaled
    one(x), one(x)
    counts.look()
    output = one(x)
    assert counts.look() == PLANNED and same(output, OWN(one, x) * 2)


def test_every_case_of_the_document_has_its_test():
    named = re.findall(r"`(test_\w+)(?:\[[^\]]*\])?`", CASES.read_text())
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert named and [name for name in named if f"def {name}(" not in tests] == []

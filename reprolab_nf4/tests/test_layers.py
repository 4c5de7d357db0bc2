"""The call of a layer in C, with bitsandbytes' layers on the CPU: every row of docs/drop-in-cases.md."""

import copy
import gc
import os
import pickle
import random
import re
import threading
import weakref
from pathlib import Path

import pytest

import reprolab_nf4

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")
bitsandbytes = pytest.importorskip("bitsandbytes", reason="NOT TESTED, no bitsandbytes")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("NOT TESTED, no C exchange before torch 2.10", allow_module_level=True)

import planned_on_cpu  # noqa: E402
from planned_on_cpu import K, N, layer  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from reprolab_nf4 import layers  # noqa: E402

OWN = bitsandbytes.nn.Linear4bit.forward
CASES = Path(__file__).resolve().parents[2] / "docs/drop-in-cases.md"
PLANNED, TODAY = {"times_run": 1, "runs_of_settled_weights": 1}, {"times_multiplied": 1}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layers")
    return planned_on_cpu.compile_extension(folder), planned_on_cpu.compile_library(folder)


@pytest.fixture
def installed(built, monkeypatch, tmp_path):
    extension, library = built
    planned_on_cpu.put_cpu_in_place_of_gpu(monkeypatch, extension)
    path = planned_on_cpu.table(tmp_path / "table.json")
    with reprolab_nf4.install(library, table=path) as found, torch.no_grad():
        yield found
    assert planned_on_cpu.Counts(library).alive() == 0


@pytest.fixture
def counts(built, installed):
    return planned_on_cpu.Counts(built[1])


def inputs(rows=3, dtype=torch.bfloat16, k=K):
    return torch.randn(rows, k).to(dtype)


def planned(*given, x=None, **more):
    """A layer whose product with x is planned."""
    found = layer(*given, **more)
    for _ in range(3):
        found(inputs() if x is None else x)
    return found


def bits(tensor):
    return tensor.detach().view(torch.int16)


def same(found, expected):
    assert type(found) is type(expected) and found.requires_grad == expected.requires_grad
    assert (found.shape, found.dtype, found.stride()) == (
        *(expected.shape, expected.dtype, expected.stride()),
    )
    return torch.equal(bits(found), bits(expected))


def called(counts, call, expected_call=None):
    """What the library was asked for by a call, whose output is that of the other."""
    expected = expected_call() if expected_call else None
    counts.look()
    found = call()
    seen = counts.look()
    assert expected is None or same(found, expected)
    return seen


def taken(counts, one, x):
    return called(counts, lambda: one(x), lambda: OWN(one, x))


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


def test_the_first_two_calls_are_todays(counts):
    one, x = layer(), inputs()
    assert taken(counts, one, x) == TODAY
    counts.look()
    one(x)  # which is planned, and compared with its plan
    assert counts.look() == PLANNED | TODAY
    assert taken(counts, one, x) == PLANNED


def test_a_way_that_is_no_kernel_of_ours_is_todays(counts):
    one, x = planned(x=inputs(20)), inputs(20)
    assert taken(counts, one, x) == {}


def test_more_rows_than_a_table_has_are_todays(counts, installed):
    one, x = planned(x=inputs(513)), inputs(513)
    assert taken(counts, one, x) == {}


class Counted(TorchFunctionMode):
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
    "function mode": under(Counted),
    "dispatch mode": under(Dispatched),
    "default device": under(lambda: torch.device("cpu")),
    "autocast": under(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "forward-mode derivatives": under(torch.autograd.forward_ad.dual_level),
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
def test_what_is_not_a_plain_call_is_todays(case, counts):
    one, x = planned(), inputs()
    seen = called(counts, lambda: NOT_PLANNED[case](one, x), lambda: OWN(one, x))
    assert seen.get("times_run", 0) == 0
    assert taken(counts, one, x) == PLANNED


def test_compiled_layers_are_whole_graphs_of_todays_path(counts):
    torch.compiler.reset()
    one, x = planned(bias=True), inputs()
    compiled = torch.compile(one, fullgraph=True, backend="aot_eager")
    assert called(counts, lambda: compiled(x), lambda: OWN(one, x)) == TODAY


def test_gradients_are_todays(counts):
    one, biased = planned(), planned(bias=True)
    x = inputs()
    with torch.enable_grad():
        assert taken(counts, one, x) == PLANNED
        trained = inputs().requires_grad_()
        expected = OWN(one, trained)
        found = one(trained)
        assert same(found, expected)
        counts.look()
        found.sum().backward()
        assert trained.grad is not None and counts.look() == {}
        biased.bias.requires_grad_()
        counts.look()
        assert biased(x).requires_grad and "times_run" not in counts.look()
    assert taken(counts, biased, x) == PLANNED  # without gradients
    assert taken(counts, one, trained.detach()) == PLANNED


def test_training_mode_is_todays(counts):
    one, x = planned(), inputs()
    one.train()
    for _ in range(3):
        assert called(counts, lambda: one(x)) == {}
    one.eval()
    for _ in range(8):
        one(x)
    assert taken(counts, one, x) == PLANNED


def test_other_types_are_todays(counts):
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


def test_empty_and_wrong_inputs_are_todays(counts):
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


def test_fp4_is_todays(counts):
    one = planned(kind="fp4")
    assert taken(counts, one, inputs()) == {}


def test_hooks_run_around_the_planned_call(counts):
    one, x, seen = planned(), inputs(), []
    before = one.register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    after = one.register_forward_hook(lambda module, given, output: seen.append(output) or -output)
    found = one(x)
    assert same(found, -OWN(one, x * 2)) and same(seen[0], -found)
    before.remove(), after.remove()
    assert taken(counts, one, x) == PLANNED


def test_a_forward_of_the_layers_own_is_called(counts):
    """As accelerate's hooks put one."""
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
    found = one(x)
    assert counts.look() == PLANNED and same(found, OWN(one, x) * 2)


def in_place(one):
    one.weight.data.bitwise_not_()
    one.weight.add_(0)


def other_parameter(one):
    one.weight = layer().weight


def other_data(one):
    one.weight.data = one.weight.data.clone().bitwise_not_()


def other_state(one):
    one.weight.quant_state = layer().weight.quant_state


def other_scales(one):
    one.weight.quant_state.absmax = one.weight.quant_state.absmax * 2


def scales_in_place(one):
    one.weight.quant_state.absmax.mul_(2)


def other_block_size(one):
    state = one.weight.quant_state
    state.blocksize, state.absmax = 32, 2 * state.absmax.repeat_interleave(2)


def other_bias(one):
    one.bias = torch.nn.Parameter(one.bias * 2, requires_grad=False)


def no_bias(one):
    one.bias = None


def bias_in_place(one):
    one.bias.mul_(2)


def swapped(one):
    other = layer().weight
    torch.utils.swap_tensors(one.weight, other)


def loaded(one):
    other = layer(bias=True)
    one.weight, one.bias = other.weight, other.bias
    one.load_state_dict({"bias": torch.ones(N)}, strict=False)


CHANGES = [
    *(in_place, other_parameter, other_data, other_state, other_scales, scales_in_place),
    *(other_block_size, other_bias, no_bias, bias_in_place, swapped, loaded),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_layer_is_planned_again(change, counts):
    one, x = planned(bias=True), inputs()
    before = one(x)
    change(one)
    assert taken(counts, one, x).get("times_run", 0) == 0
    assert not torch.equal(one(x), before)
    one(x)
    assert taken(counts, one, x) == PLANNED


@pytest.mark.parametrize("name", ["absmax", "code", "offset", "state2"])
def test_changed_nested_scales_are_planned_again(name, counts):
    one, x = planned(nested=True), inputs()
    state = one.weight.quant_state
    other = layer(nested=True).weight.quant_state
    if name == "offset":
        state.offset.add_(0.5)
    elif name == "state2":
        state.state2 = other.state2
    else:
        getattr(state.state2, name).mul_(1.5)
    assert taken(counts, one, x).get("times_run", 0) == 0
    one(x), one(x)
    assert taken(counts, one, x) == PLANNED


def test_weights_that_are_no_parameters_are_todays(counts):
    """Sharded, parametrized, or of a dictionary that fetches them."""
    x = inputs()
    sharded = planned()
    weight = sharded.weight
    del sharded._parameters["weight"]
    object.__setattr__(sharded, "weight", weight)
    parametrized = planned(bias=True)
    torch.nn.utils.parametrize.register_parametrization(parametrized, "bias", torch.nn.Identity())
    fetched = planned()
    fetched._parameters = type("Fetching", (dict,), {})(fetched._parameters)
    subclassed = planned()
    weight = type("Sharded", (bitsandbytes.nn.Params4bit,), {})(subclassed.weight.data)
    weight.quant_state = subclassed.weight.quant_state
    subclassed.weight = weight
    for one in (sharded, parametrized, fetched, subclassed):
        for _ in range(3):
            assert taken(counts, one, x).get("times_run", 0) == 0


def test_offloaded_weights_are_mostly_todays(counts):
    """Those that come for each call, and are gone between the calls."""
    one, x = layer(), inputs()
    kept = one.weight
    planned_again = 0
    for _ in range(100):
        one.weight = torch.nn.Parameter(torch.empty(1, device="meta"), requires_grad=False)
        one.weight = bitsandbytes.nn.Params4bit(
            kept.data.clone(), requires_grad=False, quant_state=kept.quant_state, bnb_quantized=True
        )
        planned_again += taken(counts, one, x).get("times_run", 0)
    assert planned_again <= 7  # less and less often


def test_copies_have_plans_of_their_own(counts):
    one, x = planned(bias=True), inputs()
    before = set(vars(one))
    for copied in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert set(vars(copied)) == before
        counts.look()
        assert same(copied(x), one(x))
        copied(x)
        assert taken(counts, copied, x) == PLANNED
        copied.weight.quant_state.absmax.mul_(2)
        assert not torch.equal(copied(x), one(x))
    assert taken(counts, one, x) == PLANNED


def test_undo_leaves_no_trace(built, installed, counts, tmp_path):
    one, x = planned(), inputs()
    ours, facts = one.forward, dict(vars(one))
    assert bitsandbytes.nn.Linear4bit.forward is not OWN
    installed.undo()
    assert bitsandbytes.nn.Linear4bit.forward is OWN and counts.alive() == 0
    assert vars(one) == facts
    counts.look()
    ours(x)  # kept by somebody, as accelerate's hooks do
    assert counts.look() == {}
    with reprolab_nf4.install(built[1], table=tmp_path / "table.json"):
        one(x), one(x)
        assert taken(counts, one, x) == PLANNED


def test_layers_and_weights_that_end_are_not_kept(counts):
    one, x = planned(nested=True), inputs()
    storage = weakref.ref(one.weight.untyped_storage())
    assert counts.alive() == 1
    one.weight = layer(nested=True).weight
    gc.collect()
    assert storage() is None
    one(x), one(x), one(x)
    del one
    gc.collect()
    assert counts.alive() == 0


def test_many_numbers_of_rows_have_few_plans(counts, built, installed, tmp_path, monkeypatch):
    ways = {512: {"few_rows": 1.0}}
    installed.undo()
    path = planned_on_cpu.table(tmp_path / "all.json", ways)
    with reprolab_nf4.install(built[1], table=path):
        one = layer()
        for _ in range(2):
            for rows in range(1, 41):
                x = inputs(rows)
                one(x), one(x)
                assert taken(counts, one, x) == PLANNED
        assert counts.alive() <= 32


def test_inference_mode_is_planned(counts):
    one, x = planned(bias=True), inputs()
    with torch.inference_mode():
        assert taken(counts, one, x) == PLANNED
        assert one(x).is_inference()
        made, y = layer(nested=True), inputs()
        made(y), made(y)
        # Writes to inference tensors are not counted: their weights are never settled.
        assert taken(counts, made, y) == {"times_run": 1}
        made.weight.quant_state.state2.absmax.mul_(2)
        assert taken(counts, made, y) == {"times_run": 1}


def test_a_failed_run_is_todays(counts):
    one, x = planned(), inputs()
    counts.library.fail_next_run(2)
    assert called(counts, lambda: one(x)) == TODAY
    assert taken(counts, one, x) == PLANNED


def test_a_plan_with_other_bits_is_not_kept(counts):
    one, x = layer(), inputs()
    one(x)
    counts.library.do_nothing(1)
    try:
        one(x)  # neither product is written: what memory held differs, or is not a number
    finally:
        counts.library.do_nothing(0)
    assert taken(counts, one, x) in (TODAY, PLANNED)


def test_a_capture_makes_no_plan(counts, monkeypatch):
    one, x = layer(), inputs()
    with monkeypatch.context() as capturing:
        capturing.setattr(layers, "is_capturing", lambda tensor: True)
        for _ in range(4):
            assert taken(counts, one, x) == TODAY
    one(x)
    assert taken(counts, one, x) == PLANNED


def test_outputs_are_pytorchs_own_memory(counts):
    one, x = planned(), inputs()
    found = one(x)
    assert found.untyped_storage().resizable() and found._version == 0 and found.is_leaf
    first = found.clone()
    one(inputs())
    assert torch.equal(found, first)


def test_threads_have_the_outputs_of_their_inputs(counts):
    ones = [planned(nested=nested, bias=True) for nested in (False, True)]
    xs = [inputs(rows) for rows in (1, 2, 12, 16)]
    expected = [[OWN(one, x) for one in ones] for x in xs]
    wrong = []

    def work(i):
        with torch.no_grad():
            for _ in range(100):
                for one, right in zip(ones, expected[i], strict=True):
                    if not torch.equal(one(xs[i]), right):
                        wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and counts.look()["times_run"] > 700


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_goes_on(counts):
    one, x = planned(), inputs()
    expected = one(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(one(x), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_without_the_extension_all_is_todays(built, monkeypatch, tmp_path):
    extension, library = built
    planned_on_cpu.put_cpu_in_place_of_gpu(monkeypatch, extension)
    monkeypatch.setattr(layers, "EXTENSION", tmp_path / "none.abi3.so")
    path = planned_on_cpu.table(tmp_path / "table.json")
    with reprolab_nf4.install(library, table=path), torch.no_grad():
        assert bitsandbytes.nn.Linear4bit.forward is OWN
        counts = planned_on_cpu.Counts(library)
        one, x = planned(), inputs()
        assert taken(counts, one, x) == TODAY


@pytest.fixture
def tuned():
    """A layer with an adapter of PEFT's, and that layer."""
    peft = pytest.importorskip("peft", reason="NOT TESTED, no peft")
    config = peft.LoraConfig(target_modules=["0"], r=4, init_lora_weights=False)
    model = torch.nn.Sequential(layer())
    model.is_loaded_in_4bit = True
    found = peft.get_peft_model(model, config).eval()
    return found, found.base_model.model[0]


def test_lora_around_a_layer_is_planned(counts, tuned):
    model, adapter = tuned
    x = inputs()
    model(x), model(x)
    counts.look()
    model(x)
    assert counts.look() == PLANNED and taken(counts, adapter.base_layer, x) == PLANNED


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lora_merges_are_seen(counts, tuned, monkeypatch):
    model, adapter = tuned
    base, x = adapter.base_layer, inputs()
    base(x), base(x), base(x)
    for change in (adapter.merge, adapter.unmerge):
        before = base(x)
        change()
        assert taken(counts, base, x) == TODAY
        assert not torch.equal(base(x), before)
        for _ in range(5):
            base(x)
        assert taken(counts, base, x) == PLANNED


BIAS_CHANGES = (other_bias, no_bias, bias_in_place)


def change_at_random(generator, one):
    changes = [c for c in CHANGES if one.bias is not None or c not in BIAS_CHANGES]
    generator.choice(changes)(one)


def test_a_thousand_random_operations_have_the_bits_of_bitsandbytes_forward(counts):
    generator = random.Random(1)
    torch.manual_seed(1)
    ones = [layer(nested, bias) for nested in (False, True) for bias in (False, True)]
    runs = 0
    for _ in range(1000):
        i = generator.randrange(len(ones))
        x = inputs(generator.choice([1, 1, 1, 4, 16, 20]))
        what = generator.random()
        if what < 0.04 and not ones[i].weight.quant_state.nested:
            change_at_random(generator, ones[i])
        elif what < 0.06:
            ones[i] = copy.deepcopy(ones[i])
        elif what < 0.12:
            x = x.t().contiguous().t()
        elif what < 0.15:
            with torch.enable_grad():
                trained = x.clone().requires_grad_()
                assert same(ones[i](trained), OWN(ones[i], trained))
        runs += taken(counts, ones[i], x).get("times_run", 0)
    assert runs > 300


def test_every_case_of_the_document_has_its_test():
    named = re.findall(r"`(test_\w+)(?:\[[^\]]*\])?`", CASES.read_text())
    here = {name for name in globals() if name.startswith("test_")}
    elsewhere = Path(__file__).with_name("test_real_bitsandbytes.py").read_text()
    assert named and [n for n in named if n not in here and f"def {n}(" not in elsewhere] == []

"""Changes of planned layers: other weights, copies, threads."""

import collections
import copy
import gc
import os
import pickle
import random
import threading
import weakref

import planned_on_cpu
import pytest
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

import reprolab_nf4
from reprolab_nf4 import layers, matmul

bitsandbytes = planned_on_cpu.bitsandbytes


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


def test_a_new_offset_at_the_address_of_the_old_is_noticed(counts):
    """At the same address and with as many writes: the plan holds the value itself."""
    one, x = planned(nested=True), inputs()
    state = one.weight.quant_state
    memory, place, others = state.offset.data, id(state.offset), []
    state.offset = None
    memory.add_(0.5)
    for _ in range(100):
        state.offset = memory.data
        if id(state.offset) == place:
            break
        others.append(state.offset)
    assert state.offset._version == 0
    assert taken(counts, one, x).get("times_run", 0) == 0


def test_weights_that_are_not_parameters_are_unplanned(counts):
    """Sharded, parametrized, or in a dictionary that computes its items."""
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


def test_offloaded_weights_are_mostly_unplanned(counts):
    """Weights that are loaded for each call and released between the calls."""
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


def test_a_layer_that_ran_long_between_changes_is_planned_at_once(counts):
    one, x = layer(), inputs()
    for _ in range(12):
        one.weight.data = one.weight.data.clone()
        for _ in range(3):
            one(x)
        assert taken(counts, one, x) == PLANNED


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


@pytest.mark.parametrize("nested", [False, True])
def test_undo_leaves_no_trace(nested, built, installed, counts, tmp_path):
    one, x = layer(nested), inputs()
    state = one.weight.quant_state
    facts, offset = dict(vars(one)), dict(vars(state.offset)) if nested else None
    for _ in range(3):
        one(x)
    ours = one.forward
    call = vars(bitsandbytes.nn.Linear4bit)["__call__"]
    assert bitsandbytes.nn.Linear4bit.forward is not OWN
    installed.undo()
    assert bitsandbytes.nn.Linear4bit.forward is OWN and counts.alive() == 0
    assert "__call__" not in vars(bitsandbytes.nn.Linear4bit)
    assert matmul.workspace_bytes.cache_info().currsize == 0  # it would keep the library
    assert vars(one) == facts and (not nested or vars(state.offset) == offset)
    counts.look()
    ours(x), call(one, x)  # as accelerate's hooks keep them
    assert counts.look() == {}
    with reprolab_nf4.install(built[1], table=tmp_path / "table.json"):
        one(x), one(x)
        assert taken(counts, one, x) == PLANNED


def test_deleted_layers_and_weights_are_freed(counts):
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


def test_a_failed_run_is_unplanned(counts):
    one, x = planned(), inputs()
    counts.library.fail_next_run(2)
    assert called(counts, lambda: one(x)) == UNPLANNED
    assert taken(counts, one, x) == PLANNED


def test_a_plan_with_other_bits_is_not_kept(counts):
    one, x = layer(), inputs()
    one(x)
    counts.library.do_nothing(1)
    try:
        one(x)  # neither product is written, so the old contents differ, or are NaN
    finally:
        counts.library.do_nothing(0)
    assert taken(counts, one, x) in (UNPLANNED, PLANNED)


def test_a_capture_makes_no_plan(counts, monkeypatch):
    one, x = layer(), inputs()
    with monkeypatch.context() as capturing:
        capturing.setattr(layers, "is_capturing", lambda tensor: True)
        for _ in range(4):
            assert taken(counts, one, x) == UNPLANNED
    one(x)
    assert taken(counts, one, x) == PLANNED


def test_a_capture_leaves_no_workspace(counts, built, installed, tmp_path, monkeypatch):
    """Its memory would be that of the graph."""
    installed.undo()
    capturing = []
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: bool(capturing))
    with reprolab_nf4.install(built[1], table=tmp_path / "table.json"):
        one, x = layer(), inputs(12)
        one(x)
        capturing.append(1)
        assert taken(counts, one, x) == UNPLANNED
        capturing.clear()
        assert taken(counts, one, x) == PLANNED | {"runs_with_workspace": 1}


def test_a_layer_on_another_device_than_the_current_is_planned(
    counts, built, installed, tmp_path, monkeypatch
):
    """Outputs and workspaces are allocated on its device; on the current only once."""
    installed.undo()
    guards, on_current = torch._C._dynamo.guards, []

    def allocate(sizes, strides, dtype):
        on_current.append(sizes)
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")

    monkeypatch.setattr(guards, "_empty_strided_cpu", allocate)
    with reprolab_nf4.install(built[1], table=tmp_path / "table.json"):
        one = planned(x=inputs(12))
        for _ in range(3):
            assert taken(counts, one, inputs(12)) == PLANNED | {"runs_with_workspace": 1}
    assert len(on_current) == 1


def test_outputs_are_pytorchs_own_memory(counts):
    one, x = planned(), inputs()
    output = one(x)
    assert output.untyped_storage().resizable() and output._version == 0 and output.is_leaf
    first = output.clone()
    one(inputs())
    assert torch.equal(output, first)


def test_threads_get_the_outputs_of_their_inputs(counts):
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
def test_a_forked_process_continues(counts):
    one, x = planned(), inputs()
    expected = one(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(one(x), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def tuned():
    """A model with an adapter of PEFT, and its layer."""
    peft = pytest.importorskip("peft", reason="NOT TESTED, no peft")
    config = peft.LoraConfig(target_modules=["0"], r=4, init_lora_weights=False)
    model = torch.nn.Sequential(layer())
    model.is_loaded_in_4bit = True
    peft_model = peft.get_peft_model(model, config).eval()
    return peft_model, peft_model.base_model.model[0]


def test_lora_around_a_layer_is_planned(counts, tuned):
    model, adapter = tuned
    x = inputs()
    model(x), model(x)
    counts.look()
    model(x)
    assert counts.look() == PLANNED and taken(counts, adapter.base_layer, x) == PLANNED


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lora_merges_are_noticed(counts, tuned):
    adapter = tuned[1]
    base, x = adapter.base_layer, inputs()
    base(x), base(x), base(x)
    for change in (adapter.merge, adapter.unmerge):
        before = base(x)
        change()
        assert taken(counts, base, x) == UNPLANNED
        assert not torch.equal(base(x), before)
        for _ in range(5):
            base(x)
        assert taken(counts, base, x) == PLANNED


BIAS_CHANGES = (other_bias, no_bias, bias_in_place)


def change_at_random(generator, one):
    changes = [c for c in CHANGES if one.bias is not None or c not in BIAS_CHANGES]
    generator.choice(changes)(one)


def test_a_thousand_random_operations_have_the_bits_of_bitsandbytes_forward(counts):
    assert a_thousand_random_operations(counts).get("times_run", 0) > 300


def a_thousand_random_operations(counts) -> collections.Counter:
    """Compares each with bitsandbytes' own. Returns the calls of our library."""
    generator = random.Random(1)
    torch.manual_seed(1)
    ones = [layer(nested, bias) for nested in (False, True) for bias in (False, True)]
    calls = collections.Counter()
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
        calls += taken(counts, ones[i], x)
        assert is_near_bitsandbytes(ones[i], x)
    return calls


def is_near_bitsandbytes(one, x) -> bool:
    """Both products may round weights to bf16, and do round the output."""
    state = one.weight.quant_state
    own = OWN_PRODUCT(x, one.weight.t(), state, bias=one.bias).float()
    exact = bitsandbytes.functional.dequantize_4bit(one.weight.data, state).float()
    sums = x.float().abs() @ exact.abs().T
    return bool(((one(x).float() - own).abs() <= 2**-7 * (own.abs() + sums)).all())

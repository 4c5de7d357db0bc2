"""Changes of planned layers: other weights, copies, adapters."""

import collections
import copy
import pickle
import random

import planned_on_cpu
import pytest
from planned_on_cpu import (  # noqa: F401
    OWN,
    OWN_PRODUCT,
    PLANNED,
    UNPLANNED,
    N,
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
    scales = 2 * state.absmax.repeat_interleave(state.blocksize // 32)
    state.blocksize, state.absmax = 32, scales


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
    generator = random.Random(5)  # draws a layer's other block size twice
    torch.manual_seed(5)
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

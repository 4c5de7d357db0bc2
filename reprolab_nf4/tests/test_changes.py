"""Writes to a layer whose calls are planned: the next call, and those after it, must give what
bitsandbytes alone gives for the changed layer, or its error.
"""

import collections
import copy
import ctypes
import gc
import struct
import threading
import weakref

import pytest
from cpu_as_gpu import K, N, bitsandbytes, close, outcome, torch

from reprolab_nf4 import matmul
from reprolab_nf4.weights import Offsets, SettledWeights

Linear4bit = bitsandbytes.nn.Linear4bit
call = lambda one, x: one(x)  # noqa: E731

# By name: gets the array of a layer, the object that holds it, and its name there.
ARRAYS = {
    "codes": (lambda one: one.weight, lambda one: one, "weight"),
    "bias": (lambda one: one.bias, lambda one: one, "bias"),
    "scales": (lambda one: state(one).absmax, lambda one: state(one), "absmax"),
    "second scales": (
        lambda one: state(one).state2.absmax,
        lambda one: state(one).state2,
        "absmax",
    ),
    "map": (lambda one: state(one).state2.code, lambda one: state(one).state2, "code"),
    "offset": (lambda one: state(one).offset, lambda one: state(one), "offset"),
}


def state(one):
    return one.weight.quant_state


def other(array):
    """Other values of the same layout."""
    if array.dtype == torch.uint8:
        return torch.bitwise_not(array.data)
    return array.data * 2 + 0.01


def strided(array):
    """The same values, not adjacent."""
    return torch.stack([array.data, array.data], -1)[..., 0]


def put(one, name, value):
    get, holder, attribute = ARRAYS[name]
    if attribute in ("weight", "bias"):
        kept = copy.copy(vars(get(one)))
        value = torch.nn.Parameter(value, requires_grad=False)
        vars(value).update(kept)
    setattr(holder(one), attribute, value)


WRITES = {
    "another tensor": lambda one, name, array: put(one, name, other(array)),
    "in place": lambda one, name, array: array.copy_(other(array)),
    "other data": lambda one, name, array: setattr(array, "data", other(array)),
    "data of gaps": lambda one, name, array: setattr(array, "data", strided(array)),
    "data of more dimensions": lambda one, name, array: setattr(array, "data", array.data[None]),
    "data of another type": lambda one, name, array: setattr(
        array, "data", array.data.view(SAME_SIZE[array.dtype])
    ),
    "fewer": lambda one, name, array: setattr(
        array, "data", array.data.flatten()[: array.numel() // 2]
    ),
}
SAME_SIZE = {torch.uint8: torch.int8, torch.float32: torch.int32, torch.bfloat16: torch.float16}
HIDES = {
    "the layer's __dict__": lambda one, name, value: one.__dict__.__setitem__(name, value),
    "a property of its class": lambda one, name, value: setattr(
        one, "__class__", type("Hidden", (Linear4bit,), {name: property(lambda self: value)})
    ),
}


def both(bench, change, x, products="fastest", **kind):
    """Outcomes of three calls after the change of a planned layer, with and without install()."""
    found = []
    made = bench.layer(bias=True, **kind)
    for installs in (True, False):
        one = copy.deepcopy(made)
        with bench.install(products) if installs else torch.no_grad():
            for _ in range(3):
                outcome(call, one, x)
            change(one)
            found.append([outcome(call, one, x) for _ in range(4)])
            one.__class__ = Linear4bit
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ARRAYS)
def test_a_write_to_an_array_is_noticed(name, write, bench):
    nested = name not in ("codes", "bias")
    if write == "fewer" and name != "bias":
        pytest.skip("bitsandbytes alone would read past the array")
    if write == "data of gaps" and name == ("map" if bench.device == "cpu" else "bias"):
        pytest.skip("bitsandbytes alone reads it as if it had none")
    change = lambda one: WRITES[write](one, name, ARRAYS[name][0](one))  # noqa: E731
    ours, alone = both(bench, change, bench.inputs(), nested=nested)
    for pair in zip(ours, alone, strict=True):
        close(*pair)


@pytest.mark.parametrize("hide", HIDES)
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_what_hides_a_parameter_is_noticed(name, hide, bench):
    hidden = getattr(bench.layer(bias=True), name)
    change = lambda one: HIDES[hide](one, name, hidden)  # noqa: E731
    ours, alone = both(bench, change, bench.inputs())
    for pair in zip(ours, alone, strict=True):
        close(*pair)


OTHERS = {
    "block size": lambda one: (
        setattr(state(one), "blocksize", 32),
        setattr(state(one), "absmax", 2 * state(one).absmax.repeat_interleave(2)),
    ),
    "state": lambda one: setattr(one.weight, "quant_state", twice(state(one))),
    "no bias": lambda one: setattr(one, "bias", None),
    "swapped": lambda one: torch.utils.swap_tensors(
        one.bias, torch.nn.Parameter(one.bias * 2, False)
    ),
    "loaded": lambda one: one.load_state_dict({"bias": torch.ones(N)}, strict=False),
    "class": lambda one: setattr(one, "__class__", type("Other", (Linear4bit,), {})),
    "compute type": lambda one: setattr(one, "compute_dtype", torch.float16),
    "buffer": lambda one: one.register_buffer("bias", 2 * one._parameters.pop("bias").data),
    "parameters": lambda one: (
        vars(one).update(_parameters=collections.OrderedDict(one._parameters)),
        outcome(one, torch.ones(3, K, dtype=torch.bfloat16, device=one.weight.device)),
        setattr(state(one), "absmax", 2 * state(one).absmax),
    ),
}
NOT_PLANNED = ("compute type", "buffer", "parameters")


def twice(state):
    new = copy.copy(state)
    new.absmax = 2 * state.absmax
    return new


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", OTHERS)
def test_other_changes_are_noticed_and_planned_again(change, bench):
    x = bench.inputs()
    ours, alone = both(bench, OTHERS[change], x)
    for pair in zip(ours, alone, strict=True):
        close(*pair)
    assert not bench.counts_calls or bench.look()["times_run"] >= 2 or change in NOT_PLANNED


def on_cpu(bench):
    if not bench.counts_calls:
        pytest.skip("NOT TESTED, needs the CPU's library, which counts")
    return bench


def planned(bench, *given, x=None, **kind):
    one = bench.layer(*given, **kind)
    one(bench.inputs() if x is None else x)
    bench.look()
    return one


@torch.no_grad()
def test_memory_that_was_freed_is_not_read_by_its_plan(bench):
    """Other weights may have its address."""
    one, memory = on_cpu(bench).layer(), bytearray(N * K // 2)
    with bench.install():
        for _ in range(2):
            one.weight.data = torch.frombuffer(memory, dtype=torch.uint8).view(-1, 1)
            one(bench.inputs())
            assert bench.look() == {"times_run": 1}  # a new plan, which waits for the writes
            one(bench.inputs())
            assert bench.look() == {"times_run": 1, "runs_of_settled_weights": 1}


@torch.no_grad()
def test_a_new_offset_at_the_address_of_the_old_is_read(bench):
    read = Offsets().read
    memory = bytearray(4)
    for value in range(50):  # all at one address, most with the id() of the last
        memory[:] = struct.pack("f", value)
        offset = torch.frombuffer(memory, dtype=torch.float32).view(())
        assert read(offset) == read(offset) == value
        del offset
    offset = torch.tensor(1.0)
    assert read(offset) == 1
    offset += 0.5
    assert read(offset) == 1.5
    one, x = planned(bench, nested=True), bench.inputs()
    with bench.install():
        for value in range(5):
            state(one).offset = torch.tensor(float(value), device=x.device)
            close(one(x), outcome(call_alone(bench), one, x))


def call_alone(bench):
    """bitsandbytes' product, whatever is installed."""
    own = matmul._dispatch[0]
    return lambda one, x: own(x, one.weight.t(), state(one), bias=one.bias)


@torch.no_grad()
def test_weights_are_settled_until_they_change(bench):
    """Then a kernel need not wait for what writes them."""
    weights = lambda: [torch.zeros(64, 1, dtype=torch.uint8), torch.ones(8)[:4]]  # noqa: E731
    sizes, settled, one = (8, 16, 64), SettledWeights(), weights()
    assert not settled.has(sizes, one)
    settled.add(sizes, one)
    assert settled.has(sizes, one) and not settled.has((16, 8, 64), one)
    assert not settled.has(sizes, weights()) and not settled.has(sizes, one[:1])
    for change in (
        lambda: one[1].add_(0),
        lambda: setattr(one[1], "data", one[1].as_strided((4,), (2,))),
        lambda: setattr(one[1], "data", one[1].data.clone()),
        lambda: setattr(one[1], "data", one[1].data.view(torch.int32)),
        lambda: setattr(one[0], "data", one[0].data[:32]),
    ):
        settled.add(sizes, one)
        assert settled.has(sizes, one)
        change()
        assert not settled.has(sizes, one)
    with torch.inference_mode():
        made = weights()
        settled.add(sizes, made)
        assert not settled.has(sizes, made)
    one.clear()
    gc.collect()
    assert not settled._known


@torch.no_grad()
def test_planned_calls_are_of_settled_weights_unless_writes_are_not_counted(bench):
    on_cpu(bench)
    with bench.install():
        planned(bench)(bench.inputs())
        assert bench.look() == {"times_run": 1, "runs_of_settled_weights": 1}
        with torch.inference_mode():
            planned(bench, nested=True)(bench.inputs())
        assert bench.look() == {"times_run": 1}


@torch.no_grad()
def test_deleted_layers_and_undone_installations_leave_no_plan(bench):
    on_cpu(bench)
    before, x = dict(vars(Linear4bit)), bench.inputs()
    with bench.install() as installed:
        one, two = planned(bench, nested=True), planned(bench)
        storage, forward = weakref.ref(one.weight.untyped_storage()), two.forward
        assert bench.library.plans_alive() == 2
        del one
        gc.collect()
        assert storage() is None and bench.library.plans_alive() == 1
        installed.undo()
        assert bench.library.plans_alive() == 0 and dict(vars(Linear4bit)) == before
        forward(x)
        assert bench.look() == {}
    with bench.install():
        for rows in range(1, 60):
            for _ in range(2):
                two(x[:1].expand(min(rows, 16), K).contiguous())
        assert bench.library.plans_alive() <= 32


@torch.no_grad()
def test_a_run_that_fails_is_repeated_without_the_plan(bench):
    on_cpu(bench)
    with bench.install():
        one, x = planned(bench), bench.inputs()
        bench.library.fail_next_run(2)
        close(one(x), call_alone(bench)(one, x))
        assert bench.look() == {"times_multiplied": 1}


@torch.no_grad()
def test_a_first_call_is_planned_unless_bitsandbytes_converts_the_bias(bench):
    one, other = on_cpu(bench).layer(), bench.layer(bias=True)
    one.compute_type_is_set = False
    other.bias.data = other.bias.data.float()
    with bench.install():
        with pytest.raises(Exception, match="shape"):
            one(bench.inputs(3, K - 1))
        for layer, first in ((one, "planned"), (other, "ours")):
            assert [(layer(bench.inputs()), bench.path())[1] for _ in "12"] == [first, "planned"]


@torch.no_grad()
def test_threads_get_the_outputs_of_their_inputs(bench):
    with bench.install():
        one, wrong = planned(bench, nested=True, bias=True), []
        xs = [bench.inputs(rows, K) for rows in (1, 2, 12, 16)]
        expected = [one(x) for x in xs]
        layers = [copy.deepcopy(one) for _ in range(100)] + [one] * 50
        meet = threading.Barrier(len(xs))  # so that first calls meet

        def work(i):
            with torch.no_grad():
                for layer in layers:
                    meet.wait()
                    wrong.extend([i] * (not torch.equal(layer(xs[i]), expected[i])))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert wrong == []


class Exchange(ctypes.Structure):
    """csrc/layers/exchange.hpp's Api."""

    _fields_ = (("version", ctypes.c_uint32 * 2), ("functions", ctypes.c_void_p * 6))


@torch.no_grad()
def test_each_stream_has_a_workspace_of_its_own(bench, monkeypatch):
    """With an exchange whose current stream the test chooses."""
    on_cpu(bench)
    get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name, own = b"dlpack_exchange_api", torch.Tensor.__dlpack_c_exchange_api__
    exchange = Exchange.from_buffer_copy(Exchange.from_address(get(own, name)))
    stream = [0x1000]
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)

    @kind
    def current_stream(device_type, index, out):
        ctypes.c_void_p.from_address(out).value = stream[0]
        return 0

    exchange.functions[5] = ctypes.cast(current_stream, ctypes.c_void_p).value
    capsule = new(ctypes.addressof(exchange), name, None)
    monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", capsule)
    with bench.install():
        x, seen = bench.inputs(16, K), {}
        one = planned(bench, x=x)
        for stream[0] in (0x1000, 0x2000, 0x1000, 0x2000):
            one(x)
            assert bench.path() == "planned" and bench.library.stream_of_last_run() == stream[0]
            seen.setdefault(stream[0], set()).add(bench.library.workspace_of_last_run())
    assert all(len(each) == 1 for each in seen.values()) and len(set.union(*seen.values())) == 2


@torch.no_grad()
def test_a_capture_makes_no_plan_and_takes_no_workspace(bench, monkeypatch):
    on_cpu(bench)
    capturing = []
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: bool(capturing))
    monkeypatch.setattr("reprolab_nf4.layers.is_capturing", lambda tensor: bool(capturing))
    with bench.install():
        one, x = bench.layer(), bench.inputs(16, K)
        capturing.append(1)
        for _ in range(3):
            one(x)
            assert bench.path() == "ours"
        capturing.clear()
        one(x)
        assert bench.path() == "planned"


def test_the_extension_in_c_is_needed_by_nothing(bench, monkeypatch, tmp_path):
    on_cpu(bench)
    monkeypatch.setattr("reprolab_nf4.layers.EXTENSION", tmp_path / "none.abi3.so")
    with bench.install(), torch.no_grad():
        planned(bench)(bench.inputs())
        assert bench.path() == "ours"
    (tmp_path / "none.abi3.so").write_text("no library\n")
    with (
        pytest.warns(UserWarning, match="layers are called in Python: ") as warned,
        bench.install(),
    ):
        pass
    assert len(warned) == 1


def test_exact_multiplies_by_weights_that_were_rounded_once(bench, monkeypatch):
    """bf16 activations and weights that dequantize to fp16: no kernel of ours."""
    one, x = bench.layer(dtype=torch.float16), bench.inputs()
    weight = bitsandbytes.functional.dequantize_4bit(one.weight.data, state(one))
    monkeypatch.setattr(bitsandbytes, "matmul_4bit", lambda *given, **by_name: 1 / 0)
    with bench.install("exact", {16: {"few_rows_exact": 1.0}}), torch.no_grad():
        bench.look()
        product = bitsandbytes.matmul_4bit(x, one.weight.t(), state(one))
        assert torch.equal(product, torch.nn.functional.linear(x, weight.to(torch.bfloat16)))
        assert bench.look() == {}
        bitsandbytes.matmul_4bit(x.half(), one.weight.t(), state(one))
        assert bench.path() in ("ours", "")
        [one(bench.inputs(513, K).half()) for _ in range(3)]  # also more rows than the table has

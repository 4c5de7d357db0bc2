"""Plans of layers: the memory that they hold, where they run, and that undo() removes them."""

import gc
import os
import threading
import weakref

import planned_on_cpu
import pytest
from planned_on_cpu import (  # noqa: F401
    OWN,
    PLANNED,
    UNPLANNED,
    called,
    inputs,
    layer,
    planned,
    put_built,
    put_counts,
    put_installed,
    taken,
    torch,
)

import reprolab_nf4
from reprolab_nf4 import layers, matmul

bitsandbytes = planned_on_cpu.bitsandbytes


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

"""Layers whose calls are not planned, without the extension in C or an exchange that it can use."""

import ctypes
import sys
import types

import planned_on_cpu
import pytest
from planned_on_cpu import (  # noqa: F401
    OWN,
    UNPLANNED,
    inputs,
    layer,
    planned,
    put_built,
    put_installed,
    same,
    taken,
    torch,
)
from python_calls import functions_of
from test_layer_changes import CHANGES, a_thousand_random_operations

import reprolab_nf4
from reprolab_nf4 import layers

bitsandbytes = planned_on_cpu.bitsandbytes
EXCHANGE = "__dlpack_c_exchange_api__"
OTHER_EXCHANGE = (ctypes.c_uint32 * 64)(2)  # starts with the major version


def remove_c_exchange(monkeypatch):
    """As in PyTorch before 2.10 without torch-c-dlpack-ext."""
    monkeypatch.delattr(torch.Tensor, EXCHANGE, raising=False)
    monkeypatch.setitem(sys.modules, "torch_c_dlpack_ext", None)


def put_other_exchange(monkeypatch):
    """As if PyTorch had a C exchange of another major version."""
    new = ctypes.pythonapi.PyCapsule_New
    monkeypatch.setattr(new, "restype", ctypes.py_object)
    monkeypatch.setattr(new, "argtypes", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p])
    capsule = new(ctypes.addressof(OTHER_EXCHANGE), b"dlpack_exchange_api", None)
    monkeypatch.setattr(torch.Tensor, EXCHANGE, capsule, raising=False)


@pytest.fixture(params=["no extension", "no exchange"])
def without_extension(request, built, monkeypatch, tmp_path):
    extension, library = built
    planned_on_cpu.put_cpu_in_place_of_gpu(monkeypatch.setattr, extension)
    if request.param == "no extension":
        monkeypatch.setattr(layers, "EXTENSION", tmp_path / "none.abi3.so")
    else:
        remove_c_exchange(monkeypatch)
    path = planned_on_cpu.table(tmp_path / "table.json")
    with reprolab_nf4.install(library, table=path), torch.no_grad():
        yield planned_on_cpu.Counts(library)
    assert bitsandbytes.nn.Linear4bit.forward is OWN


def test_without_the_extension_all_is_unplanned(without_extension):
    one, x = planned(bias=True), inputs()
    assert taken(without_extension, one, x) == UNPLANNED
    assert len(functions_of(lambda: one(x))) > 1


def test_the_exchange_of_another_package_is_used(installed, monkeypatch, tmp_path):
    """As in PyTorch before 2.10 with torch-c-dlpack-ext."""
    monkeypatch.setattr(torch, "kept_exchange", getattr(torch.Tensor, EXCHANGE), raising=False)
    remove_c_exchange(monkeypatch)
    assert not layers.has_c_exchange()
    adds = f"import torch\ntorch.Tensor.{EXCHANGE} = torch.kept_exchange\n"
    (tmp_path / "torch_c_dlpack_ext.py").write_text(adds)
    monkeypatch.delitem(sys.modules, "torch_c_dlpack_ext")
    monkeypatch.syspath_prepend(tmp_path)
    assert layers.extension() is not None


def test_a_broken_package_with_the_exchange_is_not_needed(monkeypatch, tmp_path):
    remove_c_exchange(monkeypatch)
    (tmp_path / "torch_c_dlpack_ext.py").write_text("raise ValueError('for another PyTorch')\n")
    monkeypatch.delitem(sys.modules, "torch_c_dlpack_ext")
    monkeypatch.syspath_prepend(tmp_path)
    assert not layers.has_c_exchange()


@pytest.mark.parametrize("fault", ["not a library", "another exchange", "older", "PyTorch"])
def test_an_extension_that_cannot_be_loaded_is_left_with_one_warning(
    fault, built, monkeypatch, tmp_path
):
    extension, library = built
    if fault == "not a library":
        extension = tmp_path / "none.abi3.so"
        extension.write_text("no library\n")
        monkeypatch.setattr(layers, "has_c_exchange", lambda: True)
    else:
        put_other_exchange(monkeypatch)
        if not layers.has_c_exchange():
            pytest.skip(f"NOT TESTED, torch {torch.__version__}: planned calls need 2.7")
        if fault == "older":  # with fewer parameters
            older = types.SimpleNamespace(Plan=None, LayerCall=None, Calls=lambda own: None)
            monkeypatch.setattr(layers, "extension", lambda: older)
        if fault == "PyTorch":  # without a function that is not public
            monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cpu")
    planned_on_cpu.put_cpu_in_place_of_gpu(monkeypatch.setattr, extension)
    path, x = planned_on_cpu.table(tmp_path / "table.json"), inputs()
    with pytest.warns(UserWarning, match="^reprolab_nf4: layers are called in Python: ") as warned:
        installed = reprolab_nf4.install(library, table=path)
    with installed, torch.no_grad():
        assert taken(planned_on_cpu.Counts(library), planned(), x) == UNPLANNED
    assert len(warned) == 1


def test_a_thousand_random_operations_without_the_extension(without_extension):
    counted = a_thousand_random_operations(without_extension)
    assert counted.keys() == {"times_multiplied"} and counted["times_multiplied"] > 300


def unset_type(one):
    one.compute_dtype, one.compute_type_is_set = None, False


def single_bias(one):
    one.bias.data = one.bias.data.float()


def state_of_the_module(one):
    one.quant_state = one.weight.quant_state
    del one.weight.quant_state


def no_parameter(one):
    weight = one.weight
    del one._parameters["weight"]
    object.__setattr__(one, "weight", weight)


FORWARD_CHANGES = (*CHANGES, unset_type, single_bias, state_of_the_module, no_parameter)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("change", FORWARD_CHANGES)
def test_the_shorter_forward_does_what_bitsandbytes_forward_does(without_extension, change):
    def changed():
        torch.manual_seed(1)
        one = layer(bias=True)
        change(one)
        return one

    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        linear, expected, x = changed(), changed(), inputs(dtype=dtype)
        assert same(linear(x), OWN(expected, x))
        assert linear.compute_dtype == expected.compute_dtype
        assert getattr(linear.bias, "dtype", None) == getattr(expected.bias, "dtype", None)

"""Machines that install() refuses, weights that are dequantized in parts, and the version."""

import ctypes
import subprocess
import sys
import types
from pathlib import Path

import fake_bitsandbytes
import pytest

import reprolab_nf4
from reprolab_nf4 import c_functions
from reprolab_nf4.__main__ import main


@pytest.mark.parametrize(
    ("n", "counts"),
    [(2**30, [2**30]), (2**31, [2**30] * 2), (2**32 + 64, [2**30] * 4 + [64]), (7, [7])],
)
def test_more_weights_than_an_int_counts_are_dequantized_in_parts(n, counts):
    calls = []
    c_functions.in_parts(lambda *given: calls.append(given))(None, 0x10, 0x20, 0x30, 64, n, 5)
    assert [given[5] for given in calls] == counts
    for i, (code, A, absmax, out, blocksize, _, stream) in enumerate(calls):
        assert (code, blocksize, stream) == (None, 64, 5)
        first = i * 2**30
        assert (A, absmax, out) == (0x10 + first // 2, 0x20 + first // 16, 0x30 + 2 * first)


def test_bitsandbytes_may_ask_for_more_weights_than_an_int_counts(
    libraries, put_bitsandbytes, called
):
    put_bitsandbytes("0.50.2")
    import bitsandbytes

    out = ctypes.create_string_buffer(2**12)
    with pytest.MonkeyPatch.context() as small, reprolab_nf4.install(libraries["ours"]):
        small.setattr(c_functions, "MOST_WEIGHTS", 1024)  # otherwise `out` would be 2 GiB
        bitsandbytes.dequantize("fp16", 0x100, 0x200, ctypes.addressof(out), 64, 1500, 0x300)
    second = out.raw[2048:].partition(b"\0")[0].decode()
    assert second == "ours fp16 (nil) 0x300 0x240 64 476 0x300"


@pytest.mark.parametrize("build", ["hip", "xpu"])
def test_pytorch_for_other_gpus_is_refused_at_once(
    build, libraries, put_bitsandbytes, monkeypatch, refused
):
    put_bitsandbytes("0.50.2")
    torch = types.SimpleNamespace(version=types.SimpleNamespace(**{build: "6.4"}))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert "NVIDIA" in refused(reprolab_nf4.install, libraries["ours"])
    assert reprolab_nf4._installed is None


@pytest.mark.parametrize(
    ("driver", "is_refused"), [(12080, True), (13000, False), (14010, False), (0, False)]
)
def test_a_driver_older_than_the_librarys_cuda_is_refused(
    driver, is_refused, libraries, put_bitsandbytes, tmp_path, monkeypatch, refused
):
    put_bitsandbytes("0.50.2")
    source = f'extern "C" int cuDriverGetVersion(int* v) {{ *v = {driver}; return 0; }}'
    path = tmp_path / "libcuda.so.1"
    command = ["g++", "-x", "c++", "-shared", "-fPIC", "-o", path, "-"]
    subprocess.run(command, input=source, text=True, check=True)
    own = ctypes.CDLL
    driver_of = lambda name, *given: own(str(path) if name == path.name else name, *given)  # noqa: E731
    monkeypatch.setattr(reprolab_nf4.machine, "ctypes", types.SimpleNamespace(**vars(ctypes)))
    monkeypatch.setattr(reprolab_nf4.machine.ctypes, "CDLL", driver_of)
    if is_refused:
        error = refused(reprolab_nf4.install, libraries["ours"])
        assert "12.8" in error and "13.0.88" in error and "driver" in error
        reprolab_nf4.install(libraries["other"]).undo()  # of unknown version
    else:
        reprolab_nf4.install(libraries["ours"]).undo()


def test_without_a_gpu_pytorch_is_named(libraries, put_bitsandbytes, monkeypatch, refused):
    put_bitsandbytes("0.50.2", fake_bitsandbytes.NO_LIBRARY)
    for is_available, error in ((False, "no NVIDIA GPU is visible"), (True, "nothing to replace")):
        cuda = types.SimpleNamespace(is_available=lambda answer=is_available: answer)
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
        assert error in refused(reprolab_nf4.install, libraries["ours"])


@pytest.mark.parametrize(
    ("cextension", "why"),
    [("import absent\n", "No module named 'absent'"), (None, "measuring needs PyTorch 2.4")],
)
def test_without_what_measures_there_is_one_line(
    cextension, why, put_bitsandbytes, tmp_path, monkeypatch, capsys, refused
):
    put_bitsandbytes("0.50.2", cextension)
    torch = types.SimpleNamespace(library=types.SimpleNamespace())  # as before 2.4
    monkeypatch.setitem(sys.modules, "torch", torch)
    path = tmp_path / "table.json"
    assert why in refused(reprolab_nf4.tune, None, path)
    assert why in refused(reprolab_nf4.advise, None)
    assert main(["tune", f"--output={path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and line.endswith(why)


def test_the_version_of_a_checkout_is_the_projects():
    text = (Path(__file__).parents[2] / "CMakeLists.txt").read_text()
    assert f"project(reprolab VERSION {reprolab_nf4.__version__}" in text
    with pytest.raises(AttributeError, match="absent"):
        _ = reprolab_nf4.absent

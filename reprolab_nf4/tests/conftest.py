"""Libraries to install, and a substitute of bitsandbytes to install them under."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import fake_bitsandbytes
import pytest

import reprolab_nf4

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Shared libraries by name: bitsandbytes' own, two to install, three that cannot."""
    folder = tmp_path_factory.mktemp("libraries")
    kinds = {
        "bitsandbytes": [],
        "ours": ["-DOURS"],
        "old": ["-DOURS", "-DOLD"],
        "other": [],
        "without_bf16": ["-DWITHOUT_BF16"],
    }
    source = Path(__file__).with_name("fake_library.cpp")
    for name, options in kinds.items():
        options = [*options, f'-DLIBRARY="{name}"', "-shared", "-fPIC", "-o", folder / f"{name}.so"]
        subprocess.run(["g++", *options, source], check=True)
    (folder / "text.so").write_text("no library\n")
    return {name: folder / f"{name}.so" for name in [*kinds, "text"]}


@pytest.fixture
def put_bitsandbytes(tmp_path, monkeypatch, libraries):
    """Call it with a version: `import bitsandbytes` then imports the substitute."""

    def imported():
        return [name for name in sys.modules if name.split(".")[0] == "bitsandbytes"]

    def put(version, cextension=None):
        fake_bitsandbytes.write(tmp_path, version, libraries["bitsandbytes"], cextension)
        monkeypatch.syspath_prepend(str(tmp_path))

    for name in imported():  # a real one is restored after the test
        monkeypatch.delitem(sys.modules, name)
    yield put
    if installed := reprolab_nf4.installation.installed():
        installed.undo()
    for name in imported():
        del sys.modules[name]


@pytest.fixture(scope="session")
def built_library():
    """libreprolab_nf4.so of the tested build, or of `make dropin`."""
    build = Path(os.environ.get("BIN", "build/dropin/bin")).parent
    for folder in (ROOT / build, ROOT / "build/dropin"):
        if (folder / "libreprolab_nf4.so").is_file():
            return folder / "libreprolab_nf4.so"
    pytest.skip("NOT TESTED, libreprolab_nf4.so is not built: make dropin ARCH=90")


@pytest.fixture
def called():
    """Calls a dequantize() and returns the text that the called library wrote."""

    def call(dequantize, kind="fp16", n=1000):
        out = ctypes.create_string_buffer(300)
        dequantize(kind, 0x100, 0x200, ctypes.addressof(out), 64, n, 0x300)
        return out.value.decode()

    return call


@pytest.fixture(params=["cpu", "gpu"])
def bench(request, tmp_path, monkeypatch):
    """Where a case runs, with what it installs: cpu_as_gpu.py."""
    cpu_as_gpu = pytest.importorskip("cpu_as_gpu", reason="NOT TESTED, no torch")
    torch, capability = cpu_as_gpu.torch, "9.0"
    if request.param == "cpu":
        cpu_as_gpu.put_cpu_in_place_of_gpu(monkeypatch.setattr)
    elif not torch.cuda.is_available() or not reprolab_nf4.BUILT.is_file():
        pytest.skip("NOT TESTED, no GPU, or no library: make dropin")
    else:
        capability = ".".join(map(str, torch.cuda.get_device_capability()))
    with cpu_as_gpu.stance("force_eager"):
        yield cpu_as_gpu.Bench({"cpu": "cpu", "gpu": "cuda"}[request.param], tmp_path, capability)
    cpu_as_gpu.reset()

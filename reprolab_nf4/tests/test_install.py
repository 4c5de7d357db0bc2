"""install() and undo() under substitutes of bitsandbytes, machines that are refused, and serving
engines. Needs no torch.
"""

import ctypes
import importlib
import importlib.metadata
import os
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import fake_bitsandbytes
import pytest

import reprolab_nf4
from reprolab_nf4 import DropinError, engines, installation, native

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = list(fake_bitsandbytes.LAYOUTS)


def written(library, kind, version):
    stream = "(nil)" if version < "0.44" else "0x300"
    return f"{library} {kind} (nil) 0x100 0x200 64 1000 {stream}"


def library_of_bitsandbytes():
    return sys.modules["bitsandbytes.cextension"].lib


def chosen(path):
    library = ctypes.CDLL(str(path))
    library.chosen_kernel.restype = ctypes.c_char_p
    return library.chosen_kernel().decode()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("library", ["ours", "other"])
def test_bitsandbytes_calls_what_is_installed_until_undo(
    version, library, libraries, put_bitsandbytes, called
):
    put_bitsandbytes(version)
    import bitsandbytes

    if library == "ours":
        called(bitsandbytes.dequantize)
    before = dict(vars(library_of_bitsandbytes()))
    for _ in range(2):
        with reprolab_nf4.install(libraries[library]):
            for kind in ("fp16", "bf16"):
                assert called(bitsandbytes.dequantize, kind) == written(library, kind, version)
            # All other functions remain those of bitsandbytes.
            assert called(bitsandbytes.dequantize, "fp4").startswith("bitsandbytes fp4 ")
            assert library_of_bitsandbytes().get_context() == 5
            if library == "ours":  # its errors are exceptions
                with pytest.raises(DropinError, match=r"^n is negative$"):
                    called(bitsandbytes.dequantize, n=-1)
        assert {name: vars(library_of_bitsandbytes()).get(name) for name in before} == before
        assert called(bitsandbytes.dequantize).startswith("bitsandbytes ")


def test_a_second_install_fails_and_a_second_undo_does_nothing(
    libraries, put_bitsandbytes, called, refused
):
    put_bitsandbytes("0.44.0")
    first = reprolab_nf4.install(libraries["ours"])
    assert "/ours.so is already" in refused(reprolab_nf4.install, libraries["other"])
    import bitsandbytes

    first.undo()
    second = reprolab_nf4.install(libraries["other"])
    first.undo()  # not the current installation
    assert called(bitsandbytes.dequantize).startswith("other ")
    assert second.undo() and not second.undo()
    assert called(bitsandbytes.dequantize).startswith("bitsandbytes ")


def test_kernels_are_chosen_by_name(libraries, put_bitsandbytes):
    put_bitsandbytes("0.50.2")
    with reprolab_nf4.install(libraries["ours"], kernel="tree") as installed:
        assert installed.kernels() == ["streaming", "tree"]
        with pytest.raises(DropinError, match=r"^no such kernel$"):
            installed.use("bush")
        assert chosen(libraries["ours"]) == "tree"
        installed.use(None)
        assert chosen(libraries["ours"]) == "streaming"


def test_a_failed_install_is_one_line_and_changes_nothing(
    libraries, put_bitsandbytes, called, tmp_path, refused
):
    put_bitsandbytes("0.50.2")
    import bitsandbytes

    before = dict(vars(library_of_bitsandbytes()))

    def why_not(*arguments, **options):
        error = refused(reprolab_nf4.install, *arguments, **options)
        assert vars(library_of_bitsandbytes()) == before and installation.installed() is None
        return error

    assert "/none.so: " in why_not(tmp_path / "none.so")
    assert "/text.so: " in why_not(libraries["text"])
    assert "cdequantize_blockwise_bf16_nf4" in why_not(libraries["without_bf16"])
    assert "make dropin" in why_not(libraries["old"])
    assert "kernel" in why_not(libraries["ours"], kernel="bush")
    assert "choice of kernels" in why_not(libraries["other"], kernel="streaming")
    for kernel in (5, ["tree"], "tree\0junk"):
        assert why_not(libraries["ours"], kernel=kernel).endswith(f" not {kernel!r}")
    for library in (5, ["x"]):
        assert why_not(library).endswith(f" not {library!r}")
    for wrong in ("fast", None, 1, ["exact"]):
        assert why_not(libraries["ours"], products=wrong).startswith("products: ")
    assert why_not(libraries["ours"], compile_generate=1).startswith("compile_generate: ")
    assert "none.json" in why_not(libraries["ours"], table="none.json")
    assert called(bitsandbytes.dequantize).startswith("bitsandbytes ")


NO_CUDA = ("lib = None", "lib = 5", fake_bitsandbytes.NO_LIBRARY)
NO_CUDA += (fake_bitsandbytes.WRAPPED_CPU_LIBRARY,)


@pytest.mark.parametrize(
    ("cextension", "noun"),
    [
        *((text, "CUDA library") for text in NO_CUDA),
        ("import absent", "'absent'"),
        ("raise OSError('no libcublas.so.12')", "libcublas.so.12"),
        ("", "'lib'"),
    ],
)
def test_without_bitsandbytes_or_its_cuda_library(
    cextension, noun, libraries, put_bitsandbytes, refused, monkeypatch
):
    monkeypatch.setitem(sys.modules, "torch", None)
    put_bitsandbytes("0.50.2", cextension + "\n")
    assert noun in refused(reprolab_nf4.install, libraries["ours"])


@pytest.mark.parametrize(
    ("driver", "is_refused"), [(12080, True), (13000, False), (14010, False), (0, False)]
)
def test_a_driver_older_than_the_librarys_cuda_is_refused(
    driver, is_refused, libraries, put_bitsandbytes, monkeypatch, refused
):
    put_bitsandbytes("0.50.2")
    monkeypatch.setattr(native, "driver_version", lambda: driver)
    if is_refused:
        error = refused(reprolab_nf4.install, libraries["ours"])
        assert "12.8" in error and "13.0.88" in error and "driver" in error
        reprolab_nf4.install(libraries["other"]).undo()  # of unknown version
    else:
        reprolab_nf4.install(libraries["ours"]).undo()


@pytest.mark.parametrize(
    ("gpu", "is_refused"), [((8, 6), False), ((9, 0), False), ((12, 0), False), ((7, 5), True)]
)
def test_a_gpu_that_the_library_has_no_code_for_is_refused(
    gpu, is_refused, libraries, put_bitsandbytes, monkeypatch, refused
):
    """It was built for 80-real,90: the latter has PTX, which runs on all later ones."""
    put_bitsandbytes("0.50.2")
    cuda = types.SimpleNamespace(device_count=lambda: 2, get_device_name=lambda i: "a GPU")
    cuda.get_device_capability = lambda i: gpu if i else (9, 0)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    if is_refused:
        assert "no code for GPU 1 (a GPU)" in refused(reprolab_nf4.install, libraries["ours"])
    else:
        native.check("library", "", "80-real,90")
    assert not native.has_code("75-real,90-real", 10, 0) and not native.has_code("90a", 10, 0)
    assert native.has_code("90a", 9, 0) and native.has_code("native", 9, 0)


BEGIN = """
import sys
import reprolab_nf4.library
from pathlib import Path
from reprolab_nf4.engines import install_in_engine
reprolab_nf4.library.BUILT = Path({library!r})
def answers():
    import bitsandbytes, ctypes
    out = ctypes.create_string_buffer(300)
    bitsandbytes.dequantize("fp16", 0x100, 0x200, ctypes.addressof(out), 64, 1000, 0x300)
    return out.value.decode().split()[0]
"""


@pytest.fixture
def process(tmp_path, libraries):
    """The output of a process with the substitute, and its stderr."""
    fake_bitsandbytes.write(tmp_path, "0.50.2", libraries["bitsandbytes"])

    def run(code, library="ours", **variables):
        begin = BEGIN.format(library=str(libraries[library]))
        environment = dict(os.environ, PYTHONPATH=f"{tmp_path}:{ROOT}", **variables)
        command = [sys.executable, "-c", begin + code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), done.stderr

    return run


def test_the_engines_entry_points_are_the_packages_function():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group in ("vllm.general_plugins", "sglang.srt.plugins"):
        for name, value in project["entry-points"][group].items():
            function = importlib.metadata.EntryPoint(name, value, group).load()
            assert function is engines.install_in_engine


def test_a_front_end_that_does_not_compute_imports_nothing(process):
    code = "install_in_engine(); print({'torch', 'bitsandbytes'} & set(sys.modules))"
    assert process(code) == (["set()"], "")


@pytest.mark.parametrize("first", ["install_in_engine()", "import bitsandbytes"])
@pytest.mark.parametrize("how", ["import bitsandbytes", "import bitsandbytes.functional"])
def test_it_is_installed_where_bitsandbytes_is_imported(first, how, process):
    code = f"{first}\n{how}\ninstall_in_engine()\ninstall_in_engine()\nprint(answers())\n"
    code += "print(any('reprolab' in repr(f) for f in sys.meta_path))"
    assert process(code) == (["ours", "False"], "")


def test_it_is_installed_in_forked_workers(process):
    code = """
import os
install_in_engine()
sys.stdout.flush()
if (child := os.fork()) == 0:
    print(answers(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("bitsandbytes" in sys.modules)
"""
    assert process(code) == (["ours", "False"], "")


def test_the_variable_turns_it_off_and_a_failure_is_one_line(process):
    code = "install_in_engine(); print(answers())"
    assert process(code, REPROLAB_NF4="0") == (["bitsandbytes"], "")
    assert process(code, REPROLAB_NF4="bitsandbytes") == (["ours"], "")
    for library, value, why in (("text", "1", "cannot be loaded"), ("ours", "a\nb", "products: ")):
        out, err = process(code, library, REPROLAB_NF4=value)
        (line,) = err.splitlines()
        assert out == ["bitsandbytes"] and "REPROLAB_NF4=" in line and why in line

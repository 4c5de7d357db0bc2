"""Installation by the entry points of serving engines, and a warning of others' kernels, with
bitsandbytes' stand-in.
"""

import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path

import fake_bitsandbytes
import pytest

import reprolab_nf4
from reprolab_nf4 import engines, imports

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ("vllm.general_plugins", "sglang.srt.plugins")
BEGIN = """
import sys
import reprolab_nf4
from pathlib import Path
from reprolab_nf4.engines import install_in_engine
reprolab_nf4.BUILT = Path({library!r})
def answers():
    import bitsandbytes, ctypes
    out = ctypes.create_string_buffer(300)
    bitsandbytes.dequantize("fp16", 0x100, 0x200, ctypes.addressof(out), 64, 1000, 0x300)
    return out.value.decode().split()[0]
"""


@pytest.fixture
def process(tmp_path, libraries):
    """The output of a process with the stand-in, and its stderr."""
    fake_bitsandbytes.write(tmp_path, "0.50.2", libraries["bitsandbytes"])

    def run(code, library="ours", options=(), **variables):
        begin = BEGIN.format(library=str(libraries[library]))
        environment = dict(os.environ, PYTHONPATH=f"{tmp_path}:{ROOT}", **variables)
        command = [sys.executable, *options, "-c", begin + code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), done.stderr

    return run


def test_the_engines_entry_points_are_the_packages_function():
    tomllib = pytest.importorskip("tomllib", reason="NOT TESTED, Python 3.10 has no tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group in GROUPS:
        for name, value in project["entry-points"][group].items():
            function = importlib.metadata.EntryPoint(name, value, group).load()
            assert function is engines.install_in_engine


def test_ctrl_c_ends_the_installed_command_quietly():
    tomllib = pytest.importorskip("tomllib", reason="NOT TESTED, Python 3.10 has no tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["reprolab-nf4"].partition(":")
    code = f"""
import os, signal, {module} as command
signal.signal(signal.SIGINT, signal.default_int_handler)
command.main = lambda: os.kill(os.getpid(), signal.SIGINT)
command.{function}()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_front_end_that_does_not_compute_imports_nothing(process):
    code = "install_in_engine(); print({'torch', 'bitsandbytes'} & set(sys.modules))"
    assert process(code) == (["set()"], "")


@pytest.mark.parametrize("first", ["install_in_engine()", "import bitsandbytes"])
@pytest.mark.parametrize("how", ["import bitsandbytes", "import bitsandbytes.functional"])
def test_it_is_installed_where_bitsandbytes_is_imported(first, how, process):
    code = f"{first}\n{how}\ninstall_in_engine()\ninstall_in_engine()\nprint(answers())"
    assert process(code + "\nprint(len(sys.meta_path))\n")[0][0] == "ours"
    assert process(code)[1] == ""


def test_it_is_installed_in_forked_and_spawned_workers(process):
    code = """
import multiprocessing, os
install_in_engine()
sys.stdout.flush()
if (child := os.fork()) == 0:
    print(answers(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("bitsandbytes" in sys.modules)
"""
    assert process(code) == (["ours", "False"], "")


def test_the_variable_turns_it_off_or_chooses_the_products(process):
    code = "install_in_engine(); print(answers(), reprolab_nf4._installed is not None)"
    assert process(code, REPROLAB_NF4="0") == (["bitsandbytes", "False"], "")
    for value in ("", "1", "bitsandbytes"):
        assert process(code, REPROLAB_NF4=value) == (["ours", "True"], "")
    code = "reprolab_nf4.install = lambda **given: print(given)\ninstall_in_engine(); answers()"
    assert "'exact'," in process(code, REPROLAB_NF4="exact")[0]


@pytest.mark.parametrize("options", [(), ("-W", "error")])
def test_a_failure_is_one_line_and_leaves_bitsandbytes(options, process):
    code = "install_in_engine(); print(answers())"
    cases = [("text", "1", "cannot be loaded"), ("ours", "offf", "products: give one of")]
    cases += [("ours", f"two{between}words", "products: give one of") for between in "\n\x1b"]
    for library, value, why in cases:
        out, err = process(code, library, options, REPROLAB_NF4=value)
        assert out == ["bitsandbytes"]
        (line,) = err.splitlines()
        assert "REPROLAB_NF4=" in line and why in line and line.isprintable()
    code = "def fail(*a, **k): raise KeyError('a\\nb')\nreprolab_nf4.Library = fail\n" + code
    out, err = process(code, "ours", options)
    assert out == ["bitsandbytes"] and len(err.splitlines()) == 1


def test_threads_that_import_bitsandbytes_at_once_log_nothing(process):
    code = """
import bitsandbytes, threading
own, both = reprolab_nf4.Library, threading.Barrier(2)
def wait_for_the_other(path):
    both.wait()
    return own(path)
reprolab_nf4.Library = wait_for_the_other
threads = [threading.Thread(target=install_in_engine) for _ in range(2)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(answers())
"""
    assert process(code) == (["ours"], "")


def test_an_install_by_hand_stays(process):
    code = "installed = reprolab_nf4.install(kernel='tree'); install_in_engine()\n"
    out = process(code + "print(reprolab_nf4._installed is installed)")
    assert out == (["True"], "")


def test_a_failed_import_can_be_made_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "engines_test_module.py").write_text("raise ImportError('no')\n")
    before, seen = list(sys.meta_path), []
    for _ in range(2):
        imports.after_import("engines_test_module", lambda: seen.append(1))
    with pytest.raises(ImportError):
        import engines_test_module
    (tmp_path / "engines_test_module.py").write_text("VALUE = 1234567\n")
    import engines_test_module

    assert engines_test_module.VALUE == 1234567 and seen == [1] and sys.meta_path == before
    imports.after_import("engines_test_module", lambda: seen.append(2))
    assert seen == [1, 2] and sys.meta_path == before
    del sys.modules["engines_test_module"]


def test_two_copies_of_the_package_may_await_a_module(tmp_path, monkeypatch):
    """Such as one that another package contains, or one from before a reload."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "engines_test_module.py").write_text("")
    spec = importlib.util.spec_from_file_location("another_copy", imports.__file__)
    another = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(another)
    before, seen = list(sys.meta_path), []
    for copy in (imports, another):
        copy.after_import("engines_test_module", lambda copy=copy: seen.append(copy))
    import engines_test_module

    assert seen == [imports, another] and sys.meta_path == before
    assert type(engines_test_module.__spec__.loader) is type(spec.loader)
    del sys.modules["engines_test_module"]


class OldFinder:
    def find_module(self, name, path=None):
        return None


def test_loaders_are_left_as_they_were(tmp_path, monkeypatch):
    """A loader may be that of several modules, and a finder from before find_spec()."""
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
        for name in ("engines_test_other", "engines_test_awaited"):
            archive.writestr(f"{name}.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "modules.zip"))
    monkeypatch.setattr(sys, "meta_path", [OldFinder(), *sys.meta_path])
    seen = []
    imports.after_import("engines_test_awaited", lambda: seen.append(1))
    assert importlib.util.find_spec("engines_test_awaited").loader.get_source  # not loaded
    import engines_test_other

    assert seen == []
    import engines_test_awaited

    assert seen == [1]
    for module in (engines_test_other, engines_test_awaited):
        loader = module.__spec__.loader
        assert isinstance(loader, zipimport.zipimporter) and module.__loader__ is loader
        assert "exec_module" not in vars(loader)
        del sys.modules[module.__name__]


@pytest.fixture
def unsloth(tmp_path, libraries, put_bitsandbytes, monkeypatch):
    """Installs a substitute of that version, and removes its imported modules afterwards."""
    put_bitsandbytes("0.50.2")
    (tmp_path / "unsloth.py").write_text("")

    def put(version):
        monkeypatch.delitem(sys.modules, "unsloth", raising=False)
        about = tmp_path / f"unsloth-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: unsloth\nVersion: {version}\n"
        )

    yield put
    sys.modules.pop("unsloth", None)


def imports_unsloth_and_installs(libraries, order):
    for step in order:
        if step == "import":
            import unsloth  # noqa: F401
        else:
            reprolab_nf4.install(libraries["ours"])


@pytest.mark.parametrize("order", [("import", "install"), ("install", "import")])
def test_a_bypass_by_unsloth_warns_in_either_order(order, unsloth, libraries, recwarn):
    unsloth("2026.10.1")
    imports_unsloth_and_installs(libraries, order)
    (warned,) = recwarn
    assert "unsloth 2026.10.1" in str(warned.message)
    assert "UNSLOTH_BNB_TRITON=0" in str(warned.message)


@pytest.mark.parametrize(
    ("version", "switch"), [("2026.9.4", None), ("2025.12", None), ("2026.10.1", "0")]
)
def test_without_a_bypass_there_is_no_warning(
    version, switch, unsloth, libraries, recwarn, monkeypatch
):
    if switch is not None:
        monkeypatch.setenv("UNSLOTH_BNB_TRITON", switch)
    unsloth(version)
    imports_unsloth_and_installs(libraries, ("install", "import"))
    assert not [str(warning.message) for warning in recwarn]


def test_damaged_metadata_of_unsloth_leave_its_import_alone(unsloth, libraries, tmp_path, recwarn):
    unsloth("2026.10.1")
    (tmp_path / "unsloth-2026.10.1.dist-info/METADATA").write_text("Name: unsloth\n")
    imports_unsloth_and_installs(libraries, ("install", "import"))
    assert not [str(warning.message) for warning in recwarn]


def test_undo_removes_the_import_hooks(unsloth, libraries, recwarn):
    unsloth("2026.10.1")
    before = list(sys.meta_path)
    reprolab_nf4.install(libraries["ours"]).undo()
    import unsloth as module

    assert sys.meta_path == before and not list(recwarn) and module

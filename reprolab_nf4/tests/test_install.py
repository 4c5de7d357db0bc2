"""install() and undo() under substitutes of bitsandbytes."""

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import fake_bitsandbytes
import pytest

import reprolab_nf4
from reprolab_nf4 import c_functions

VERSIONS = list(fake_bitsandbytes.LAYOUTS)


def written(library, kind, version):
    stream = "(nil)" if version < "0.44" else "0x300"
    return f"{library} {kind} (nil) 0x100 0x200 64 1000 {stream}"


def native():
    return sys.modules["bitsandbytes.cextension"].lib


def chosen(path):
    library = ctypes.CDLL(str(path))
    library.chosen_kernel.restype = ctypes.c_char_p
    return library.chosen_kernel().decode()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("library", ["ours", "other"])
def test_bitsandbytes_calls_what_is_installed(
    version, library, libraries, put_bitsandbytes, called
):
    put_bitsandbytes(version)
    installed = reprolab_nf4.install(libraries[library])
    import bitsandbytes

    for kind in ("fp16", "bf16"):
        assert called(bitsandbytes.dequantize, kind) == written(library, kind, version)
    # All other functions remain those of bitsandbytes.
    assert called(bitsandbytes.dequantize, "fp4").startswith("bitsandbytes fp4 ")
    assert native().get_context() == 5
    if library == "ours":  # its errors are exceptions
        with pytest.raises(reprolab_nf4.DropinError, match=r"^n is negative$"):
            called(bitsandbytes.dequantize, n=-1)
        assert called(bitsandbytes.dequantize).startswith("ours ")
    installed.undo()
    # If bitsandbytes passes no stream, the argument is undefined.
    for kind in ("fp16", "bf16"):
        got = called(bitsandbytes.dequantize, kind).split()
        assert got[:7] == written("bitsandbytes", kind, version).split()[:7]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("used_before", [False, True])
def test_undo_restores_exactly_what_was_there(
    version, used_before, libraries, put_bitsandbytes, called
):
    put_bitsandbytes(version)
    import bitsandbytes

    if used_before:
        called(bitsandbytes.dequantize)
    before = dict(vars(native()))
    own = native()
    for _ in range(2):
        with reprolab_nf4.install(libraries["ours"]):
            assert called(bitsandbytes.dequantize).startswith("ours ")
        assert native() is own
        assert vars(native()) == before
        assert all(vars(native())[name] is value for name, value in before.items())
    for name in c_functions.REPLACED:  # also one that other code deleted meanwhile
        with reprolab_nf4.install(libraries["ours"]):
            delattr(native(), name)
        assert vars(native()) == before
    assert called(bitsandbytes.dequantize).startswith("bitsandbytes ")


@pytest.mark.parametrize("version", VERSIONS)
def test_without_code_for_the_gpu_bitsandbytes_runs_after_one_warning(
    version, libraries, put_bitsandbytes, called
):
    put_bitsandbytes(version)
    installed = reprolab_nf4.install(libraries["ours"])
    import bitsandbytes

    assert called(bitsandbytes.dequantize).startswith("ours ")
    with pytest.warns(UserWarning, match="^reprolab_nf4: no code: ") as seen:
        for _ in range(2):
            assert called(bitsandbytes.dequantize, n=209).startswith("bitsandbytes ")
    assert len(seen) == 1
    assert called(bitsandbytes.dequantize).startswith("bitsandbytes ")
    assert installed.undo() is False


def test_a_second_install_fails_and_a_second_undo_does_nothing(
    libraries, put_bitsandbytes, called, refused
):
    put_bitsandbytes("0.47.0")
    first = reprolab_nf4.install(libraries["ours"], kernel="tree")
    assert "/ours.so is already" in refused(reprolab_nf4.install, libraries["other"])
    import bitsandbytes

    assert called(bitsandbytes.dequantize).startswith("ours ")
    assert chosen(libraries["ours"]) == "tree"
    first.undo()
    second = reprolab_nf4.install(libraries["other"])
    first.undo()  # not the current installation
    assert called(bitsandbytes.dequantize).startswith("other ")
    second.undo()
    second.undo()
    assert called(bitsandbytes.dequantize).startswith("bitsandbytes ")


def test_reloading_the_package_keeps_what_is_installed(
    libraries, put_bitsandbytes, called, refused
):
    put_bitsandbytes("0.50.2")
    import bitsandbytes

    before = dict(vars(native()))
    installed = reprolab_nf4.install(libraries["ours"])
    importlib.reload(reprolab_nf4)
    assert "/ours.so is already" in refused(reprolab_nf4.install, libraries["other"])
    assert "negative" in refused(called, bitsandbytes.dequantize, n=-1)
    assert installed.undo() and vars(native()) == before
    with reprolab_nf4.install(libraries["other"]):
        assert called(bitsandbytes.dequantize).startswith("other ")


class While:
    """The wrapped function; during its first call, another thread makes its calls.

    They are waited for as long as they can need if nothing keeps them from running.
    """

    def __init__(self, wrapped, *others):
        self._wrapped, self._others, self.errors, self._thread = wrapped, others, [], None

    def __call__(self, *given):
        if self._thread is None:
            self._thread = threading.Thread(target=self._call_others)
            self._thread.start()
            self._thread.join(0.5)
        return self._wrapped(*given)

    def _call_others(self):
        for other in self._others:
            try:
                other()
            except reprolab_nf4.DropinError as error:
                self.errors.append(str(error))

    def join(self):
        self._thread.join()


def test_one_of_two_installs_at_once_succeeds(libraries, put_bitsandbytes, called, monkeypatch):
    put_bitsandbytes("0.50.2")
    import bitsandbytes

    before = dict(vars(native()))
    second = While(reprolab_nf4.Library.use, lambda: reprolab_nf4.install(libraries["other"]))
    monkeypatch.setattr(reprolab_nf4.Library, "use", lambda *given: second(*given))
    first = reprolab_nf4.install(libraries["ours"])
    second.join()
    (error,) = second.errors
    assert "already installed" in error
    assert called(bitsandbytes.dequantize).startswith("ours ")
    first.undo()
    assert vars(native()) == before


def test_an_undo_during_another_leaves_the_next_install_alone(
    libraries, put_bitsandbytes, called, monkeypatch
):
    put_bitsandbytes("0.50.2")
    import bitsandbytes

    first = reprolab_nf4.install(libraries["ours"])
    again = (first.undo, lambda: reprolab_nf4.install(libraries["other"]))
    others = While(reprolab_nf4.restored, *again)
    monkeypatch.setattr(reprolab_nf4, "restored", others)
    first.undo()
    others.join()
    assert others.errors == []
    for kind in ("fp16", "bf16"):
        assert called(bitsandbytes.dequantize, kind).startswith("other ")


@pytest.mark.parametrize("version", VERSIONS)
def test_undo_keeps_functions_that_others_replaced(version, libraries, put_bitsandbytes, called):
    put_bitsandbytes(version)
    import bitsandbytes

    patched, other = c_functions.REPLACED
    installed = reprolab_nf4.install(libraries["ours"])
    ours, seen = vars(native())[patched], []
    setattr(native(), patched, lambda *given: seen.append(given) or ours(*given))
    theirs = vars(native())[patched]
    assert called(bitsandbytes.dequantize).startswith("ours ") and len(seen) == 1
    with pytest.warns(UserWarning, match=patched) as warned:
        assert installed.undo() is True
    assert len(warned) == 1 and other not in str(warned[0].message)
    assert vars(native())[patched] is theirs
    # They then call bitsandbytes' own function, also if the library has no code for the GPU.
    for n in (1000, 209):
        assert called(bitsandbytes.dequantize, n=n).startswith("bitsandbytes ")
    assert called(bitsandbytes.dequantize, "bf16").startswith("bitsandbytes ")
    assert len(seen) == 3
    delattr(native(), patched)


def test_kept_functions_call_bitsandbytes_without_code_for_the_gpu(
    libraries, put_bitsandbytes, called
):
    put_bitsandbytes("0.50.2")
    import bitsandbytes

    name = c_functions.REPLACED[0]
    reprolab_nf4.install(libraries["ours"])
    ours = vars(native())[name]
    setattr(native(), name, lambda *given: ours(*given))
    with pytest.warns(UserWarning, match="no code"):
        assert called(bitsandbytes.dequantize, n=209).startswith("bitsandbytes ")


def test_a_fork_during_an_install_leaves_a_child_that_can_install(
    libraries, put_bitsandbytes, monkeypatch
):
    put_bitsandbytes("0.50.2")
    inside, own = threading.Event(), reprolab_nf4.Library.use

    def slow(*given):
        inside.set()
        time.sleep(0.3)
        return own(*given)

    monkeypatch.setattr(reprolab_nf4.Library, "use", slow)
    thread = threading.Thread(target=reprolab_nf4.install, args=(libraries["ours"],))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        try:
            reprolab_nf4._installed.undo()  # the installation from before the fork
            reprolab_nf4.install(libraries["other"])
            os._exit(0)
        finally:
            os._exit(1)
    thread.join()
    for _ in range(200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert ended == child and status == 0


def test_kernels_are_chosen_by_name(libraries, put_bitsandbytes):
    put_bitsandbytes("0.50.2")
    with reprolab_nf4.install(libraries["ours"], kernel="tree") as installed:
        assert installed.kernels() == ["streaming", "tree"]
        assert installed.library.built() == ("13.0.88", "80-real,90")
        assert chosen(libraries["ours"]) == "tree"
        with pytest.raises(reprolab_nf4.DropinError, match=r"^no such kernel$"):
            installed.use("bush")
        assert chosen(libraries["ours"]) == "tree"
        installed.use(None)
        assert chosen(libraries["ours"]) == "streaming"
        installed.use("tree")
    with reprolab_nf4.install(libraries["ours"]):
        assert chosen(libraries["ours"]) == "streaming"


def test_a_failed_install_is_one_line_and_changes_nothing(
    libraries, put_bitsandbytes, called, tmp_path, monkeypatch, refused
):
    put_bitsandbytes("0.50.2")
    import bitsandbytes

    before = dict(vars(native()))

    def why_not(*arguments, **options):
        error = refused(reprolab_nf4.install, *arguments, **options)
        assert vars(native()) == before
        return error

    assert "/none.so: " in why_not(tmp_path / "none.so")
    assert "/text.so: " in why_not(libraries["text"])
    assert "cdequantize_blockwise_bf16_nf4" in why_not(libraries["without_bf16"])
    assert "make dropin" in why_not(libraries["old"])
    assert "kernel" in why_not(libraries["ours"], kernel="bush")
    assert "choice of kernels" in why_not(libraries["other"], kernel="streaming")
    assert reprolab_nf4.Library(libraries["other"]).kernels() == []
    for kernel in (5, b"tree", ["tree"], "tree\0junk", "tr\ud800e", "bäume"):
        assert why_not(libraries["ours"], kernel=kernel).endswith(f" not {kernel!r}")
    for library in (5, ["x"], "x\0y", "x\ud800"):
        assert why_not(library).endswith(f" not {library!r}")
    (tmp_path / "loop.so").symlink_to(tmp_path / "loop.so")
    assert "/loop.so: " in why_not(tmp_path / "loop.so")
    assert "/two\\nlines: " in why_not(tmp_path / "two\nlines")
    (tmp_path / "two\nlines").write_text("no library\n")
    assert "/two\\nlines: " in why_not(tmp_path / "two\nlines")
    assert why_not(f"/{'x' * 5000}").startswith(f"/{'x' * 499}...{'x' * 386}: ")
    assert "no such file" in why_not("")
    monkeypatch.setattr(reprolab_nf4, "BUILT", tmp_path / "unbuilt.so")
    assert "make dropin" in why_not()
    assert called(bitsandbytes.dequantize).startswith("bitsandbytes ")


NO_CUDA = ("lib = None", "lib = 5", fake_bitsandbytes.NO_LIBRARY)
NO_CUDA += (fake_bitsandbytes.WRAPPED_CPU_LIBRARY,)


@pytest.mark.parametrize(
    ("cextension", "noun"),
    [
        *((text, "CUDA library") for text in NO_CUDA),
        ("import absent", "'absent'"),
        ("raise OSError('no libcublas.so.12')", "libcublas.so.12"),
        ("raise RuntimeError('\\nno CUDA\\nhere')", "no CUDA"),
        ("raise ValueError('numpy.dtype size changed')", "numpy.dtype"),
        ("raise AssertionError", "AssertionError"),
        ("", "'lib'"),
    ],
)
def test_without_bitsandbytes_or_its_cuda_library(
    cextension, noun, libraries, put_bitsandbytes, refused, monkeypatch
):
    monkeypatch.setitem(sys.modules, "torch", None)
    put_bitsandbytes("0.50.2", cextension + "\n")
    assert noun in refused(reprolab_nf4.install, libraries["ours"])


def test_without_an_installed_package_there_is_no_version(tmp_path):
    """A copy of the folder, such as in a project's own sources."""
    shutil.copytree(Path(reprolab_nf4.__file__).parent, tmp_path / "copy/reprolab_nf4")
    (tmp_path / "copy/CMakeLists.txt").write_bytes(b"# another project's, in Latin-1: \xfc\n")
    code = "import reprolab_nf4; print(hasattr(reprolab_nf4, '__version__'))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path / "copy", capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_importing_it_imports_only_the_standard_library(tmp_path):
    place = Path(reprolab_nf4.__file__).parents[1]
    code = (
        f"import sys; sys.path.append({str(place)!r}); import reprolab_nf4;"
        "print({'torch', 'bitsandbytes', 'numpy'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")

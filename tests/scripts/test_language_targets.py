"""`make mojo` and `make triton`: what is installed when, what is handed on, faults in one line."""

import shutil

import pytest
from make_targets import NASTY, ROOT, make, printed, run

from compile.__main__ import LANGUAGES

# Makes an environment whose python prints its arguments.
PYTHON = r"""case "$*" in
  "-m venv "*)
    mkdir -p "$3/bin"
    printf '#!/bin/sh\nprintf "<%%s>\\n" "$@"\n' >"$3/bin/python"
    chmod +x "$3/bin/python" ;;
esac
"""


@pytest.fixture
def run_make(checkout, real, tools):
    """With the pins of both compilers; the function calls make, with this stand-in for Python."""
    shutil.copytree(ROOT / "compile", checkout / "compile")
    real("deps")

    def call(*words, python3=PYTHON):
        return make(checkout, *words, **tools(python3=python3))

    return call


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pinned_compiler_is_installed_once(checkout, run_make, language):
    folder, pins = checkout / f"build/languages/{language}", checkout / f"compile/{language}.lock"
    done = run_make(language, f"ARCH={NASTY}")
    handed_on = ["-m", "compile", language, f"--arch={NASTY}"]
    assert (done.returncode, done.stdout) == (0, printed(handed_on))
    (said,) = done.stderr.splitlines()
    assert said.startswith("deps: installing ") and "==" in said
    assert said.endswith(f" into build/languages/{language}")
    log = (checkout / "build/deps.log").read_text()
    assert log.startswith("<-m>\n<pip>\n")
    assert f"<--require-hashes>\n<-r>\n<compile/{language}.lock>\n" in log
    assert (folder / "installed").read_text() == pins.read_text()
    done = run_make(language)
    wanted = printed([*handed_on[:3], "--arch="])
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")
    pins.with_suffix(".txt").write_text("compiler==2\n")
    pins.write_text("compiler==2\n")
    done = run_make(language)
    wanted = f"deps: installing compiler==2 into build/languages/{language}\n"
    assert (done.returncode, done.stderr) == (0, wanted)
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wrong_architecture_is_one_line(language):
    done = run(ROOT, "scripts/python", "-m", "compile", language, "--arch=80;90")
    assert (done.returncode, done.stdout) == (2, "")
    wanted = f"{language}: ARCH: expected one architecture, such as 90; got '80;90'\n"
    assert done.stderr == wanted


@pytest.mark.parametrize("fails", ["venv", "pip"])
def test_what_cannot_be_installed_is_one_line_and_is_tried_again(checkout, run_make, fails):
    python3 = {
        "venv": PYTHON.replace('mkdir -p "$3/bin"', "echo no network >&2; exit 1"),
        "pip": PYTHON.replace("printf '#!/bin/sh", "printf '#!/bin/sh\\nexit 1"),
    }[fails]
    folder = "build/languages/triton"
    for _ in range(2):
        done = run_make("triton", python3=python3)
        assert (done.returncode, done.stdout) == (2, "")
        first, second = done.stderr.splitlines()[:2]
        assert first.startswith("deps: installing triton==")
        wanted = f"deps: {folder} cannot be installed: is there a network? (log: build/deps.log)"
        assert second == wanted
        assert not (checkout / folder / "installed").exists()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_compiler_that_is_not_installed_is_one_line(language):
    if run(ROOT, "scripts/python", "-c", f"import {language}").returncode == 0:
        pytest.skip("this Python has the compiler")
    done = run(ROOT, "scripts/python", "-m", "compile", language, "--arch=90")
    assert done.stderr.endswith(f" is not installed in this environment; make {language}\n")

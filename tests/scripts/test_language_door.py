"""`make mojo` and `make triton`: what is installed when, what is handed on, faults in one line."""

import shutil

import pytest
from front_door import NASTY, ROOT, make, printed, program, run

from compile.__main__ import LANGUAGES

# Makes an environment whose python prints its arguments, and is one itself for make.
PYTHON = r"""#!/bin/bash
case "$*" in
  "-I -m venv "*)
    mkdir -p "$4/bin"
    printf '#!/bin/sh\nprintf "<%%s>\\n" "$@"\n' >"$4/bin/python"
    chmod +x "$4/bin/python" ;;
esac
"""


@pytest.fixture
def door(checkout):
    """With the pins of both compilers, and stand-ins for Python."""
    shutil.copytree(ROOT / "compile", checkout / "compile")
    program(checkout / "python3", PYTHON)
    (checkout / "build/python").write_text(f"{checkout}/python3\n")
    return checkout


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pinned_compiler_is_installed_once(door, language):
    folder, pins = door / f"build/languages/{language}", door / f"compile/{language}.lock"
    done = make(door, language, f"ARCH={NASTY}")
    handed_on = ["-m", "compile", language, f"--arch={NASTY}"]
    assert (done.returncode, done.stdout) == (0, printed(handed_on))
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"{language}: installing ") and "==" in said
    assert said.endswith(f" into build/languages/{language}")
    installed = f"<--require-hashes>\n<-r>\n<compile/{language}.lock>\n"
    assert (door / f"build/{language}.log").read_text().startswith("<-I>\n<-m>\n<pip>\n")
    assert installed in (door / f"build/{language}.log").read_text()
    assert (folder / "installed").read_text() == pins.read_text()
    done = make(door, language)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        printed(handed_on[:3] + ["--arch="]),
        "",
    )
    pins.with_suffix(".txt").write_text("compiler==2\n")
    pins.write_text("compiler==2\n")
    done = make(door, language)
    wanted = f"{language}: installing compiler==2 into build/languages/{language}\n"
    assert (done.returncode, done.stderr) == (0, wanted)
    assert not list(door.rglob("injected"))


def test_a_wrong_architecture_is_refused_before_anything_is_installed(door):
    program(door / "python3", f'#!/bin/sh\ncd {ROOT} && exec scripts/python "$@"\n')
    done = make(door, "mojo", "ARCH=80;90")
    assert (done.returncode, done.stdout) == (2, "")
    wanted = "mojo: ARCH: expected one architecture, such as 90; got '80;90'\n"
    assert done.stderr.startswith(wanted)
    assert not (door / "build/languages").exists()


@pytest.mark.parametrize("fails", ["venv", "pip"])
def test_what_cannot_be_installed_is_one_line_and_is_tried_again(door, fails):
    text = {
        "venv": PYTHON.replace('mkdir -p "$4/bin"', "echo no network >&2; exit 1"),
        "pip": PYTHON.replace("printf '#!/bin/sh", "printf '#!/bin/sh\\nexit 1"),
    }
    program(door / "python3", text[fails])
    for _ in range(2):
        done = make(door, "triton")
        assert (done.returncode, done.stdout) == (2, "")
        first, second = done.stderr.splitlines()[:2]
        assert first.startswith("triton: installing triton==")
        wanted = "triton: cannot be installed: is there a network? (log: build/triton.log)"
        assert second == wanted
        assert not (door / "build/languages/triton/installed").exists()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_compiler_that_is_not_installed_is_one_line(language):
    if run(ROOT, "scripts/python", "-c", f"import {language}").returncode == 0:
        pytest.skip("this Python has the compiler")
    done = run(ROOT, "scripts/python", "-m", "compile", language, "--arch=90")
    assert done.stderr.endswith(f" is not installed in this environment; make {language}\n")

"""`make mojo` and `make triton`: what is installed, and faults in one line."""

import pytest
from compile.__main__ import LANGUAGES
from make_targets import ROOT, make, program, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pinned_compiler_is_installed_and_compiles(checkout, language):
    folder = f"build/languages/{language}"
    program(checkout / "scripts/deps", '#!/bin/sh\necho "deps $*"\n')
    program(checkout / folder / "bin/python", '#!/bin/sh\necho "$*"\n')
    done = make(checkout, language, "ARCH=90")
    assert (done.returncode, done.stderr) == (0, "")
    installed = f"deps environment profiling/compile/{language}.txt {folder}"
    assert done.stdout == f"{installed}\n-m compile {language} --arch=90\n"


@pytest.mark.parametrize("language", LANGUAGES)
def test_wrong_usage_is_one_line(language):
    done = run(ROOT, "scripts/python", "-m", "compile", language, "--arch=80;90")
    assert (done.returncode, done.stdout) == (2, "")
    wanted = f"{language}: ARCH: expected one architecture, such as 90; got '80;90'\n"
    assert done.stderr == wanted
    if run(ROOT, "scripts/python", "-c", f"import {language}").returncode == 0:
        pytest.skip("this Python has the compiler")
    done = run(ROOT, "scripts/python", "-m", "compile", language, "--arch=90")
    assert done.stderr.endswith(f" is not installed in this environment; make {language}\n")

"""What a user gave is shown in ASCII: a path may hold what reorders a line of the terminal."""

import subprocess

import pytest
from front_door import ROOT, own_environment

BIDI = "\u202egnp.\u2066exe"
GIVEN = {
    "beside true": {"PRESET": "none", "RESULTS": ""},  # a file below, which is no folder
    "render --report": {"RESULTS": BIDI},
    "render --recorded": {"RESULTS": "x", "RECORDED": BIDI},
    "test": {"KERNEL": BIDI, "MEASURE": ""},
    "peer": {"VERSION": BIDI},
    "build all": {"PRESET": "none", "ARCH": BIDI},
}


@pytest.mark.parametrize("command", GIVEN)
def test_what_a_user_gave_is_shown_in_ascii(command, tmp_path):
    (tmp_path / BIDI).touch()
    given = GIVEN[command]
    if given.get("RESULTS") == "":
        given = given | {"RESULTS": str(tmp_path / BIDI)}
    environment = own_environment() | {"LC_ALL": "C.UTF-8"} | given
    script, *words = command.split()
    run = [f"scripts/{script}", *words]
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 2
    said = done.stderr.decode()
    assert said.isascii() and said.count("\n") == 1 and "342" in said  # its bytes, in octal


def test_one_helper_shows_it():
    scripts = [file for file in (ROOT / "scripts").iterdir() if file.is_file()]
    quoting = [f.name for f in scripts if any(q in f.read_text() for q in ("%q", "@Q"))]
    assert quoting == ["shown"]

"""A file is there whole or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from claims.json_files import ROOT
from plots.output import write_atomically, write_text


def test_exception_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.md"
    write_text(path, "old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half of the n")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_killed_while_writing(tmp_path):
    path = tmp_path / "table.md"
    write_text(path, "old")
    program = (
        "import os, signal, sys; from pathlib import Path; from plots.output import *\n"
        "def die(t): t.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(Path(sys.argv[1]), die)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_readable_by_others_as_the_umask_says(tmp_path):
    old = os.umask(0o022)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644

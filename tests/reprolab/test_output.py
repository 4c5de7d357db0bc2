"""Files are written whole and together, or not at all; how commands end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reprolab.json_files import ROOT
from reprolab.output import check_place, write_files

PAUSED = """
import os, signal, sys
from pathlib import Path
from reprolab import command_line, output
def run(args):
    written = Path.replace
    Path.replace = lambda *_: os.kill(os.getpid(), signal.{}) or [0] * 10**8
    output.write_files({{Path(sys.argv[1]): b"new"}})
p = command_line.Parser()
p.add_argument("file")
p.set_defaults(run=run)
sys.exit(command_line.run(p))
"""
END = """
import sys
from reprolab import command_line
def run(args):
    print({})
    return {}
p = command_line.Parser()
p.set_defaults(run=run)
sys.exit(command_line.run(p))
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def run(code: str, *words: str, streams: str = "") -> subprocess.CompletedProcess[str]:
    command = f'"$0" -c "$@" {streams}'
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}", sys.executable, code, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_all_files_are_replaced_and_a_link_stays_one(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("old")
    write_files({tmp_path / "link": b"new", tmp_path / "deep/a": b"a"})
    assert contents(tmp_path) == {"old": b"new", "link": b"new"}
    assert (tmp_path / "link").is_symlink() and contents(tmp_path / "deep") == {"a": b"a"}


def test_a_full_disk_leaves_every_old_file(tmp_path, monkeypatch, refused):
    files = {tmp_path / name: b"new" for name in ("a", "b", "c")}
    for path in files:
        path.write_bytes(b"old")
    write = Path.write_bytes

    def fill(path: Path, content: bytes) -> None:
        write(path, content[:1])
        if len(list(tmp_path.glob(".*"))) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    assert "No space" in refused(write_files, files)
    assert contents(tmp_path) == dict.fromkeys("abc", b"old")


def test_what_is_no_regular_file_is_refused_and_stays(tmp_path, refused):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe", "file/below"):
        for write in (check_place, lambda path: write_files({tmp_path / "a": b"a", path: b"b"})):
            assert f"{name}: cannot be written: " in refused(write, tmp_path / name)
    assert contents(tmp_path) == {"file": b"old"}
    assert "/dev/full: " in refused(check_place, Path("/dev/full"))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_writing_leaves_the_old_file_alone(tmp_path, name):
    (tmp_path / "file").write_bytes(b"old")
    done = run(PAUSED.format(name), str(tmp_path / "file"))
    assert done.returncode == 128 + getattr(signal, name)
    assert "Traceback" not in done.stderr and contents(tmp_path) == {"file": b"old"}


@pytest.mark.parametrize(
    ("what", "result", "streams", "status", "error"),
    [
        ("'x'", 0, "", 0, ""),
        ("'x'", 1, "", 1, ""),
        ("'x'", 0, ">/dev/full", 2, "No space"),
        ("'x' * 10**6", 0, "| head -c 1", 0, ""),  # the reader has seen enough
        ("'x'", 0, "--what", 2, "--what"),
        ("1 / 0", 0, "", 3, "ZeroDivisionError"),  # a fault of ours is no wrong output
    ],
)
def test_how_a_command_ends(what, result, streams, status, error):
    done = run(END.format(what, result), streams=streams)
    assert done.returncode == status and error in done.stderr
    assert bool(done.stderr) is bool(error)

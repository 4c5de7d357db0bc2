"""Files are put in place whole and together, or not at all."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from records.errors import InputError
from records.json_files import ROOT
from records.output import write_files

OLD, NEW = b"old", b"new"


@pytest.fixture
def files(tmp_path):
    """Three files of an older rendering beside a result file, and what is to replace them."""
    (tmp_path / "shapes.json").write_bytes(b"{}")
    found = {tmp_path / name: NEW for name in ("a.md", "b.png", "c.svg")}
    for path in found:
        path.write_bytes(OLD)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_all_files_and_nothing_else_as_the_umask_says(files, tmp_path):
    old = os.umask(0o022)
    try:
        write_files(files)
    finally:
        os.umask(old)
    assert contents(tmp_path) == {"shapes.json": b"{}"} | {path.name: NEW for path in files}
    assert (tmp_path / "a.md").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("which", ["a.md", "c.svg"])
def test_a_full_disk_leaves_every_old_file(files, tmp_path, monkeypatch, which):
    before, write = contents(tmp_path), Path.write_bytes

    def fill(path: Path, content: bytes) -> int:
        if path.name.endswith(which):
            write(path, content[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", fill)
    said = f"^{tmp_path}/{which}: cannot be written: No space left on device$"
    with pytest.raises(InputError, match=said):
        write_files(files)
    assert contents(tmp_path) == before


def test_what_is_in_the_way_keeps_the_others(files, tmp_path):
    (tmp_path / "z").mkdir()
    with pytest.raises(InputError, match=f"^{tmp_path}/z: cannot be written: it is a folder$"):
        write_files(files | {tmp_path / "z": NEW})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=f"^{tmp_path}/pipe: cannot be written: it is no regular"):
        write_files(files | {tmp_path / "pipe": NEW})
    with pytest.raises(InputError, match=r"^\.: cannot be written: it is a folder$"):
        write_files(files | {Path(): NEW})
    with pytest.raises(InputError, match=f"^{tmp_path}/a.md: cannot be written: File exists$"):
        write_files({tmp_path / "a.md/a": NEW})
    assert all(path.read_bytes() == OLD for path in files)


PROGRAM = """
import os, signal, sys
from pathlib import Path
from records import interruption
from records.output import write_files
number, folder = int(sys.argv[1]), Path(sys.argv[2])
if number != signal.SIGKILL: signal.signal(number, signal.SIG_DFL)  # nohup ignores it
interruption.end_quietly()
write = Path.write_bytes
def interrupted(path, content):
    write(path, content[:1])
    if path.name.endswith('b.png'): os.kill(os.getpid(), number)
    return write(path, content)
Path.write_bytes = interrupted
write_files({folder / name: b'new' for name in ('a.md', 'b.png', 'c.svg')})
"""


def write_with_signal(number: int, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", PROGRAM, str(int(number)), str(folder)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True)


def test_a_signal_waits_until_the_files_are_in_place(files, tmp_path):
    done = write_with_signal(signal.SIGHUP, tmp_path)
    assert (done.returncode, done.stderr) == (128 + signal.SIGHUP, b"")
    assert contents(tmp_path) == {"shapes.json": b"{}"} | {path.name: NEW for path in files}


def test_what_a_killed_process_left_goes_with_the_next(files, tmp_path):
    assert write_with_signal(signal.SIGKILL, tmp_path).returncode == -signal.SIGKILL
    assert all(path.read_bytes() == OLD for path in files)
    assert (tmp_path / ".reprolab-tmp-b.png").exists()
    write_files({tmp_path / "other": NEW})
    assert not list(tmp_path.glob(".reprolab-tmp-*"))


def test_one_folder_with_two_names_is_locked_once(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    write_files({tmp_path / "a": NEW, tmp_path / "link/b": NEW})
    assert contents(tmp_path) == {"a": NEW, "b": NEW}


def test_what_lies_in_the_way_is_not_followed_nor_removed(tmp_path):
    """A link of the name that a file has before it is in place, and a file of somebody's own."""
    (tmp_path / "theirs").write_bytes(OLD)
    (tmp_path / ".reprolab-tmp-a").symlink_to(tmp_path / "theirs")
    (tmp_path / ".tmp-notes").write_bytes(OLD)
    write_files({tmp_path / "a": NEW})
    assert contents(tmp_path) == {"a": NEW, "theirs": OLD, ".tmp-notes": OLD}


def test_two_processes_wait_for_each_other(files, tmp_path):
    program = (
        "import sys; from pathlib import Path; from records.output import write_files\n"
        "print('here', flush=True); write_files({Path(sys.argv[1]): b'theirs'})"
    )
    path = tmp_path / "a.md"
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    command = [sys.executable, "-c", program, str(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as other:
        assert other.stdout.readline() == "here\n"
        assert other.stderr.readline() == f"waiting for what else writes to {tmp_path}\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.3)
        assert path.read_bytes() == OLD
        os.close(handle)
    assert (other.returncode, path.read_bytes()) == (0, b"theirs")

"""Files are written whole and together, or not at all."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reprolab.json_files import ROOT
from reprolab.output import check_place, write_files
from reprolab_nf4.whole_file import TemporaryFile

OLD, NEW = b"old", b"new"


@pytest.fixture
def files(tmp_path):
    """Three files of an older rendering next to a result file, and their replacements."""
    (tmp_path / "shapes.json").write_bytes(b"{}")
    replacements = {tmp_path / name: NEW for name in ("a.md", "b.png", "c.svg")}
    for path in replacements:
        path.write_bytes(OLD)
    return replacements


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
def test_a_full_disk_leaves_every_old_file(files, tmp_path, monkeypatch, which, refused):
    before, write = contents(tmp_path), TemporaryFile.write
    full = [path.name for path in files].index(which)
    begun = []

    def fill(file: TemporaryFile, content: bytes) -> None:
        begun.append(file)
        if len(begun) == full + 1:
            write(file, content[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, content)

    monkeypatch.setattr(TemporaryFile, "write", fill)
    assert "No space" in refused(write_files, files)
    assert contents(tmp_path) == before


def test_one_unwritable_place_keeps_all_files(files, tmp_path, refused):
    (tmp_path / "z").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/null")
    for path, why in (
        (tmp_path / "z", "Is a directory"),
        (Path(), "Is a directory"),
        (tmp_path / "pipe", "Not a regular file"),
        (tmp_path / "device", "Not a regular file"),
        (Path("/dev/null"), "Not a regular file"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / ("x" * 256), "File name too long"),
    ):
        for write in (check_place, lambda path: write_files(files | {path: NEW})):
            assert refused(write, path).endswith(why)
    assert Path("/dev/null").is_char_device()
    assert "Not a directory" in refused(check_place, tmp_path / "loop/a")
    assert "/a.md: " in refused(write_files, {tmp_path / "a.md/a": NEW})
    assert all(path.read_bytes() == OLD for path in files)
    assert not list(tmp_path.glob(".reprolab-tmp-*"))


@pytest.mark.parametrize("stream", [1, 2])
def test_a_file_that_a_standard_stream_writes_to_is_kept(tmp_path, stream, refused):
    """As with `--output /dev/stdout >>log`."""
    log, kept = tmp_path / "log", os.dup(stream)
    log.write_bytes(OLD)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), stream)
            for path in (log, Path(f"/dev/fd/{stream}")):
                for write in (check_place, lambda path: write_files({path: NEW})):
                    assert "stream" in refused(write, path)
    finally:
        os.dup2(kept, stream)
        os.close(kept)
    assert log.read_bytes() == OLD
    check_place(log)


def test_links_are_followed_and_stay(tmp_path):
    (tmp_path / "target").write_bytes(OLD)
    (tmp_path / "near").symlink_to("target")
    (tmp_path / "far").symlink_to(tmp_path / "near")
    (tmp_path / "dangling").symlink_to("new/absent")
    for link, target in (("near", "target"), ("far", "target"), ("dangling", "new/absent")):
        check_place(tmp_path / link)
        write_files({tmp_path / link: link.encode()})
        assert (tmp_path / link).is_symlink()
        assert (tmp_path / target).read_bytes() == link.encode()


def test_the_longest_name_is_taken(tmp_path):
    write_files({tmp_path / ("x" * 255): NEW})
    assert contents(tmp_path) == {"x" * 255: NEW}


PROGRAM = """
import os, signal, sys
from pathlib import Path
from reprolab import interruption
from reprolab.output import write_files
from reprolab_nf4.whole_file import TemporaryFile
number, folder = int(sys.argv[1]), Path(sys.argv[2])
if number != signal.SIGKILL: signal.signal(number, signal.SIG_DFL)  # nohup ignores it
interruption.end_quietly()
write, begun = TemporaryFile.write, []
def interrupted(file, content):
    begun.append(file)
    if len(begun) == 2: os.kill(os.getpid(), number)
    write(file, content)
TemporaryFile.write = interrupted
write_files({folder / name: b'new' for name in ('a.md', 'b.png', 'c.svg')})
"""


def write_with_signal(number: int, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", PROGRAM, str(int(number)), str(folder)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True)


def test_a_signal_waits_until_the_files_are_in_place(files, tmp_path):
    done = write_with_signal(signal.SIGHUP, tmp_path)
    assert (done.returncode, done.stderr) == (128 + signal.SIGHUP, b"")
    assert contents(tmp_path) == {"shapes.json": b"{}"} | {path.name: NEW for path in files}


def test_temporary_files_of_a_killed_process_are_removed(files, tmp_path):
    """But not files that another process is still writing."""
    assert write_with_signal(signal.SIGKILL, tmp_path).returncode == -signal.SIGKILL
    assert all(path.read_bytes() == OLD for path in files)
    assert len(list(tmp_path.glob(".reprolab-tmp-*"))) == 2
    live = tmp_path / ".reprolab-tmp-live"
    with live.open("wb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        write_files({tmp_path / "other": NEW})
        assert list(tmp_path.glob(".reprolab-tmp-*")) == [live]
    write_files({tmp_path / "other": NEW})
    assert not live.exists()


def test_one_folder_with_two_names_is_locked_once(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    write_files({tmp_path / "a": NEW, tmp_path / "link/b": NEW})
    assert contents(tmp_path) == {"a": NEW, "b": NEW}


def test_links_and_files_in_the_way_are_kept(tmp_path):
    """A link of the name that a file has before it is in place, and a file of somebody's own."""
    (tmp_path / "theirs").write_bytes(OLD)
    (tmp_path / ".reprolab-tmp-a").symlink_to(tmp_path / "theirs")
    (tmp_path / ".tmp-notes").write_bytes(OLD)
    write_files({tmp_path / "a": NEW})
    (tmp_path / ".reprolab-tmp-a").unlink()  # a link is not a temporary file
    assert contents(tmp_path) == {"a": NEW, "theirs": OLD, ".tmp-notes": OLD}


def test_two_processes_wait_for_each_other(files, tmp_path):
    program = (
        "import sys; from pathlib import Path; from reprolab.output import write_files\n"
        "print('here', flush=True); write_files({Path(sys.argv[1]): b'theirs'})"
    )
    path = tmp_path / "a.md"
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    command = [sys.executable, "-c", program, str(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as other:
        assert other.stdout.readline() == "here\n"
        assert other.stderr.readline().startswith("waiting ")
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.3)
        assert path.read_bytes() == OLD
        os.close(handle)
    assert (other.returncode, path.read_bytes()) == (0, b"theirs")

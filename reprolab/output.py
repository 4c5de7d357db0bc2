"""Writes several files whole, all or none."""

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from reprolab import interruption
from reprolab.errors import InputError
from reprolab.printable import printable
from reprolab_nf4 import whole_file

LOCKED: set[Path] = set()  # the folders that this process has locked


def write_files(files: Mapping[Path, bytes]) -> None:
    """Writes all of the files or, if one cannot be written, none.

    All are first written next to their places, then renamed. A signal is delayed until that is
    done; the next process that writes there removes what a killed one left.
    """
    targets = {path: target_of(path) for path in files}
    folders = {target.parent for target in targets.values()}
    with ExitStack() as locks:
        for folder in folders:
            with named(folder):
                folder.mkdir(parents=True, exist_ok=True)
        for folder in sorted({folder.resolve() for folder in folders}):  # each once, however spelt
            with named(folder):
                locks.enter_context(lock(folder))
        with interruption.held():
            put_in_place(files, targets)
        for folder in folders:
            whole_file.remove_left_files(folder)


def check_place(path: Path) -> None:
    """InputError if no file could be written there, before a long computation of its contents."""
    with named(path):
        whole_file.check_place(path)


def target_of(path: Path) -> Path:
    with named(path):
        return whole_file.target_of(path)


def put_in_place(files: Mapping[Path, bytes], targets: Mapping[Path, Path]) -> None:
    with ExitStack() as written:
        temporary = {}
        for path, content in files.items():
            with named(path):
                beside = whole_file.TemporaryFile(targets[path].parent)
                temporary[path] = written.enter_context(beside)
                beside.write(content)
        for path in files:
            with named(path):
                temporary[path].put_in_place(targets[path])


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Waits until no other process writes files to the folder. Inputs may be read under this lock
    first: within it, writing there does not wait.
    """
    if (own := folder.resolve()) in LOCKED:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    LOCKED.add(own)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for what else writes to {printable(str(folder))}", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # not every file system has locks
            pass
        yield
    finally:
        LOCKED.remove(own)
        os.close(handle)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Turns an operating system's error into an InputError with the path of the output."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None

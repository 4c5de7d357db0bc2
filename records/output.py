"""Writing files whole and together."""

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from records import interruption
from records.errors import InputError
from records.printable import printable

TEMPORARY = ".reprolab-tmp-"  # before the name of a file that is not in place yet
LOCKED: set[Path] = set()  # the folders that this process has locked


def write_files(files: Mapping[Path, bytes]) -> None:
    """Put all of the files in place or, where one cannot be written, none.

    All are written beside their places first, and renamed when all are there. A signal waits until
    that is done; what a killed process left is removed by the next that writes there.
    """
    folders = sorted({path.parent for path in files})
    with ExitStack() as locks:
        for folder in folders:
            with named(folder):
                folder.mkdir(parents=True, exist_ok=True)
        for folder in sorted({folder.resolve() for folder in folders}):  # each once, however spelt
            with named(folder):
                locks.enter_context(lock(folder))
        with interruption.held():
            put_in_place(files)


def check_place(path: Path) -> None:
    """InputError where no file could be put there; before what is to be written takes long."""
    check_kind(path)
    with named(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written: its folder may not be written to")


def check_kind(path: Path) -> None:
    """A device, or a pipe, would be replaced by a file."""
    if path.is_dir():
        raise InputError(f"{path}: cannot be written: it is a folder")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: cannot be written: it is no regular file")


def put_in_place(files: Mapping[Path, bytes]) -> None:
    for path in files:
        with named(path):
            check_kind(path)
    temporary = {path: path.with_name(TEMPORARY + path.name) for path in files}
    try:
        for path, content in files.items():
            with named(path):
                temporary[path].unlink(missing_ok=True)  # a link, which writing would follow
                temporary[path].write_bytes(content)
        for path in files:
            with named(path):
                temporary[path].replace(path)
    finally:
        for folder in {path.parent for path in files}:
            for left in folder.glob(f"{TEMPORARY}*"):  # of a process that was killed, too
                with suppress(OSError):
                    left.unlink()


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Waits until no other process puts files into the folder. What is to be written may be read
    under it first: within it, writing there does not wait.
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
    """An operating system's error becomes one that names what was to be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None

"""Writes files atomically: harness/whole_file.cpp is the same in C++. Raises OSError.

Needs nothing but the standard library.
"""

import errno
import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

PREFIX = ".reprolab-tmp-"  # before the name of a file that is not in place yet
NAME_MAX = 255


def target_of(path: Path) -> Path:
    """The file that a path names, with links followed: a regular file, or one that does not exist.
    Raises for anything else, because a file would replace a device or a pipe.
    """
    if any(len(os.fsencode(name)) > NAME_MAX for name in path.parts):
        raise failure(errno.ENAMETOOLONG)
    if path.is_dir():
        raise failure(errno.EISDIR)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a regular file")
    if is_stream(path):
        raise OSError(errno.EBUSY, "A standard stream of this program")
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise failure(errno.ELOOP)
    return target


def is_stream(path: Path) -> bool:
    """Whether a standard stream was redirected to this file: its lines would be lost."""
    for stream in range(3):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return True
    return False


def check_place(path: Path) -> None:
    """Raises OSError if no file can be written there; called before a long measurement."""
    folder = next(p for p in target_of(path).parents if os.path.lexists(p))
    if not folder.is_dir():
        raise failure(errno.ENOTDIR)
    if not os.access(folder, os.W_OK):
        raise failure(errno.EACCES)


def failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class TemporaryFile:
    """A file next to the one that is written. Its writer holds a lock on it, by which later writers
    in the folder know whether it is still in use.
    """

    def __init__(self, folder: Path):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        while True:
            self.path = folder / f"{PREFIX}{secrets.token_hex(8)}"
            self.file = os.open(self.path, flags, 0o666)
            with suppress(OSError):  # without locks no file is removed either
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self.file).st_nlink:
                return
            os.close(self.file)  # removed by another process before it was locked

    def __enter__(self) -> "TemporaryFile":
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the file, unless it was renamed."""
        self.path.unlink(missing_ok=True)
        os.close(self.file)

    def write(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[os.write(self.file, left) :]

    def put_in_place(self, target: Path) -> None:
        self.path.replace(target)


def write(path: Path, content: bytes) -> None:
    target = target_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(target.parent) as temporary:
        temporary.write(content)
        temporary.put_in_place(target)
    remove_left_files(target.parent)


def remove_left_files(folder: Path) -> None:
    """Removes the temporary files of killed writers from the folder."""
    for left in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):
            remove_if_left(left)


def remove_if_left(path: Path) -> None:
    """Raises OSError if a writer holds its lock, or it is a link; keeps another user's file."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_uid == os.geteuid():
            path.unlink()
    finally:
        os.close(file)

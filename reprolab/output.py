"""Writes files whole or not at all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reprolab.errors import InputError


def write_files(files: Mapping[Path, bytes]) -> None:
    """Writes each file next to its place; all are renamed when the last is written."""
    beside: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            check_place(path)
            with named(path):
                target = path.resolve()  # a link stays one
                target.parent.mkdir(parents=True, exist_ok=True)
                beside[target] = target.parent / f".reprolab-tmp-{os.getpid()}-{len(beside)}"
                beside[target].write_bytes(content)
        for target, temporary in beside.items():
            with named(target):
                temporary.replace(target)
    finally:
        for temporary in beside.values():
            temporary.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """InputError if no file could be written there, before a long computation of its contents."""
    with named(path):
        if path.exists() and not path.is_file():  # a device, a pipe or a folder
            raise OSError(0, "Not a regular file")
        folder = next(p for p in path.absolute().parents if os.path.lexists(p))
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise OSError(0, f"{folder} is not a folder that may be written to")


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Turns an operating system's error into an InputError with the path of the output."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        why = getattr(error, "strerror", error)
        raise InputError(f"{path}: cannot be written: {why}") from None

"""Whether rows that are put together, from one result file or several, are of the same code."""

from collections.abc import Iterable
from pathlib import Path

from records.printable import printable
from records.results import Record

Place = tuple[Path, Record]  # a row and its file

BEFORE = "recorded before result files said of what code their rows are"


def differing(rows: Iterable[Place]) -> str:
    """Why rows that are put together are not of the same code; '' where nothing says so.

    A source of ours has one code, whichever kernel's rows it is in; a library's file of one name
    may be of another version in another kernel's.
    """
    seen: dict[tuple[str, str, str], tuple[str, Path]] = {}
    for file, row in rows:
        for part, digest in row.code.sha256.items() if row.code else ():
            owner = "" if part.endswith(".cu") else row.kernel
            first = seen.setdefault((owner, row.code.target, part), (digest, file))
            if first[0] != digest:
                return (
                    f"rows of {row.kernel} are of two different kernels: {part} was other code in "
                    f"{short(first[1])} than in {short(file)} ({row.code.target}); measure both "
                    "again"
                )
    return ""


def unknown(rows: Iterable[Place]) -> tuple[str, ...]:
    """The kernels with rows in several files of which not all say their code."""
    files: dict[str, set[Path]] = {}
    silent = set()
    for file, row in rows:
        files.setdefault(row.kernel, set()).add(file)
        if row.code is None:
            silent.add(row.kernel)
    return tuple(kernel for kernel, found in files.items() if len(found) > 1 and kernel in silent)


def unknown_note(kernels: Iterable[str]) -> list[str]:
    """For under a table that puts such rows together."""
    names = ", ".join(sorted(set(kernels)))
    whether = "Whether rows of one kernel from several files are of the same code is not known of"
    return [f"{whether} {names}: {BEFORE}."] if names else []


def short(file: Path) -> str:
    """'table2/replay.json'"""
    return printable("/".join(file.parts[-2:]))

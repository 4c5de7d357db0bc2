"""Whether combined rows, from one result file or several, are of the same code, and whether that is
this checkout's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprolab.json_files import ROOT, Schema
from reprolab.printable import printable

if TYPE_CHECKING:
    from reprolab.results import Record

Place = tuple[Path, Any]  # a row and its file
Digest = tuple[str, str, str]  # a part of a kernel, the architecture, and the code's digest

OLDER = ROOT / "data/older_code.json"  # `python -m sass recorded --write` writes it
SCHEMA = Schema("older_code.schema.json")

BEFORE = "recorded before result files had digests of their rows' code"


@cache
def older_digests(file: Path) -> frozenset[Digest]:
    """The code of recorded rows that differs from this checkout's."""
    older = SCHEMA.read(file)["older"]
    return frozenset(tuple(entry[k] for k in ("part", "target", "sha256")) for entry in older)


def known_codes(file: Path) -> dict[str, str]:
    """Digests of this checkout's code, by cubin, whose name has a digest of its sources."""
    return SCHEMA.read(file)["codes"]


def digests(row: Record) -> set[Digest]:
    code = row.code
    return {(part, code.target, sha256) for part, sha256 in code.sha256.items()} if code else set()


def is_older(row: Record | None) -> bool:
    """Whether the row's code is known to differ from this checkout's."""
    return row is not None and not older_digests(OLDER).isdisjoint(digests(row))


def differing(rows: Iterable[Place]) -> str:
    """Why combined rows are not of the same code; '' if no difference is known.

    A source of ours has the same code in the rows of every kernel. A library's file may be another
    one in another kernel's rows, and in another experiment's: `make peer` writes into it where its
    CUDA libraries are.
    """
    seen: dict[tuple[object, str, str], tuple[str, Path]] = {}
    for file, row in rows:
        for part, digest in row.code.sha256.items() if row.code else ():
            owner = None if part.endswith(".cu") else (file.parent.name, row.kernel)
            first = seen.setdefault((owner, row.code.target, part), (digest, file))
            if first[0] != digest:
                return (
                    f"rows named {row.kernel} ran different code: {part} compiled to different "
                    f"machine code in {short(first[1])} and {short(file)} ({row.code.target}); "
                    "measure both again"
                )
    return ""


def short(file: Path) -> str:
    """'table2/replay.json'"""
    return printable("/".join(file.parts[-2:]))

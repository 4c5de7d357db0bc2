"""Whether combined rows, from one result file or several, are of the same code, and whether that is
this checkout's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprolab.errors import printable
from reprolab.json_files import ROOT, read_json

if TYPE_CHECKING:
    from reprolab.results import Row

Code = dict[str, Any] | None  # as in result files: the architecture, and a digest of each part

OLDER = ROOT / "data/older_code.json"  # `python -m sass recorded --write` writes it


@cache
def older_digests(file: Path) -> frozenset[str]:
    """The code of recorded rows that differs from this checkout's."""
    return frozenset(read_json(file)["older"])


def is_older(code: Code) -> bool:
    """Whether it is known to differ from this checkout's."""
    return bool(code) and not older_digests(OLDER).isdisjoint(code["sha256"].values())


def differing(rows: Iterable[Row]) -> str:
    """Why combined rows are not of the same code; '' if no difference is known.

    A source of ours has the same code in the rows of every kernel. A library's file may be another
    one in another kernel's rows, and in another experiment's: `make peer` writes into it where its
    CUDA libraries are.
    """
    seen: dict[tuple[object, str, str], tuple[str, str]] = {}
    for row in (row for row in rows if row.code):
        target = row.code["target"]
        for part, digest in row.code["sha256"].items():
            owner = None if part.endswith(".cu") else (row.experiment, row.kernel)
            first = seen.setdefault((owner, target, part), (digest, row.file))
            if first[0] != digest:
                return (
                    f"rows named {row.kernel} ran different code: {part} compiled to different "
                    f"machine code in {short(first[1])} and {short(row.file)} ({target}); "
                    "measure both again"
                )
    return ""


def short(file: str) -> str:
    """'table2/replay.json'"""
    return printable("/".join(Path(file).parts[-2:]))

"""Verdicts of recorded runs in which some numbers or outcomes are changed."""

import copy
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import made

from reprolab.claims.evidence import Evidence
from reprolab.claims.ledger import Decided, Decision, decide
from reprolab.json_files import ROOT, read_json
from reprolab.results import Results, json_files, parse

Row = dict[str, Any]
# Of rows of "experiment/pass", by patterns of kernels and problems; False drops the row.
Change = tuple[str, str, str, Callable[[Row], Any]]


@cache
def roots(gpu: str) -> dict[Path, Any]:
    files = sorted(json_files(ROOT / f"data/recorded/{gpu}"))
    return {file: root for file in files if "records" in (root := read_json(file))}


@cache
def results(gpu: str, file: Path) -> Results:
    return parse(file, roots(gpu)[file])


def changed(row: Row, changes: Sequence[Change]) -> Row | None:
    """A copy, if a change is of the row; None if one drops it."""
    for _, kernel, problem, change in changes:
        if fnmatchcase(row["kernel"], kernel) and fnmatchcase(row["problem"]["name"], problem):
            row = copy.deepcopy(row)
            if change(row) is False:
                return None
    return row


def evidence(gpu: str, changes: Sequence[Change] = (), name: str = "") -> Evidence:
    """`name`: of another GPU, as if the run were of it."""
    found = {}
    for file, root in roots(gpu).items():
        place = f"{root['experiment']}/{root['pass']}"
        own = [change for change in changes if fnmatchcase(place, change[0])]
        of = results(gpu, file)
        if own or name:
            rows = [changed(row, own) for row in root["records"]]
            if name and root["provenance"]["gpu"]:
                root = made.on(name, root | {"records": []})
            of = parse(file, root | {"records": [row for row in rows if row]})
        found[of.experiment, of.pass_name] = of
    return Evidence(found, ROOT / f"data/recorded/{gpu}")


def decision(
    claim: str, gpu: str, *more: Change, changes: Sequence[Change] = (), name: str = ""
) -> Decision:
    (decided,) = decide(evidence(gpu, (*more, *changes), name), made.with_claim(claim))
    return decided


def verdict(claim: str, cell: str, gpu: str, *changed: Change, **more: Any) -> Decided:
    """On the first cell with this text, in a reading that begins with what follows '|'."""
    text, _, reading = cell.partition(" | ")
    verdicts = decision(claim, gpu, *changed, **more).verdicts
    return next(v for v in verdicts if v.cell.text == text and v.cell.reading.startswith(reading))


def scaled(place: str, kernel: str, metric: str, factor: float, problem: str = "*") -> Change:
    """The samples of the metrics that the pattern matches."""

    def change(row: Row) -> None:
        for of in row["metrics"]:
            if fnmatchcase(of["name"], metric) and "samples" in of:
                of["samples"] = [factor * sample for sample in of["samples"]]

    return place, kernel, problem, change

"""Results as pandas frames: docs/pandas.md."""

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from claims.evidence import Evidence, machines, recorded_folder
from claims.ledger import decide
from claims.published import load_sources
from plots.claim_details import relative
from plots.ledger import csv_row
from records.errors import InputError
from records.results import KERNEL_TIME, Results
from records.stats import Summary

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, Any]
AS_THEY_ARE = ("ranked", "origin", "bytes_read", "bytes_moved", "sm_mhz")  # fields of a record


class Frames(NamedTuple):
    """`records`: a row for each metric of each result. `claims`: a row for each cell of each claim
    on each GPU, as in the CSV of `make claims`.
    """

    records: "DataFrame"
    claims: "DataFrame"


def load(*places: str | os.PathLike[str]) -> Frames:
    """What lies in these result files, or folders of them.

    As in `make report`, GPUs of one name are one machine, recorded runs stay apart from the user's
    own, and of several files of one experiment's pass on a machine the newest counts. InputError
    says what is wrong with a file.
    """
    if not places:
        raise TypeError("load: give result files or folders, such as load('results')")
    if not all(map(str, places)):
        raise InputError("load: an empty path is no folder; give '.' for this one")
    here = Path.cwd()
    found = machines([Path(place) for place in places])
    if not found:
        raise InputError(f"{', '.join(map(str, places))}: no result files")
    # Facts of compiled code belong to several machines.
    files = {results.file: results for evidence in found for results in evidence.results.values()}
    records = [row for results in files.values() for row in record_rows(results, here)]
    return Frames(frame(records), frame([row for e in found for row in claim_rows(e, here)]))


def record_rows(results: Results, here: Path) -> Iterator[Row]:
    gpu, is_recorded = results.gpu, recorded_folder(results.file) is not None
    provenance, file = results.provenance, relative(results.file, here)
    for record in results.records:
        problem = {f"problem_{name}": v for name, v in record.problem.items() if name != "name"}
        for metric in record.metrics.values() or [None]:  # a wrong output has none
            summary = metric and metric.summary
            is_time = metric and metric.name == KERNEL_TIME
            yield {
                "gpu": gpu,
                "recorded": is_recorded,
                "experiment": results.experiment,
                "pass": results.pass_name,
                "problem": record.problem["name"],
                "kernel": record.kernel,
                "metric": metric and metric.name,
                "unit": metric and metric.unit,
                **{field.name: getattr(summary, field.name, None) for field in fields(Summary)},
                "samples": metric.samples if summary else None,
                "gb_per_s": record.bandwidth.value if is_time and record.bandwidth else None,
                "missing": (metric and metric.missing) or None,
                "outcome": record.outcome,
                "reason": record.reason or None,
                **{name: getattr(record, name) for name in AS_THEY_ARE},
                **{name: provenance[name] for name in ("started", "commit")},
                "driver": gpu and provenance["gpu"]["driver"],
                "file": file,
                "key": record.key,
                **problem,
            }


def claim_rows(evidence: Evidence, here: Path) -> Iterator[Row]:
    machine = {"gpu": evidence.newest and evidence.newest.gpu}
    machine |= {"recorded": evidence.folder is not None}
    for decision in decide(evidence, load_sources()):
        for verdict in decision.verdicts:
            yield machine | csv_row(decision, verdict, here)


def frame(rows: list[Row]) -> "DataFrame":
    """Whole numbers and flags stay such where some rows have none."""
    import pandas  # here alone: it takes half a second

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        types = {type(value) for value in values} - {type(None)}
        is_large = any(isinstance(value, int) and abs(value) >= 1 << 53 for value in values)
        whole = {int: "object" if is_large else "Int64", bool: "boolean"}
        dtype = whole.get(types.pop()) if len(types) == 1 else None
        columns[name] = pandas.Series(values, dtype=dtype)
    found = pandas.DataFrame(columns)
    if "started" in found:
        found["started"] = pandas.to_datetime(found["started"])
    return found

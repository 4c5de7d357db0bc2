"""Records and tables of rows as pandas frames: docs/pandas.md."""

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from reprolab.code import is_older
from reprolab.folders import recorded_folder
from reprolab.results import KERNEL_TIME, Results
from reprolab.stats import Summary

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, Any]
AS_THEY_ARE = (  # fields of a record
    *("ranked", "origin", "maker", "lineage", "deviation", "bound", "source_file", "mismatches"),
    *("findings", "launch", "bytes_read", "bytes_moved", "sm_mhz"),
)
ENDS = ("low", "high")  # of a median's interval


def record_rows(results: Results, file: str) -> Iterator[Row]:
    """`file`: the file's name in its rows."""
    gpu, is_recorded = results.gpu, recorded_folder(results.file) is not None
    for record in results.records:
        provenance = results.origins[record.run]
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
                **{end: getattr(summary, end, None) for end in ENDS},
                "samples": metric.samples if summary else None,
                "gb_per_s": record.bandwidth.value if is_time and record.bandwidth else None,
                "missing": (metric and metric.missing) or None,
                "outcome": record.outcome,
                "reason": record.reason or None,
                "older_code": is_older(record),
                **{name: getattr(record, name) for name in AS_THEY_ARE},
                **{name: provenance[name] for name in ("started", "commit")},
                "driver": gpu and provenance["gpu"]["driver"],
                "multiprocessors": gpu and provenance["gpu"]["multiprocessors"],
                "peak_gb_s": gpu and provenance["gpu"]["theoretical_bandwidth_gb_s"],
                "file": file,
                "key": record.key,
                **problem,
            }


def frame(rows: list[Row]) -> "DataFrame":
    """Integers and flags keep their type if some rows have none."""
    import pandas  # here alone: it takes half a second

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        types = {type(value) for value in values} - {type(None)}
        is_large = any(isinstance(value, int) and abs(value) >= 1 << 53 for value in values)
        whole = {int: "object" if is_large else "Int64", bool: "boolean"}
        dtype = whole.get(types.pop()) if len(types) == 1 else None
        columns[name] = pandas.Series(values, dtype=dtype)
    data = pandas.DataFrame(columns)
    if "started" in data:
        data["started"] = pandas.to_datetime(data["started"])
    return data

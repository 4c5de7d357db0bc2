"""The only writer of result files (data/results.schema.json) in Python; the programs use
harness/result_file.cpp.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprolab.output import write_files
from reprolab.results import SCHEMA

Content = dict[str, Any]


def content(
    experiment: str, pass_name: str, provenance: Content, records: Sequence[Content]
) -> Content:
    return {
        "schema": SCHEMA.version,
        "experiment": experiment,
        "pass": pass_name,
        "provenance": provenance,
        "records": list(records),
        "checks": [],
    }


def record(row: Content, problem: Content, **measured: Any) -> Content:
    """`row`: kernel, lineage, origin, source_file, deviation and code, as in the schema;
    `measured`: outcome, and the record's other fields.
    """
    defaults = {
        "key": f"{problem['name']}/{row['kernel']}",
        **row,
        "problem": problem,
        "reason": "",
        "mismatches": None,
        "metrics": [],
        "launch": None,
        "bytes": {"read": 0, "written": 0},
        "clocks": {"sm_mhz_before": None, "sm_mhz_during": None, "sm_mhz_after": None},
    }
    return defaults | measured


def write(file: Path, content: Content) -> None:
    """InputError, and no file, if it violates the schema."""
    SCHEMA.check(file, content)
    write_files({file: as_json(content)})


def as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()

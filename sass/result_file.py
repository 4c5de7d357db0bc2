"""The facts as a result file (data/results.schema.json), which claims/ reads as evidence.

A row is one kernel for one architecture. Nothing was run, so a row has no outcome and the file no
GPU: what it says of an architecture holds for every machine.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claims.provenance import checkout, host, utc
from claims.results import SCHEMA
from plots.output import write_files
from sass import tools
from sass.facts import Facts
from sass.measures import measures

EXPERIMENT, PASS = "counters", "sass"
NOTHING_RAN = "nothing was run: these are facts of the compiled code"


def write(file: Path, facts: Sequence[Facts], argv: Sequence[str], started: float) -> None:
    content = {
        "schema": SCHEMA.definition["properties"]["schema"]["const"],
        "experiment": EXPERIMENT,
        "pass": PASS,
        "provenance": provenance(facts, argv, started),
        "records": [record(found) for found in facts],
        "checks": [],
    }
    SCHEMA.check(file, content)
    write_files({file: (json.dumps(content, indent=1) + "\n").encode()})


def record(facts: Facts) -> dict[str, Any]:
    code, kernel = facts.code, facts.code.kernel
    problem: dict[str, Any] = {"name": code.arch, "family": kernel.family, "arch": code.arch}
    return {
        "key": f"{code.arch}/{kernel.name}",
        "kernel": kernel.name,
        "origin": {"kind": "compiler" if kernel.maker else "project", "maker": kernel.maker},
        "lineage": kernel.lineage,
        "source_file": kernel.source_file,
        "deviation": kernel.deviation,
        "code": {"target": code.arch, "sha256": code.sha256},
        "problem": problem | {"function": code.name[:200]},
        "outcome": "not_verified",
        "reason": NOTHING_RAN,
        "mismatches": None,
        "metrics": [
            {"name": f"sass_{m.name}", "unit": m.unit}
            | ({"missing": m.missing} if m.value is None else {"samples": [m.value]})
            for m in measures(facts)
        ],
        "launch": None,
        "bytes": {"read": 0, "written": 0},
        "clocks": {"sm_mhz_before": None, "sm_mhz_during": None, "sm_mhz_after": None},
    }


def provenance(facts: Sequence[Facts], argv: Sequence[str], started: float) -> dict[str, Any]:
    commit, dirty = checkout()
    archs = dict.fromkeys(found.code.arch.removeprefix("sm_") for found in facts)
    return {
        "started": utc(started),
        "runtime_s": round(time.time() - started, 1),
        "argv": list(argv),
        "commit": commit,
        "dirty": dirty,
        "instrument": "sass",
        "seed": 0,
        "build": {
            "compiler": "nvcc",
            "nvcc": tools.nvcc_version(),
            "type": "Release",
            "architectures": ";".join(archs),
        },
        "host": host(),
        "gpu": None,
        "clocks": None,
    }

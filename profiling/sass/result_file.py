"""The facts as a result file (data/results.schema.json), which claims/ reads as evidence.

A row is one kernel for one architecture. Nothing was run, so a row has no outcome and the file no
GPU: facts about an architecture hold for every machine.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprolab import provenance, result_file
from reprolab.results import Outcome
from sass import tools
from sass.facts import Facts
from sass.measures import measures

EXPERIMENT, PASS = "counters", "sass"
NOTHING_RAN = "nothing was run: these are facts of the compiled code"


def write(file: Path, facts: Sequence[Facts], argv: Sequence[str], started: float) -> None:
    archs = dict.fromkeys(one.code.arch.removeprefix("sm_") for one in facts)
    build = {"compiler": "nvcc", "nvcc": tools.nvcc_version(), "type": "Release"}
    build["architectures"] = ";".join(archs)
    origin = provenance.of_run(started, argv, "sass", build)
    records = [record(one) for one in facts]
    result_file.write(file, result_file.content(EXPERIMENT, PASS, origin, records))


def record(facts: Facts) -> dict[str, Any]:
    code, kernel = facts.code, facts.code.kernel
    problem = {"name": code.arch, "family": kernel.family.name, "arch": code.arch}
    row = {
        "kernel": kernel.name,
        "origin": {"kind": "compiler" if kernel.maker else "project", "maker": kernel.maker},
        "lineage": kernel.lineage,
        "source_file": kernel.source_file,
        "deviation": kernel.deviation,
        "code": {"target": code.arch, "sha256": code.sha256},
    }
    metrics = [
        {"name": f"sass_{m.name}", "unit": m.unit}
        | ({"missing": m.missing} if m.value is None else {"samples": [m.value]})
        for m in measures(facts)
    ]
    measured = {"outcome": Outcome.NOT_VERIFIED, "reason": NOTHING_RAN, "metrics": metrics}
    return result_file.record(row, problem | {"function": code.name[:200]}, **measured)

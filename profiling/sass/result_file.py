"""The compiled code of all kernels as a result file (data/results.schema.json).

A row is one kernel for one architecture. Nothing was run, so a row has no outcome and the file no
GPU: facts about an architecture hold for every machine.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reprolab import provenance, result_file
from reprolab.results import Outcome
from sass import tools
from sass.code import LOADS, STORES, Code, Function

EXPERIMENT, PASS = "counters", "sass"
NOTHING_RAN = "nothing was run: these are facts of the compiled code"


def write(file: Path, codes: Sequence[Code], argv: Sequence[str], started: float) -> None:
    archs = dict.fromkeys(one.arch.removeprefix("sm_") for one in codes)
    build = {"compiler": "nvcc", "nvcc": tools.nvcc_version(), "type": "Release"}
    build["architectures"] = ";".join(archs)
    origin = provenance.of_run(started, argv, "sass", build)
    records = [record(one) for one in codes]
    result_file.write(file, result_file.content(EXPERIMENT, PASS, origin, records))


def measures(function: Function) -> Iterator[tuple[str, str, int]]:
    """Names, units and values."""
    yield "registers", "registers", function.registers
    yield "stack_bytes", "bytes", function.stack_bytes
    yield "static_shared_bytes", "bytes", function.static_shared_bytes
    yield "code_bytes", "bytes", function.code_bytes
    yield "instructions", "instructions", len(function.instructions)
    yield "global_loads", "instructions", function.count(LOADS)
    yield "global_stores", "instructions", function.count(STORES)


def record(code: Code) -> dict[str, Any]:
    kernel = code.kernel
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
        {"name": f"sass_{name}", "unit": unit, "samples": [value]}
        for name, unit, value in measures(code.function)
    ]
    measured = {"outcome": Outcome.NOT_VERIFIED, "reason": NOTHING_RAN, "metrics": metrics}
    return result_file.record(row, problem | {"function": code.function.name[:200]}, **measured)

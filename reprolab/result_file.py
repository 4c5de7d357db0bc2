"""The only writer of result files (data/results.schema.json) in Python; the programs use
harness/result_file.cpp.
"""

import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprolab import sources
from reprolab.errors import InputError
from reprolab.output import write_files
from reprolab.results import SCHEMA
from reprolab.sources import Sources

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


def provenance(
    started: float,
    argv: Sequence[str],
    instrument: str,
    build: dict[str, str],
    measured: Sources | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A result file's provenance, for a run that began at `started`. `measured`: an earlier result
    of checkout(); `more`: seed, gpu and clocks, if something ran.
    """
    facts = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "runtime_s": round(time.time() - started, 1),
        "argv": list(argv),
        **(measured or checkout())._asdict(),
        "instrument": instrument,
        "seed": 0,
        "build": build,
        "host": host(),
        "gpu": None,
        "clocks": None,
    }
    return facts | more


def host() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    processor = {"cpu": cpu(), "cores": len(os.sched_getaffinity(0))}
    return processor | {"memory_bytes": memory, "os": operating_system()}


def operating_system() -> str:
    """As in the programs' result files."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return "unknown"


def cpu() -> str:
    """The processor's name; its architecture if the system does not provide the name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def checkout() -> Sources:
    """The sources that are measured. InputError if REPROLAB_COMMIT is wrong."""
    try:
        return sources.find()
    except ValueError as error:
        raise InputError(str(error)) from None

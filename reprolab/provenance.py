"""The provenance in result files written by Python, with the same fields as the programs'."""

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprolab import sources
from reprolab.errors import InputError
from reprolab.sources import Sources


def of_run(
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
        **(measured or checkout()).told(),
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

"""What every result file that Python writes says of its origin; the programs say the same."""

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from records.json_files import ROOT


def of_run(
    started: float,
    argv: Sequence[str],
    instrument: str,
    build: dict[str, str],
    sources: tuple[str, bool] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A result file's provenance, of what began at `started`. `sources`: as checkout() said them
    before; `more`: seed, gpu and clocks, where something ran.
    """
    commit, dirty = sources or checkout()
    found = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "runtime_s": round(time.time() - started, 1),
        "argv": list(argv),
        "commit": commit,
        "dirty": dirty,
        "instrument": instrument,
        "seed": 0,
        "build": build,
        "host": host(),
        "gpu": None,
        "clocks": None,
    }
    return found | more


def host() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = {"cpu": cpu(), "cores": len(os.sched_getaffinity(0))}
    return found | {"memory_bytes": memory, "os": operating_system()}


def operating_system() -> str:
    """As the programs say it."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return "unknown"


def cpu() -> str:
    """The processor's name; its architecture where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def row_sources() -> list[str]:
    """What rows depend on, as git takes it."""
    lines = (ROOT / "records/row_sources").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def checkout() -> tuple[str, bool]:
    """The commit, and whether what rows depend on differs from it; as the programs say it."""
    if given := os.environ.get("REPROLAB_COMMIT"):
        return given, os.environ.get("REPROLAB_DIRTY") != "0"
    commit = git("rev-parse", "HEAD").strip()
    return commit or "unknown", not commit or bool(
        git("status", "--porcelain", "--", *row_sources())
    )


def git(*arguments: str) -> str:
    """What git prints; empty where this is no checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""

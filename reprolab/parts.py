"""Result files of the parts of a pass, in a folder next to its own, which readers skip. RESUME=1
keeps those that are done; together they are the pass's file.
"""

import os
import subprocess
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from reprolab import result_file
from reprolab.errors import NOT_MEASURED, WRONG_OUTPUT, InputError
from reprolab.result_file import Content, checkout
from reprolab.results import SCHEMA, WRONG, Outcome
from reprolab.sources import Sources

RETRIED = "out of memory"  # the next time there may be room


def read(file: Path) -> Content | None:
    """None if there is no usable file: it is measured again."""
    try:
        return SCHEMA.read(file)
    except InputError:
        return None


def measured_before(file: Path, command: Sequence[str]) -> Content | None:
    """A result of the same command, sources, GPU model and driver; None without one, or where not
    all of it was measured.
    """
    result = read(file)
    if result is None or result["provenance"]["argv"] != list(command):
        return None
    return result if is_done(result, checkout(), gpu_here()) else None


@cache
def gpu_here() -> list[str]:
    """Model and driver of the GPU that is measured; empty where the driver does not say."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0] or "0"
    facts = "--query-gpu=name,driver_version"
    command = ["nvidia-smi", f"--id={first}", facts, "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().split(", ") if done.returncode == 0 else []


def is_done(part: Content | None, now: Sources, gpu: Sequence[str]) -> bool:
    """Whether this was already measured, from these sources, on the same GPU model by the same
    driver. `gpu` is empty if unknown.
    """
    if part is None:
        return False
    origin = part["provenance"]
    there = origin["gpu"] or {}
    is_other = gpu and [there.get("name"), there.get("driver")] != list(gpu)
    if is_other or not Sources.of(origin).is_same(now):
        return False
    return not any(
        r["outcome"] == Outcome.NOT_MEASURED or r["reason"].startswith(RETRIED)
        for r in part["records"]
    )


def status_of(records: Collection[Content]) -> int:
    """The exit status of a program that measured these rows."""
    outcomes = {record["outcome"] for record in records}
    if not set(WRONG).isdisjoint(outcomes):
        return WRONG_OUTPUT
    return NOT_MEASURED if Outcome.NOT_MEASURED in outcomes else 0


def join(parts: Sequence[Content], argv: Sequence[str]) -> Content:
    """One result file from those of one pass: their rows, in this order. `argv`: the command that
    measures all of them. InputError where not all ran on the same libraries, driver and sources.
    """
    runs = sorted((part["provenance"] for part in parts), key=lambda run: run["started"])
    last, gpus = runs[-1], [run["gpu"] for run in runs]
    for run in runs:
        if conditions(run) != conditions(last):
            raise InputError(
                f"the part that began {run['started']} is of another GPU, driver, library or "
                "source than the last: remove the folder parts/ of this run and measure again"
            )
    units = dict.fromkeys(unit for gpu in gpus for unit in gpu.get("unit", "").split())
    provenance = last | {
        "started": runs[0]["started"],
        "argv": list(argv),
        "gpu": gpus[-1] | ({"unit": " ".join(units)} if units else {}),
        "runtime_s": round(sum(run["runtime_s"] for run in runs), 1),
        "clocks": join_clocks([run["clocks"] for run in runs]),
    }
    records = [record for part in parts for record in part["records"]]
    joined = result_file.content(parts[0]["experiment"], parts[0]["pass"], provenance, records)
    return joined | {"checks": [check for part in parts for check in part["checks"]]}


def conditions(run: Content) -> tuple[Any, ...]:
    """Those under which all rows of one file must have been measured."""
    return run["commit"], run["dirty"], run["build"], run["gpu"]["name"], run["gpu"]["driver"]


def join_clocks(parts: Sequence[Content]) -> Content:
    """Merges the sensors' ranges of several processes, without a median, which cannot be
    computed."""
    joined = dict(parts[0])
    if len(parts) == 1:
        return joined
    for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
        ranges = [clocks[name] for clocks in parts if clocks[name]]
        ends = {end: [r[end] for r in ranges] for end in ("min", "max")}
        joined[name] = {"min": min(ends["min"]), "max": max(ends["max"])} if ranges else None
    reasons = [clocks["throttle_reasons"] for clocks in parts]
    known = [r for r in reasons if r is not None]
    joined["throttle_reasons"] = sorted({x for r in known for x in r}) if known else None
    return joined

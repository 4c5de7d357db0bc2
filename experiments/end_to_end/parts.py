"""Result files: one part for each cell while a run goes on, and all parts of a pass in one."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from claims.errors import InputError
from claims.json_files import read_json
from claims.results import SCHEMA
from experiments.end_to_end.plan import INSTALLED, Cell, Choices
from plots.output import write_files

EXPERIMENT = "end_to_end"
FAMILY = "end_to_end"
# Where they differ, two parts are not of one run.
SOURCES = "claims data dropin experiments/end_to_end kernels".split()

Content = dict[str, Any]


def content(pass_name: str, provenance: Content, records: Sequence[Content]) -> Content:
    return {
        "schema": SCHEMA.definition["properties"]["schema"]["const"],
        "experiment": EXPERIMENT,
        "pass": pass_name,
        "provenance": provenance,
        "records": list(records),
        "checks": [],
    }


def write(file: Path, found: Content) -> None:
    SCHEMA.check(file, found)
    write_files({file: (json.dumps(found, indent=1) + "\n").encode()})


def folder_of(output: Path) -> Path:
    """Beside the pass's file; claims/ passes it over."""
    return output.parent / "parts"


def file_of(output: Path, cell: Cell) -> Path:
    return folder_of(output) / f"{cell.name}.json"


def read(file: Path) -> Content | None:
    """None where there is none, or one that cannot be used: it is measured again."""
    try:
        found = read_json(file)
        SCHEMA.check(file, found)
    except InputError:
        return None
    return found


def is_of(part: Content, choices: Choices, commit: tuple[str, bool]) -> bool:
    """Whether a part belongs to the same run: the same sources and choices."""
    origin, rows = part["provenance"], part["records"]
    return (
        (origin["commit"], origin["dirty"]) == commit
        and origin["seed"] == choices.seed
        and {(r["problem"]["tokens"], r["problem"]["prompts"]) for r in rows}
        == {(choices.tokens, choices.prompts.text)}
    )


def is_done(part: Content | None, choices: Choices, commit: tuple[str, bool], gpu: str) -> bool:
    """Whether a cell need not be measured: all its rows are there, with as many samples, of the
    same GPU model; `gpu` is empty where that is not known.
    """
    if part is None or not is_of(part, choices, commit):
        return False
    if gpu and part["provenance"]["gpu"]["name"] != gpu:
        return False
    there = {r["lineage"] if r["lineage"] == INSTALLED else r["kernel"] for r in part["records"]}
    counts = [len(m["samples"]) for r in part["records"] for m in r["metrics"] if "samples" in m]
    wanted = {row.lineage if row.lineage == INSTALLED else row.kernel for row in choices.rows}
    return wanted <= there and min(counts, default=99) >= choices.samples(part["pass"])


def belonging(output: Path, choices: Choices, commit: tuple[str, bool]) -> Iterator[Content]:
    """Every part of the run, those of earlier commands too; of the GPU model that ran last."""
    pattern = f"*.{output.stem}.batch*.json"
    found = [part for f in folder_of(output).glob(pattern) if (part := read(f)) is not None]
    found = [part for part in found if is_of(part, choices, commit)]
    newest = max(found, key=lambda p: p["provenance"]["started"], default=None)
    for part in sorted(found, key=order):
        if part["provenance"]["gpu"]["name"] == newest["provenance"]["gpu"]["name"]:
            yield part


def order(part: Content) -> tuple[int, str, int]:
    problem = part["records"][0]["problem"]
    return problem["weights"], problem["model"], problem["batch"]


def join(parts: Sequence[Content]) -> Content:
    """One result file of all parts of a pass."""
    origins = [part["provenance"] for part in parts]
    last = max(origins, key=lambda origin: origin["started"])
    provenance = last | {
        "started": min(origin["started"] for origin in origins),
        "runtime_s": round(sum(origin["runtime_s"] for origin in origins), 1),
        "clocks": join_clocks([origin["clocks"] for origin in origins]),
    }
    records = [record for part in parts for record in part["records"]]
    return content(parts[0]["pass"], provenance, records)


def join_clocks(found: Sequence[Content]) -> Content:
    joined = dict(found[0])
    for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
        ranges = [clocks[name] for clocks in found if clocks[name]]
        joined[name] = span([r[end] for r in ranges for end in ("min", "median", "max")])
    reasons = [clocks["throttle_reasons"] for clocks in found]
    known = [r for r in reasons if r is not None]
    joined["throttle_reasons"] = sorted({x for r in known for x in r}) if known else None
    return joined


def span(values: Sequence[float]) -> dict[str, float] | None:
    """Least, middle and greatest of what a sensor said; None where it said nothing."""
    found = sorted(values)
    if not found:
        return None
    return {"min": found[0], "median": found[len(found) // 2], "max": found[-1]}


def record(row: Content, problem: Content, **measured: Any) -> Content:
    """`row`: kernel, lineage, origin, source_file and deviation, as the schema has them;
    `measured`: outcome, and what else is known of it.
    """
    found = {
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
    return found | measured

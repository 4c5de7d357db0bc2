"""Result files: one part for each cell while a run goes on, and all parts of a pass in one."""

import hashlib
import json
import platform
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from claims.errors import InputError
from claims.json_files import read_json
from claims.results import SCHEMA
from experiments.end_to_end import sizes
from experiments.end_to_end.plan import Cell, Choices
from plots.output import write_files

EXPERIMENT = "end_to_end"
FAMILY = "end_to_end"

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


def made_with() -> str:
    """What is installed where this runs."""
    names = ("torch", "transformers", "bitsandbytes")
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)])


def digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def run_of(choices: Choices, installed: str) -> str:
    """The same for parts that can be compared: of the same rows, prompts and libraries."""
    rows = sorted((row.kernel, row.kind, content_of(row.library)) for row in choices.rows)
    prompts = (choices.prompts.text, choices.prompts.items)
    counts = (choices.tokens, choices.timed, choices.profiled, choices.seed)
    return digest(rows, prompts, counts, installed)


def content_of(library: str) -> str:
    """A digest of the file; empty for a row without one."""
    if not library:
        return ""
    with Path(library).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_of(output: Path, cell: Cell, run: str) -> Path:
    """Another checkpoint of the same name has another file."""
    folder, own = Path(cell.model), ""
    if cell.model not in sizes.known() and folder.is_dir():
        config = folder / "config.json"
        own = digest(str(folder.resolve()), config.read_text() if config.is_file() else "") + "."
    return folder_of(output) / f"{cell.name}.{own}{run}.json"


def read(file: Path) -> Content | None:
    """None where there is none, or one that cannot be used: it is measured again."""
    try:
        found = read_json(file)
        SCHEMA.check(file, found)
    except InputError:
        return None
    return found


RETRIED = "out of memory"  # the next time there may be room


def is_done(part: Content | None, commit: tuple[str, bool], gpu: str) -> bool:
    """Whether a cell need not be measured: it was, from these sources, on the same GPU model.

    `commit` and whether the sources differ from it: if they do, nothing is known of older parts.
    `gpu` is empty where that is not known.
    """
    if part is None:
        return False
    origin = part["provenance"]
    is_other = (origin["commit"], origin["dirty"]) != commit or origin["dirty"]
    if is_other or (gpu and origin["gpu"]["name"] != gpu):
        return False
    records = part["records"]
    return not any(
        r["outcome"] == "not_measured" or r["reason"].startswith(RETRIED) for r in records
    )


def belonging(
    output: Path, files: Collection[Path], run: str, commit: tuple[str, bool]
) -> Iterator[Content]:
    """The parts in `files`, and those of earlier commands that are of the same run: other batches,
    and models that are built from their sizes. All are of the GPU model that ran last.
    """
    others = set(folder_of(output).glob(f"*.{output.stem}.batch*.{run}.json")) - set(files)
    found = [part for file in files if (part := read(file)) is not None]
    for part in map(read, sorted(others) if not commit[1] else ()):
        if part is not None and part["records"][0]["problem"]["model"] in sizes.known():
            found.append(part)
    found = [p for p in found if (p["provenance"]["commit"], p["provenance"]["dirty"]) == commit]
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
        "argv": command_of([o["argv"] for o in sorted(origins, key=lambda o: o["started"])]),
        "started": min(origin["started"] for origin in origins),
        "runtime_s": round(sum(origin["runtime_s"] for origin in origins), 1),
        "clocks": join_clocks([origin["clocks"] for origin in origins]),
    }
    records = [record for part in parts for record in part["records"]]
    return content(parts[0]["pass"], provenance, records)


def command_of(commands: Sequence[list[str]]) -> list[str]:
    """That which measures all parts: the last, of several without what chooses among cells."""
    *others, found = commands
    if all(other == found for other in others):
        return found
    chosen = [i for i, word in enumerate(found) if word in ("--model", "--batches")]
    return [word for i, word in enumerate(found) if i not in chosen and i - 1 not in chosen]


def join_clocks(found: Sequence[Content]) -> Content:
    """What the sensors said of several parts. Of the middle, each part knows but its own."""
    joined = dict(found[0])
    if len(found) == 1:
        return joined
    for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
        ranges = [clocks[name] for clocks in found if clocks[name]]
        ends = {end: [r[end] for r in ranges] for end in ("min", "max")}
        joined[name] = {"min": min(ends["min"]), "max": max(ends["max"])} if ranges else None
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
    """`row`: kernel, lineage, origin, source_file, deviation and code, as the schema has them;
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

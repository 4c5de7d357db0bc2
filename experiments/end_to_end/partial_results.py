"""Partial results: a result file for each cell while a run goes on, joined to one for the pass."""

import hashlib
import json
import platform
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.end_to_end import sizes
from experiments.end_to_end.plan import Cell, Choices
from records import result_file
from records.errors import InputError
from records.json_files import read_json
from records.result_file import Content
from records.results import SCHEMA

EXPERIMENT = FAMILY = "end_to_end"
RETRIED = "out of memory"  # the next time there may be room


def folder_of(output: Path) -> Path:
    """Beside the pass's file; claims/ passes it over."""
    return output.parent / "parts"


def installed() -> dict[str, str]:
    """The versions of what runs here."""
    names = ("torch", "transformers", "bitsandbytes")
    return {"Python": platform.python_version()} | {name: version(name) for name in names}


def made_with() -> str:
    return ", ".join(f"{name} {number}" for name, number in installed().items())


def digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def run_of(choices: Choices, installed: str) -> str:
    """The same for partial results that can be joined: of the same rows, prompts, libraries."""
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


def is_done(partial: Content | None, commit: tuple[str, bool], gpu: str) -> bool:
    """Whether a cell need not be measured: it was, from these sources, on the same GPU model.

    `commit` and whether the sources differ from it: if they do, nothing is known of older ones.
    `gpu` is empty where that is not known.
    """
    if partial is None:
        return False
    origin = partial["provenance"]
    is_other = (origin["commit"], origin["dirty"]) != commit or origin["dirty"]
    if is_other or (gpu and origin["gpu"]["name"] != gpu):
        return False
    records = partial["records"]
    return not any(
        r["outcome"] == "not_measured" or r["reason"].startswith(RETRIED) for r in records
    )


def belonging(
    output: Path, files: Collection[Path], run: str, commit: tuple[str, bool]
) -> Iterator[Content]:
    """The partial results in `files`, and those of earlier commands that are of the same run: other
    batches, and models that are built from their sizes. All are of the GPU model that ran last.
    """
    others = set(folder_of(output).glob(f"*.{output.stem}.batch*.{run}.json")) - set(files)
    found = [partial for file in files if (partial := read(file)) is not None]
    for partial in map(read, sorted(others) if not commit[1] else ()):
        if partial is not None and partial["records"][0]["problem"]["model"] in sizes.known():
            found.append(partial)
    found = [p for p in found if (p["provenance"]["commit"], p["provenance"]["dirty"]) == commit]
    newest = max(found, key=lambda p: p["provenance"]["started"], default=None)
    for partial in sorted(found, key=order):
        if partial["provenance"]["gpu"]["name"] == newest["provenance"]["gpu"]["name"]:
            yield partial


def order(partial: Content) -> tuple[int, str, int]:
    problem = partial["records"][0]["problem"]
    return problem["weights"], problem["model"], problem["batch"]


def join(partials: Sequence[Content]) -> Content:
    """One result file of all that were measured in a pass."""
    origins = [partial["provenance"] for partial in partials]
    last = max(origins, key=lambda origin: origin["started"])
    units = dict.fromkeys(o["gpu"]["unit"] for o in origins if "unit" in o["gpu"])
    provenance = last | {
        "gpu": last["gpu"] | ({"unit": " ".join(units)} if units else {}),
        "argv": command_of([o["argv"] for o in sorted(origins, key=lambda o: o["started"])]),
        "started": min(origin["started"] for origin in origins),
        "runtime_s": round(sum(origin["runtime_s"] for origin in origins), 1),
        "clocks": join_clocks([origin["clocks"] for origin in origins]),
    }
    records = [record for partial in partials for record in partial["records"]]
    return result_file.content(EXPERIMENT, partials[0]["pass"], provenance, records)


def command_of(commands: Sequence[list[str]]) -> list[str]:
    """That which measures all of them: the last, of several without what chooses among cells."""
    *others, found = commands
    if all(other == found for other in others):
        return found
    chosen = [i for i, word in enumerate(found) if word in ("--model", "--batches")]
    return [word for i, word in enumerate(found) if i not in chosen and i - 1 not in chosen]


def join_clocks(found: Sequence[Content]) -> Content:
    """What the sensors said in several processes. Of the middle, each knows but its own."""
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

"""Partial results: a result file for each cell while a run goes on; records/parts.py joins them."""

import hashlib
import json
import platform
from collections.abc import Collection, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.end_to_end import sizes
from experiments.end_to_end.plan import Cell, Choices
from records.parts import read
from records.result_file import Content

EXPERIMENT = FAMILY = "end_to_end"


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

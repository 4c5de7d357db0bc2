"""Partial results: a result file for each cell; reprolab/parts.py joins them."""

import hashlib
import json
import platform
from collections.abc import Collection, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.end_to_end import SEED, rows, sizes
from experiments.end_to_end.plan import Cell, Choices, Job, cell_name, cells
from reprolab import parts
from reprolab.result_file import Content
from reprolab.sources import Sources

EXPERIMENT = FAMILY = "end_to_end"


def installed_versions() -> dict[str, str]:
    """The versions of Python and of the packages that generate text."""
    names = ("torch", "transformers", "bitsandbytes")
    return {"Python": platform.python_version()} | {name: version(name) for name in names}


def made_with() -> str:
    return ", ".join(f"{name} {number}" for name, number in installed_versions().items())


def digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def run_of(choices: Choices, installed: str) -> str:
    """The run's name: equal for partial results of the same rows, prompts and libraries, which can
    be joined.
    """
    libraries = {x.library: rows.sha256(Path(x.library)) for x in choices.rows if x.library}
    row_facts = sorted((x.kernel, x.kind, libraries.get(x.library, "")) for x in choices.rows)
    prompts = (choices.prompts.text, choices.prompts.items)
    return digest(
        row_facts,
        prompts,
        choices.tokens,
        choices.generations,
        choices.profiled_generations,
        SEED,
        installed,
    )


def file_of(output: Path, cell: Cell, run: str) -> Path:
    """The cell's partial result. Two checkpoints of one name have two files."""
    folder, own = Path(cell.model), ""
    if cell.size is None and folder.is_dir():
        config = folder / "config.json"
        own = digest(str(folder.resolve()), config.read_text() if config.is_file() else "") + "."
    return parts.folder_of(output) / f"{cell.name}.{own}{run}.json"


def jobs(
    choices: Choices, pass_name: str, output: Path, run: str, argv: Sequence[str], now: Sources
) -> list[Job]:
    """All cells of the choices. `argv`: the command's own arguments."""
    command = ["python", "-m", "experiments.end_to_end", *argv]
    return [
        Job(cell, file_of(output, cell, run).resolve(), command, now)
        for cell in cells(choices, pass_name)
    ]


def is_done(job: Job, gpu: str) -> bool:
    """Whether its file has all rows, from the same sources and on a GPU of that name."""
    return parts.is_done(read(job.file, job.cell.pass_name), job.sources, gpu)


def read(file: Path, pass_name: str) -> Content | None:
    """None also for a file of another experiment or pass, or under another cell's name."""
    partial = parts.read(file)
    if not partial or (partial["experiment"], partial["pass"]) != (EXPERIMENT, pass_name):
        return None
    problems = [record["problem"] for record in partial["records"]]
    names = {cell_name(p.get("model", ""), pass_name, p.get("batch", "")) for p in problems}
    return partial if len(names) == 1 and file.name.startswith(f"{names.pop()}.") else None


def partials_of_run(
    output: Path, pass_name: str, files: Collection[Path], run: str, now: Sources
) -> list[Content]:
    """The partial results in `files`, and those of earlier commands of the same run: other batches,
    and models that are built from their sizes. All come from the GPU model that ran last.
    """
    every = parts.folder_of(output).glob(f"{cell_name('*', pass_name, '*')}.{run}.json")
    others = set(every) - set(files)
    partials = [partial for file in files if (partial := read(file, pass_name))]
    earlier = [partial for file in others if not now.dirty and (partial := read(file, pass_name))]
    partials += [p for p in earlier if p["records"][0]["problem"]["model"] in sizes.known()]
    partials = [p for p in partials if Sources.of(p["provenance"]) == now]
    newest = max(partials, key=lambda p: p["provenance"]["started"], default=None)
    same = lambda p: p["provenance"]["gpu"]["name"] == newest["provenance"]["gpu"]["name"]  # noqa: E731
    return sorted(filter(same, partials), key=order)


def order(partial: Content) -> tuple[int, str, int]:
    problem = partial["records"][0]["problem"]
    return problem["weights"], problem["model"], problem["batch"]

"""Folders of result files: every file below a folder, and the files' machines."""

import os
from collections.abc import Iterator
from pathlib import Path

from reprolab.errors import InputError
from reprolab.json_files import read_json
from reprolab.results import SCHEMA, Results, load, parse


def age(results: Results) -> tuple[str, str]:
    """A key for sorting, oldest first; the name orders two files of the same second."""
    return results.provenance["started"], str(results.file)


def recorded_folder(file: Path) -> Path | None:
    """data/recorded/<gpu>/ if the file is below it: it is of another machine, or day."""
    folders = reversed(file.resolve().parents)
    return next((f for f in folders if f.parts[-3:-1] == ("data", "recorded")), None)


def result_files(folder: Path, damaged: list[InputError] | None = None) -> Iterator[Results]:
    """Every result file below `folder`, or that file. Skips JSON without records, and folders named
    `parts`, whose files are merged into one next to the folder when a pass is complete. A damaged
    file is an error, which `damaged` collects if it is given.
    """
    try:
        is_file, is_dir = folder.is_file(), folder.is_dir()
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    if is_file:
        yield load(folder)
        return
    if not is_dir:
        raise InputError(f"{folder}: is not a folder of result files")
    for file in sorted(json_files(folder)):
        try:
            results = result_file(file)
        except InputError as error:
            if damaged is None:
                raise
            damaged.append(error)
            continue
        if results:
            yield results


def result_file(file: Path) -> Results | None:
    """None for JSON without records."""
    root = read_json(file)
    if not isinstance(root, dict):
        return None
    if "records" not in root and not str(root.get("schema", "")).startswith("reprolab-results/"):
        return None
    SCHEMA.check(file, root)
    return parse(file, root)


def json_files(folder: Path) -> Iterator[Path]:
    """Files below the folder, following links; InputError if a folder cannot be read."""

    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}")

    seen = set()
    for place, below, files in os.walk(folder, followlinks=True, onerror=fail):
        real = os.path.realpath(place)
        below[:] = [name for name in below if name != "parts" and real not in seen]
        yield from (Path(place, name) for name in files if is_json(name) and real not in seen)
        seen.add(real)


def is_json(name: str) -> bool:
    return name.endswith((".json", ".json.xz"))


def by_machine(
    folders: list[Path], damaged: list[InputError] | None = None
) -> list[tuple[tuple[str, str], list[Results]]]:
    """All result files below the folders, by the folder of a recorded run, or '', and the GPU.

    Facts of compiled code go to every GPU of their folder. `damaged`: as of result_files.
    """
    results = [r for folder in folders for r in result_files(folder, damaged)]
    places = [(str(recorded_folder(r.file) or ""), r) for r in results]
    ran = {(place, r.gpu) for place, r in places if r.gpu is not None}
    compiled_alone = {(place, "") for place, _ in places} - {(place, "") for place, _ in ran}
    return [
        ((place, gpu), [r for at, r in places if at == place and r.gpu in (gpu, None)])
        for place, gpu in sorted(ran | compiled_alone)
    ]

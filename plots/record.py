"""`make record`: a folder of results becomes a recorded run, with its pages.

Unreliable results are refused: one line has the fault, its place and its remedy, and nothing is
written.
"""

import argparse
import lzma
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from plots.document import files, machine_of, read_recorded
from plots.experiments import load_run
from reprolab import declared
from reprolab.captions import outcome_words
from reprolab.claims.evidence import collect, recorded_as
from reprolab.code import differing
from reprolab.errors import InputError
from reprolab.output import lock, named, write_files
from reprolab.printable import printable
from reprolab.results import Outcome, Results, load, recorded_folder, result_files
from reprolab.sources import is_of_other_sources


def run(args: argparse.Namespace) -> int:
    """Pages cover all recorded runs, so no other run may be added between reading and writing."""
    with named(args.recorded_dir):
        args.recorded_dir.mkdir(parents=True, exist_ok=True)
    with lock(args.recorded_dir):
        return add(args)


def add(args: argparse.Namespace) -> int:
    results = list(complete(args.results))
    target = place(args.recorded_dir, args.gpu, results)
    places = {r.file: target / r.file.relative_to(args.results) for r in results}
    copies = {f: c.with_suffix(".json.xz") if c.suffix == ".json" else c for f, c in places.items()}
    kept = list(result_files(target)) if target.is_dir() else []
    moved = [replace(r, file=copies[r.file]) for r in results]
    if not args.older:
        check_ages(kept, moved)
    evidence = collect([r for r in kept if r.file not in copies.values()] + moved, target)
    with recorded_as(target, evidence):
        others = read_recorded(args.recorded_dir, but=target)
        own = machine_of(evidence, target)
        recorded = sorted([*others, own], key=lambda m: m.folder)
        pages = files(recorded, [own], args.recorded_dir, args.readme)
    contents = {copies[r.file]: unchanged(r) for r in results}
    write_files(contents | pages)
    units = dict.fromkeys(u for r in results if r.gpu for u in r.provenance["gpu"]["unit"].split())
    size = sum(map(len, contents.values())) / 1e6
    print(f"{printable(str(target))}: {evidence.newest.gpu}, unit {' and '.join(units)}")
    print(f"recorded: {', '.join(dict.fromkeys(r.experiment for r in results))}; {size:.1f} MB")
    for check in (check for r in results for check in r.checks if not check.passed):
        apart = f"{check.difference_percent:.1f} % apart, {check.allowed_percent:g} % allowed"
        rows = f"times of its {len(check.keys)} rows decide nothing"
        print(printable(f"{check.name}: {apart}: {rows}"))
    changed = shlex.join(map(str, (args.recorded_dir, *args.readme)))
    message = shlex.quote(f"Record {evidence.newest.gpu}")
    print("To submit it, commit the changes, and open a pull request with that commit:")
    print(printable(f"  git add {changed} && git commit -m {message}"))
    return 0


def check_ages(recorded: Sequence[Results], moved: Sequence[Results]) -> None:
    """InputError if an older file would replace a newer recorded one."""
    before = {r.file: r.provenance["started"] for r in recorded}
    for results in moved:
        started, newer = results.provenance["started"], before.get(results.file, "")
        if started < newer:
            raise InputError(
                f"{results.file}: is of {newer}, and what would replace it is older, of {started}; "
                "OLDER=1 replaces it"
            )


def unchanged(results: Results) -> bytes:
    """The content of its file, compressed, unchanged since it was checked."""
    content = results.file.read_bytes()
    if load(results.file) != results or results.file.read_bytes() != content:
        raise InputError(f"{results.file}: was changed while it was read; record it again")
    if results.file.suffix == ".xz":
        return content
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)


def complete(folder: Path) -> Iterator[Results]:
    """The result files of every experiment that was run, all valid for recording."""
    ran = []
    for name in declared.names():
        present, missing = declared.experiment(name).passes_in(folder / name)
        if not present:
            continue
        if missing:
            print(printable(f"{name}: not measured: {', '.join(missing)}"))
        results = [loaded(declared.file_of(folder / name, p), name, p) for p in present]
        load_run(name, folder / name, True, collect(results))
        ran += [(r.file, record) for r in results if r.gpu for record in r.records]
        yield from results
    if not ran:
        raise InputError(
            f"{folder}: holds no experiment's results; make reproduce-table2 makes some"
        )
    if why := differing(ran):
        raise InputError(f"{folder}: {why}")


def loaded(file: Path, name: str, pass_name: str) -> Results:
    try:
        results = load(file, name, pass_name)
        for fault in faults(results):
            raise InputError(f"{file}: {fault}")
    except InputError as error:
        raise InputError(f"{error}; measure it again: make reproduce-{name}") from None
    return results


def faults(results: Results) -> Iterator[str]:
    """Why the file is not reliable for others."""
    for run in results.runs():
        yield from faults_of_origin(run.provenance)
    for r in results.records if results.gpu else ():
        if not (r.is_verified or r.is_ceiling or r.outcome == Outcome.UNSUPPORTED):
            why = f" ({r.reason})" if r.reason else ""
            yield f"{r.place}: {outcome_words(r)}{why}"


def faults_of_origin(origin: dict[str, Any]) -> Iterator[str]:
    """Why the provenance of a run is not reliable."""
    gpu, clocks = origin["gpu"], origin["clocks"]
    if origin["dirty"] or origin["commit"] == "unknown":
        yield "provenance.commit: the sources were not those of a commit: commit them"
    elif is_of_other_sources(origin):
        yield "provenance.sources_sha256: the sources were not those of the commit that is named"
    started = datetime.strptime(origin["started"], "%Y-%m-%dT%H:%M:%S%z")
    if started > datetime.now(UTC) + timedelta(days=1):
        yield f"provenance.started: {origin['started']} is in the future: set the host's clock"
    if gpu is None:
        return
    if "unit" not in gpu:
        yield "provenance.gpu lacks 'unit', which tells two GPUs of one kind apart"
    for name in ("sm_mhz", "throttle_reasons"):
        if clocks[name] is None:
            yield f"provenance.clocks.{name} is null: NVML did not report it"


def place(directory: Path, name: str, results: list[Results]) -> Path:
    """The folder of that GPU; InputError if it would hold runs of several kinds of GPU."""
    if not re.fullmatch("[a-z0-9][a-z0-9._-]*", name):
        raise InputError(
            f"GPU: '{name}' is not a valid folder name; give one such as a100-sxm4-80gb"
        )
    (first, *others) = [r for r in results if r.gpu]
    if (directory / name).is_dir():
        others += [r for r in result_files(directory / name) if r.gpu]
    for other in others:
        if other.gpu != first.gpu:
            raise InputError(
                f"{other.file} is of {other.gpu}, but {first.file} of {first.gpu}: give each kind "
                "of GPU a folder and a name (RESULTS, GPU)"
            )
    folder = directory / name
    if (recorded := recorded_folder(first.file)) and recorded.resolve() != folder.resolve():
        raise InputError(f"{recorded}: is a recorded run; give the folder of your own results")
    return folder

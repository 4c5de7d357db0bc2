"""`make record`: a folder of results becomes a recorded run, if others can rely on it. What cannot
be relied on is refused in one line, and nothing is written.
"""

import argparse
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reprolab import command_line, declared
from reprolab.code import differing
from reprolab.errors import InputError
from reprolab.output import write_files
from reprolab.results import (
    CEILING,
    Outcome,
    Results,
    load,
    origins_of,
    recorded_folder,
    result_files,
)


def run(args: argparse.Namespace) -> int:
    if not re.fullmatch("[a-z0-9][a-z0-9._-]*", args.gpu):
        raise InputError(f"GPU: '{args.gpu}' is no name of a folder; give one such as a100-80gb")
    target = args.recorded_dir / args.gpu
    results = list(complete(args.results))
    before = list(result_files(target)) if target.is_dir() else []
    check_alike(results, before, args.older)
    contents = {
        target / r.experiment / f"{r.pass_name}.json.xz": compressed(r.file) for r in results
    }
    write_files(contents)
    for check in (check for r in results for check in r.checks if not check.passed):
        apart = f"{check.difference_percent:.1f} % apart, {check.allowed_percent:g} % allowed"
        print(f"{check.name}: {apart}: times of its {len(check.keys)} rows decide nothing")
    gpu = next(r.gpu for r in results if r.gpu)
    names = ", ".join(dict.fromkeys(r.experiment for r in results))
    print(f"{target}: recorded {gpu}: {names}; {sum(map(len, contents.values())) / 1e6:.1f} MB")
    print("Commit this and open a pull request. Once table2, counters, transpose, product,")
    print(
        "streaming and ladder are recorded, make pages adds the GPU to tables: commit those, too."
    )
    return 0


def compressed(file: Path) -> bytes:
    content = file.read_bytes()
    is_plain = file.suffix != ".xz"
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME) if is_plain else content


def complete(folder: Path) -> Iterator[Results]:
    """The result files of every experiment that was run, each reliable."""
    names, missing = declared.names(), []
    for name in names:
        present, absent = declared.experiment(name).passes_in(folder / name)
        missing += [f"{name}: not measured: {', '.join(absent)}"] if present and absent else []
        for pass_name in present:
            results = load(declared.file_of(folder / name, pass_name), name, pass_name)
            if recorded := recorded_folder(results.file):  # also through a link
                raise InputError(f"{recorded}: is a recorded run; give a folder of your own")
            for fault in faults(results):
                raise InputError(
                    f"{results.file}: {fault}; make reproduce-{name} measures it again"
                )
            yield results
    print("".join(f"{line}\n" for line in missing), end="")


def faults(results: Results) -> Iterator[str]:
    """Why the file is not reliable for others."""
    for origin in origins_of(results.provenance):
        yield from faults_of_origin(origin)
    for r in results.records if results.gpu else ():
        if not (r.is_verified or r.origin == CEILING or r.outcome == Outcome.UNSUPPORTED):
            yield f"{r.place}: {r.outcome.replace('_', ' ')} ({r.reason or 'no reason given'})"


def faults_of_origin(origin: dict[str, Any]) -> Iterator[str]:
    if origin["dirty"] or origin["commit"] == "unknown":
        yield "provenance.commit: the sources were not those of a commit: commit them"
    if origin["gpu"] and "unit" not in origin["gpu"]:
        yield "provenance.gpu lacks 'unit', which tells two GPUs of one kind apart"
    for name in ("sm_mhz", "throttle_reasons") if origin["gpu"] else ():
        if origin["clocks"][name] is None:
            yield f"provenance.clocks.{name} is null: NVML did not report it"


def code_of(results: Results) -> str:
    return f"{results.provenance['commit'][:9]}, {results.provenance['gpu']['driver']}"


def check_alike(results: list[Results], before: list[Results], may_be_older: bool) -> None:
    """InputError if kinds of GPU or codes differ, or one file is older than what it replaces."""
    ran = [r for r in results if r.gpu]
    if not ran:
        raise InputError("no experiment's results here; make reproduce-table2 makes some")
    for other in (r for r in (*ran, *before) if r.gpu not in (None, ran[0].gpu)):
        raise InputError(
            f"{other.file} is of {other.gpu}, but {ran[0].file} of {ran[0].gpu}: give each kind of "
            "GPU a folder and a name (RESULTS, GPU)"
        )
    steps = {r.experiment: declared.experiment(r.experiment).passes for r in ran}
    first: dict[str, Results] = {}
    for r in (r for r in ran if not steps[r.experiment][r.pass_name].is_separate):
        one = first.setdefault(r.experiment, r)
        if code_of(one) != code_of(r):
            raise InputError(
                f"{one.file} is of commit and driver {code_of(one)}, but {r.file} of {code_of(r)}: "
                "give two passes of one run"
            )
    if why := differing(row for r in ran for row in r.records):
        raise InputError(why)
    there = {(r.experiment, r.pass_name): r.provenance["started"] for r in before}
    for r in results:
        started, newer = r.provenance["started"], there.get((r.experiment, r.pass_name), "")
        if started < newer and not may_be_older:
            raise InputError(f"{r.file}: is of {started}, older than the recorded; see OLDER=1")


def parser() -> argparse.ArgumentParser:
    p = command_line.Parser(prog="python -m reprolab.record", description=__doc__)
    p.add_argument("--results", type=Path, required=True, metavar="FOLDER")
    p.add_argument("--gpu", required=True, metavar="NAME", help="of the folder: a100-sxm4-80gb")
    p.add_argument("--older", action="store_true", help="may replace newer recorded results")
    p.add_argument("--recorded-dir", type=Path, default=Path("data/recorded"), metavar="FOLDER")
    p.set_defaults(run=run)
    return p


if __name__ == "__main__":
    sys.exit(command_line.run(parser()))

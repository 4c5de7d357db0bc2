"""`python -m experiments.merge OUTPUT FOLDER...`: the result files of several runs, such as a job
array's tasks, in one folder: OUTPUT/<gpu>/<experiment>/<pass>.json.

Files of one pass, on GPUs of one name and from the same sources, become one, with all their
problems. All rows of a problem are of one file, where their samples were taken in turn: the newest
that measured all of its rows on the problem, or else the one that measured the most. With
--commits, files from other commits join, too, if their kernels have the same machine code: the
merged file then has the provenance of each run, and each row names its run.

Exit status: 0; 2 for bad input. A damaged file is left out, one line names it, and the status is 2
when the others are merged.
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprolab import interruption, parts
from reprolab.code import differing
from reprolab.command_line import Parser, complain, run
from reprolab.errors import USAGE, InputError
from reprolab.results import age, by_machine
from reprolab.json_files import read_json
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.result_file import Content, as_json
from reprolab.results import SCHEMA, Outcome, Results, parse
from reprolab.sources import Sources


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.merge", description=__doc__)
    p.add_argument("output", type=Path, help="the folder for all of them")
    p.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="with result files")
    p.add_argument("--commits", action="store_true", help="join files from several commits")
    p.set_defaults(run=merge)
    return p


def merge(args: argparse.Namespace) -> int:
    files: dict[Path, bytes] = {}
    damaged: list[InputError] = []
    for (recorded, gpu), of_machine in by_machine(args.folders, damaged):
        if recorded:
            raise InputError(f"{recorded}: is a recorded run, which stays as it is")
        folder = args.output / (re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") or "compiled")
        passes: dict[tuple[str, str], list[Results]] = {}
        for results in of_machine:
            passes.setdefault((results.experiment, results.pass_name), []).append(results)
        for names, of_pass in passes.items():
            if strange := [name for name in names if not re.fullmatch(r"\w[\w.-]*", name, re.A)]:
                where, said = printable(str(of_pass[0].file)), printable(strange[0])
                raise InputError(f"{where}: '{said}' is not the name of an experiment or pass")
            path = folder / names[0] / f"{names[1]}.json"
            if path in files:
                raise InputError(f"{folder}: two GPUs would have this folder; merge one at a time")
            files[path] = merged(path, of_pass, args.commits)
    write_files(files)
    count = len(files)
    print(f"{printable(str(args.output))}: {count} result file{'s' * (count != 1)}", flush=True)
    for error in damaged:
        complain(f"left out: {error}")
    return USAGE if damaged else 0


def merged(path: Path, files: Sequence[Results], any_commit: bool) -> bytes:
    """One file as it is, where it has all that counts; else what counts, in the files' order."""
    counted = chosen(sorted(files, key=age, reverse=True), any_commit)
    used = [r for r in files if r.file in counted]
    if len(used) == 1:
        return used[0].file.read_bytes()
    if why := differing((r.file, row) for r in used for row in r.records):
        raise InputError(f"{path}: {why}")
    joined = parts.join([part_of(r, counted[r.file]) for r in used])
    SCHEMA.check(path, joined)
    parse(path, joined)
    return as_json(joined)


def chosen(newest_first: Sequence[Results], any_commit: bool) -> dict[Path, set[str]]:
    """The problems whose rows each file gives."""
    newest = next(filter(measured_any, newest_first), newest_first[0])
    having: dict[str, list[Results]] = {}
    for results in newest_first:
        if said(results, any_commit) != said(newest, any_commit):
            left, of = printable(str(results.file)), printable(str(newest.file))
            print(f"left out: {left}, which is of other sources, or another driver, than {of}")
            continue
        for problem in results.problems():
            having.setdefault(problem["name"], []).append(results)
    problems: dict[Path, set[str]] = {}
    lost: Counter[str] = Counter()
    for problem, files in having.items():
        taken = max(files, key=lambda results: rank(results, problem))  # the first of equals
        problems.setdefault(taken.file, set()).add(problem)
        for results in files:
            lost[printable(str(results.file))] += count_lost(taken, results, problem)
    for file, count in sorted((+lost).items()):
        print(f"left out: rows of {file}: {count}, whose kernels the file taken lacks")
    return problems


def count_lost(taken: Results, other: Results, problem: str) -> int:
    """How many measured rows on the problem are of kernels that the file taken has no row of."""
    kernels = {row.kernel for row in taken.rows_on(problem)}
    rows = [row for row in other.rows_on(problem) if row.kernel not in kernels]
    return sum(row.outcome != Outcome.NOT_MEASURED for row in rows)


def measured_any(results: Results) -> bool:
    return any(row.outcome != Outcome.NOT_MEASURED for row in results.records)


def rank(results: Results, problem: str) -> tuple[bool, int]:
    """Whether all rows on the problem were measured; if not, how many."""
    outcomes = [row.outcome for row in results.rows_on(problem)]
    is_whole = Outcome.NOT_MEASURED not in outcomes
    return is_whole, 0 if is_whole else len(outcomes) - outcomes.count(Outcome.NOT_MEASURED)


def part_of(results: Results, problems: set[str]) -> Content:
    """The file's rows on these problems, with the checks that they need."""
    content = read_json(results.file)
    rows = [row for row in content["records"] if row["problem"]["name"] in problems]
    keys = {row["key"] for row in rows}
    checks = [check for check in content["checks"] if keys.issuperset(check["keys"])]
    return content | {"records": rows, "checks": checks}


def said(results: Results, any_commit: bool) -> tuple[Any, ...]:
    """Facts that all files have in common when they become one."""
    origin, gpu = results.provenance, results.provenance["gpu"]
    same = [any_commit or Sources.of(origin), origin["build"], origin["instrument"]]
    return (*same, gpu and gpu["driver"], origin["clocks"] and origin["clocks"]["policy"])


if __name__ == "__main__":
    interruption.end_quietly()
    raise SystemExit(run(parser()))

"""`python -m experiments.merge OUTPUT FOLDER...`: the result files of several runs, such as a job
array's tasks, in one folder: OUTPUT/<gpu>/<experiment>/<pass>.json.

Files of one pass, on GPUs of one name and from the same sources, become one, with all their
problems. All rows of a problem are of one file, where their samples were taken in turn: the newest
that has the problem.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from records import interruption, parts
from records.code import differing
from records.command_line import Parser, run
from records.errors import InputError
from records.folders import age, by_machine
from records.json_files import read_json
from records.output import write_files
from records.printable import printable
from records.result_file import Content, as_json
from records.results import SCHEMA, Results, parse
from records.sources import Sources


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.merge", description=__doc__)
    p.add_argument("output", type=Path, help="the folder for all of them")
    p.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="with result files")
    p.set_defaults(run=merge)
    return p


def merge(args: argparse.Namespace) -> int:
    files: dict[Path, bytes] = {}
    for (recorded, gpu), found in by_machine(args.folders):
        if recorded:
            raise InputError(f"{recorded}: is a recorded run, which stays as it is")
        folder = args.output / (re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") or "compiled")
        passes: dict[tuple[str, str], list[Results]] = {}
        for results in found:
            passes.setdefault((results.experiment, results.pass_name), []).append(results)
        for names, of_pass in passes.items():
            if strange := [name for name in names if not re.fullmatch(r"\w[\w.-]*", name, re.A)]:
                where, said = printable(str(of_pass[0].file)), printable(strange[0])
                raise InputError(f"{where}: '{said}' is no name of an experiment or pass")
            path = folder / names[0] / f"{names[1]}.json"
            if path in files:
                raise InputError(f"{folder}: two GPUs would have this folder; merge one at a time")
            files[path] = merged(path, of_pass)
    write_files(files)
    count = len(files)
    print(f"{printable(str(args.output))}: {count} result file{'s' * (count != 1)}")
    return 0


def merged(path: Path, files: Sequence[Results]) -> bytes:
    """The newest as it is, where it has all that counts; else what counts, in the files' order."""
    newest_first = sorted(files, key=age, reverse=True)
    counted = dict(chosen(newest_first))
    if len(counted) == 1:
        return newest_first[0].file.read_bytes()
    if why := differing((r.file, row) for r in files if r.file in counted for row in r.records):
        raise InputError(f"{path}: {why}")
    joined = parts.join([counted[r.file] for r in files if r.file in counted])
    SCHEMA.check(path, joined)
    parse(path, joined)
    return as_json(joined)


def chosen(newest_first: Sequence[Results]) -> Iterator[tuple[Path, Content]]:
    """Of each file the rows on problems that no newer one has, with the checks that they need."""
    newest, taken = newest_first[0], set()
    for results in newest_first:
        if said(results) != said(newest):
            left, of = printable(str(results.file)), printable(str(newest.file))
            print(f"left out: {left}, which is of other sources, or another driver, than {of}")
            continue
        content, own = read_json(results.file), {p["name"] for p in results.problems()}
        rows = [row for row in content["records"] if row["problem"]["name"] not in taken]
        keys = {row["key"] for row in rows}
        checks = [check for check in content["checks"] if keys.issuperset(check["keys"])]
        if rows:
            yield results.file, content | {"records": rows, "checks": checks}
        taken |= own


def said(results: Results) -> tuple[Any, ...]:
    """What files have in common that become one."""
    origin, gpu = results.provenance, results.provenance["gpu"]
    same = [Sources.of(origin), origin["build"], origin["instrument"]]
    return (*same, gpu and gpu["driver"], origin["clocks"] and origin["clocks"]["policy"])


if __name__ == "__main__":
    interruption.end_quietly()
    raise SystemExit(run(parser()))

"""`python -m ncu`: one kernel under Nsight Compute, and whether ncu and our counters agree.

Exit status: 0; 1 for a wrong output, or if the two disagree; 2 for bad input, or if nothing can be
profiled.
"""

import argparse
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from ncu import agreement, report, tool
from ncu.subject import Subject, last_line, problem_of, subject
from ncu.tool import Pages
from reprolab import console
from reprolab.command_line import Parser, numbers, peers, run
from reprolab.errors import NOT_MEASURED, WRONG_OUTPUT, InputError
from reprolab.json_files import ROOT
from reprolab.printable import printable
from reprolab.results import Outcome, Results, load

# The kernels that `check` compares without --kernel: a tree of branches, a table, the fastest
# transpose, and a transpose that waits for its copies in a loop.
CHECKED = ("branch_tree", "shared_lut", "column_walk", "tma_naive")
# Samples rotate over 3 copies of 2 matrices: six give each matrix at least two of them.
SAMPLES = 6


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m ncu", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    p = commands.add_parser("profile", help="profile one kernel, and print its counters")
    p.add_argument("--experiment", required=True)
    p.add_argument("--kernel", required=True)
    p.add_argument("--set", default="", help="of ncu's sections, such as full, instead of ours")
    p.add_argument("--section", default="", help="ncu's sections by name, instead of ours")
    p.add_argument(
        "--launches",
        default="",
        help="profile this many launches; default: only the second",
    )
    p.add_argument("--dry-run", action="store_true", help="print the command, and run nothing")
    p.set_defaults(run=profile)
    c = commands.add_parser("check", help="compare ncu with --instrument counters")
    c.add_argument("--experiment", default="counters")
    c.add_argument("--kernel", default="", help=f"only this one; default: {', '.join(CHECKED)}")
    c.set_defaults(run=check)
    for command in (p, c):
        command.add_argument("--problem", default="", metavar="ROWSxCOLUMNS")
        command.add_argument("--programs", type=Path, default=ROOT / "build/gpu/bin")
        command.add_argument("--results", type=Path, default=ROOT / "results/profile")
    return top


def subject_of(args: argparse.Namespace, kernel: str) -> Subject:
    programs = args.programs.resolve()
    return subject(args.experiment, kernel, args.problem, programs, peers())


def report_file(of: Subject, problem: str, folder: Path) -> Path:
    return folder / f"{of.nvtx_range(problem).replace(':', '.')}.ncu-rep"


def profiled(of: Subject, problem: str, folder: Path, pages: Pages) -> tuple[Path, int]:
    """The report, and the exit status of bench."""
    file = report_file(of, problem, folder)
    return file, tool.profile(file, of.nvtx_range(problem), pages, of.bench("--instrument=none"))


def pages_of(args: argparse.Namespace) -> Pages:
    launches = numbers("LAUNCHES", args.launches, "4")
    if len(launches) > 1 or 0 in launches:
        raise InputError(f"LAUNCHES: give one number from 1, not '{printable(args.launches)}'")
    sections = tuple(args.section.replace(",", " ").split())
    for name, words in (("SET", [args.set] * bool(args.set)), ("SECTION", sections)):
        if not all(re.fullmatch(r"[A-Za-z0-9_.]+", word) for word in words):
            raise InputError(f"{name}: ncu --list-{name.lower()}s lists the names")
    return Pages(args.set, sections, *launches)


def planned(of: Subject, args: argparse.Namespace, pages: Pages) -> int:
    """Prints the command; without the measuring programs, with only the problem's size."""
    known = (of.programs / "bench").exists()
    problem = problem_of(of, is_planned=True) if known else of.size
    file = report_file(of, problem, args.results.resolve())
    words = ["ncu", file, of.nvtx_range(problem), pages, of.bench("--instrument=none")]
    print(shlex.join(tool.command(*words)))
    if not known:
        print(f"{of.size}: make build lets bench print the problem's whole name here")
    return 0


def profile(args: argparse.Namespace) -> int:
    of, pages = subject_of(args, args.kernel), pages_of(args)
    if args.dry_run:
        return planned(of, args, pages)
    tool.ncu()
    problem = problem_of(of)
    file, status = profiled(of, problem, args.results.resolve(), pages)
    if status != 0:
        return status
    launches = report.launches(tool.raw_page(file))
    title = f"{of.kernel} on {problem}: {', '.join(launch.kernel for launch in launches)}"
    note = "No time: replaying a kernel for its counters disturbs clocks and caches."
    if not (args.set or args.section):
        console.show([], [report.table(printable(title), launches, [note])])
    place = shlex.quote(printable(str(file)))
    print(f"To open the report, on any machine: ncu-ui {place}")
    print(f"As text: ncu --import {place} --page details --print-details all")
    return 0


def check(args: argparse.Namespace) -> int:
    if args.problem and not args.kernel:
        raise InputError("PROBLEM: give its KERNEL, too")
    subjects = [subject_of(args, kernel) for kernel in ([args.kernel] if args.kernel else CHECKED)]
    tool.ncu()
    problems = [problem_of(of) for of in subjects]
    folder, rows = args.results.resolve(), []
    for of, problem in zip(subjects, problems, strict=True):
        ours = counted(of)
        record = ours.find(problem, of.kernel)
        if record is None:
            raise InputError(f"bench: counted no {of.kernel} on {problem}")
        if record.outcome == Outcome.UNSUPPORTED:
            raise InputError(f"{record.place}: {record.reason}")
        if not record.is_verified:
            return NOT_MEASURED if record.outcome == Outcome.NOT_MEASURED else WRONG_OUTPUT
        file, status = profiled(of, problem, folder, Pages())
        if status != 0:
            return status
        rows += agreement.compare(record, report.launches(tool.raw_page(file)))
    version = tool.version()
    table = agreement.table(rows, agreement.origin(ours, version))
    console.show([], [table])
    files = agreement.write(folder, table, agreement.content(rows, ours, version))
    print(f"Written: {', '.join(printable(str(file)) for file in files)}")
    return int(any(row["verdict"] == agreement.DIFFERS for row in rows))


def counted(of: Subject) -> Results:
    """Our own counters, by CUPTI, in a separate process.

    The file is deleted: `make claims` would take it for a newer run of the experiment.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counters.json"
        words = of.bench("--instrument=counters", f"--samples={SAMPLES}", f"--output={file}")
        done = subprocess.run(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, errors="replace")
        if not file.is_file():
            raise InputError(last_line(done.stderr) or f"bench ended with status {done.returncode}")
        return load(file)


if __name__ == "__main__":
    raise SystemExit(run(parser()))

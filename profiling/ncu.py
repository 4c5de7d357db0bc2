"""`make profile`: Nsight Compute on one kernel, as `bench` launches it for an experiment.

Exit status: that of bench, such as 1 for a wrong output, or 2 where nothing can be profiled.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from reprolab import declared
from reprolab.command_line import Parser, run
from reprolab.errors import InputError, printable
from reprolab.families import Family, described
from reprolab.json_files import ROOT

# profiling/nvtx.hpp: the domain, and the characters that ncu's filters would read.
DOMAIN, OF_FILTERS = "reprolab", re.compile(r"[/@\[\]*+, \\]")
# Clocks and caches are left as bench sets them; the report has the sources, for any machine.
OPTIONS = (
    "--config-file=off --force-overwrite --target-processes=all --clock-control=none "
    "--cache-control=none --import-source=yes --apply-rules=off --nvtx"
).split()


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m ncu", description=__doc__)
    p.add_argument("--experiment", required=True)
    p.add_argument("--kernel", required=True)
    p.add_argument("--problem", default="", metavar="ROWSxCOLUMNS")
    p.add_argument("--set", default="", help="of ncu's sections; default: full")
    p.add_argument("--section", default="", help="ncu's sections by name, instead of a set")
    p.add_argument("--launches", type=int, default=0, help="this many; default: only the second")
    p.add_argument("--dry-run", action="store_true", help="print the command, and run nothing")
    p.add_argument("--programs", type=Path, default=ROOT / "build/gpu/bin")
    p.add_argument("--results", type=Path, default=ROOT / "results/profile")
    p.set_defaults(run=profile)
    return p


def family_of(kernel: str) -> Family:
    """The kernel's family; by its folder, if it is not described yet."""
    known = {name: family for family in described().values() for name in family.kernels}
    known |= {
        file.stem: described()[file.parent.name]
        for file in ROOT.glob("kernels/*/*.cu")
        if file.parent.name in described() and file.stem not in known
    }
    if kernel not in known or not known[kernel].size_option:
        raise InputError(f"KERNEL: bench does not run '{kernel}'; make describe adds new ones")
    return known[kernel]


def problem_of(bench: list[str], kernel: str, dry_run: bool) -> str:
    """The problem's name, from bench's own plan."""
    try:
        done = subprocess.run([*bench, "--dry-run", "--json"], capture_output=True, text=True)
    except OSError as error:
        raise InputError(f"{bench[0]}: {error.strerror}: run make build") from None
    if done.returncode != 0:
        raise InputError(["bench failed", *done.stderr.splitlines()][-1])
    plan = json.loads(done.stdout)
    problem = plan["problems"][0]  # of products, that with M = 1
    if (why := plan["why_none"] or problem["refused"].get(kernel)) and not dry_run:
        raise InputError(f"{kernel} on {problem['name']}: {why}")
    return problem["name"]


def profile(args: argparse.Namespace) -> int:
    family = family_of(args.kernel)
    if args.experiment not in declared.names():
        raise InputError(f"EXPERIMENT: there are {', '.join(declared.names())}")
    bench = [str(args.programs.resolve() / "bench"), f"--experiment={args.experiment}"]
    bench += [f"--family={family.name}", f"--kernel={args.kernel}"]
    bench += [f"{family.size_option}={args.problem or family.profiled_size}"]
    problem = problem_of(bench, args.kernel, args.dry_run)
    bench += [f"--problem={problem}", "--instrument=none"]
    nvtx_range = OF_FILTERS.sub("_", f"{args.experiment}:{args.kernel}:{problem}")
    report = args.results.resolve() / f"{nvtx_range.replace(':', '.')}.ncu-rep"
    sections = [f"--set={args.set}"] * bool(args.set)
    sections += [f"--section={name}" for name in args.section.replace(",", " ").split()]
    # Without an instrument a kernel has two ranges: its first launch, which loads its code, and one
    # like the launches that our own counters are read for.
    chosen = f"--launch-count={args.launches}" if args.launches else "--range-filter=::2"
    words = ["ncu", *OPTIONS, f"--export={str(report).replace('%', '%%')}"]
    words += [
        f"--nvtx-include={DOMAIN}@{nvtx_range}/",
        *(sections or ["--set=full"]),
        chosen,
        *bench,
    ]
    print(printable(shlex.join(words)), flush=True)
    if args.dry_run:
        return 0
    if not shutil.which("ncu"):
        raise InputError("ncu is not in PATH: it comes with the CUDA toolkit or by itself")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)  # or it would be taken for the new one
    status = subprocess.run(words, cwd=ROOT).returncode
    if status != 0 or not report.exists():
        raise InputError("there is no report: ncu's lines above say why", status or 2)
    page = ["ncu", f"--import={report}", "--page=details"]
    subprocess.run(page, cwd=ROOT, check=True)
    print(f"To open the report, on any machine: ncu-ui {shlex.quote(printable(str(report)))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(parser()))

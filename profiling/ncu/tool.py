"""The program ncu: runs it on one range of a program of ours, and reads its report."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from ncu import section
from ncu.subject import DOMAIN
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.output import named

NO_PERMISSION = "ERR_NVGPUCTRPERM"
RETURNED = "The application returned an error code"
WRONG_OUTPUT = f"{RETURNED} (1)"  # status 1 of our programs
NOTHING_PROFILED = "No kernels were profiled"
# With bench --instrument none a kernel has two ranges: its first launch, which loads its code, and
# one like the launches that our own counters are read for.
SECOND_RANGE = "::2"


@dataclass(frozen=True)
class Pages:
    """Pages to collect: our own page of one launch, or sections of ncu's own, of several."""

    set: str = ""  # a name of `ncu --list-sets`
    sections: tuple[str, ...] = ()  # names of `ncu --list-sections`
    launches: int = 0  # the number from the first on; 0: only the second

    def options(self) -> list[str]:
        own = [f"--section-folder={section.FOLDER}", f"--section={section.IDENTIFIER}"]
        given = [f"--set={self.set}"] * bool(self.set)
        given += [f"--section={name}" for name in self.sections]
        chosen = f"--launch-count={self.launches}" if self.launches else ""
        return [*(given or own), chosen or f"--range-filter={SECOND_RANGE}"]


def ncu() -> str:
    path = shutil.which("ncu")
    if not path:
        raise InputError(
            "ncu is not in PATH: install Nsight Compute, which comes with the CUDA toolkit or "
            "as a package of NVIDIA"
        )
    return path


def command(
    program: str, report: Path, nvtx_range: str, pages: Pages, bench: Sequence[str]
) -> list[str]:
    """Profiles launches in the range of that name. Clocks and caches are left as the program sets
    them; the report contains the sources, for ncu-ui on any machine.
    """
    return [
        program,
        "--config-file=off",
        "--force-overwrite",
        f"--export={str(report).replace('%', '%%')}",
        "--target-processes=all",
        "--clock-control=none",
        "--cache-control=none",
        "--import-source=yes",
        "--apply-rules=off",
        "--nvtx",
        f"--nvtx-include={DOMAIN}@{nvtx_range}/",
        *pages.options(),
        *bench,
    ]


def run(words: Sequence[str]) -> CompletedProcess[str]:
    """Runs the command; the result's stdout includes its stderr."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    in_english = os.environ | {"LC_ALL": "C"}
    return subprocess.run(words, cwd=ROOT, env=in_english, **pipes, text=True, errors="replace")


def profile(report: Path, nvtx_range: str, pages: Pages, bench: Sequence[str]) -> int:
    """Writes `report` and returns 0, or prints it and returns 1 if the program detected a wrong
    output. InputError if there is no report for another reason.
    """
    words = command(ncu(), report, nvtx_range, pages, bench)
    section.write()
    make_room(report)
    print(shlex.join(words), flush=True)
    done = run(words)
    if WRONG_OUTPUT in done.stdout and not errors(done.stdout):
        print(done.stdout, end="")
        return 1
    if done.returncode == 0 and report.is_file():
        return 0
    raise InputError(why_not(done, nvtx_range))


def make_room(report: Path) -> None:
    """An older report must not be mistaken for the new one."""
    with named(report):
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)


def errors(text: str) -> list[str]:
    """ncu's errors, except the one about the program's exit."""
    lines = [line for line in text.splitlines() if line.startswith("==ERROR== ")]
    return [line.removeprefix("==ERROR== ").strip() for line in lines if RETURNED not in line]


def why_not(done: CompletedProcess[str], nvtx_range: str) -> str:
    if NO_PERMISSION in done.stdout:
        return (
            f"ncu: no permission to read counters ({NO_PERMISSION}): run as root, or load the "
            "driver with NVreg_RestrictProfilingToAdminUsers=0"
        )
    if complaints := errors(done.stdout):
        return f"ncu: {complaints[0]}"
    said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    of_program = [line for line in said if not line.startswith("==")]
    if RETURNED in done.stdout and of_program:
        return f"ncu: the program failed: {of_program[-1]}"
    if done.returncode == 0 or NOTHING_PROFILED in done.stdout:
        return f"ncu: the range {nvtx_range} matched no kernel"
    return f"ncu: ended with status {done.returncode}: {[*said, 'without output'][-1]}"


def raw_page(report: Path) -> str:
    """Every metric of the report as CSV: a line of names, one of units, one per kernel."""
    done = run([ncu(), "--config-file=off", f"--import={report}", "--page=raw", "--csv"])
    if done.returncode != 0:
        raise InputError(why_not(done, str(report)))
    return done.stdout


def version() -> str:
    """'2025.3.1.0 (build 36398880)'"""
    _, separator, rest = run([ncu(), "--version"]).stdout.partition("Version ")
    return (
        rest.splitlines()[0].removesuffix(" (public-release)").strip() if separator else "not known"
    )

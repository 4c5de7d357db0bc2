"""The subject of profiling: one kernel on one problem, as `bench` launches it for an experiment."""

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprolab import declared
from reprolab.errors import InputError
from reprolab.families import Family, described
from reprolab.json_files import ROOT
from reprolab.printable import printable

# profiling/nvtx.hpp: the domain, and the characters that ncu's filters would read.
DOMAIN = "reprolab"
OF_FILTERS = re.compile(r"[/@\[\]*+, \\]")


@dataclass(frozen=True)
class Subject:
    experiment: str
    kernel: str
    family: Family
    size: str  # ROWSxCOLUMNS
    programs: Path
    peers: tuple[str, ...] = ()

    def bench(self, *arguments: str) -> list[str]:
        """The command that launches this kernel on this problem and nothing else."""
        return [
            str(self.programs / "bench"),
            f"--experiment={self.experiment}",
            f"--family={self.family.name}",
            f"--kernel={self.kernel}",
            f"{self.family.size_option}={self.size}",
            *(f"--peer={peer}" for peer in self.peers),
            *arguments,
        ]

    def nvtx_range(self, problem: str) -> str:
        """The range's name, as profiling/nvtx.hpp makes it."""
        return OF_FILTERS.sub("_", f"{self.experiment}:{self.kernel}:{problem}")


def subject(
    experiment: str, kernel: str, size: str, programs: Path, peers: Sequence[str] = ()
) -> Subject:
    """InputError for an unknown experiment; bench checks the rest."""
    by_experiment = {name: families(name) for name in declared.names()}
    if not by_experiment.get(experiment):
        known = ", ".join(name for name in by_experiment if by_experiment[name])
        raise InputError(f"EXPERIMENT: '{experiment}' cannot be profiled; there are {known}")
    if any(mark in kernel for mark in "*?|"):
        raise InputError(f"KERNEL: '{kernel}' is a pattern; give one kernel's whole name")
    known = [described()[name] for name in by_experiment[experiment]]
    of = next((f for f in described().values() if kernel in f.kernels), known[0])
    if of not in known:
        raise InputError(f"KERNEL: '{kernel}' is of family {of.name}, not of {experiment}")
    return Subject(experiment, kernel, of, size or of.profiled_size, programs, tuple(peers))


def families(experiment: str) -> list[str]:
    """Families whose kernels it measures with bench; all if a pass names none."""
    every = tuple(family.name for family in described().values() if family.size_option)
    passes = [s for s in declared.experiment(experiment).passes.values() if s.program == "bench"]
    return [family for step in passes for family in step.families or every]


def problem_of(subject: Subject, is_planned: bool = False) -> str:
    """The problem's name, from bench's own plan. InputError with bench's message for an unknown
    kernel or problem and, unless this is only a plan, if this machine or GPU cannot run it.
    """
    command = subject.bench("--instrument=none", "--dry-run", "--json")
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror}: run make build") from None
    if done.returncode != 0:
        raise InputError(last_line(done.stderr) or f"bench ended with status {done.returncode}")
    plan = json.loads(done.stdout)
    (problem,) = plan["problems"]
    why = plan["why_none"] or problem["refused"].get(subject.kernel)
    if why and not is_planned:
        raise InputError(f"{subject.kernel} on {subject.size}: {why}")
    return printable(problem["name"])


def last_line(text: str) -> str:
    return printable(next((line for line in reversed(text.splitlines()) if line.strip()), ""))

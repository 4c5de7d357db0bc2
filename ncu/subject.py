"""What is profiled: one kernel on one problem, as `bench` launches it for an experiment."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from claims.errors import InputError
from claims.json_files import ROOT
from claims.printable import printable
from sass.kernels import registered

# By experiment: the families of its kernels, each with a pass that measures kernels alone.
EXPERIMENTS = {
    "table2": {"nf4": "shapes"},
    "transpose": {"transpose": "matrix"},
    "counters": {"nf4": "nf4_counters", "transpose": "transpose_counters"},
}
# By family: the option of bench that says how large a problem is, and the size where nobody does:
# the largest layer of Llama-3.3-70B, and the posts' matrix.
SIZES = {"nf4": ("--shape", "28672x8192"), "transpose": ("--matrix", "32768x32768")}

# profiling/nvtx.hpp: the domain, and the characters that ncu's filters would read.
DOMAIN = "reprolab"
OF_FILTERS = re.compile(r"[/@\[\]*+, \\]")


@dataclass(frozen=True)
class Subject:
    experiment: str
    kernel: str
    family: str
    size: str  # ROWSxCOLUMNS
    programs: Path
    peers: tuple[str, ...] = ()

    def bench(self, *arguments: str) -> list[str]:
        """The command that launches this kernel on this problem and nothing else."""
        option, _ = SIZES[self.family]
        return [
            str(self.programs / "bench"),
            f"--experiment={self.experiment}",
            f"--pass={EXPERIMENTS[self.experiment][self.family]}",
            f"--family={self.family}",
            f"--kernel={self.kernel}",
            f"{option}={self.size}",
            *(f"--peer={peer}" for peer in self.peers),
            *arguments,
        ]

    def nvtx_range(self, problem: str) -> str:
        """The range's name, as profiling/nvtx.hpp makes it."""
        return OF_FILTERS.sub("_", f"{self.experiment}:{self.kernel}:{problem}")


def subject(
    experiment: str, kernel: str, size: str, programs: Path, peers: Sequence[str] = ()
) -> Subject:
    """InputError for an unknown experiment; what else there is, bench knows."""
    if experiment not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise InputError(f"EXPERIMENT: '{experiment}' cannot be profiled; there are {known}")
    if any(mark in kernel for mark in "*?|"):
        raise InputError(f"KERNEL: '{kernel}' is a pattern; give one kernel's whole name")
    families = EXPERIMENTS[experiment]
    known_kernel = registered().get(kernel)
    family = known_kernel.family if known_kernel else next(iter(families))
    if family not in families:
        raise InputError(f"KERNEL: '{kernel}' is of family {family}, not of {experiment}")
    return Subject(experiment, kernel, family, size or SIZES[family][1], programs, tuple(peers))


def problem_of(subject: Subject) -> str:
    """The problem's name, from bench's own plan.

    InputError in bench's words if it knows no such kernel or problem, if this machine cannot run
    it, or if the GPU refuses it.
    """
    command = subject.bench("--instrument=none", "--dry-run")
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror}: run make build") from None
    if done.returncode != 0:
        raise InputError(last_line(done.stderr) or f"bench ended with status {done.returncode}")
    heading, *lines = done.stdout.splitlines() or [""]
    for line in lines:
        for sign in ("none of this can run here: ", "refused by "):
            if line.strip().startswith(sign):
                raise InputError(f"{subject.kernel} on {subject.size}: {line.strip()}")
    if not heading.startswith("problem ") or not lines or not lines[0].strip():
        raise InputError("bench --dry-run did not name its problem")
    return lines[0].split()[0]


def last_line(text: str) -> str:
    return printable(next((line for line in reversed(text.splitlines()) if line.strip()), ""))

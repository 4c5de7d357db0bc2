"""What tests of the front door share: running it, and stand-ins for the programs."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Prints its arguments, one per line.
ECHO = '#!/bin/sh\nprintf "<%s>\\n" "$@"\n'


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def own_environment():
    """As if these tests had not been started by a make of this project."""
    of_make = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "REPROLAB_LOCKED", "HAS_GPU"}
    given = {"FILE", "EXPERIMENT", "KERNEL", "PROBLEM", "PEER", "METRICS", "CLOCKS", "CHIP"}
    given |= {"DRY_RUN", "ARCH", "FUNCTION"}
    given |= {
        "MODEL",
        "BATCH",
        "BATCHES",
        "KERNELS",
        "TOKENS",
        "PROMPTS",
        "GPUS",
        "QUICK",
        "VERSION",
    }
    given |= {"PRESET", "RESULTS", "RECORDED"}
    return {k: v for k, v in os.environ.items() if k not in of_make | given}


def run(folder, *command, **environment):
    environment = own_environment() | environment
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def make(folder, *arguments, **environment):
    return run(folder, "make", "PRESET=cpu", *arguments, **environment)


def reproduce(folder, *options, **given):
    """Of experiment 'mine', as on a machine with a GPU, of which make asks the file system."""
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "RECORDED": "none", "MEASURE": "gpu"}
    environment = where | {"PEER": ""} | given
    return run(folder, "scripts/reproduce", "mine", *options, **environment)


HOSTILE = [
    'x"; echo INJECTED; "',
    "$(shell touch injected)",
    "$(touch injected)`touch injected`",
    "a b  c",
    "it's #1: 50 % of $HOME; $$ $| \\ *",
    "--help",
    "a\nb",
    "=",
]

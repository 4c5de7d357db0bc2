"""Shared by tests of the Makefile: runs its targets, with substitutes for the programs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Prints its arguments, one per line, and writes its result file atomically, as our programs do.
ECHO = r"""#!/bin/sh
printf "<%s>\n" "$@"
for argument; do
  case $before/$argument in
  --output/*.json)
    mkdir -p "${argument%/*}" && echo {} >"$argument.new" && mv "$argument.new" "$argument"
    ;;
  esac
  before=$argument
done
"""
# Runs experiments, and prints the arguments of all other commands.
PYTHON = f"""#!/bin/sh
case "$2" in experiments*) exec {sys.executable} "$@";; esac
{ECHO}"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def own_environment():
    """The environment without the variables of a make that started these tests."""
    text = (ROOT / "Makefile").read_text()
    given = set(text.partition("KNOWN := ")[2].partition("$(foreach")[0].replace("\\", " ").split())
    given |= {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "HAS_GPU", "MEASURE"}
    return {k: v for k, v in os.environ.items() if k not in given}


def given_to(folder, environment):
    """The environment of a process there."""
    environment = own_environment() | environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return pipes | {"cwd": folder, "env": environment}


def start(folder, *command, **environment):
    """Starts a command in its own session, so that it can be sent a signal."""
    return subprocess.Popen(command, start_new_session=True, **given_to(folder, environment))


def run(folder, *command, **environment):
    return subprocess.run(command, **given_to(folder, environment))


def make(folder, *arguments, **environment):
    return run(folder, "make", "PRESET=cpu", *arguments, **environment)


def printed(words):
    """ECHO's output for the words."""
    return "".join(f"<{word}>\n" for word in words)


def declare(folder, name="mine", takes=(), also="", **steps):
    """Writes the experiment: a check and passes by name, each a program (or `python -m` and a
    module) and its arguments, which takes these variables. `also`: more of each pass.
    """
    text = ""
    for step, line in steps.items():
        text += "[[check]]\n" if step == "check" else f"[pass.{step}]\n{also}\n"
        words = line.removeprefix("python -m ").split()
        kind = "module" if line.startswith("python") else "program"
        text += f"{kind} = {json.dumps(words[0])}\narguments = {json.dumps(words[1:])}\n"
        text += f"takes = {json.dumps(list(takes))}\n"
    file = folder / "experiments" / name / "experiment.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def reproduce(folder, **given):
    """Runs the experiment 'mine' as on a machine with a GPU."""
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "RECORDED": "none", "MEASURE": "gpu"}
    command = ["scripts/python", "-m", "experiments", "reproduce", "mine"]
    return run(folder, *command, **where | {"PEER": ""} | given)


def has_ended(process):
    """`process`: its number, as text."""
    status = Path("/proc", process.strip(), "status")
    return not status.exists() or "(zombie)" in status.read_text()


def wait_for(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)

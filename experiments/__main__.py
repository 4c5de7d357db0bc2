"""`python -m experiments reproduce NAME`: runs an experiment's checks and passes, then makes tables
and figures. Where nothing can be measured, it makes those of a recorded run, before anything is
compiled, and runs the checks alone.

`make reproduce-NAME` sets the environment: PRESET selects the programs that are built; BIN,
RESULTS and RECORDED are folders; MEASURE is empty where nothing can be measured, and NO_GPU_WHY is
then the reason; the rest is the user's. RESUME=1 omits what the same command has measured already.

Exit status: 0; 1 where an output is wrong, after all passes ran; 3 where something else was not
measured; else that of the program that could not run.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from reprolab import declared
from reprolab.command_line import Parser, peers, run
from reprolab.declared import Experiment, Step
from reprolab.errors import NOT_MEASURED, WRONG_OUTPUT, InputError, printable

TORCH = Path("build/end_to_end/python")  # names the Python that has PyTorch
FLAGS = ("QUICK", "DRY_RUN", "RESUME")
interrupted: list[int] = []  # signals
FOR_MEASURING = (
    "PEER METRICS CLOCKS MODEL BATCHES KERNELS KERNEL PROBLEM FILE TOKENS GENERATIONS QUICK"
).split()


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments", description=__doc__)
    p.add_argument("command", choices=["reproduce"])
    p.add_argument("name", help="the experiment")
    p.set_defaults(run=reproduce)
    return p


def variable(name: str) -> str:
    return os.environ.get(name, "")


def steps(experiment: Experiment) -> list[Step]:
    """The steps that this machine can run."""
    measured = experiment.passes.values() if variable("MEASURE") else ()
    return [*experiment.checks, *(step for step in measured if not step.torch or TORCH.exists())]


def build(todo: Iterable[Step]) -> int:
    names = sorted({step.program for step in todo} - {""})
    return subprocess.run(["scripts/build", *names]).returncode if names else 0


def reproduce(args: argparse.Namespace) -> int:
    experiment = declared.experiment(args.name)
    if unused := not_used(experiment):
        print(unused, flush=True)
    if variable("DRY_RUN"):
        return plan(experiment)
    if not variable("MEASURE"):
        return show_and_check(experiment)
    for step in (s for s in experiment.passes.values() if s not in steps(experiment)):
        needs = f"needs PyTorch and bitsandbytes (5 GB); make {TORCH} installs them"
        print(f"{step.name}: left out: {needs}", flush=True)
    if status := build(steps(experiment)):
        return status
    own = f"{variable('RESULTS')}/{args.name}"
    worst = measure(experiment, own)
    return render(args.name, own, own) or worst


def not_used(experiment: Experiment) -> str:
    """A note on the variables that no step uses; empty where there are none."""
    all_steps = [*experiment.checks, *experiment.passes.values()] if variable("MEASURE") else []
    used = {name for step in all_steps for name in taken_variables(step)}
    unused = " ".join(name for name in FOR_MEASURING if variable(name) and name not in used)
    return f"Not used: {unused}." * bool(unused)


def plan(experiment: Experiment) -> int:
    """Prints each step's command, and its dry run where its program has one and is built; without a
    GPU, what is shown instead.
    """
    if not variable("MEASURE"):
        shown = quoted(f"{variable('RECORDED')}/{experiment.name}")
        print(f"{variable('NO_GPU_WHY')}: {shown} would be shown; with a GPU:")
    for step in [*experiment.checks, *experiment.passes.values()]:
        is_built = not step.program or Path(words(step)[0]).exists()
        print(command_line(step), flush=True)
        plans = variable("MEASURE") and "DRY_RUN" in taken_variables(step) and is_built
        if plans and (status := status_of(words(step))):
            return status
    return 0


def show_and_check(experiment: Experiment) -> int:
    """Shows the recorded run, then runs the checks on the CPU."""
    name = experiment.name
    recorded, shown = f"{variable('RECORDED')}/{name}", f"{variable('RESULTS')}/{name}-recorded"
    if not Path(recorded).exists():
        raise InputError(f"{variable('NO_GPU_WHY')}, and {recorded} has no recorded run of it yet")
    print(f"Nothing is measured here: {variable('NO_GPU_WHY')}. A recorded run:", flush=True)
    status = render(name, recorded, shown, "--recorded")
    if status := status or build(steps(experiment)):
        return status
    if experiment.checks:
        print("The check on the CPU:", flush=True)
    return measure(experiment, shown)


def measure(experiment: Experiment, own: str) -> int:
    """The worst status of the steps. SystemExit where one could not run: no other begins."""
    statuses = [measure_step(experiment, step, own) for step in steps(experiment)]
    return max(statuses, key=(0, NOT_MEASURED, WRONG_OUTPUT).index, default=0)


def measure_step(experiment: Experiment, step: Step, own: str) -> int:
    """The step's status; SystemExit with one that ends the run.

    A wrong output (status 1) or one that was not measured (3) has its row without a time, and the
    steps after it still run. An older result stays until a new one is complete, and does not count
    as one: a program that wrote none has failed, such as Python with a traceback, whose status is
    1, too.
    """
    command, file = words(step), Path(own, f"{step.name}.json")
    if step.name and step.program:
        command += ["--experiment", experiment.name, "--pass", step.name]
    command += ["--output", str(file)] * bool(step.name)
    if step.name and variable("RESUME"):
        from reprolab import parts  # which imports numpy

        before = parts.measured_before(file, [word for word in command if word != "--resume"])
        if before is not None:
            print(f"{step.name}: was measured before: {quoted(str(file))}", flush=True)
            return parts.status_of(before["records"])
    older = inode(file)
    log = Path(own, f"{step.name}.log") if step.name and not variable("VERBOSE") else None
    status = status_of(command, log)
    may_go_on = status in (0, WRONG_OUTPUT, NOT_MEASURED)
    if may_go_on and step.name and inode(file) == older:
        failed = f"{step.name}: failed without a result (exit status {status})"
        print(failed, file=sys.stderr, flush=True)
        sys.exit(NOT_MEASURED)
    if not may_go_on or (status == NOT_MEASURED and not step.name):
        sys.exit(status)
    return status


def command_line(step: Step) -> str:
    shown = [step.program or "python", *words(step)[1:]]
    return printable(f"{step.name or 'check'}: {shlex.join(shown)}")


def taken_variables(step: Step) -> tuple[str, ...]:
    """The variables that become options; every C++ pass takes these three."""
    return step.takes + ("CLOCKS", "DRY_RUN", "RESUME") * bool(step.name and step.program)


def words(step: Step) -> list[str]:
    """The step's command with the user's options."""
    command = [f"{variable('BIN')}/{step.program}"]
    if step.module:
        # Where there is no PyTorch, the command is only shown.
        python = TORCH.read_text().strip() if step.torch and TORCH.exists() else "scripts/python"
        command = [python, "-m", step.module]
    command += step.arguments
    if step.kernels:
        others = peers() if variable("MEASURE") and "PEER" in step.takes else ()
        command += ["--kernel", "|".join([*step.kernels, *names_of(others)])]
    elif step.all_but:
        command += ["--kernel", f"!{'|'.join(step.all_but)}"]
    return [*command, *chain(*options(taken_variables(step) if variable("MEASURE") else ()))]


def options(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The given variables among `names`, as a program's options with their values."""
    for name in names:
        option = f"--{name.lower().replace('_', '-')}"
        values = peers() if name == "PEER" else [variable(name)] * bool(variable(name))
        yield from ((option,) if name in FLAGS else (option, value) for value in values)


def names_of(peers: Sequence[str]) -> list[str]:
    """The programs' names of peers: a library without a name gets one of its version."""
    heads = [peer.partition("/")[0] for peer in peers]
    return [head.partition("=")[0] if "=" in head else "bitsandbytes*" for head in heads]


def render(name: str, results: str, output: str, *options: str) -> int:
    """Renders tables and figures; its status is never WRONG_OUTPUT."""
    command = ["scripts/python", "-m", "plots", "render", name, "--results", results]
    command += ["--output", output, *options, *["--verbose"] * bool(variable("VERBOSE"))]
    status = status_of(command)
    return NOT_MEASURED if status == WRONG_OUTPUT else status


def status_of(command: Sequence[str], log: Path | None = None) -> int:
    """The exit status, as in a shell. The program ends with this process, which alone gets make's
    SIGTERM. `log`: a file for its standard output.
    """
    bound_command = ["setpriv", "--pdeathsig", "TERM", "--", *command]
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        print(f"{log.stem}: its lines go to {quoted(str(log))}", flush=True)
    sys.stdout.flush()
    output = log.open("wb") if log else None
    status = subprocess.Popen(bound_command, stdin=subprocess.DEVNULL, stdout=output).wait()
    if interrupted:
        os._exit(128 + signal.SIGINT)
    return status if status >= 0 else 128 - status


def inode(file: Path) -> int | None:
    return file.stat().st_ino if file.exists() else None


def quoted(path: str) -> str:
    return shlex.quote(printable(path))


if __name__ == "__main__":
    # A Ctrl-C first ends the running program, which may have clocks to reset, then this process.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as nohup has it
        signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    raise SystemExit(run(parser()))

"""Measures the cells of one pass, timing or profile, one model after another, and joins them in its
result file. `make reproduce-table1` and `make reproduce-figure4` run both passes.

Exit status: 0; 1 where a row's output is wrong or its kernel failed; 2 for wrong usage, or where
the input cannot be measured; 3 where the run itself failed, at one row or at a cell.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import reprolab_nf4
from experiments.end_to_end import plan, prompts, sizes
from experiments.end_to_end.plan import Cell, Choices
from experiments.end_to_end.protocol import EAGER, GRAPH
from reprolab import parts, result_file
from reprolab.command_line import Parser, run
from reprolab.errors import NOT_MEASURED, USAGE, WRONG_OUTPUT, InputError
from reprolab.json_files import ROOT
from reprolab.output import check_place

EXPERIMENT = "end_to_end"
PYTHON = ROOT / "build/end_to_end/python"  # names the Python that has torch
CHOICES = ("model", "batches", "kernels", "tokens", "generations", "peer", "quick")


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.end_to_end", description=__doc__)
    p.add_argument("pass_name", choices=plan.PASSES, metavar="PASS", help="timing or profile")
    p.add_argument("--model", default="", help="a checkpoint's folder, or a model's id")
    p.add_argument("--batches", default="", help="such as 2,8,64")
    p.add_argument("--kernels", default="", help="such as shared_lut,streaming")
    p.add_argument("--tokens", type=int, help="new tokens for each prompt")
    p.add_argument("--generations", type=int, help="eager ones of each row, 3 by default")
    p.add_argument("--peer", action="append", default=[], help="another bitsandbytes' library")
    p.add_argument("--quick", action="store_true", help="fewer batches, tokens and samples")
    p.add_argument("--dry-run", action="store_true", help="print the plan")
    p.add_argument("--resume", action="store_true", help="keep what an interrupted run measured")
    p.add_argument("--output", type=Path, help="the pass's result file")
    p.set_defaults(run=measure)
    return p


def measure(args: argparse.Namespace) -> int:
    choices, output = chosen(args), args.output
    check(choices)
    cells = plan.cells(choices, args.pass_name)
    print(describe(cells), flush=True)
    if args.dry_run:
        return 0
    if not output:
        raise InputError("--output: give the pass's result file")
    check_place(output)
    files = {cell.file(output): cell.model for cell in cells}
    faults, status, todo = [], 0, list(files)
    if args.resume:
        todo = [file for file in files if not parts.measured_before(file, command_line())]
    for file in todo:
        file.unlink(missing_ok=True)
    for model in dict.fromkeys(files[file] for file in todo):
        fault, model_status = measure_model(model, running_of(output))
        faults += [fault] * bool(fault)
        status = max(status, model_status)  # 3: a fault of the run; 2: of its input
    measured = [part for file in files if (part := parts.read(file))]
    if measured:
        result_file.write(output, parts.join(measured, command_line()))
    row_status = parts.status_of([record for part in measured for record in part["records"]])
    if not status or (row_status == WRONG_OUTPUT and status != USAGE):
        status = row_status
    if faults:
        raise InputError("; ".join(faults), status)
    return status


def command_line() -> list[str]:
    """This command in a result file, whose rows are the same without --resume."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    return ["python", "-m", "experiments.end_to_end", *words]


def chosen(args: argparse.Namespace) -> Choices:
    return plan.choose(**{name: getattr(args, name) for name in CHOICES})


def running_of(output: Path) -> Path:
    """Names the cell and the row that are being measured, while the process lives."""
    return output.parent / "parts" / f"{output.stem}.running"


def measure_model(model: str, running: Path) -> tuple[str, int]:
    """Measures a model's cells in a process of its own. If it dies in a row, another goes on
    without this row of the cell. The fault beyond single rows, and its exit status.
    """
    python = PYTHON.read_text().strip() if PYTHON.exists() else ""
    if not python:
        raise InputError(f"{PYTHON}: is missing; run make reproduce-table1, which makes it")
    failed: dict[str, dict[str, str]] = {}  # by cell and row, how a process died in it
    while True:
        running.unlink(missing_ok=True)
        command = [python, "-m", "experiments.end_to_end.measure", model, json.dumps(failed)]
        try:
            done = subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, stdin=subprocess.DEVNULL)
        except OSError as error:
            return f"{python}: {error.strerror}", NOT_MEASURED
        status = done.returncode
        if status in (0, USAGE):
            return (f"{plan.plain_name(model)}: not all of it was measured" * bool(status)), status
        cell, row = running.read_text().split("\n") if running.exists() else ("", "")
        how = f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
        ended = f"the process ended {how}"
        if not row or row in failed.get(cell, {}):  # no row to omit: it would die again
            return f"{cell or plan.plain_name(model)}: {ended}", NOT_MEASURED
        failed.setdefault(cell, {})[row] = ended


def check(choices: Choices) -> None:
    """InputError where a choice cannot be measured, as far as that can be checked without torch."""
    for model in choices.models:
        if model not in sizes.known():
            sizes.checkpoint_shapes(Path(model))
    try:
        known = reprolab_nf4.Library().kernels()
    except reprolab_nf4.DropinError:  # the library is not built yet
        return
    for row in choices.rows:
        if row.kind == "kernel" and row.kernel not in known:
            raise InputError(
                f"KERNELS: there is no '{row.kernel}'; give some of {', '.join(known)}"
            )


def describe(cells: Sequence[Cell]) -> str:
    """The plan of the run; the memory is the largest of its cells."""
    first, choices = cells[0], cells[0].choices
    needs = [n for cell in cells if (n := cell.bytes_needed)]
    memory = f"; up to {max(needs) / 1e9:.0f} GB of GPU memory" if needs else ""
    return (
        f"{first.pass_name}: {', '.join(map(plan.plain_name, choices.models))} at batch "
        f"{', '.join(map(str, choices.batches))}; {choices.tokens} new tokens, of which "
        f"{first.new_tokens(EAGER)} are generated eager and {first.new_tokens(GRAPH)} in a graph\n"
        f"  rows: {', '.join(row.kernel for row in choices.rows)}; {plan.WARM_UP} generation of "
        f"each to warm up, {first.samples(EAGER)} measured eager, {first.samples(GRAPH)} in a "
        f"graph; prompts: {prompts.TEXT}{memory}"
    )


if __name__ == "__main__":
    raise SystemExit(run(parser()))

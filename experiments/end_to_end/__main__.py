"""Measures the missing cells of one pass, timing or profile, one model after another, and joins all
cells in its result file. `make reproduce-table1` and `make reproduce-figure4` run both passes.

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
from experiments.__main__ import gpu_name
from experiments.end_to_end import partial_results, plan, prompts, sizes
from experiments.end_to_end.plan import Cell, Choices, Job
from experiments.end_to_end.protocol import EAGER, GRAPH
from reprolab import parts, result_file
from reprolab.command_line import Parser, run
from reprolab.errors import NOT_MEASURED, USAGE, WRONG_OUTPUT, InputError
from reprolab.json_files import ROOT
from reprolab.output import check_place
from reprolab.provenance import checkout

PYTHON = ROOT / "build/end_to_end/python"  # names the Python that has torch


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.end_to_end", description=__doc__)
    p.add_argument("pass_name", choices=plan.PASSES, metavar="PASS", help="timing or profile")
    p.add_argument("--model", default="", help="a checkpoint's folder or name, or a model's id")
    p.add_argument("--batches", default="", help="such as 2,8,64")
    p.add_argument("--kernels", default="", help="such as shared_lut,streaming")
    p.add_argument("--peer", action="append", default=[], help="another bitsandbytes' library")
    p.add_argument("--tokens", default="", help="new tokens for each prompt")
    p.add_argument("--generations", default="", help="eager ones of each row, 3 by default")
    p.add_argument("--prompts", default="", help="a file with one JSON object per line")
    p.add_argument("--clocks", default="", help="not supported: clocks are observed")
    p.add_argument("--quick", action="store_true", help="fewer batches, tokens and samples")
    p.add_argument("--dry-run", action="store_true", help="print the plan and its duration")
    p.add_argument("--output", type=Path, default=None, help="the pass's result file")
    p.set_defaults(run=measure)
    return p


def measure(args: argparse.Namespace) -> int:
    choices = chosen(args)
    check(choices)
    output = output_of(args)
    now, gpu = checkout(), gpu_name()
    run_name = partial_results.run_of(choices, installed_versions())
    every = partial_results.jobs(choices, args.pass_name, output, run_name, sys.argv[1:], now)
    todo = [job for job in every if not partial_results.is_done(job, gpu)]
    cells = [job.cell for job in todo]
    print(describe([job.cell for job in every], cells), flush=True)
    if args.dry_run:
        return 0
    check_place(output)
    models = dict.fromkeys(cell.model for cell in cells)
    faults, status = [], 0
    for model in models:
        fault, model_status = measure_model(model, [job for job in todo if job.cell.model == model])
        faults += [fault] * bool(fault)
        status = max(status, model_status)  # 3: a fault of the run; 2: of its input
    files = [job.file for job in every]
    partials = partial_results.partials_of_run(
        output.resolve(), args.pass_name, files, run_name, now
    )
    if partials:
        result_file.write(output, parts.join(partials))
    outcomes = {r["outcome"] for partial in partials for r in partial["records"]}
    row_status = parts.status_of(outcomes)
    if not status or (row_status == WRONG_OUTPUT and status != USAGE):
        status = row_status
    if faults:
        raise InputError("; ".join(faults), status)
    return status


def chosen(args: argparse.Namespace) -> Choices:
    if args.clocks:
        raise InputError(
            "CLOCKS: generating text is measured at the GPU's current clocks; lock them with "
            "nvidia-smi -lgc before, and do not set CLOCKS"
        )
    return plan.choose(
        model=args.model,
        batches=args.batches,
        kernels=args.kernels,
        peers=args.peer,
        tokens=args.tokens,
        generations=args.generations,
        prompts_file=args.prompts,
        quick=args.quick,
    )


def output_of(args: argparse.Namespace) -> Path:
    return args.output or Path(f"results/{partial_results.EXPERIMENT}/{args.pass_name}.json")


def measure_model(model: str, jobs: Sequence[Job]) -> tuple[str, int]:
    """Measures a model's cells in a process of its own. If it dies in a row, another goes on
    without this row of the cell. The fault beyond single rows, and its exit status.
    """
    python = PYTHON.read_text().strip() if PYTHON.exists() else ""
    if not python:
        raise InputError(f"{PYTHON}: is missing; run make reproduce-table1, which makes it")
    command = [python, "-m", "experiments.end_to_end.measure", *sys.argv[1:], "--model", model]
    for job in jobs:
        job.running.unlink(missing_ok=True)
    while True:
        try:
            status = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode
        except OSError as error:
            return f"{python}: {error.strerror}", NOT_MEASURED
        if status in (0, USAGE):
            return (f"{plan.plain_name(model)}: not all of it was measured" * bool(status)), status
        ended = f"the process ended {ending(status)}"
        running = [job for job in jobs if job.running.exists()]
        row = running[0].running.read_text() if running else ""
        failed = running[0].failed if running else {}
        if not row or row in failed:  # no row to omit: it would die again
            text = running[0].cell.text if running else plan.plain_name(model)
            return f"{text}: {ended}", NOT_MEASURED
        running[0].failed_rows.write_text(json.dumps(failed | {row: ended}))
        running[0].running.unlink()


def ending(status: int) -> str:
    return f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"


def check(choices: Choices) -> None:
    """InputError where a choice cannot be measured, as far as that can be checked without torch."""
    for model in choices.models:
        if known := sizes.known().get(model):
            drawn = min(max(choices.batches), len(choices.prompts.items))
            prompts.tokens_of(choices.prompts, drawn, known.vocab)
        elif Path(model).is_dir():
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


def describe(every: Sequence[Cell], todo: Sequence[Cell]) -> str:
    """The plan of the run; the memory is the largest of its cells."""
    first, choices = every[0], every[0].choices
    rows = ", ".join(row.kernel for row in choices.rows)
    minutes = round(plan.total_seconds(todo) / 60) or 1
    needs = [n for cell in todo if (n := cell.bytes_needed)]
    memory = f", up to {max(needs) / 1e9:.0f} GB of GPU memory" if needs else ""
    lines = [
        f"{first.pass_name}: {', '.join(map(plan.plain_name, choices.models))} at batch "
        f"{', '.join(map(str, choices.batches))}; {choices.tokens} new tokens, of which "
        f"{first.new_tokens(EAGER)} are generated eager and {first.new_tokens(GRAPH)} in a graph",
        f"  rows: {rows}; {plan.warm_up()} generation of each to warm up, "
        f"{first.samples(EAGER)} measured eager, {first.samples(GRAPH)} in a graph; "
        f"prompts: {choices.prompts.text}",
        f"  {len(every) - len(todo)} of {len(every)} cells already measured"
        + (f"; the remaining ones take about {minutes} min on an H200{memory}" if todo else ""),
    ]
    return "\n".join(lines)


def installed_versions() -> str:
    """The package versions of the Python that has torch; empty without one."""
    code = "from experiments.end_to_end import partial_results as p; print(p.made_with())"
    python = PYTHON.read_text().strip() if PYTHON.exists() else ""
    if not python:
        return ""
    try:
        done = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(run(parser()))

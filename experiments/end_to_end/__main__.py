"""Measures the missing cells of one pass, timing or profile, and joins all cells in its result
file. `make reproduce-table1` and `make reproduce-figure4` run both passes.

Exit status: 0; 1 where a row's output is wrong or its kernel failed; 2 for wrong usage, or where
the input cannot be measured; 3 where the run itself failed, at one row or at a cell.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import reprolab_nf4
from experiments.end_to_end import partial_results, plan, prompts, schedule, sizes
from experiments.end_to_end.plan import Cell, Choices, Job
from experiments.end_to_end.protocol import EAGER, GRAPH
from experiments.gpus import chosen, free_bytes, gpu_name
from reprolab import interruption, parts, result_file
from reprolab.command_line import Parser, run
from reprolab.errors import NOT_MEASURED, USAGE, WRONG_OUTPUT, InputError
from reprolab.json_files import ROOT
from reprolab.output import check_place
from reprolab.progress import Line
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
    p.add_argument("--gpus", default="0", help="such as 0,1: one process for each")
    p.add_argument("--clocks", default="", help="not supported: clocks are observed")
    p.add_argument("--quick", action="store_true", help="fewer batches, tokens and samples")
    p.add_argument("--dry-run", action="store_true", help="print the plan and its duration")
    p.add_argument("--output", type=Path, default=None, help="the pass's result file")
    p.set_defaults(run=measure)
    return p


def measure(args: argparse.Namespace) -> int:
    if args.clocks:
        raise InputError(
            "CLOCKS: generating text is measured at the GPU's current clocks; lock them with "
            "nvidia-smi -lgc before, and do not set CLOCKS"
        )
    choices = plan.choose(
        model=args.model,
        batches=args.batches,
        kernels=args.kernels,
        peers=args.peer,
        tokens=args.tokens,
        generations=args.generations,
        prompts_file=args.prompts,
        quick=args.quick,
    )
    check(choices)
    gpus = chosen(args.gpus)
    output = args.output or Path(f"results/{partial_results.EXPERIMENT}/{args.pass_name}.json")
    now, gpu = checkout(), gpu_name(gpus[0])
    run_name = partial_results.run_of(choices, installed_versions())
    argv = ["python", "-m", "experiments.end_to_end", *sys.argv[1:]]
    every = [
        Job(cell, partial_results.file_of(output, cell, run_name).resolve(), argv, now)
        for cell in plan.cells(choices, args.pass_name)
    ]
    there = {job.file: partial_results.read(job.file, args.pass_name) for job in every}
    todo = [job for job in every if not parts.is_done(there[job.file], now, gpu)]
    cells = [job.cell for job in todo]
    print(describe([job.cell for job in every], cells, len(gpus)))
    free = [n for gpu in gpus if (n := free_bytes(gpu)) is not None]
    if free and (large := too_large(cells, min(free))):
        print(f"  may not fit on this GPU: {large}")
    if args.dry_run:
        return 0
    check_place(output)
    faults, status = measure_cells(todo, gpus, output) if todo else ([], 0)
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


def measure_cells(todo: Sequence[Job], gpus: Sequence[str], output: Path) -> tuple[list[str], int]:
    """The faults beyond single rows, and the exit status for them."""
    python = PYTHON.read_text().strip() if PYTHON.exists() else ""
    if not python:
        raise InputError(f"{PYTHON}: is missing; run make reproduce-table1, which makes it")
    command = [python, "-m", "experiments.end_to_end.measure"]
    log = output.parent / f"{output.stem}.log"
    line = Line(plan.total_seconds([job.cell for job in todo], len(gpus)))
    scheduler = schedule.Scheduler(todo, lambda gpu: schedule.Process(command, gpu, log), line)
    scheduler.run(gpus)
    faults = [f"{fault} (log: {log})" for fault in scheduler.fault_lines()]
    return faults, (NOT_MEASURED if scheduler.run_failed else USAGE) if faults else 0


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


def describe(every: Sequence[Cell], todo: Sequence[Cell], gpus: int) -> str:
    """The plan of the run; the memory is the largest of its cells."""
    first, choices = every[0], every[0].choices
    rows = ", ".join(row.kernel for row in choices.rows)
    minutes = round(plan.total_seconds(todo, gpus) / 60) or 1
    needs = [n for cell in todo if (n := cell.bytes_needed)]
    memory = f", up to {max(needs) / 1e9:.0f} GB of GPU memory" if needs else ""
    where = "an H200" if gpus == 1 else f"{gpus} H200s"
    lines = [
        f"{first.pass_name}: {', '.join(map(plan.plain_name, choices.models))} at batch "
        f"{', '.join(map(str, choices.batches))}; {choices.tokens} new tokens, of which "
        f"{first.new_tokens(EAGER)} are generated eager and {first.new_tokens(GRAPH)} in a graph",
        f"  rows: {rows}; {plan.warm_up()} generation of each to warm up, "
        f"{first.samples(EAGER)} measured eager, {first.samples(GRAPH)} in a graph; "
        f"prompts: {choices.prompts.text}",
        f"  {len(every) - len(todo)} of {len(every)} cells already measured"
        + (f"; the remaining ones take about {minutes} min on {where}{memory}" if todo else ""),
    ]
    return "\n".join(lines)


def too_large(todo: Sequence[Cell], free: int) -> str:
    """The cells that need more than the GPU has free, as far as that is known; empty for none."""
    needs = {cell.text: cell.bytes_needed or 0 for cell in todo}
    large = [f"{text} (about {n / 1e9:.0f} GB)" for text, n in needs.items() if n > free]
    return f"{', '.join(large)}; {free / 1e9:.0f} GB are free now" if large else ""


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
    interruption.end_quietly()
    raise SystemExit(run(parser()))

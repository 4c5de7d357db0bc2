"""The process that measures one model, with PyTorch: `measure MODEL FAILED`, and the words of the
command that starts it, __main__.py. Writes a file for each cell that has none yet.
"""

import argparse
import json
import platform
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import reprolab_nf4
from experiments.end_to_end import (
    SEED,
    build,
    generate,
    plan,
    prompts,
    reference,
    rows,
)
from experiments.end_to_end import __main__ as command
from experiments.end_to_end.generate import MODES
from experiments.end_to_end.plan import Cell, plain_name
from experiments.end_to_end.protocol import PROFILE, TIMING
from experiments.end_to_end.rounds import Measured, Rounds
from experiments.end_to_end.rows import Row
from experiments.end_to_end.sizes import BLOCK_SIZE
from reprolab import parts, result_file
from reprolab.command_line import run
from reprolab.errors import USAGE, InputError
from reprolab.result_file import Content, checkout
from reprolab.results import Outcome
from reprolab.sources import Sources

INSTRUMENTS = {TIMING: "events", PROFILE: "activity"}


class Bench:
    """The GPU of this process, and the model that is loaded on it. `output`: the pass's file;
    `failed`: by cell and row, how an earlier process of this run died in it.
    """

    def __init__(self, gpu: Any, output: Path, failed: Mapping[str, Mapping[str, str]]):
        self.gpu, self.name, self.output, self.failed = gpu, "", output, failed
        self.process = secrets.token_hex(8)
        self.model: Any = None
        self.facts: dict[str, Any] = {}
        self.kinds: list[tuple[Any, torch.Tensor]] = []  # a weight of each, and its expected bits

    def begin(self, cell: Cell, row: str = "") -> None:
        """Names the row that is measured from here on, to the process that started this one."""
        running = command.running_of(self.output)
        running.parent.mkdir(parents=True, exist_ok=True)
        running.write_text(f"{cell.text}\n{row}")

    def load(self, cell: Cell) -> None:
        if self.name == cell.model:
            return
        self.name, self.model, self.kinds = "", None, []
        self.gpu.forget()
        if cell.size and cell.bytes_needed > self.gpu.free_bytes():
            raise torch.OutOfMemoryError
        if cell.size:
            self.model = build.from_sizes(cell.size, self.gpu.device)
        else:
            self.model = build.from_checkpoint(cell.model, self.gpu.device)
        build.check(self.model, plain_name(cell.model))
        self.facts = build.facts(self.model, plain_name(cell.model))
        self.kinds = [
            (weight, reference.dequantized(weight.data, weight.quant_state))
            for weight in build.kinds(self.model)
        ]
        self.name = cell.model

    def measure(self, cell: Cell) -> list[dict[str, Any]]:
        """The records of a cell."""
        chosen = cell.choices.rows
        states: dict[str, dict[Row, Measured]] = {}
        try:
            self.load(cell)
            batch = self.batch(cell)
            for name, mode_class in MODES.items():
                try:
                    mode = mode_class(self.model, batch, self.gpu)
                except InputError as reason:  # the other mode may run
                    states[name] = dict.fromkeys(chosen, Measured(Outcome.UNSUPPORTED, str(reason)))
                    continue
                states[name] = Rounds(self, mode, cell).run()
                del mode
                self.gpu.forget()
        except torch.OutOfMemoryError:
            reason = self.memory_error(cell)
            if self.name != cell.model and cell.size is None:
                raise InputError(f"not testable on this GPU: {reason}") from None
            for name in MODES:
                states.setdefault(
                    name, dict.fromkeys(chosen, Measured(Outcome.UNSUPPORTED, reason))
                )
        every = ((name, row, m) for name, by_row in states.items() for row, m in by_row.items())
        return [self.record(cell, *measured) for measured in every]

    def batch(self, cell: Cell) -> generate.Batch:
        vocab = self.model.get_input_embeddings().weight.shape[0]
        chosen = prompts.tokens_of(cell.batch, vocab)
        return generate.batch_of(chosen, cell.choices.tokens, self.gpu.device)

    def wrong_weights(self, row: Row) -> tuple[str, int] | None:
        """The reason and the number of wrong weights, from one matrix of each kind in the model."""
        for weight, expected in self.kinds:
            state = weight.quant_state
            with row.in_place():
                count = reference.count_wrong(weight.data, state, expected)
            if count:
                shape = " x ".join(map(str, state.shape))
                return f"{count} weights of {shape} are not the reference's", count
        return None

    def memory_error(self, cell: Cell) -> str:
        needed, there = cell.bytes_needed, self.gpu.facts()["memory_bytes"]
        needs = f"about {needed / 1e9:.0f} GB are needed" if needed else "more is needed"
        return f"out of memory: {needs}, the GPU has {there / 1e9:.0f} GB"

    def record(self, cell: Cell, mode: str, row: Row, state: Measured) -> dict[str, Any]:
        known, choices = cell.size, cell.choices
        facts = dict(self.facts) if self.name == cell.model else {"model": plain_name(cell.model)}
        if known:  # also for a model that did not fit
            sizes = {"layers": known.layers, "launches": known.launches}
            facts |= sizes | {"weights": known.nf4_weights}
            facts |= {"block_size": BLOCK_SIZE, "nested": False, "output": "fp16"}
        problem = {"name": f"{facts['model']}/batch{cell.batch}/{mode}", "family": "end_to_end"}
        problem |= facts | {"batch": cell.batch, "way": mode, "tokens": choices.tokens}
        problem |= {"generated": cell.new_tokens(mode), "prompts": prompts.TEXT}
        more: dict[str, Any] = {"process": self.process}
        # Where bitsandbytes chooses, the number of dequantizations is unknown.
        if "kernel_time" in state.samples and not state.failed and not row.may_fuse(cell.batch):
            read, written = facts["quantized_bytes"], 2 * facts["weights"]
            more["bytes"] = {"read": choices.tokens * read, "written": choices.tokens * written}
        described = row.described(self.gpu.facts())
        described |= {"deviation": state.deviation}
        return result_file.record(described, problem, **state.fields(), **more)


def origin(
    gpu: Any,
    started: float,
    argv: Sequence[str],
    instrument: str,
    sources: Sources,
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """A result file's provenance. `versions`: in addition to what generates text."""
    nvcc, architectures = reprolab_nf4.Library().built()
    installed = {name: version(name) for name in ("torch", "transformers", "bitsandbytes")}
    installed = {"Python": platform.python_version()} | installed
    build = {"compiler": ", ".join(" ".join(pair) for pair in installed.items()), "nvcc": nvcc}
    build |= {"type": "installed", "architectures": architectures}
    build |= {"versions": installed | versions}
    machine = {"gpu": gpu.facts(), "clocks": gpu.sensors.clocks()}
    return result_file.provenance(
        started, argv, instrument, build, measured=sources, seed=SEED, **machine
    )


def write_peers(
    output: Path,
    experiment: str,
    records_of: Callable[[Any], list[Content]],
    versions: Mapping[str, str],
) -> int:
    """Writes an experiment's pass `peers`, whose rows `records_of` measures; the exit status."""
    from experiments.end_to_end.gpu import Gpu

    started, sources = time.time(), checkout()
    build.quiet()
    gpu = Gpu()
    records = records_of(gpu)
    made = origin(gpu, started, sys.orig_argv, "events", sources, versions)
    result_file.write(output, result_file.content(experiment, "peers", made, records))
    return parts.status_of(records)


def serve(cells: Sequence[Cell], bench: Bench) -> list[str]:
    """Measures the cells that have no file yet. The faults of those whose input is wrong."""
    sources, faults = checkout(), []
    for cell in cells:
        file, started, name = cell.file(bench.output), time.time(), cell.pass_name
        if file.exists():
            continue
        try:
            rows.check(cell.choices.rows)
            bench.begin(cell)
            records = bench.measure(cell)
            made = origin(
                bench.gpu, started, command.command_line(), INSTRUMENTS[name], sources, {}
            )
            result_file.write(file, result_file.content(command.EXPERIMENT, name, made, records))
        except InputError as error:
            faults.append(f"{cell.text}: {error}")
            print(faults[-1], file=sys.stderr)
        else:
            print(f"{cell.text}: {time.time() - started:.0f} s", file=sys.stderr)
        finally:
            command.running_of(bench.output).unlink(missing_ok=True)
    return faults


def main() -> int:
    """Takes its own two words off the command line, so that files name the command that runs."""
    model, failed = sys.argv[1:3]
    del sys.argv[1:3]
    own = command.parser()
    own.set_defaults(run=lambda args: measure_model(args, model, json.loads(failed)))
    return run(own)


def measure_model(args: argparse.Namespace, model: str, failed: dict[str, dict[str, str]]) -> int:
    build.quiet()
    from experiments.end_to_end.gpu import Gpu

    cells = plan.cells(command.chosen(args), args.pass_name)
    own = [cell for cell in cells if cell.model == model]
    return USAGE if serve(own, Bench(Gpu(), args.output, failed)) else 0


if __name__ == "__main__":
    raise SystemExit(main())

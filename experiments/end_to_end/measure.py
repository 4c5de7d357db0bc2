"""The process that measures one model, with PyTorch: `measure PASS --model MODEL`, and the other
options of __main__.py, which starts it. Writes a file for each cell that has none yet.
"""

import argparse
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

import reprolab_nf4
from experiments.end_to_end import (
    SEED,
    build,
    generate,
    partial_results,
    prompts,
    reference,
    rows,
)
from experiments.end_to_end import __main__ as command
from experiments.end_to_end.generate import MODES
from experiments.end_to_end.plan import Cell, Job, plain_name
from experiments.end_to_end.protocol import PROFILE, TIMING
from experiments.end_to_end.rounds import Measured, Rounds
from experiments.end_to_end.rows import Row
from experiments.end_to_end.sizes import BLOCK_SIZE
from reprolab import provenance, result_file
from reprolab.command_line import run
from reprolab.errors import USAGE, InputError
from reprolab.provenance import checkout
from reprolab.results import Outcome
from reprolab.sources import Sources

INSTRUMENTS = {TIMING: "events", PROFILE: "activity"}


class Bench:
    """The GPU of this process, and the model that is loaded on it."""

    def __init__(self, gpu: Any):
        self.gpu, self.name = gpu, ""
        self.process = secrets.token_hex(8)
        self.model, self.tokenizer = None, None
        self.facts: dict[str, Any] = {}
        self.kinds: list[tuple[Any, torch.Tensor]] = []  # a weight of each, and its expected bits

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
            self.model, self.tokenizer = build.from_checkpoint(cell.model, self.gpu.device)
        build.check(self.model, plain_name(cell.model))
        self.facts = build.facts(self.model, plain_name(cell.model))
        self.kinds = [
            (weight, reference.dequantized(weight.data, weight.quant_state))
            for weight in build.kinds(self.model)
        ]
        self.name = cell.model

    def measure(self, job: Job) -> list[dict[str, Any]]:
        """The records of a cell."""
        cell, chosen = job.cell, job.cell.choices.rows
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
                states[name] = Rounds(self, mode, job).run()
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
        vocab, tokenizer = self.model.get_input_embeddings().weight.shape[0], self.tokenizer
        tokenize = (lambda text: tokenizer(text)["input_ids"]) if tokenizer else None
        chosen = prompts.tokens_of(cell.choices.prompts, cell.batch, vocab, tokenize)
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
        weights = list(Path(cell.model).glob("*.safetensors")) if not needed else []
        if weights:
            total = sum(file.stat().st_size for file in weights)
            needs = f"its weights alone take {total / 1e9:.1f} GB"
        return f"out of memory: {needs}, the GPU has {there / 1e9:.0f} GB"

    def record(self, cell: Cell, mode: str, row: Row, state: Measured) -> dict[str, Any]:
        known, choices = cell.size, cell.choices
        facts = dict(self.facts) if self.name == cell.model else {"model": plain_name(cell.model)}
        if known:  # also for a model that did not fit
            sizes = {"layers": known.layers, "launches": known.launches}
            facts |= sizes | {"weights": known.nf4_weights}
            facts |= {"block_size": BLOCK_SIZE, "nested": False, "output": "fp16"}
        family = partial_results.FAMILY
        problem = {"name": f"{facts['model']}/batch{cell.batch}/{mode}", "family": family}
        problem |= facts | {"batch": cell.batch, "way": mode, "tokens": choices.tokens}
        problem |= {"generated": cell.new_tokens(mode), "prompts": choices.prompts.text}
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
    versions: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """A result file's provenance. `versions`: in addition to installed_versions()."""
    nvcc, architectures = reprolab_nf4.Library().built()
    build = {"compiler": partial_results.made_with(), "nvcc": nvcc, "type": "installed"}
    build |= {
        "architectures": architectures,
        "versions": partial_results.installed_versions() | versions,
    }
    machine = {"gpu": gpu.facts(), "clocks": gpu.sensors.clocks()}
    return provenance.of_run(
        started, argv, instrument, build, measured=sources, seed=SEED, **machine
    )


def serve(jobs: Sequence[Job], gpu: Any) -> list[str]:
    """Measures the cells. Returns the faults of those whose input is wrong."""
    bench, faults = Bench(gpu), []
    for number, job in enumerate(jobs, 1):
        started, name = time.time(), job.cell.pass_name
        try:
            rows.check(job.cell.choices.rows)
            records = bench.measure(job)
            made = origin(gpu, started, job.argv, INSTRUMENTS[name], job.sources)
            content = result_file.content(partial_results.EXPERIMENT, name, made, records)
            result_file.write(job.file, content)
        except InputError as error:
            faults.append(f"{job.cell.text}: {error}")
            print(faults[-1], file=sys.stderr)
        else:
            job.failed_rows.unlink(missing_ok=True)
            done = f"{number} of {len(jobs)} cells of the model, {time.time() - started:.0f} s"
            print(f"{job.cell.text}: {done}", file=sys.stderr)
        finally:
            job.running.unlink(missing_ok=True)
    return faults


def main(args: argparse.Namespace) -> int:
    build.quiet()
    from experiments.end_to_end.gpu import Gpu

    gpu, choices = Gpu(), command.chosen(args)
    run_name = partial_results.run_of(choices, partial_results.made_with())
    every = partial_results.jobs(
        choices, args.pass_name, command.output_of(args), run_name, sys.argv[1:], checkout()
    )
    name = gpu.facts()["name"]
    todo = [job for job in every if not partial_results.is_done(job, name)]
    return USAGE if serve(todo, gpu) else 0


if __name__ == "__main__":
    own = command.parser()
    own.set_defaults(run=main)
    raise SystemExit(run(own))

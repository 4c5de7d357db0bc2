"""The process that measures, one for each GPU: `measure FD`. Jobs come in through the pipe of that
number, and reports of progress go out through it; schedule.py has the other end.
"""

import secrets
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
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
from experiments.end_to_end.generate import MODES
from experiments.end_to_end.host import Host
from experiments.end_to_end.plan import Cell, Job, plain
from experiments.end_to_end.protocol import EAGER, PROFILE, TIMING
from experiments.end_to_end.rounds import Measured, Report, Rounds
from experiments.end_to_end.rows import Row
from experiments.end_to_end.sizes import BLOCK_SIZE
from records import provenance, result_file
from records.errors import InputError
from records.results import Outcome
from records.sources import Sources

INSTRUMENTS = {TIMING: "events", PROFILE: "activity"}


class Bench:
    """The GPU of this process, and the model that is loaded on it."""

    def __init__(self, gpu: Any, host: Host):
        self.gpu, self.host, self.name = gpu, host, ""
        self.process = secrets.token_hex(8)
        self.model, self.tokenizer = None, None
        self.facts: dict[str, Any] = {}
        self.kinds: list[tuple[Any, torch.Tensor]] = []  # a weight of each, and what is expected

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
        build.check(self.model, plain(cell.model))
        self.facts = build.facts(self.model, plain(cell.model))
        self.kinds = [
            (weight, reference.dequantized(weight.data, weight.quant_state))
            for weight in build.kinds(self.model)
        ]
        self.name = cell.model

    def measure(self, job: Job, report: Report) -> list[dict[str, Any]]:
        """The records of a cell."""
        cell, chosen = job.cell, job.cell.choices.rows
        found: dict[str, dict[Row, Measured]] = {}
        try:
            self.load(cell)
            batch = self.batch(cell)
            for name, mode_class in MODES.items():
                try:
                    mode = mode_class(self.model, batch, self.gpu)
                except InputError as why:  # the other mode may do
                    found[name] = dict.fromkeys(chosen, Measured(Outcome.UNSUPPORTED, str(why)))
                    continue
                found[name] = Rounds(self, mode, job, report).run()
                del mode
                self.gpu.forget()
        except torch.OutOfMemoryError:
            why = self.too_little(cell)
            if self.name != cell.model and cell.size is None:
                raise InputError(f"not testable on this GPU: {why}") from None
            for name in MODES:
                found.setdefault(name, dict.fromkeys(chosen, Measured(Outcome.UNSUPPORTED, why)))
        every = ((name, row, m) for name, by_row in found.items() for row, m in by_row.items())
        return [self.record(cell, *measured) for measured in every]

    def batch(self, cell: Cell) -> generate.Batch:
        vocab, tokenizer = self.model.get_input_embeddings().weight.shape[0], self.tokenizer
        tokenize = (lambda text: tokenizer(text)["input_ids"]) if tokenizer else None
        chosen = prompts.tokens_of(cell.choices.prompts, cell.batch, vocab, tokenize)
        return generate.batch_of(chosen, cell.choices.tokens, self.gpu.device)

    def wrong_weights(self, row: Row) -> tuple[str, int] | None:
        """The error, and the number of wrong weights, in one matrix of each kind in the model."""
        for weight, expected in self.kinds:
            state = weight.quant_state
            with row.in_place():
                count = reference.count_wrong(weight.data, state, expected)
            if count:
                shape = " x ".join(map(str, state.shape))
                return f"{count} weights of {shape} are not the reference's", count
        return None

    def too_little(self, cell: Cell) -> str:
        needed, there = cell.bytes_needed, self.gpu.facts()["memory_bytes"]
        needs = f"about {needed / 1e9:.0f} GB are needed" if needed else "more is needed"
        files = list(Path(cell.model).glob("*.safetensors")) if not needed else []
        if files:
            needs = f"its weights alone take {sum(f.stat().st_size for f in files) / 1e9:.1f} GB"
        return f"out of memory: {needs}, the GPU has {there / 1e9:.0f} GB"

    def record(self, cell: Cell, mode: str, row: Row, found: Measured) -> dict[str, Any]:
        known, choices = cell.size, cell.choices
        facts = dict(self.facts) if self.name == cell.model else {"model": plain(cell.model)}
        if known:  # of a model that did not fit, too
            sizes = {"layers": known.layers, "launches": known.launches}
            facts |= sizes | {"weights": known.nf4_weights}
            facts |= {"block_size": BLOCK_SIZE, "nested": False, "output": "fp16"}
        family = partial_results.FAMILY
        problem = {"name": f"{facts['model']}/batch{cell.batch}/{mode}", "family": family}
        problem |= facts | {"batch": cell.batch, "way": mode, "tokens": choices.tokens}
        problem |= {"generated": cell.generated(mode), "prompts": choices.prompts.text}
        on_hosts_clock = cell.pass_name == TIMING and mode == EAGER
        more: dict[str, Any] = {"process": self.process}
        more |= {"disturbed": asdict(found.disturbed)} if on_hosts_clock else {}
        # Where bitsandbytes chooses, the number of dequantizations is unknown.
        if "kernel_time" in found.samples and not found.failed and not row.may_fuse(cell.batch):
            read, written = facts["quantized_bytes"], 2 * facts["weights"]
            more["bytes"] = {"read": choices.tokens * read, "written": choices.tokens * written}
        described = row.described(self.gpu.facts())
        described |= {"deviation": found.deviation}
        return result_file.record(described, problem, **found.fields(), **more)


def origin(
    gpu: Any,
    started: float,
    argv: Sequence[str],
    instrument: str,
    measured: Sources,
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """A result file's provenance. `more`: versions beside those of partial_results.installed()."""
    nvcc, architectures = reprolab_nf4.Library().built()
    build = {"compiler": partial_results.made_with(), "nvcc": nvcc, "type": "installed"}
    build |= {"architectures": architectures, "versions": partial_results.installed() | more}
    machine = {"gpu": gpu.facts(), "clocks": gpu.sensors.clocks()}
    return provenance.of_run(
        started, argv, instrument, build, measured=measured, seed=SEED, **machine
    )


def serve(jobs: Iterable[Job], report: Report, gpu: Any, host: Host) -> None:
    """The last message on each job is `ended`: empty, or the error in the user's input."""
    bench = Bench(gpu, host)
    for job in jobs:
        started = time.time()
        try:
            rows.check(job.cell.choices.rows)
            name = job.cell.pass_name
            records = bench.measure(job, report)
            made = origin(gpu, started, job.argv, INSTRUMENTS[name], job.sources)
            found = result_file.content(partial_results.EXPERIMENT, name, made, records)
            result_file.write(job.file, found)
        except InputError as error:
            report({"ended": str(error)})
        else:
            report({"ended": ""})


def main() -> None:
    pipe = Connection(int(sys.argv[1]))
    build.quiet()
    from experiments.end_to_end.gpu import Gpu

    gpu = Gpu()
    pipe.send({})  # there is such a GPU: if this process dies now, it is another's fault
    with suppress(EOFError):  # the other end is closed
        serve(iter(pipe.recv, None), pipe.send, gpu, Host())


if __name__ == "__main__":
    main()

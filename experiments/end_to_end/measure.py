"""The process that measures, one for each GPU. Jobs come in on standard input, a line of JSON each,
and what it does goes out on standard output in the same form; deal.py is at the other end.

The rows of a cell are interleaved: a generation of each, in an order shuffled with a seed, over and
over.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from claims import provenance
from claims.end_to_end import NOTHING, PROFILE, TIMING, WALL_TIME
from claims.errors import InputError
from experiments.end_to_end import build, generate, parts, prompts, reference, rows, ways
from experiments.end_to_end.code import code_of
from experiments.end_to_end.plan import (
    WARM_UP,
    Cell,
    Choices,
    Row,
    bytes_needed,
    plain,
    size_of,
)
from experiments.end_to_end.prompts import Prompts
from experiments.end_to_end.protocol import (
    Exactness,
    RecordsLost,
    Tokens,
    count_different,
    distinct,
)
from experiments.end_to_end.sizes import BLOCK_SIZE

WAYS = (ways.Eager, ways.Graph)
Way = ways.Eager | ways.Graph
Report = Callable[[dict[str, Any]], None]
INSTRUMENTS = {TIMING: "events", PROFILE: "activity"}


@dataclass
class Measured:
    """What came of a row so far; one that has failed is not run again."""

    outcome: str = "bit_exact"
    reason: str = ""
    mismatches: int | None = None
    difference: str = ""  # of its tokens from the baseline's, which no deviation allows
    deviation: str | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)
    sm_mhz: list[float] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.outcome not in ("bit_exact", "deviation_as_declared")

    def fail(self, outcome: str, reason: str, mismatches: int | None = None) -> None:
        self.outcome, self.reason, self.mismatches = outcome, reason, mismatches

    def metrics(self) -> list[dict[str, Any]]:
        found = []
        for name, values in {} if self.failed else self.samples.items():
            told = {"samples": [round(value, 3) for value in values]}
            if not all(values):
                told = {"missing": NOTHING}
            found.append({"name": name, "unit": "us", **told})
        return found

    def clocks(self) -> dict[str, float | None]:
        mhz = self.sm_mhz
        ends = (mhz[0], sorted(mhz)[len(mhz) // 2], mhz[-1]) if mhz else (None, None, None)
        return dict(zip(("sm_mhz_before", "sm_mhz_during", "sm_mhz_after"), ends, strict=True))


class Bench:
    """The GPU of this process, and the model that lies on it."""

    def __init__(self, gpu: Any):
        self.gpu, self.name = gpu, ""
        self.model, self.tokenizer = None, None
        self.facts: dict[str, Any] = {}
        self.kinds: list[tuple[Any, torch.Tensor]] = []  # a weight of each, and what is expected

    def load(self, cell: Cell, choices: Choices) -> None:
        if self.name == cell.model:
            return
        self.name, self.model, self.kinds = "", None, []
        self.gpu.forget()
        known = size_of(cell.model)
        if known and bytes_needed(choices, cell) > self.gpu.free_bytes():
            raise torch.OutOfMemoryError
        if known:
            self.model = build.from_sizes(known, self.gpu.device, choices.seed)
        else:
            self.model, self.tokenizer = build.from_checkpoint(cell.model, self.gpu.device)
        build.check(self.model, plain(cell.model))
        self.facts = build.facts(self.model, plain(cell.model))
        self.kinds = [
            (weight, reference.dequantized(weight.data, weight.quant_state))
            for weight in build.kinds(self.model)
        ]
        self.name = cell.model

    def measure(
        self, cell: Cell, choices: Choices, failed: dict[str, str], report: Report
    ) -> list[dict[str, Any]]:
        """The records of a cell. `failed`: rows that brought an earlier process down, and how."""
        found: dict[str, dict[Row, Measured]] = {}
        try:
            self.load(cell, choices)
            batch = self.batch(cell, choices)
            for way_class in WAYS:
                try:
                    way = way_class(self.model, batch, self.gpu)
                except InputError as why:  # other ways may do
                    refused = Measured()
                    refused.fail("unsupported", str(why))
                    found[way_class.name] = dict.fromkeys(choices.rows, refused)
                    continue
                found[way.name] = self.measure_way(way, cell, choices, failed, report)
                del way
                self.gpu.forget()
        except torch.OutOfMemoryError:
            if self.name != cell.model and size_of(cell.model) is None:
                raise InputError(
                    f"not testable on this GPU: {self.too_little(cell, choices)}"
                ) from None
            too_little = Measured()
            too_little.fail("unsupported", self.too_little(cell, choices))
            for way_class in WAYS:
                found.setdefault(way_class.name, dict.fromkeys(choices.rows, too_little))
        every = ((name, row, m) for name, by_row in found.items() for row, m in by_row.items())
        return [self.record(cell, choices, *measured) for measured in every]

    def batch(self, cell: Cell, choices: Choices) -> generate.Batch:
        vocab = self.model.get_input_embeddings().weight.shape[0]
        tokenizer = self.tokenizer
        tokenize = (lambda text: tokenizer(text)["input_ids"]) if tokenizer else None
        chosen = prompts.tokens_of(choices.prompts, cell.batch, vocab, choices.seed, tokenize)
        return generate.batch_of(chosen, choices.tokens, self.gpu.device)

    def measure_way(
        self,
        way: Way,
        cell: Cell,
        choices: Choices,
        failed: dict[str, str],
        report: Report,
    ) -> dict[Row, Measured]:
        found = {row: Measured() for row in choices.rows}
        learned: dict[Row, Any] = {}

        def run(row: Row) -> tuple[Tokens, dict[str, float]]:
            if cell.pass_name == PROFILE:
                return ways.profiled(way, row, *learned[row])
            generated = way.run(row)
            self.gpu.sensors.read()
            times = {WALL_TIME: generated.wall_us, f"{WALL_TIME}.step": generated.step_us}
            return generated.tokens, times

        def prepare(row: Row) -> None:
            if row.kernel in failed:
                found[row].fail("launch_failed", failed[row.kernel])
            elif wrong := self.wrong_weights(row):
                found[row].fail("mismatch", *wrong)
            elif why := way.prepare(row):
                found[row].fail("unsupported", why)
            elif cell.pass_name == PROFILE:
                learned[row] = ways.learn(way, row)

        baseline = choices.rows[0]
        exact = Exactness(again=lambda: run(baseline)[0])
        turns = turns_of(choices, cell, way.name)
        for done, (row, warms_up) in enumerate(turns):
            part = (WAYS.index(type(way)) + done / len(turns)) / len(WAYS)
            report({"row": row.kernel, "way": way.name, "part": part})
            try:
                if done < len(choices.rows):  # its first turn
                    prepare(row)
                if not found[row].failed and found[baseline].failed and not exact.outputs:
                    fail_with(found[row], baseline, found[baseline])
                if found[row].failed:
                    continue
                tokens, values = run(row)
                if row == baseline:
                    exact.admit(tokens)
                judge(found[row], row, exact, tokens)
            except InputError as why:
                found[row].fail("unsupported", str(why))
            except RecordsLost as lost:
                found[row].fail("not_measured", str(lost))
            except torch.OutOfMemoryError:
                if not done:  # nothing fits at all
                    raise
                found[row].fail("not_measured", self.too_little(cell, choices))
                self.gpu.forget()
            clock = self.gpu.sensors.sm_mhz
            if not warms_up and not found[row].failed:
                for name, value in values.items():
                    found[row].samples.setdefault(name, []).append(value)
                found[row].sm_mhz += [clock] if clock else []
        report({"row": "", "way": way.name, "part": part})  # what follows is no row's
        for measured in found.values():
            # The baseline may have been seen to vary since.
            if measured.difference:
                blame(measured, exact)
            elif exact.varies and measured.outcome == "bit_exact":
                measured.reason += f"; {exact.remark}"
        return found

    def wrong_weights(self, row: Row) -> tuple[str, int] | None:
        """What is wrong, and how many weights, in one matrix of each kind that the model has."""
        for weight, expected in self.kinds:
            state = weight.quant_state
            count = rows.count_wrong(rows.in_place(row), weight.data, state, expected)
            if count:
                shape = " x ".join(map(str, state.shape))
                return f"{count} weights of {shape} are not the reference's", count
        return None

    def too_little(self, cell: Cell, choices: Choices) -> str:
        needed, there = bytes_needed(choices, cell), self.gpu.facts()["memory_bytes"]
        needs = f"about {needed / 1e9:.0f} GB are needed" if needed else "more is needed"
        files = list(Path(cell.model).glob("*.safetensors")) if not needed else []
        if files:
            needs = f"its weights alone take {sum(f.stat().st_size for f in files) / 1e9:.1f} GB"
        return f"out of memory: {needs}, the GPU has {there / 1e9:.0f} GB"

    def record(
        self, cell: Cell, choices: Choices, way: str, row: Row, found: Measured
    ) -> dict[str, Any]:
        known = size_of(cell.model)
        facts = dict(self.facts) if self.name == cell.model else {"model": plain(cell.model)}
        if known:  # of a model that did not fit, too
            sizes = {"layers": known.layers, "launches": known.launches}
            facts |= sizes | {"weights": known.nf4_weights}
            facts |= {"block_size": BLOCK_SIZE, "nested": False, "output": "fp16"}
        problem = {"name": f"{facts['model']}/batch{cell.batch}/{way}", "family": parts.FAMILY}
        problem |= facts | {"batch": cell.batch, "way": way, "tokens": choices.tokens}
        problem |= {"prompts": choices.prompts.text}
        measured = {"outcome": found.outcome, "reason": found.reason, "clocks": found.clocks()}
        measured |= {"mismatches": found.mismatches, "metrics": found.metrics()}
        # Where bitsandbytes chooses, nothing says how often it dequantized.
        if "kernel_time" in found.samples and not found.failed and not rows.may_fuse(row):
            read, written = facts["quantized_bytes"], 2 * facts["weights"]
            moved = {"read": choices.tokens * read, "written": choices.tokens * written}
            measured["bytes"] = moved
        described = rows.described(row) | {"deviation": found.deviation}
        described["code"] = code_of(row, self.gpu.facts()["compute_capability"])
        return parts.record(described, problem, **measured)


def turns_of(choices: Choices, cell: Cell, way: str) -> list[tuple[Row, bool]]:
    """The rows in the order of their generations, and whether one only warms up."""
    rng = random.Random(f"{choices.seed}/{cell.name}/{way}")
    turns = [(row, True) for _ in range(WARM_UP) for row in choices.rows]
    for _ in range(choices.samples(cell.pass_name)):
        turns += [(row, False) for row in rng.sample(choices.rows, len(choices.rows))]
    return turns


def fail_with(found: Measured, baseline: Row, failed: Measured) -> None:
    """Where the baseline never gave tokens, there is nothing to compare with."""
    outcome = "not_measured" if failed.outcome == "not_measured" else "unsupported"
    found.fail(outcome, f"{baseline.kernel}: {failed.reason}")


def judge(found: Measured, row: Row, exact: Exactness, tokens: Tokens) -> None:
    """Other tokens than the baseline's are wrong, but where bitsandbytes sums in its own order, or
    where the baseline's own vary.
    """
    may_differ = rows.may_fuse(row)
    difference = exact.difference(tokens) if may_differ else exact.compare(tokens)
    if not difference:
        compared = f"{sum(map(len, tokens))} tokens compared each time, {distinct(tokens)} distinct"
        found.reason = found.reason or compared
        return
    count = count_different(tokens, exact.outputs[0])
    if may_differ:
        found.outcome, found.deviation = "deviation_as_declared", rows.FUSED
        found.reason, found.mismatches = difference, count
    else:
        found.difference, found.mismatches = difference, count
        blame(found, exact)


def blame(found: Measured, exact: Exactness) -> None:
    """Who made a difference of tokens shows only where the baseline repeats itself."""
    if exact.varies:
        found.fail("not_verified", f"{found.difference}; {exact.remark}", found.mismatches)
    else:
        itself = "run against itself, the baseline does not differ"
        found.fail("mismatch", f"{found.difference}; {itself}", found.mismatches)


def origin(gpu: Any, job: dict[str, Any], started: float) -> dict[str, Any]:
    import dropin

    commit, dirty = job["commit"]
    nvcc, architectures = dropin.Library().built()
    return {
        "started": provenance.utc(started),
        "runtime_s": round(time.time() - started, 1),
        "argv": job["argv"],
        "commit": commit,
        "dirty": dirty,
        "instrument": INSTRUMENTS[job["cell"]["pass_name"]],
        "seed": job["choices"]["seed"],
        "build": {
            "compiler": parts.made_with(),
            "nvcc": nvcc,
            "type": "installed",
            "architectures": architectures,
        },
        "host": provenance.host(),
        "gpu": gpu.facts(),
        "clocks": gpu.sensors.clocks(),
    }


def chosen(job: dict[str, Any]) -> Choices:
    """As dataclasses.asdict took it apart, and JSON made lists of tuples."""
    found = job["choices"]
    items = (tuple(i) if isinstance(i, list) else i for i in found["prompts"]["items"])
    return Choices(
        **found
        | {
            "models": tuple(found["models"]),
            "batches": tuple(found["batches"]),
            "rows": tuple(Row(**row) for row in found["rows"]),
            "prompts": Prompts(tuple(items), found["prompts"]["text"]),
        }
    )


def serve(jobs: Iterator[str], report: Report, gpu: Any) -> None:
    """Each job ends with a line that has `ended`: empty, or what was wrong with what was given."""
    bench = Bench(gpu)
    for line in jobs:
        job, started = json.loads(line), time.time()
        cell, choices = Cell(**job["cell"]), chosen(job)
        try:
            rows.check(choices.rows)
            records = bench.measure(cell, choices, job["failed"], report)
            content = parts.content(cell.pass_name, origin(gpu, job, started), records)
            parts.write(Path(job["file"]), content)
        except InputError as error:
            report({"ended": str(error)})
        else:
            report({"ended": ""})


def main() -> None:
    # What libraries print is not to come between the lines for deal.py.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    build.quiet()
    from experiments.end_to_end.gpu import Gpu

    def report(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=out)

    gpu = Gpu()
    report({"ready": True})  # there is such a GPU: if the process dies now, it is another's fault
    serve(sys.stdin, report, gpu)


if __name__ == "__main__":
    main()

"""Result files by hand, valid by data/results.schema.json, and recorded runs with changes."""

import copy
import hashlib
import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from reprolab import result_file
from reprolab.claims.evidence import Evidence
from reprolab.claims.ledger import Decision, decide
from reprolab.claims.published import Source, load_source, load_sources
from reprolab.claims.rules import Verdict
from reprolab.json_files import ROOT, read_json
from reprolab.results import SCHEMA, Results, json_files, parse

PUBLISHED = ROOT / "data/published"
# The provenance of all made files: that of a recorded run.
ORIGIN = read_json(ROOT / "data/recorded/h200/ladder/plain.json")["provenance"]
GPU, CLOCKS = ORIGIN["gpu"], ORIGIN["clocks"]
GPU_NAMES = {"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200"}


def provenance(**changes: Any) -> dict[str, Any]:
    fields = {"started": "2026-11-20T08:00:00Z", "instrument": "activity"}
    return copy.deepcopy(ORIGIN) | fields | changes


def metric(name: str, samples: list[float], unit: str = "us") -> dict[str, Any]:
    return {"name": name, "unit": unit, "samples": samples}


def code_of(target: str, kernel: str, version: str = "") -> dict[str, Any]:
    """The digest of a kernel, which changes with `version`."""
    digest = hashlib.sha256(f"{kernel}{version}".encode()).hexdigest()
    return {"target": target, "sha256": {f"{kernel}.cu": digest}}


def record(problem: dict[str, Any], kernel: str, samples: list[float] = (), **changes: Any):
    """One row; `products`: times of the matrix products of the same passes."""
    n = problem.get("n", problem.get("weights", 0))
    named = (("kernel_time", samples), ("product_time", changes.pop("products", ())))
    row = {"kernel": kernel, "origin": {"kind": "project", "maker": ""}, "lineage": "ours"}
    row |= {"source_file": f"kernels/{problem['family']}/{kernel}.cu", "deviation": None}
    row |= {"code": code_of(problem.get("arch", "sm_90"), kernel)}
    measured = {"outcome": "bit_exact", "bytes": {"read": n // 2 + n // 16, "written": 2 * n}}
    measured |= {"metrics": [metric(name, list(values)) for name, values in named if values]}
    measured |= {"clocks": dict.fromkeys(("sm_mhz_before", "sm_mhz_during", "sm_mhz_after"), 1980)}
    return result_file.record(row, problem, **measured | changes)


def results(experiment: str, name: str, records: list[Any], **changes: Any) -> dict[str, Any]:
    return result_file.content(experiment, name, provenance(), records) | changes


def forward_pass(model: str, batch: int, **changes: Any) -> dict[str, Any]:
    """The problem of a replay."""
    problem = {"name": f"{model}/batch{batch}/fp16/b64", "family": "nf4", "model": model}
    problem |= {"batch": batch, "block_size": 64, "nested": False, "output": "fp16"}
    problem |= {"layers": 64, "layers_resident": 64, "launches": 448}
    return problem | {"weights": 10**9, "weights_resident": 10**9} | changes


def replay(times: dict[str, list[float]], batch: int = 2) -> dict[str, Any]:
    """The pass with one forward pass, and a row for each kernel."""
    problem = forward_pass("qwen3-32b", batch)
    return results("table2", "replay", [record(problem, *row) for row in times.items()])


def generated(model: str, batch: int, way: str = "eager", **changes: Any) -> dict[str, Any]:
    """The problem of text that transformers generated."""
    problem = {"name": f"{model}/batch{batch}/{way}", "family": "end_to_end", "model": model}
    problem |= {"batch": batch, "way": way, "tokens": 32, "prompts": "lengths as GSM8K's, seed 1"}
    problem |= {"layers": 64, "launches": 448, "weights": 31205621760, "parameters": 32762123264}
    problem |= {"quantized_bytes": 17553162240, "memory_bytes": 20664000000}
    return problem | {"block_size": 64, "nested": False, "output": "fp16"} | changes


def fail(row: dict[str, Any], outcome: str, reason: str = "1 of 8 weights differ") -> None:
    row.update(outcome=outcome, reason=reason, metrics=[], launch=None)


def read(file: dict[str, Any], path: str = "") -> Results:
    """The file as if read from disk."""
    place = Path(path or f"{file['pass']}.json")
    SCHEMA.check(place, file)
    return parse(place, file)


@cache
def repetitions(name: str) -> dict[str, list[Results]]:
    """The runs of an archive of data/repetitions, by their places in data/run_to_run.json."""
    runs: dict[str, list[Results]] = {}
    with tarfile.open(ROOT / f"data/repetitions/{name}.tar.xz") as archive:
        for member in archive:
            run = f"data/repetitions/{'/'.join(member.name.split('/')[:2])}"
            file = json.load(archive.extractfile(member))
            runs.setdefault(run, []).append(read(file, str(ROOT / run / file["pass"])))
    return runs


@cache
def all_sources() -> list[Source]:
    return load_sources()


def with_claim(name: str) -> list[Source]:
    """The source of a claim, with only that claim."""
    every = ((s, claim) for s in all_sources() for claim in s.claims)
    return [replace(s, claims=(claim,)) for s, claim in every if claim.id == name]


def on(gpu: str, file: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """The same run on another GPU."""
    file = copy.deepcopy(file)
    file["provenance"]["gpu"] |= {"name": gpu} | facts
    return file


def raw(name: str) -> dict[str, Any]:
    """A source's file as it is written."""
    return json.loads((PUBLISHED / f"{name}.json").read_text())


def paper(write: Callable[[str, Any], Path], change: Callable[[dict[str, Any]], Any]) -> Source:
    """The paper with changed content."""
    root = raw("paper")
    change(root)
    return load_source(write("paper.json", root))


# Recorded runs in which some numbers or outcomes are changed.

Row = dict[str, Any]
# Rows of "experiment/pass", by patterns of kernels and problems; False drops the row.
Change = tuple[str, str, str, Callable[[Row], Any]]


@cache
def roots(gpu: str) -> dict[Path, Any]:
    files = sorted(json_files(ROOT / f"data/recorded/{gpu}"))
    return {file: root for file in files if "records" in (root := read_json(file))}


@cache
def parsed(gpu: str, file: Path) -> Results:
    return parse(file, roots(gpu)[file])


def changed(row: Row, changes: Sequence[Change]) -> Row | None:
    """A copy, if a change is of the row; None if one drops it."""
    for _, kernel, problem, change in changes:
        if fnmatchcase(row["kernel"], kernel) and fnmatchcase(row["problem"]["name"], problem):
            row = copy.deepcopy(row)
            if change(row) is False:
                return None
    return row


def evidence(gpu: str, changes: Sequence[Change] = (), name: str = "") -> Evidence:
    """`name`: of another GPU, as if the run were of it; rows keep their own spread."""
    found = {}
    for file, root in roots(gpu).items():
        place = f"{root['experiment']}/{root['pass']}"
        own = [change for change in changes if fnmatchcase(place, change[0])]
        of = parsed(gpu, file)
        if own or name:
            pairs = [(row, changed(row, own)) for row in root["records"]]
            if name and root["provenance"]["gpu"]:
                root = on(name, root | {"records": []})
            by_key = {row.key: row for row in of.records}  # to parse them all again takes seconds
            edited = [after for before, after in pairs if after and after is not before]
            of = parse(file, root | {"records": edited})
            by_key |= {row.key: row for row in of.records}
            of = replace(of, records=tuple(by_key[after["key"]] for _, after in pairs if after))
        found[of.experiment, of.pass_name] = of
    return Evidence(found, ROOT / f"data/recorded/{gpu}")


def decision(
    claim: str, gpu: str, *more: Change, changes: Sequence[Change] = (), name: str = ""
) -> Decision:
    (decided,) = decide(evidence(gpu, (*more, *changes), name), with_claim(claim))
    return decided


def verdict(claim: str, cell: str, gpu: str, *changed: Change, **more: Any) -> Verdict:
    """On the first cell with this text, in a reading that begins with what follows '|'."""
    text, _, reading = cell.partition(" | ")
    verdicts = decision(claim, gpu, *changed, **more).verdicts
    return next(v for v in verdicts if v.cell.text == text and v.cell.reading.startswith(reading))


def scaled(place: str, kernel: str, metric: str, factor: float, problem: str = "*") -> Change:
    """The samples of the metrics that the pattern matches."""

    def change(row: Row) -> None:
        for of in row["metrics"]:
            if fnmatchcase(of["name"], metric) and "samples" in of:
                of["samples"] = [factor * sample for sample in of["samples"]]

    return place, kernel, problem, change

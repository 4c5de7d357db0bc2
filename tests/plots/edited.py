"""Small editable copies of the recorded runs."""

import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reprolab import declared
from reprolab.json_files import ROOT, read_json

RECORDED = ROOT / "data/recorded/h200"

# By pass: the problems that are kept, of all that would take long to draw.
KEPT = {
    "counters/nf4_*": ("21504x5376/*", "28672x8192/*"),
    "counters/sass": ("sm_80", "sm_90"),
    "end_to_end/*": ("qwen3-32b/batch2/*", "qwen3-32b/batch8/*", "llama-3.3-70b/batch2/*"),
    "ladder/cold": ("16x*", "4096x*", "28672x*"),
    "ladder/warm": ("16x*", "4096x*", "28672x*"),
    "product/layers": ("*x1024x8192/*", "*x28672x8192/*"),
    "streaming/layers*": ("28672x8192/*", "8192x8192/*", "1024x5120/*"),
    "streaming/formats": ("*/b32", "*/b64"),
    "streaming/places*": ("2867*", "1024x*"),
    "streaming/shapes*": ("1024x4096/*", "28672x8192/*"),
    "table2/replay": ("qwen3-32b/batch2/*", "qwen3-32b/batch8/*"),
    "table2/shapes": ("1024x5120/*", "25600x5120/*"),
    "transpose/sizes": ("256x*", "1000x*", "1023x*", "1024x*", "4096x*", "65536x*"),
}
# Likewise the kernels.
KERNELS = {
    "counters/*": ("branch_tree", "shared_lut", "shared_lut_algorithm1", "constant_lut", "copy")
    + ("tma_naive", "tiled", "*_load", "global_*", "*_chain", "shared_store*"),
}
# Passes that tests keep, because kernels change more often than they are recorded: a few rows of an
# earlier run, without their code.
OWN = {"product/peers": ROOT / "experiments/product/tests/product_peers.json"}

File = dict[str, Any]
Row = dict[str, Any]


def few(name: str) -> File:
    """The recorded file of a pass, with few rows."""
    return json.loads(text_of_few(name))


@cache
def text_of_few(name: str) -> str:
    file = read_json(OWN.get(name, RECORDED / f"{name}.json"))
    rows = [r for r in file["records"] if matches(r["problem"]["name"], *kept(KEPT, name))]
    rows = [r for r in rows if matches(r["kernel"], *kept(KERNELS, name))]
    keys = {r["key"] for r in rows}
    file["checks"] = [c for c in file["checks"] if keys >= set(c["keys"])]
    return json.dumps(file | {"records": rows})


def kept(patterns: dict[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    return next((values for key, values in patterns.items() if fnmatchcase(name, key)), ("*",))


def matches(name: str, *patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Edited:
    """A run: `files` by pass, which tests change; each access writes and loads it again."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder
        recorded, _ = declared.experiment(name).passes_in(RECORDED / name)
        passes = [
            p for p in declared.experiment(name).passes if p in recorded or f"{name}/{p}" in OWN
        ]
        self.files = {p: few(f"{name}/{p}") for p in passes}

    def rows(self, passes: str = "*", kernel: str = "*", problem: str = "*") -> list[Row]:
        """Records of all passes and problems that the patterns match."""
        files = [file for name, file in self.files.items() if matches(name, passes)]
        rows = [r for file in files for r in file["records"] if matches(r["kernel"], kernel)]
        return [r for r in rows if matches(r["problem"]["name"], problem)]

    def row(self, passes: str, kernel: str, problem: str = "*") -> Row:
        (row,) = self.rows(passes, kernel, problem)
        return row

    def drop(self, which: Callable[[Row], bool], passes: str = "*") -> None:
        for name, file in self.files.items():
            if matches(name, passes):
                file["records"] = [r for r in file["records"] if not which(r)]

    def provenance(self, **changes: Any) -> None:
        """Edits all passes; in a part that is an object, some fields."""
        for file in self.files.values():
            for name, value in changes.items():
                part = file["provenance"][name]
                file["provenance"][name] = part | value if isinstance(part, dict) else value

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, file in self.files.items():
            (self.folder / f"{name}.json").write_text(json.dumps(file), encoding="utf-8")
        return self.folder


def scale(rows: Iterable[Row], factor: float, metrics: str = "*") -> None:
    """The samples of the metrics that the pattern matches."""
    for metric in (metric for row in rows for metric in row["metrics"]):
        if "samples" in metric and matches(metric["name"], metrics):
            metric["samples"] = [factor * sample for sample in metric["samples"]]


@pytest.fixture
def edited(tmp_path: Path) -> Callable[..., Edited]:
    """An editable recorded run, in a folder below the test's own."""
    return lambda name, folder="": Edited(name, tmp_path / (folder or name))

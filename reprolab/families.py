"""Families and their kernels as C++ describes them (data/families.schema.json): result files have
those of their rows, data/families.json those of this checkout.

`python -m reprolab.families PROGRAM...` writes what these programs say of them to the latter.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from reprolab.json_files import ROOT, Schema
from reprolab.output import write_files

FILE = ROOT / "data/families.json"
SCHEMA = Schema("families.schema.json")
VERSION = "reprolab-families/1"
CUDA = "cuda"


# As `bench --list` words them.
CONTRACTS = {
    "bit_exact": "bit-exact",
    "declared_deviation": "declared deviation",
    "within_bound": "within a bound",
}


@dataclass(frozen=True)
class Kernel:
    """Unknown kernels have only a name."""

    name: str
    language: str = ""
    counterpart: str = ""  # in CUDA; empty: none
    lineage: str = ""
    source_file: str = ""
    contract: str = ""
    contract_text: str = ""

    @property
    def deviation(self) -> str | None:
        return self.contract_text if self.contract == "declared_deviation" else None


@dataclass(frozen=True)
class Part:
    """One matrix of a problem of several, with its own metrics: METRIC.PART."""

    name: str
    rows: int
    columns: int

    @property
    def weights(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class Family:
    """Unknown families have only a name."""

    name: str
    size_option: str = ""
    profiled_size: str = ""
    parts: dict[str, Part] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)


def parse(file: Path, described: list[dict[str, Any]]) -> dict[str, Family]:
    """By name; InputError if they violate the schema."""
    SCHEMA.check(file, {"schema": VERSION, "families": described})
    families = {}
    for of in described:
        kernels = {kernel["name"]: Kernel(**kernel) for kernel in of["kernels"]}
        parts = {part["name"]: Part(**part) for part in of["parts"]}
        lists = {"kernels": kernels, "parts": parts}
        facts = {name: of[name] for name in ("name", "size_option", "profiled_size")}
        families[of["name"]] = Family(**facts | lists)
    return families


@cache
def described() -> dict[str, Family]:
    """This checkout's."""
    return parse(FILE, SCHEMA.read(FILE)["families"])


def kernels(families: Iterable[Family]) -> dict[str, Kernel]:
    return {name: kernel for family in families for name, kernel in family.kernels.items()}


def ask(programs: list[str]) -> dict[str, Any]:
    """What the programs say of kernels/, with older lines of kernels in other languages that are
    not compiled here; of all other families too where there is one program, of one family.
    """
    before = {family["name"]: family for family in SCHEMA.read(FILE)["families"]}
    families = dict(before) if len(programs) == 1 else {}
    for program in programs:
        done = subprocess.run([program, "--describe"], check=True, capture_output=True)
        for family in json.loads(done.stdout)["families"]:
            old = before.get(family["name"], {"kernels": []})["kernels"]
            kept = [k for k in old if k["language"] != CUDA and (ROOT / k["source_file"]).exists()]
            now = [k for k in family["kernels"] if k["source_file"].startswith("kernels/")]
            kernels = {kernel["name"]: kernel for kernel in kept + now}
            families[family["name"]] = family | {"kernels": [k for _, k in sorted(kernels.items())]}
    return {"schema": VERSION, "families": [family for _, family in sorted(families.items())]}


def text(content: dict[str, Any]) -> str:
    """One line per kernel."""
    return json.dumps(content).replace(', {"name"', ',\n{"name"') + "\n"


if __name__ == "__main__":
    write_files({FILE: text(ask(sys.argv[1:])).encode()})

"""The sources' claims and numbers: data/published, one file per source (published.schema.json)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from reprolab.errors import InputError
from reprolab.json_files import ROOT, Schema

FOLDER = ROOT / "data/published"
SCHEMA = Schema("published.schema.json")
ALL, AVERAGE = "all", "average"  # of a cell: every value of the source's setup, or their mean
NAMED_GPU = "named_gpu"  # the scope of a cell that only its or its source's GPU can show
NO_PLACE = ("gpu", "library", "kernels")  # of `at`: no fields of a problem


@dataclass(frozen=True)
class Cell:
    """A value of a claim, its place ({"model": "qwen3-32b", "batch": 8}), how it is decided."""

    at: dict[str, Any]
    value: float | None
    places: tuple[dict[str, Any], ...]  # `at`, with 'all' and 'average' spelled out
    experiment: str  # that measures it
    rule: str
    direction: str  # gain, at_least, at_most, exactly; "statement" where there is no number
    arguments: dict[str, Any] = field(default_factory=dict)  # of the rule, without `pass`
    pass_name: str = ""  # of the experiment, whose rows decide
    tolerance_percent: float | None = None
    unit: str = ""
    reading: str = ""  # one of the claim's, where it has several
    model: str = ""  # the source's name of the model; `at` has ours
    gpu: str = ""  # the only one that can show it: "T4"; '' where any can
    paths: tuple[str, ...] = ()  # where the value stands in the source's tables
    family_size: int = 1  # the cells, with their places, that are decided together

    @property
    def text(self) -> str:
        """'qwen3-32b, batch 8'; words as they are, numbers with their names."""
        return describe(self.at)

    @property
    def as_published(self) -> str:
        """The same with the source's model, which several of ours may represent."""
        return describe(self.at | ({"model": self.model} if self.model else {}))


@dataclass(frozen=True)
class Claim:
    """A statement of a source, once, even if the source repeats it."""

    id: str
    text: str
    cells: tuple[Cell, ...]
    short: str = ""  # the text in a few words, where it is longer
    section: str = ""
    remark: str = ""  # ours, in one sentence
    readings: tuple[dict[str, Any], ...] = ({"name": ""},)  # the one that decides first


@dataclass(frozen=True)
class Source:
    file: Path
    title: str
    author: str
    reference: str
    url: str
    gpu: str
    setup: dict[str, Any]
    tables: dict[str, Any]
    decided_on: dict[str, dict[str, Any]]
    notes: tuple[dict[str, str], ...] = ()  # for readers of the source
    claims: tuple[Claim, ...] = ()

    @property
    def id(self) -> str:
        return self.file.stem

    @property
    def models(self) -> dict[str, list[str]]:
        """Our names of models by the source's."""
        return self.setup.get("models", {})

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The numbers of its tables, by path: 'table1/2/overhead_percent'."""
        return dict(numbers_of(self.tables))

    def every(self, name: str) -> list[Any]:
        """All models, by our names, all batches or all layers; empty if the source lists none."""
        if name == "model":
            return [model for models in self.models.values() for model in models]
        return self.setup.get({"batch": "batches", "layer": "layers"}.get(name, ""), [])


def describe(at: Mapping[str, Any]) -> str:
    texts = (v if isinstance(v, str) and v != ALL else f"{k} {v}" for k, v in at.items())
    return ", ".join(texts)


@cache
def load_sources(folder: Path = FOLDER) -> tuple[Source, ...]:
    """Every source, the one with the most claims first; the files are read once."""
    sources = [load_source(file) for file in sorted(folder.glob("*.json"))]
    return tuple(sorted(sources, key=lambda source: -len(source.claims)))


def load_source(file: Path) -> Source:
    root = SCHEMA.read(file)
    facts = {name: root[name] for name in ("title", "author", "reference", "gpu", "setup")}
    facts |= {"url": root.get("url", ""), "notes": tuple(root.get("notes", []))}
    source = Source(file, **facts, **{n: root.get(n, {}) for n in ("tables", "decided_on")})
    return replace(source, claims=tuple(claim_of(source, value) for value in root["claims"]))


def claim_of(source: Source, value: dict[str, Any]) -> Claim:
    try:
        cells = [cell for c in value["comparisons"] for cell in cells_of(source, c)]
    except KeyError as name:
        what = f"claim {value['id']}: {name} is none of its tables' numbers or models"
        raise InputError(f"{source.file}: {what}") from None
    sizes = Counter(cell.reading for cell in cells)
    cells = [replace(c, family_size=max(sizes[c.reading], len(c.places))) for c in cells]
    kept = {k: v for k, v in value.items() if k != "comparisons"}
    return Claim(**kept | {"cells": tuple(cells), "readings": readings_of(value)})


def readings_of(claim: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The primary reading first."""
    readings = claim.get("readings", [{"name": ""}])
    return tuple(sorted(readings, key=lambda reading: "primary_because" not in reading))


def cells_of(source: Source, comparison: dict[str, Any]) -> list[Cell]:
    common = {k: v for k, v in comparison.items() if k not in ("cells", "scope")}
    arguments = dict(comparison["arguments"])
    common |= {"pass_name": arguments.pop("pass"), "arguments": arguments}
    spelled = (c for cell in comparison["cells"] for c in each_of(source, cell))
    cells = [Cell(**common, **one) for cell in spelled for one in spelled_out(source, cell)]
    # Two models that represent one of the source's: all cells of the first, then of the second.
    cells.sort(key=lambda c: source.every("model").index(c.at["model"]) if c.model else 0)
    if comparison["scope"] == NAMED_GPU:
        cells = [replace(c, gpu=c.at.get("gpu", source.gpu)) for c in cells]
    return cells


def numbers_of(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers_of(inner, f"{path}/{name}" if path else name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def each_of(source: Source, cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cell itself, or one for each number of the table that it names."""
    if "each_of" not in cell:
        yield cell
        return
    names, last, table = cell["names"], cell.get("field", ""), cell["each_of"]
    paths = [path for path in source.numbers if path.startswith(f"{table}/")]
    if not paths:
        raise KeyError(table)
    for path in paths:
        parts = path.removeprefix(f"{table}/").split("/")
        if last and parts.pop() != last:
            continue
        at = {n: int(p) if p.isdecimal() else p for n, p in zip(names, parts, strict=True)}
        yield {"at": cell.get("at", {}) | at, "value": {"value_of": path}}


def spelled_out(source: Source, cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Place and value, for each of our models that represents the source's model."""
    at, value, paths = cell["at"], cell.get("value"), []
    if isinstance(value, dict):
        paths = value.get("ratio_of") or [value["value_of"]]
        first, *rest = (source.numbers[path] for path in paths)
        value = first / rest[0] if rest else first
    model = at.get("model", ALL)
    ours = [{"model": name} for name in source.models[model]] if model != ALL else [{}]
    for ats in (at | name for name in ours):
        yield {
            "at": ats,
            "value": value,
            "places": places_of(source, ats),
            "model": "" if model == ALL else model,
            "paths": tuple(paths),
        }


def places_of(source: Source, at: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """`at` for every combination of the values of 'all' and 'average'."""
    every: list[list[dict[str, Any]]] = []
    for name, value in at.items():
        choices = source.every(name) if value in (ALL, AVERAGE) else [value]
        if name not in NO_PLACE:  # a layer stands for its rows and columns
            every.append([v if isinstance(v, dict) else {name: v} for v in choices])
    return tuple({k: v for part in parts for k, v in part.items()} for parts in product(*every))

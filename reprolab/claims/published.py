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
from reprolab.printable import shortened

FOLDER = ROOT / "data/published"
SCHEMA = Schema("published.schema.json")
ALL, AVERAGE = "all", "average"  # of a cell: every value of the source's setup, or their mean
NAMED_GPU = "named_gpu"  # the scope of a cell that only its or its source's GPU can show
NO_PLACE = ("gpu", "library", "kernels")  # of `at`: no fields of a problem


@dataclass(frozen=True)
class Cell:
    """A value of a claim, its place ({"model": "qwen3-32b", "batch": 8}), how it is decided."""

    claim: str
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
    without_cell: dict[str, str]  # numbers of tables that no cell compares, and why
    notes: tuple[dict[str, str], ...] = ()  # for readers of the source
    claims: tuple[Claim, ...] = ()

    @property
    def id(self) -> str:
        return self.file.stem

    @property
    def models(self) -> dict[str, list[str]]:
        """Our names of models by the source's."""
        return self.setup.get("models", {})

    def fact(self, name: str) -> Any:
        """A field of the set-up; InputError if it lacks a value that tables show."""
        return self._named("setup", self.setup, name)

    def table(self, name: str) -> dict[str, Any]:
        return self._named("tables", self.tables, name)

    def _named(self, where: str, values: dict[str, Any], name: str) -> Any:
        if name not in values:
            raise InputError(f"{self.file}: {where} has no '{name}'")
        return values[name]

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The numbers of its tables, by path: 'table1/2/overhead_percent'."""
        return dict(numbers_of(self.tables))

    def number(self, path: str, where: str = "") -> float:
        """The number of the path; InputError, which begins with `where`, if there is none."""
        if path not in self.numbers:
            raise InputError(f"{where or self.file}: tables has no number '{path}'")
        return self.numbers[path]

    def numbers_below(self, path: str, where: str = "") -> dict[str, float]:
        selected = {p: number for p, number in self.numbers.items() if is_below(p, path)}
        if not selected:
            raise InputError(f"{where or self.file}: tables has no numbers below '{path}'")
        return selected

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
    if not sources:
        raise InputError(f"{folder}: holds no source")
    return tuple(sorted(sources, key=lambda source: -len(source.claims)))


def load_source(file: Path) -> Source:
    root = SCHEMA.read(file)
    facts = {name: root[name] for name in ("title", "author", "reference", "gpu", "setup")}
    facts["url"] = root.get("url", "")
    facts |= {name: root.get(name, {}) for name in ("tables", "decided_on", "without_cell")}
    source = Source(file, **facts, notes=tuple(root.get("notes", [])))
    claims: dict[str, Claim] = {}
    for value in root["claims"]:
        where = f"{file}: claim '{value['id']}'"
        if value["id"] in claims:
            raise InputError(f"{where} is a duplicate")
        cells = [cell for c in value["comparisons"] for cell in cells_of(source, value, c, where)]
        sizes = Counter(cell.reading for cell in cells)
        cells = [replace(c, family_size=max(sizes[c.reading], len(c.places))) for c in cells]
        readings = readings_of(value, where)
        kept = {k: v for k, v in value.items() if k != "comparisons"}
        claims[value["id"]] = Claim(**kept | {"cells": tuple(cells), "readings": readings})
    source = replace(source, claims=tuple(claims.values()))
    check_numbers(source, root["claims"])
    return source


def readings_of(claim: dict[str, Any], where: str) -> tuple[dict[str, Any], ...]:
    """The primary reading first; InputError unless there is one, and comparisons use them all."""
    readings = claim.get("readings", [{"name": ""}])
    readings = sorted(readings, key=lambda reading: "primary_because" not in reading)
    primary = sum("primary_because" in reading for reading in readings)
    if len(readings) > 1 and (primary != 1 or readings[0].get("own_measurement")):
        raise InputError(f"{where}: readings: one of the source's must be primary")
    names = [reading["name"] for reading in readings]
    compared = dict.fromkeys(c.get("reading", "") for c in claim["comparisons"])
    if wrong := (compared.keys() ^ set(names)) | {name for name in names if names.count(name) > 1}:
        name = shortened(min(wrong))
        raise InputError(f"{where}: readings and comparisons do not agree on the reading '{name}'")
    return tuple(readings)


def cells_of(
    source: Source, claim: dict[str, Any], comparison: dict[str, Any], where: str
) -> list[Cell]:
    common = {k: v for k, v in comparison.items() if k not in ("cells", "scope")}
    arguments = dict(comparison["arguments"])
    common |= {"claim": claim["id"], "pass_name": arguments.pop("pass"), "arguments": arguments}
    spelled = (c for cell in comparison["cells"] for c in each_of(source, cell, where))
    cells = [Cell(**common, **one) for cell in spelled for one in spelled_out(source, cell, where)]
    # Two models that represent one of the source's: all cells of the first, then of the second.
    cells.sort(key=lambda c: source.every("model").index(c.at["model"]) if c.model else 0)
    if comparison["scope"] == NAMED_GPU:
        cells = [replace(c, gpu=c.at.get("gpu", source.gpu)) for c in cells]
    return cells


def check_numbers(source: Source, claims: list[dict[str, Any]]) -> None:
    """InputError if a number is unused or a name has no number, so that pages need not check."""
    for path in source.without_cell:
        source.numbers_below(path, f"{source.file}: without_cell")
    for path in numbers_without_cell(source)[:1]:
        why = f"no cell compares '{path}': say why in without_cell"
        raise InputError(f"{source.file}: tables: {why}")
    for table, ours in source.setup.get("our_kernels", {}).items():
        theirs = source.tables.get(table)
        if wrong := sorted(ours.keys() ^ (theirs.keys() if isinstance(theirs, dict) else set())):
            where = f"{source.file}: setup.our_kernels.{shortened(table)}"
            raise InputError(f"{where} and tables do not both have '{shortened(wrong[0])}'")


def numbers_without_cell(source: Source) -> list[str]:
    """Numbers of its tables that no cell compares, no rule uses, and no reason excuses."""
    cells = [cell for claim in source.claims for cell in claim.cells]
    used = {path for cell in cells for path in (*cell.paths, *cell.arguments.values())}
    left = [path for path in source.numbers if path not in used]
    return [p for p in left if not any(is_below(p, excused) for excused in source.without_cell)]


def is_below(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/")


def numbers_of(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers_of(inner, f"{path}/{name}" if path else name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def each_of(source: Source, cell: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """The cell itself, or one for each number of the table that it names."""
    if "each_of" not in cell:
        yield cell
        return
    names, last = cell["names"], cell.get("field", "")
    for path in source.numbers_below(cell["each_of"], where):
        parts = path.removeprefix(cell["each_of"] + "/").split("/")
        if last and parts.pop() != last:
            continue
        if len(parts) != len(names):
            raise InputError(f"{where}: 'each_of' {cell['each_of']}: '{path}' has other levels")
        at = {n: int(p) if p.isdecimal() else p for n, p in zip(names, parts, strict=True)}
        yield {"at": cell.get("at", {}) | at, "value": {"value_of": path}}


def spelled_out(source: Source, cell: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Place and value, for each of our models that represents the source's model."""
    at, value, paths = cell["at"], cell.get("value"), []
    if isinstance(value, dict):
        paths = value.get("ratio_of") or [value["value_of"]]
        first, *rest = (source.number(path, where) for path in paths)
        value = first / rest[0] if rest else first
    model = at.get("model", ALL)
    if model != ALL and model not in source.models:
        known = ", ".join(source.models)
        raise InputError(f"{where}: model '{model}' is none of setup.models: {known}")
    ours = [{"model": name} for name in source.models[model]] if model != ALL else [{}]
    for ats in (at | name for name in ours):
        yield {
            "at": ats,
            "value": value,
            "places": places_of(source, ats, where),
            "model": "" if model == ALL else model,
            "paths": tuple(paths),
        }


def places_of(source: Source, at: dict[str, Any], where: str) -> tuple[dict[str, Any], ...]:
    """`at` for every combination of the values of 'all' and 'average'."""
    every: list[list[dict[str, Any]]] = []
    for name, value in at.items():
        choices = source.every(name) if value in (ALL, AVERAGE) else [value]
        if not choices:
            raise InputError(f"{where}: '{value}' needs a list of every {name} in setup")
        if name not in NO_PLACE:  # a layer stands for its rows and columns
            every.append([v if isinstance(v, dict) else {name: v} for v in choices])
    return tuple({k: v for part in parts for k, v in part.items()} for parts in product(*every))

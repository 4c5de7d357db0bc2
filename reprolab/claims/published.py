"""The sources' numbers and claims (data/published/*.json, one file per source)."""

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
NAMED_GPU = "named_gpu"  # a scope
ALL, AVERAGE = "all", "average"  # of a cell: every value of the source's setup, or their mean


@dataclass(frozen=True)
class Cell:
    """One value of a claim, and its place: {"model": "qwen3-32b", "batch": 8}."""

    at: dict[str, Any]
    value: float | None
    places: tuple[dict[str, Any], ...]  # `at`, with 'all' and 'average' spelled out
    model: str = ""  # the source's name of the model; `at` has ours
    gpu: str = ""  # the only one that can show it: "T4"; '' where any can
    paths: tuple[str, ...] = ()  # where the value stands in tables

    @property
    def text(self) -> str:
        """'qwen3-32b, batch 8'; words as they are, numbers with their names."""
        return describe(self.at)

    @property
    def as_published(self) -> str:
        """The same with the source's model, which several of ours may represent."""
        return describe(self.at | ({"model": self.model} if self.model else {}))


@dataclass(frozen=True)
class Comparison:
    """One way to decide a claim: the compared values and the rule."""

    experiment: str  # that measures it
    cells: tuple[Cell, ...]
    rule: str
    direction: str  # of rules.DIRECTIONS; "statement" where the source gives no number
    scope: str  # any_gpu, or named_gpu: that of the cell, or else the source's
    arguments: dict[str, Any] = field(default_factory=dict)
    tolerance_percent: float | None = None
    unit: str = ""
    reading: str = ""  # the name of one of the claim's readings, where it has several


@dataclass(frozen=True)
class Reading:
    """One reading of the source's words. The primary reading decides the claim's verdict."""

    name: str
    primary_because: str = ""
    added: str = ""  # the date, where a verdict was known before
    own_measurement: bool = False  # of this project; the source's words do not describe it


@dataclass(frozen=True)
class Differs:
    """Why recorded GPUs have different verdicts, and the metric of some kernels' rows that shows
    it.
    """

    because: str
    rows: str  # of 'table2/replay'
    metric: str  # sm_mhz: the clock
    unit: str
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A statement of a source, once, even if the source repeats it."""

    id: str
    text: str
    comparisons: tuple[Comparison, ...]
    short: str = ""  # the text in a few words, where it is longer
    section: str = ""
    remark: str = ""  # ours, in one sentence
    readings: tuple[Reading, ...] = (Reading(""),)  # the primary one first
    differs: Differs | None = None

    @property
    def in_short(self) -> str:
        return f"{self.id}: {self.short or self.text}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of its first comparison's rule."""
        return self.comparisons[0].arguments

    @property
    def experiments(self) -> list[str]:
        return list(dict.fromkeys(c.experiment for c in self.comparisons))

    @property
    def cells(self) -> list[Cell]:
        return [cell for c in self.comparisons for cell in c.cells]


@dataclass(frozen=True)
class Note:
    """A remark for readers of the source that is not a claim."""

    about: str
    text: str


@dataclass(frozen=True)
class Source:
    """One file of data/published; data/published.schema.json describes its fields."""

    file: Path
    title: str
    author: str
    reference: str
    url: str
    gpu: str
    setup: dict[str, Any]
    tables: dict[str, Any]
    decided_on: dict[str, dict[str, Any]]
    claims: tuple[Claim, ...] = ()
    notes: tuple[Note, ...] = ()
    without_cell: dict[str, str] = field(default_factory=dict)  # numbers of tables, and why

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
        """A table of its numbers; InputError if it is missing."""
        return self._named("tables", self.tables, name)

    def _named(self, where: str, values: dict[str, Any], name: str) -> Any:
        if name not in values:
            raise InputError(f"{self.file}: {where} has no '{name}', which tables show")
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
        """The numbers of the path, or of all paths below it; InputError if there are none."""
        selected = {p: number for p, number in self.numbers.items() if is_below(p, path)}
        if not selected:
            raise InputError(f"{where or self.file}: tables has no numbers below '{path}'")
        return selected

    def every(self, name: str) -> list[Any]:
        """All models, by our names, all batches or all layers; empty if the source lists none."""
        ours = [model for models in self.models.values() for model in models]
        listed = {"batch": self.setup.get("batches", []), "layer": self.setup.get("layers", [])}
        return ({"model": ours} | listed).get(name, [])


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
    source = Source(file, **facts, notes=tuple(Note(**note) for note in root.get("notes", [])))
    claims: dict[str, Claim] = {}
    for value in root["claims"]:
        where = f"{file}: claim '{value['id']}'"
        if value["id"] in claims:
            raise InputError(f"{where} is a duplicate")
        comparisons = tuple(read_comparison(source, c, where) for c in value["comparisons"])
        lists = {"comparisons": comparisons, "readings": readings_of(value, where)}
        if differs := value.get("differs"):
            lists["differs"] = Differs(**differs | {"kernels": tuple(differs["kernels"])})
        claims[value["id"]] = Claim(**value | lists)
    source = replace(source, claims=tuple(claims.values()))
    check_references(source)
    return source


def readings_of(claim: dict[str, Any], where: str) -> tuple[Reading, ...]:
    """The primary reading first; InputError unless there is one, and comparisons use all
    readings."""
    if "readings" not in claim:
        readings = (Reading(""),)
    else:
        readings = tuple(Reading(**value) for value in claim["readings"])
        readings = tuple(sorted(readings, key=lambda reading: not reading.primary_because))
        primary = sum(bool(reading.primary_because) for reading in readings)
        if primary != 1 or readings[0].own_measurement:
            raise InputError(f"{where}: readings: one of the source's must be primary")
    declared = [reading.name for reading in readings]
    compared = dict.fromkeys(c.get("reading", "") for c in claim["comparisons"])
    twice = {name for name in declared if declared.count(name) > 1}
    if wrong := (compared.keys() ^ declared) | twice:
        name = shortened(min(wrong))
        raise InputError(f"{where}: readings and comparisons do not agree on the reading '{name}'")
    return readings


def check_references(source: Source) -> None:
    """InputError if a number is unused or a name has no number, so that views need not check."""
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
    """Numbers of its tables that no cell compares, no rule uses, and no reason excuses.

    An argument of a rule names one number; a reason is given for a path or for all below it.
    """
    used: set[Any] = set()
    for comparison in (c for claim in source.claims for c in claim.comparisons):
        used.update(comparison.arguments.values(), *(cell.paths for cell in comparison.cells))
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


def read_comparison(source: Source, value: dict[str, Any], where: str) -> Comparison:
    """`where` begins an error."""
    spelled = (c for cell in value["cells"] for c in each_of(source, cell, where))
    cells = [c for cell in spelled for c in read_cell(source, cell, where)]
    # Two models that represent one of the source's: all cells of the first, then of the second.
    cells.sort(key=lambda c: source.every("model").index(c.at["model"]) if c.model else 0)
    if value["scope"] == NAMED_GPU:
        cells = [replace(c, gpu=c.at.get("gpu", source.gpu)) for c in cells]
    return Comparison(**value | {"cells": tuple(cells)})


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


def read_cell(source: Source, cell: dict[str, Any], where: str) -> Iterator[Cell]:
    """The cells of our models that represent the source's model."""
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
        places = places_of(source, ats, where)
        yield Cell(ats, value, places, "" if model == ALL else model, paths=tuple(paths))


def places_of(source: Source, at: dict[str, Any], where: str) -> tuple[dict[str, Any], ...]:
    """`at` for every combination of the values of 'all' and 'average'; a GPU is not a place."""
    every: list[list[dict[str, Any]]] = []
    for name, value in at.items():
        choices = source.every(name) if value in (ALL, AVERAGE) else [value]
        if not choices:
            raise InputError(f"{where}: '{value}' needs a list of every {name} in setup")
        if name != "gpu":  # a layer stands for its rows and columns
            every.append([v if isinstance(v, dict) else {name: v} for v in choices])
    return tuple({k: v for part in parts for k, v in part.items()} for parts in product(*every))

"""What the sources say (data/published/*.json, one file per source): numbers and claims."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, product, starmap
from pathlib import Path
from typing import Any

from records.errors import InputError
from records.families import in_cuda
from records.json_files import ROOT, Schema, read_json
from records.printable import shortened

FOLDER = ROOT / "data/published"
SCHEMA = Schema("published.schema.json")
NAMED_GPU = "named_gpu"  # a scope
ALL, AVERAGE = "all", "average"  # of a cell: every value of the source's setup, or their mean


@dataclass(frozen=True)
class Cell:
    """One value of a claim, and what it is a value of: {"model": "qwen3-32b", "batch": 8}."""

    at: dict[str, Any]
    value: float | None
    places: tuple[dict[str, Any], ...]  # `at`, with 'all' and 'average' spelled out
    model: str = ""  # the source's name of the model; `at` has ours
    gpu: str = ""  # the only one that can show it: "T4"; '' where any can

    @property
    def text(self) -> str:
        """'qwen3-32b, batch 8'; words as they are, numbers with their names."""
        return describe(self.at)

    @property
    def as_published(self) -> str:
        """The same with the source's model, which several of ours may stand for."""
        return describe(self.at | ({"model": self.model} if self.model else {}))


def command_of(experiment: str) -> str:
    exists = (ROOT / "experiments" / experiment).is_dir()
    return f"make reproduce-{experiment}" + " (not in this version)" * (not exists)


@dataclass(frozen=True)
class Comparison:
    """One way to decide a claim here: what is compared with what, and by which rule."""

    experiment: str  # that measures it
    cells: tuple[Cell, ...]
    rule: str
    direction: str  # at_least, at_most, exactly; "statement" where the source gives no number
    scope: str  # any_gpu, or named_gpu: that of the cell, or else the source's
    arguments: dict[str, Any] = field(default_factory=dict)
    tolerance_percent: float | None = None
    unit: str = ""
    reading: str = ""  # how the source's words are read, where they can be read in several ways


@dataclass(frozen=True)
class Claim:
    """Something that a source says, once, whatever the number of places where it says it."""

    id: str
    text: str
    comparisons: tuple[Comparison, ...]
    section: str = ""
    remark: str = ""  # ours, in one sentence

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
    """Something that a reader of the source should know, and that is no claim."""

    about: str
    text: str


@dataclass(frozen=True)
class Source:
    """One file of data/published; see data/published.schema.json for what its fields mean."""

    file: Path
    title: str
    author: str
    reference: str
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
        """Its names of models, and ours."""
        return self.setup.get("models", {})

    def fact(self, name: str) -> Any:
        """A field of the set-up; InputError where it lacks what tables show."""
        return self._named("setup", self.setup, name)

    def table(self, name: str) -> dict[str, Any]:
        """A table of its numbers; InputError where it lacks it."""
        return self._named("tables", self.tables, name)

    def _named(self, where: str, found: dict[str, Any], name: str) -> Any:
        if name not in found:
            raise InputError(f"{self.file}: {where} has no '{name}', which tables show")
        return found[name]

    def every(self, name: str) -> list[Any]:
        """Every model, by our names, every batch or layer; empty where the source lists none."""
        ours = [model for models in self.models.values() for model in models]
        listed = {"batch": self.setup.get("batches", []), "layer": self.setup.get("layers", [])}
        return ({"model": ours} | listed).get(name, [])


def describe(at: Mapping[str, Any]) -> str:
    texts = (v if isinstance(v, str) and v != ALL else f"{k} {v}" for k, v in at.items())
    return ", ".join(texts)


def load_sources(folder: Path = FOLDER) -> list[Source]:
    """Every source, the one with the most claims first."""
    found = [load_source(file) for file in sorted(folder.glob("*.json"))]
    if not found:
        raise InputError(f"{folder}: holds no source")
    return sorted(found, key=lambda source: -len(source.claims))


def load_source(file: Path) -> Source:
    root = read_json(file)
    SCHEMA.check(file, root)
    facts = {name: root[name] for name in ("title", "author", "reference", "gpu", "setup")}
    facts |= {name: root.get(name, {}) for name in ("tables", "decided_on", "without_cell")}
    source = Source(file, **facts, notes=tuple(Note(**note) for note in root.get("notes", [])))
    claims: dict[str, Claim] = {}
    for value in root["claims"]:
        where = f"{file}: claim '{value['id']}'"
        if value["id"] in claims:
            raise InputError(f"{where} comes a second time")
        found = tuple(read_comparison(source, c, where) for c in value["comparisons"])
        claims[value["id"]] = Claim(**value | {"comparisons": found})
    check_references(file, root)
    return replace(source, claims=tuple(claims.values()))


def check_references(file: Path, root: dict[str, Any]) -> None:
    """InputError where a number has no use or a name has no number, so that no view has to ask."""
    tables, setup = root.get("tables", {}), root["setup"]
    for path in root.get("without_cell", {}):
        numbers_below(tables, path, f"{file}: without_cell")
    for path in numbers_without_cell(root)[:1]:
        raise InputError(f"{file}: tables: no cell compares '{path}': say why in without_cell")
    for table, ours in setup.get("our_kernels", {}).items():
        theirs = tables.get(table)
        if wrong := sorted(ours.keys() ^ (theirs.keys() if isinstance(theirs, dict) else set())):
            where = f"{file}: setup.our_kernels.{shortened(table)}"
            raise InputError(f"{where} and tables do not both have '{shortened(wrong[0])}'")
    for table, own in setup.get("own_language", {}).items():
        for name, kernel in own.items():
            try:
                in_cuda(kernel)
            except InputError as error:
                where = f"{file}: setup.own_language.{shortened(table)}.{shortened(name)}"
                raise InputError(f"{where}: {error}") from None


def read_comparison(source: Source, value: dict[str, Any], where: str) -> Comparison:
    spelled = (c for cell in value["cells"] for c in each_of(source, cell, where))
    cells = [c for cell in spelled for c in read_cell(source, cell, where)]
    # Two models that stand for one of the source's: all cells of the one, then of the other.
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
    for path in numbers_below(source.tables, cell["each_of"], where):
        parts = path.removeprefix(cell["each_of"] + "/").split("/")
        if last and parts.pop() != last:
            continue
        if len(parts) != len(names):
            raise InputError(f"{where}: 'each_of' {cell['each_of']}: '{path}' has other levels")
        at = {n: int(p) if p.isdecimal() else p for n, p in zip(names, parts, strict=True)}
        yield {"at": cell.get("at", {}) | at, "value": {"value_of": path}}


def numbers_below(tables: dict[str, Any], path: str, where: str) -> list[str]:
    """The paths of every number below a path of the tables."""
    found: Any = tables
    for name in path.split("/"):
        found = found.get(name) if isinstance(found, dict) else None
    paths = list(numbers_of(found, path))
    if not paths:
        raise InputError(f"{where}: tables has no numbers below '{path}'")
    return paths


def numbers_of(value: Any, path: str = "") -> Iterator[str]:
    """'table1/2/overhead_percent' and so on."""
    if isinstance(value, dict):
        for name, found in value.items():
            yield from numbers_of(found, f"{path}/{name}" if path else name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def read_cell(source: Source, cell: dict[str, Any], where: str) -> list[Cell]:
    """The cell of each of our models that its model stands for; `where` begins an error."""
    at, value = cell["at"], cell.get("value")
    if isinstance(value, dict):
        first, *rest = (look_up(source.tables, path, where) for path in paths_of(value))
        value = first / rest[0] if rest else first
    model = at.get("model", ALL)
    if model == ALL:
        return [Cell(at, value, places_of(source, at, where))]
    if model not in source.models:
        known = ", ".join(source.models)
        raise InputError(f"{where}: model '{model}' is none of setup.models: {known}")
    ours = [at | {"model": name} for name in source.models[model]]
    return [Cell(found, value, places_of(source, found, where), model) for found in ours]


def paths_of(value: dict[str, Any]) -> list[str]:
    """Where a cell's value stands in tables."""
    return value.get("ratio_of") or [value["value_of"]]


def places_of(source: Source, at: dict[str, Any], where: str) -> tuple[dict[str, Any], ...]:
    """`at` for every combination of what its 'all' and 'average' stand for; a GPU is no place."""
    at = {name: value for name, value in at.items() if name != "gpu"}
    values = [source.every(k) if v in (ALL, AVERAGE) else [v] for k, v in at.items()]
    for name, found in zip(at, values, strict=True):
        if not found:
            raise InputError(f"{where}: '{at[name]}' needs a list of every {name} in setup")
    chosen = (zip(at, found, strict=True) for found in product(*values))
    return tuple(dict(chain.from_iterable(starmap(spelled_out, pairs))) for pairs in chosen)


def spelled_out(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    """What a problem has for one part of a place: of a layer, rows and columns."""
    return value.items() if isinstance(value, dict) else [(name, value)]


def look_up(tables: dict[str, Any], path: str, where: str) -> float:
    """The number at 'mojo_gb_s/tma_naive'."""
    found: Any = tables
    for name in path.split("/"):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise InputError(f"{where}: tables has no number '{path}'")
    return found


def numbers_without_cell(root: dict[str, Any]) -> list[str]:
    """Numbers of a source's tables that no cell compares, no rule uses, and no reason excuses.

    `root`: the file as it is written. An argument of a rule names one number; a reason is given for
    a path or for all below it.
    """
    paths = list(numbers_of(root.get("tables", {})))
    found = [c for claim in root["claims"] for c in claim["comparisons"]]
    compared = {a for c in found for a in c.get("arguments", {}).values() if isinstance(a, str)}
    for cell in (cell for c in found for cell in c["cells"]):
        if "each_of" in cell:
            below, last = cell["each_of"] + "/", "/" + cell.get("field", "")
            compared |= {p for p in paths if p.startswith(below) and p.endswith(last.rstrip("/"))}
        elif isinstance(cell.get("value"), dict):
            compared |= set(paths_of(cell["value"]))
    excused = root.get("without_cell", {})
    left = (path for path in paths if path not in compared)
    return [p for p in left if not any(p == e or p.startswith(e + "/") for e in excused)]

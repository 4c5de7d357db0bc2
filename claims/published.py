"""What the sources say (data/published/*.json, one file per source): numbers and claims."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, product, starmap
from pathlib import Path
from typing import Any

from claims.errors import InputError
from claims.json_files import ROOT, Schema, read_json

FOLDER = ROOT / "data/published"
SCHEMA = Schema("published.schema.json")
ALL, AVERAGE = "all", "average"  # of a cell: every value of the source's setup, or their mean


@dataclass(frozen=True)
class Cell:
    """One value of a claim, and what it is a value of: {"model": "qwen3-32b", "batch": 8}."""

    at: dict[str, Any]
    value: float | None
    places: tuple[dict[str, Any], ...]  # `at`, with 'all' and 'average' spelled out
    model: str = ""  # the source's name of the model; `at` has ours

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
class Claim:
    """Something that a source says, and how it is decided here; without a rule, not yet."""

    id: str
    text: str
    experiment: str  # that decides it
    cells: tuple[Cell, ...]
    rule: str | None
    arguments: dict[str, Any] = field(default_factory=dict)
    tolerance_percent: float | None = None
    section: str = ""
    remark: str = ""  # ours
    unit: str = ""
    needs: str = ""  # what has to be measured before it can be decided


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

    @property
    def id(self) -> str:
        return self.file.stem

    @property
    def models(self) -> dict[str, list[str]]:
        """Its names of models, and ours."""
        return self.setup.get("models", {})

    def fact(self, name: str) -> Any:
        """Of the set-up; InputError where it lacks what tables show."""
        if name not in self.setup:
            raise InputError(f"{self.file}: setup has no '{name}', which tables show")
        return self.setup[name]

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
    tables, decided_on = root.get("tables", {}), root.get("decided_on", {})
    source = Source(file, **facts, tables=tables, decided_on=decided_on)
    claims: dict[str, Claim] = {}
    for value in root["claims"]:
        where = f"{file}: claim '{value['id']}'"
        if value["id"] in claims:
            raise InputError(f"{where} comes a second time")
        cells = [c for cell in value["cells"] for c in read_cell(source, cell, where)]
        # Two models that stand for one of the source's: all cells of the one, then of the other.
        cells.sort(key=lambda c: source.every("model").index(c.at["model"]) if c.model else 0)
        claims[value["id"]] = Claim(**value | {"cells": tuple(cells)})
    return replace(source, claims=tuple(claims.values()))


def read_cell(source: Source, cell: dict[str, Any], where: str) -> list[Cell]:
    """The cell of each of our models that its model stands for; `where` begins an error."""
    at, value = cell["at"], cell.get("value")
    if isinstance(value, dict):
        paths = value.get("ratio_of") or [value["value_of"]]
        first, *rest = (look_up(source.tables, path, where) for path in paths)
        value = first / rest[0] if rest else first
    model = at.get("model", ALL)
    if model == ALL:
        return [Cell(at, value, places_of(source, at, where))]
    if model not in source.models:
        known = ", ".join(source.models)
        raise InputError(f"{where}: model '{model}' is none of setup.models: {known}")
    ours = [at | {"model": name} for name in source.models[model]]
    return [Cell(found, value, places_of(source, found, where), model) for found in ours]


def places_of(source: Source, at: dict[str, Any], where: str) -> tuple[dict[str, Any], ...]:
    """`at` for every combination of what its 'all' and 'average' stand for."""
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

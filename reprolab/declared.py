"""Reads experiments/<name>/experiment.toml, by the fields of data/experiment.schema.json."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprolab.errors import InputError
from reprolab.json_files import ROOT, Schema, read_text, stored

FOLDER = ROOT / "experiments"
FILE = "experiment.toml"
SCHEMA = Schema("experiment.schema.json")


@dataclass(frozen=True)
class Step:
    """A pass, or (without a name) a check on the CPU."""

    name: str
    arguments: tuple[str, ...]  # with the options
    program: str = ""  # of the build; '' where a Python module is run
    module: str = ""
    kernels: tuple[str, ...] = ()
    all_but: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    torch: bool = False  # whether it needs PyTorch, without which it is left out
    separate: bool = False  # whether it may be missing, or of another run; PyTorch's are too

    @property
    def is_separate(self) -> bool:
        return self.torch or self.separate


@dataclass(frozen=True)
class Experiment:
    name: str
    checks: tuple[Step, ...]
    passes: dict[str, Step]
    tables: tuple[dict[str, Any], ...]  # plots/tables.py has their fields

    def passes_in(self, folder: Path) -> tuple[list[str], list[str]]:
        """The passes that a run's folder has, and the required passes that it lacks."""
        there = [n for n in self.passes if file_of(folder, n).exists()]
        return there, [n for n, s in self.passes.items() if n not in there and not s.is_separate]


def file_of(folder: Path, pass_name: str) -> Path:
    """The pass's result file, which may be compressed."""
    return stored(folder / f"{pass_name}.json")


def names() -> list[str]:
    """An experiment is a folder with this file."""
    return sorted(file.parent.name for file in FOLDER.glob(f"*/{FILE}"))


def module(name: str, part: str) -> str:
    """A module of the experiment's folder (rules, derived or figures); '' if it has none."""
    there = (FOLDER / name / f"{part}.py").is_file()
    return f"experiments.{name}.{part}" if there else ""


def experiment(name: str) -> Experiment:
    file = FOLDER / name / FILE
    if name not in names():
        raise InputError(f"there is no experiment '{name}'; there are {', '.join(names())}")
    try:
        root = tomllib.loads(read_text(file))
    except (ValueError, RecursionError) as error:  # of what is no TOML, and of what is too deep
        raise InputError(f"{file}: is not TOML: {error}") from None
    SCHEMA.check(file, root)
    passes: dict[str, dict[str, Any]] = {}
    for pass_name, own in root["pass"].items():
        like = own.get("like")
        if like and like not in passes:
            raise InputError(f"{file}: pass.{pass_name}: is like '{like}', which is not above it")
        passes[pass_name] = merged(passes[like], own) if like else own
    checks = tuple(step("", declared) for declared in root.get("check", []))
    steps = {n: step(n, declared) for n, declared in passes.items()}
    return Experiment(name, checks, steps, tuple(root.get("table", ())))


def merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`base` with the fields of `own`, without those that they exclude."""
    for one, other in (("kernels", "all_but"), ("program", "module")):
        if one in own or other in own:
            base = {k: v for k, v in base.items() if k not in (one, other)}
    return base | own | {"options": base.get("options", {}) | own.get("options", {})}


def step(name: str, declared: dict[str, Any]) -> Step:
    options = declared.get("options", {})
    arguments = (*declared.get("arguments", ()), *words(options))
    rest = {k: v for k, v in declared.items() if k not in ("like", "arguments", "options")}
    rest = {k: tuple(v) if isinstance(v, list) else v for k, v in rest.items()}
    return Step(name, arguments, **rest)


def words(options: dict[str, Any]) -> list[str]:
    """As on a command line."""
    arguments = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            arguments += [f"--{name}"] + [str(one)] * (one is not True)
    return arguments

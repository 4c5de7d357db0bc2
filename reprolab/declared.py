"""Reads experiments/<name>/experiment.toml, by the fields of data/experiment.schema.json."""

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from reprolab.errors import InputError
from reprolab.json_files import ROOT, Schema, read_text, stored

FOLDER = ROOT / "experiments"
FILE = "experiment.toml"
SCHEMA = Schema("experiment.schema.json")
PROGRAM = re.compile(r"(?:add_executable|add_custom_target|_test)\((\w+)")  # in a CMakeLists.txt


@dataclass(frozen=True)
class Step:
    """A pass, or (without a name) a check on the CPU."""

    name: str
    arguments: tuple[str, ...]  # with the options
    warm: bool  # whether its rows are; those of all others are cold
    program: str = ""  # of the build; '' where a Python module is run
    module: str = ""
    kernels: tuple[str, ...] = ()
    all_but: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    families: tuple[str, ...] = ()  # that its problems must be of; empty: any
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

    def passes_in(self, folder: Path, known: Collection[Path] = ()) -> tuple[list[str], list[str]]:
        """The passes that a run's folder has or will have, and the required passes that it
        lacks."""
        files = {n: file_of(folder, n, known) for n in self.passes}
        there = [n for n, f in files.items() if f in known or f.exists()]
        return there, [n for n, s in self.passes.items() if n not in there and not s.is_separate]


def file_of(folder: Path, pass_name: str, known: Collection[Path] = ()) -> Path:
    """The pass's result file, which may be compressed; `known` has files that are not written."""
    file = folder / f"{pass_name}.json"
    compressed = file.with_name(f"{file.name}.xz")
    return compressed if compressed in known else stored(file)


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
        where = f"{file}: pass.{pass_name}"
        if (like := own.get("like")) and like not in passes:
            raise InputError(f"{where}: is like '{like}', which is not a pass above it")
        passes[pass_name] = declared = merged(passes[like], own) if like else own
        if ("program" in declared) == ("module" in declared):
            raise InputError(f"{where}: needs a program or a module, and not both")
    checks = root.get("check", [])
    places = {f"check[{i}]": declared for i, declared in enumerate(checks)}
    places |= {f"pass.{pass_name}": declared for pass_name, declared in passes.items()}
    for where, declared in places.items():
        if (program := declared.get("program")) and program not in programs():
            raise InputError(f"{file}: {where}: there is no program '{program}'")
    checks = tuple(step("", declared) for declared in checks)
    steps = {n: step(n, declared) for n, declared in passes.items()}
    return Experiment(name, checks, steps, tuple(root.get("table", ())))


@cache
def programs() -> set[str]:
    """All programs that the build can make, including those that this machine cannot."""
    folders = (ROOT / name for name in ("reference", "harness", "experiments", "tests"))
    lists = (file for folder in folders for file in folder.rglob("CMakeLists.txt"))
    return {name for file in lists for name in PROGRAM.findall(read_text(file))}


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
    return Step(name, arguments, bool(options.get("warm")), **rest)


def words(options: dict[str, Any]) -> list[str]:
    """As on a command line."""
    arguments = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            arguments += [f"--{name}"] + [str(one)] * (one is not True)
    return arguments

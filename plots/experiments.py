"""The experiments that can be rendered: a further one is a module, and its name below."""

from pathlib import Path
from typing import Any, Protocol

from plots import table2, transpose
from plots.results import Results
from plots.tables import Table


class Inputs(Protocol):
    """What a module's `read` makes of its files, and its other functions are given."""

    recorded: bool

    @property
    def passes(self) -> tuple[Results, ...]: ...


class Experiment(Protocol):
    """A module that knows one experiment; nothing else here does."""

    NAME: str  # of its folder under data/recorded/<gpu>/ and of its subcommand
    PASSES: tuple[str, ...]  # each a result file <pass>.json, and an option --<pass>
    BLOCKS: dict[str, str]  # a README's block -> the table that fills it
    FIGURE_FILES: tuple[str, ...]

    def read(self, *, published: Path, recorded: bool, **files: Path) -> Any:
        """Load and check the files, given by pass; a path may say `recorded` too."""

    def tables(self, inputs: Any) -> list[Table]:
        """Every table, the main one first."""

    def render(self, inputs: Any, directory: Path) -> str:
        """Write everything to `directory` and return the text for the terminal."""


EXPERIMENTS: tuple[Experiment, ...] = (table2, transpose)

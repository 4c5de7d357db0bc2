"""A table as data: what every writer (terminal, Markdown, CSV, LaTeX) is given."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Column:
    """`align` is l or r; `wrap` lets the terminal break long cells; `code` is a kernel's name."""

    name: str
    align: str = "r"
    wrap: bool = False
    code: bool = False


@dataclass(frozen=True)
class Cell:
    """A text, the footnotes it carries, and whether it is the best of its group."""

    text: str
    notes: tuple[str, ...] = ()
    best: bool = False


@dataclass(frozen=True)
class Group:
    """A heading over the rows that follow."""

    text: str


Row = Sequence[Cell | str]


@dataclass
class Table:
    """`data` is the CSV's: a header and rows of plain values, complete where the table chooses."""

    name: str  # of the files
    title: str
    columns: list[Column]
    rows: list[Row | Group]
    data: list[Sequence[object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    provenance: list[str] = field(default_factory=list)
    banner: str = ""

    def footnotes(self) -> list[str]:
        """Every cell's notes, each once, in reading order; the number is the index plus one."""
        seen: dict[str, None] = {}
        for row in self.rows:
            if not isinstance(row, Group):
                for cell in row:
                    if isinstance(cell, Cell):
                        seen.update(dict.fromkeys(cell.notes))
        return list(seen)


def cells(row: Row, footnotes: list[str]) -> Iterator[tuple[str, str, bool]]:
    """For each cell of a row: text, its footnote numbers ("1,2" or ""), whether it is the best."""
    for item in row:
        cell = item if isinstance(item, Cell) else Cell(item)
        numbers = ",".join(str(footnotes.index(note) + 1) for note in cell.notes)
        yield cell.text, numbers, cell.best

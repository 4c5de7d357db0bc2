"""A table as data: what every writer (terminal, Markdown, CSV, LaTeX) is given."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Column:
    """`align` is l or r; `wrap` lets the terminal break cells that are longer; `code` is a kernel.

    A `detail` is shown in Markdown alone: terminals and printed pages are too narrow for it.
    """

    name: str
    align: str = "r"
    wrap: int = 0  # characters that stay on a line in any case; 0: cells are never broken
    code: bool = False
    detail: bool = False


KERNEL = Column("kernel", "l", wrap=1, code=True)


def words(*names: str, detail: bool = False) -> list[Column]:
    """Columns of text, whose cells may be broken."""
    return [Column(name, "l", wrap=1, detail=detail) for name in names]


def numbers(*names: str, wrap: int = 0) -> list[Column]:
    return [Column(name, wrap=wrap) for name in names]


@dataclass(frozen=True)
class Cell:
    """A text, the footnotes it carries, whether it is the best of its group, and a link."""

    text: str
    notes: tuple[str, ...] = ()
    best: bool = False
    link: str = ""  # to a file, followed in Markdown alone
    anchor: str = ""  # of a heading in it


@dataclass(frozen=True)
class Group:
    """A heading over the rows that follow."""

    text: str


BEST = "{best}"  # in notes, where each writer says how it shows best cells
NONE = "-"  # in the place of a value that there is not

Row = Sequence[Cell | str]


@dataclass
class Table:
    """`data` is the CSV's: plain values by column, complete where the rows choose."""

    name: str  # of the files
    title: str
    columns: list[Column]
    rows: list[Row | Group]
    data: list[dict[str, object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    provenance: list[str] = field(default_factory=list)
    banner: str = ""

    def footnotes(self) -> list[str]:
        """Every cell's notes, each once, in reading order; the number is the index plus one."""
        found = [cell for row in self.rows if not isinstance(row, Group) for cell in row]
        return list(dict.fromkeys(n for c in found if isinstance(c, Cell) for n in c.notes))

    def notes_saying(self, best: str) -> list[str]:
        """Notes and provenance for a writer that shows best cells so: 'in bold'."""
        return [*(note.replace(BEST, best) for note in self.notes), *self.provenance]

    def only(self, kept: Iterable[int]) -> "Table":
        """The columns of these places alone."""
        kept = list(kept)
        rows = [r if isinstance(r, Group) else [r[i] for i in kept] for r in self.rows]
        return replace(self, columns=[self.columns[i] for i in kept], rows=rows)

    def without_details(self) -> "Table":
        return self.only(i for i, column in enumerate(self.columns) if not column.detail)


def cells(row: Row, footnotes: list[str]) -> Iterator[tuple[Cell, str]]:
    """Each cell of a row, and its footnote numbers ("1,2" or "")."""
    for item in row:
        cell = item if isinstance(item, Cell) else Cell(item)
        yield cell, ",".join(str(footnotes.index(note) + 1) for note in cell.notes)

"""A table as data: what every writer (terminal, Markdown, CSV, LaTeX) is given."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Noted:
    """A value with what is shown beside it: footnotes, whether it is the best of its group, and a
    link. `text` is shown instead of the value, such as why there is none.
    """

    value: object
    notes: tuple[str, ...] = ()
    best: bool = False
    text: str = ""
    link: str = ""  # to a file, followed in Markdown alone
    anchor: str = ""  # of a heading in it


# One row's values by name. All are columns of the CSV, but those whose name begins with "_".
Values = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """What is shown of each row: the value that it has by the name `of`, through `show`; of several
    names, `show` is given as many values. None is shown as '-'.

    `align` is l or r; `wrap` lets the terminal break cells that are longer; `code` is a kernel. A
    `detail` is shown in Markdown alone: terminals and printed pages are too narrow for it.
    """

    name: str
    of: str | tuple[str, ...]
    show: Callable[..., str] = str
    align: str = "r"
    wrap: int = 0  # characters that stay on a line in any case; 0: cells are never broken
    code: bool = False
    detail: bool = False

    def cell(self, row: Values) -> "Cell | str":
        names = (self.of,) if isinstance(self.of, str) else self.of
        found = [row.get(name) for name in names]
        noted = next((v for v in found if isinstance(v, Noted)), Noted(None))
        values = [plain(value) for value in found]
        text = noted.text or (NONE if None in values else self.show(*values))
        cell = Cell(text, noted.notes, noted.best, noted.link, noted.anchor)
        return text if cell == Cell(text) else cell


def plain(value: object) -> object:
    return value.value if isinstance(value, Noted) else value


WORDS = {"align": "l", "wrap": 1}  # the style of a column of text, whose cells may be broken
CODE = {**WORDS, "code": True}
KERNEL = Column("kernel", "kernel", **CODE)


@dataclass(frozen=True)
class Cell:
    """What a row shows in a column: a text, and what `Noted` says of it."""

    text: str
    notes: tuple[str, ...] = ()
    best: bool = False
    link: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class Group:
    """A heading over the rows that follow."""

    text: str


class Origin(NamedTuple):
    """Where numbers come from."""

    text: str  # without a full stop
    command: str = ""  # that made them; too long for a printed page

    def said(self, with_command: bool) -> str:
        return f"{self.text}: {self.command}." if with_command and self.command else f"{self.text}."


BEST = "{best}"  # in notes, where each writer says how it shows best cells
NONE = "-"  # in the place of a value that there is not

Row = Sequence[Cell | str]


@dataclass
class Table:
    """`data` is the CSV's: values by column, complete where the rows choose."""

    name: str  # of the files
    title: str
    columns: list[Column]
    rows: list[Row | Group]
    data: list[Values] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    provenance: list[Origin] = field(default_factory=list)
    banner: str = ""
    experiment: str = ""  # that it is of

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Sequence[Column],
        groups: Mapping[str, Sequence[Values]] | Sequence[tuple[str, Sequence[Values]]],
        notes: Iterable[str] = (),
        provenance: Iterable[Origin] = (),
        data: Iterable[Values] | None = None,
    ) -> "Table":
        """From rows under their headings ('' for none); `data` where the CSV has other rows."""
        pairs = list(groups.items() if isinstance(groups, Mapping) else groups)
        rows: list[Row | Group] = []
        for heading, members in pairs:
            rows += [Group(heading)] * bool(heading)
            rows += [[column.cell(row) for column in columns] for row in members]
        if data is None:
            data = (row for _, members in pairs for row in members)
        return cls(
            name, title, list(columns), rows, list(data), list(notes), [*dict.fromkeys(provenance)]
        )

    def footnotes(self) -> list[str]:
        """Every cell's notes, each once, in reading order; the number is the index plus one."""
        found = [cell for row in self.rows if not isinstance(row, Group) for cell in row]
        return list(dict.fromkeys(n for c in found if isinstance(c, Cell) for n in c.notes))

    def notes_saying(self, best: str, with_commands: bool = True) -> list[str]:
        """Notes and provenance for a writer that shows best cells so: 'in bold'."""
        notes = [note.replace(BEST, best) for note in self.notes]
        return [*notes, *(origin.said(with_commands) for origin in self.provenance)]

    def only(self, kept: Iterable[int]) -> "Table":
        """The columns of these places alone."""
        kept = list(kept)
        rows = [r if isinstance(r, Group) else [r[i] for i in kept] for r in self.rows]
        return replace(self, columns=[self.columns[i] for i in kept], rows=rows)

    def without_details(self) -> "Table":
        return self.only(i for i, column in enumerate(self.columns) if not column.detail)


def data_of(rows: Iterable[Values]) -> list[dict[str, object]]:
    """What the CSV has of the rows: plain values, without those that are only shown."""
    return [{k: plain(v) for k, v in row.items() if not k.startswith("_")} for row in rows]


def cells(row: Row, footnotes: list[str]) -> Iterator[tuple[Cell, str]]:
    """Each cell of a row, and its footnote numbers ("1,2" or "")."""
    for item in row:
        cell = item if isinstance(item, Cell) else Cell(item)
        yield cell, ",".join(str(footnotes.index(note) + 1) for note in cell.notes)

"""A table as data: what every writer (terminal, Markdown, CSV, LaTeX) is given."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Get = Callable[[Any], Any]  # of one row


@dataclass(frozen=True, eq=False)
class Column:
    """What a table shows of each row, and what its CSV says of it.

    `cell` makes what is shown; without it, the CSV alone has the column. `data`: the CSV's columns
    by name; without any, the CSV leaves it out. `align` is l or r; `wrap` lets the terminal break
    cells that are longer; `code` is a kernel. A `detail` is shown in Markdown alone: terminals and
    printed pages are too narrow for it.
    """

    name: str = ""
    cell: Get | None = None
    data: Mapping[str, Get] = field(default_factory=dict)
    align: str = "r"
    wrap: int = 0  # characters that stay on a line in any case; 0: cells are never broken
    code: bool = False
    detail: bool = False


def at(path: str) -> Get:
    """Follows names of attributes and keys: at("record.summary.median"); None where one is None."""

    def get(row: Any) -> Any:
        for name in path.split(".") if path else ():
            if row is None:
                return None
            row = row.get(name) if isinstance(row, Mapping) else getattr(row, name)
        return row

    return get


def getter(of: str | Get) -> Get:
    return at(of) if isinstance(of, str) else of


def column(
    name: str, of: str | Get, show: Callable[[Any], "Cell | str"] = str, key: str = "", **style: Any
) -> Column:
    """One value: through `show` under its heading, '-' where it is None; in the CSV as `key`."""
    get = getter(of)

    def cell(row: Any) -> Cell | str:
        found = get(row)
        return NONE if found is None else show(found)

    return Column(name, cell, {key: get} if key else {}, **style)


def unseen(**data: str | Get) -> Column:
    """Columns that only the CSV has."""
    return Column(data={key: getter(of) for key, of in data.items()})


def only_data(columns: Iterable[Column]) -> list[Column]:
    return [replace(c, cell=None) for c in columns]


def lifted(of: str | Get, columns: Iterable[Column]) -> list[Column]:
    """The columns of what `of` finds in a row; '-' and nothing where that is None."""
    inner = getter(of)

    def through(get: Get | None, nothing: object) -> Get | None:
        return get and (lambda row: nothing if (found := inner(row)) is None else get(found))

    return [
        replace(
            c, cell=through(c.cell, NONE), data={k: through(g, None) for k, g in c.data.items()}
        )
        for c in columns
    ]


def words(*names: str, detail: bool = False) -> list[Column]:
    """Columns of text, whose cells may be broken."""
    return [Column(name, align="l", wrap=1, detail=detail) for name in names]


def numbers(*names: str, wrap: int = 0) -> list[Column]:
    return [Column(name, wrap=wrap) for name in names]


WORDS = {"align": "l", "wrap": 1}  # the style of a column of text, whose cells may be broken
CODE = {**WORDS, "code": True}
KERNEL = Column("kernel", **CODE)


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

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Sequence[Column],
        groups: Mapping[str, Sequence[Any]],
        notes: Iterable[str] = (),
        provenance: Iterable[str] = (),
    ) -> "Table":
        """From rows of any kind under their headings ('' for none), through the columns."""
        shown = [c for c in columns if c.cell]
        rows: list[Row | Group] = []
        for heading, members in groups.items():
            rows += [Group(heading)] * bool(heading)
            rows += [[c.cell(member) for c in shown] for member in members]
        data = data_of(columns, [member for members in groups.values() for member in members])
        return cls(name, title, shown, rows, data, list(notes), list(dict.fromkeys(provenance)))

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


def data_of(columns: Iterable[Column], rows: Iterable[Any]) -> list[dict[str, object]]:
    """The CSV's values of the rows."""
    getters = {key: get for c in columns for key, get in c.data.items()}
    return [{key: get(row) for key, get in getters.items()} for row in rows if getters]


def cells(row: Row, footnotes: list[str]) -> Iterator[tuple[Cell, str]]:
    """Each cell of a row, and its footnote numbers ("1,2" or "")."""
    for item in row:
        cell = item if isinstance(item, Cell) else Cell(item)
        yield cell, ",".join(str(footnotes.index(note) + 1) for note in cell.notes)

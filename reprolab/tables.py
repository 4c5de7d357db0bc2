"""A table as data, for every writer (terminal, Markdown, CSV, LaTeX)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from reprolab.stats import significant

rounded = partial(significant, digits=3)


COUNTED = {"types", "blocks", "registers", "rounds", "repetitions", "weights"}  # units of counts


def in_unit(unit: str) -> Callable[[float], str]:
    """The format of values of the unit: 7 types, 1.05 rounds on average, 2.00 x."""
    return lambda value: f"{value:g}" if is_count(value, unit) else rounded(value)


def is_count(value: float, unit: str) -> bool:
    return unit in COUNTED and value == int(value)


@dataclass(frozen=True)
class Noted:
    """A value with its footnotes, whether it is the best of its group, and a link. `text` is shown
    instead of the value, such as the reason for having none.
    """

    value: object
    notes: tuple[str, ...] = ()
    best: bool = False
    text: str = ""
    link: str = ""  # to a file, followed in Markdown alone
    anchor: str = ""  # of a heading in it


# One row's values by name. All are columns of the CSV, except those whose name begins with "_".
# "_under" is the heading above the row; the last one of a tuple is shown. A row with nothing else
# is only that heading.
Values = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column shows the value named `of` of each row, formatted by `show`. None is shown as '-'.

    `align` is l or r; `wrap` lets the terminal break longer cells; `code` is a kernel. A `detail`
    is only shown in Markdown: terminals and printed pages are too narrow for it.
    """

    name: str
    of: str
    show: Callable[[Any], str] = str
    align: str = "r"
    wrap: int = 0  # characters that stay on a line in any case; 0: cells are never broken
    code: bool = False
    detail: bool = False

    def cell(self, row: Values) -> Noted:
        """The value with its text."""
        value = row.get(self.of)
        noted = value if isinstance(value, Noted) else Noted(value)
        text = noted.text or (NONE if noted.value is None else self.show(noted.value))
        return replace(noted, text=text)


def plain(value: object) -> object:
    return value.value if isinstance(value, Noted) else value


WORDS = {"align": "l", "wrap": 1}  # the style of a column of text, whose cells may be broken
CODE = {**WORDS, "code": True}
KERNEL = Column("kernel", "kernel", **CODE)


def side_by_side(rows: Mapping[str, Values]) -> Values:
    """Several rows as one: a prefix of the names of its values distinguishes them."""
    return {f"{of} {name}": value for of, row in rows.items() for name, value in row.items()}


def columns_of(names: Iterable[str], *columns: Column) -> list[Column]:
    """The columns once for each prefix; their headings may have its name in braces."""
    return [
        replace(c, name=c.name.format(name), of=f"{name} {c.of}") for name in names for c in columns
    ]


class Origin(NamedTuple):
    """The provenance of numbers."""

    text: str  # without a full stop
    command: str = ""  # that made them; too long for a printed page

    def said(self, with_command: bool) -> str:
        return f"{self.text}: {self.command}." if with_command and self.command else f"{self.text}."


BEST = "{best}"  # in notes, where each writer says how it shows best cells
NONE = "-"  # in the place of a value that there is not

Row = list[tuple[Noted, str]]  # cells, each with the numbers of its footnotes: '1,2' or ''


@dataclass
class Table:
    """`data`: the CSV's rows, where it has others."""

    name: str  # of the files
    title: str
    columns: list[Column]
    rows: list[Values]
    notes: list[str] = field(default_factory=list)
    provenance: Sequence[Origin] = ()
    data: list[Values] | None = None
    banner: str = ""
    experiment: str = ""  # that it is of

    def body(self) -> tuple[list[tuple[str, list[Row]]], list[str]]:
        """The rows as cells, by heading ('' for none), and the footnotes in reading order."""
        groups: dict[str | tuple[str, ...], list[list[Noted]]] = {}
        for row in self.rows:
            group = groups.setdefault(row.get("_under", ""), [])
            cells = [column.cell(row) for column in self.columns]
            group += [cells] * (row.keys() != {"_under"})
        notes = [n for rows in groups.values() for row in rows for cell in row for n in cell.notes]
        number = {note: str(i) for i, note in enumerate(dict.fromkeys(notes), 1)}
        body = [
            (
                key if isinstance(key, str) else key[-1],
                [[(c, ",".join(number[n] for n in c.notes)) for c in row] for row in rows],
            )
            for key, rows in groups.items()
        ]
        return body, list(number)

    @property
    def csv_rows(self) -> list[dict[str, object]]:
        """Plain values, without those that are only shown."""
        rows = self.rows if self.data is None else self.data
        return [{k: plain(v) for k, v in row.items() if not k.startswith("_")} for row in rows]

    def notes_saying(self, best: str, with_commands: bool = True) -> list[str]:
        """Notes and provenance for a writer that marks best cells in this way: 'in bold'."""
        notes = [note.replace(BEST, best) for note in self.notes]
        origins = dict.fromkeys(self.provenance)
        return [*notes, *(origin.said(with_commands) for origin in origins)]

    def without_details(self) -> "Table":
        return replace(self, columns=[column for column in self.columns if not column.detail])

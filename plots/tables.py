"""Tables that experiments/<name>/experiment.toml declares, made of the frame of rows with pandas.

A table selects rows: a pass or several, and `where` (columns of the frame, each with a value or a
list). It shows `values` by `rows` and, side by side, `columns`. `over` names the rows that each row
is divided by: those that differ from it in these columns alone. `derived` names a function of
experiments/<name>/derived.py that makes the rows. Rows of older code are in no table.
"""

import importlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from plots.frame import CLOCK_PERCENT, against, chosen
from reprolab.declared import module
from reprolab.errors import InputError
from reprolab.results import KERNEL_TIME, VERIFIED
from reprolab.stats import significant

DEFAULTS = {
    "metric": KERNEL_TIME,
    "rows": ["problem", "kernel"],
    "columns": [],
    "values": ["median"],
}
KINDS = {  # how a value is shown, by its column
    **dict.fromkeys(("gb_per_s", "problem_n"), ".0f"),
    **dict.fromkeys(("of_copy", "of_ceiling", "of_peak"), ".1%"),
    **dict.fromkeys(("ratio", "time_ratio"), ".2f"),
    "change": "+.1%",
}
DEVIATES, CLOCK = "*", "\N{DAGGER}"
NOTES = {
    DEVIATES: "Its output deviates from the reference as declared; not ranked.",
    CLOCK: f"Its SM clock was more than {CLOCK_PERCENT} % below the highest on its problem.",
}


def markdown(frame: pd.DataFrame, texts: int = 1_000) -> str:
    """As a table for GitHub; the first columns are texts, the others numbers."""
    rules = ["---" if i < texts else "---:" for i in range(frame.shape[1])]
    rows = [list(map(str, frame)), rules, *frame.astype(str).to_numpy().tolist()]
    cells = ([re.sub(r"([|\\<])", r"\\\1", cell) for cell in row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def short(number: float) -> str:
    """With four significant digits: 466.2 M, 19.58, 0."""
    for least, power, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(number) >= least:
            return f"{significant(number / power)} {letter}"
    return f"{number:.0f}" if number == int(number) else significant(number)


@dataclass
class Table:
    """One table of one machine; `{{ table }}` is its Markdown, `table(batch=2)` a cell's text."""

    experiment: str
    spec: dict[str, Any]
    all_rows: pd.DataFrame  # prepared, of the experiment
    claims: pd.DataFrame
    derived: dict[str, pd.DataFrame] = field(default_factory=dict)  # shared by its tables

    def __post_init__(self) -> None:
        self.spec |= DEFAULTS | self.spec
        self.name, self.title = self.spec["name"], self.spec["title"]
        self.rows, self.columns = self.spec["rows"], self.spec["columns"]
        self.values, self.metric = self.spec["values"], self.spec["metric"]

    @cached_property
    def every(self) -> pd.DataFrame:
        """The selected rows, those of older code among them."""
        rows = self.all_rows
        if "pass" in self.spec:
            rows = chosen(rows, {"pass": self.spec["pass"]})
        if make := self.spec.get("derived"):
            if make not in self.derived:
                derived = importlib.import_module(module(self.experiment, "derived"))
                self.derived[make] = getattr(derived, make)(rows, self.claims)
            rows = self.derived[make]
        elif self.metric != "all":
            asked = [self.metric] if isinstance(self.metric, str) else self.metric
            rows = rows[rows.metric.isin(asked) | rows.metric.isna()]  # wrong outputs have none
        if not {*self.rows, *self.columns} <= {*rows}:
            return rows[:0]  # a pass that has these fields was not measured
        over, where = self.spec.get("over", {}), self.spec.get("where", {})
        rows = chosen(rows, {k: v for k, v in where.items() if k not in over})
        if over:
            rows = against(rows, over, [*self.rows, *self.columns])
        rows = chosen(rows, {k: v for k, v in where.items() if k in over})
        return rows.sort_values(self.spec["sort"], kind="stable") if "sort" in self.spec else rows

    @cached_property
    def data(self) -> pd.DataFrame:
        if "older_code" not in self.every:
            return self.every
        return self.every[~self.every.older_code.astype(bool)]

    def text(self, row: Any, value: str) -> str:
        """A value with its interval if the table shows it, its mark, or why there is none."""
        number = getattr(row, value, None)
        if isinstance(number, str):
            return number
        if number is None or pd.isna(number):
            is_timed = not pd.isna(getattr(row, "median", None))  # another value is missing
            outcome = getattr(row, "outcome", None)
            right = is_timed or pd.isna(outcome) or outcome in VERIFIED
            return "-" if right else outcome.replace("_", " ")
        ends = [getattr(row, f"{value}{end}", None) for end in ("_low", "_high")]
        ends = [getattr(row, end) for end in ("low", "high")] if value == "median" else ends
        shown = self.shown(number, value)
        if self.spec.get("interval") and None not in ends and not any(map(pd.isna, ends)):
            shown += f" ({'-'.join(self.shown(end, value) for end in ends)})"
        deviates = getattr(row, "outcome", "") == "deviation_as_declared"
        return shown + DEVIATES * deviates + CLOCK * bool(getattr(row, "clock_is_lower", False))

    def shown(self, number: float, value: str) -> str:
        formats = self.spec.get("format", {})
        kind = formats if isinstance(formats, str) else formats.get(value, KINDS.get(value, ""))
        number *= self.spec.get("scale", {}).get(value, 1)
        if kind == "short":
            return short(number)
        return format(number, kind) if kind else significant(float(number))

    @cached_property
    def shown_frame(self) -> pd.DataFrame:
        """The cells as texts: rows and columns in the order in which the rows have them."""
        index, across, values = self.rows, self.columns, self.values
        heads = self.spec.get("heads", {})
        named = [heads.get(v, v.replace("_", " ")) for v in values]
        cells = [[self.text(row, v) for v in values] for row in self.data.itertuples()]
        keys = self.data[[*index, *across]].astype(object)
        keys = keys.where(keys.notna(), "-")
        frame = pd.DataFrame(cells, columns=named, index=pd.MultiIndex.from_frame(keys))
        if across:
            order = [keys[names].drop_duplicates() for names in (index, across)]
            rows, columns = (list(o.itertuples(index=False, name=None)) for o in order)
            frame = frame.unstack(across, fill_value="-")
            frame = frame.reindex([row if len(index) > 1 else row[0] for row in rows])
            frame = frame[[(value, *column) for column in columns for value in named]]
            shown = [c[1:] if len(named) == 1 else (*c[1:], c[0]) for c in frame]
            frame.columns = [" ".join(heads.get(n, str(n)) for n in names) for names in shown]
        return frame.reset_index(names=[heads.get(n, n.replace("_", " ")) for n in index])

    def markdown(self) -> str:
        """With its title, and the meaning of the marks in it."""
        table = markdown(self.shown_frame, texts=len(self.rows))
        return "\n".join([f"**{self.title}**", "", table, *self.notes, ""])

    @property
    def notes(self) -> list[str]:
        cells = " ".join(self.shown_frame.astype(str).to_numpy().ravel())
        marks = [f"{mark} {text}" for mark, text in NOTES.items() if mark in cells]
        return [note for note in (self.spec.get("note"), *marks) if note]

    def csv(self) -> str:
        """The rows in full."""
        extra = [v for value in self.values for v in (value, f"{value}_low", f"{value}_high")]
        names = [*self.rows, *self.columns, *FULL, *extra, *self.spec.get("csv", [])]
        names = [name for name in dict.fromkeys(names) if name in self.data]
        return self.data[names].to_csv(index=False, float_format="%.6g")

    def latex(self) -> str:
        return self.shown_frame.to_latex(index=False, escape=True, caption=self.title)

    __str__ = markdown

    def __call__(self, value: str = "", **at: Any) -> str:
        """The text of the only cell with these values, or of several the range."""
        value = value or self.values[0]
        where = f"{self.experiment}.{self.name}({', '.join(f'{k}={v!r}' for k, v in at.items())})"
        if unknown := {value, *at} - {*self.every}:
            raise InputError(f"slot {where}: no column '{unknown.pop()}'")
        cells = chosen(self.data, at)
        if cells.empty:
            if chosen(self.every, at).empty:
                raise InputError(f"slot {where}: no such cell")
            return "not measured with this code"
        numbers = cells[value].dropna()
        if numbers.empty:
            return self.text(next(cells.itertuples()), value)
        return "-".join(
            dict.fromkeys(self.shown(end, value) for end in (numbers.min(), numbers.max()))
        )


FULL = """origin maker outcome reason median low high min n bytes_moved gb_per_s bytes_per_cycle
of_copy of_ceiling ratio ratio_low ratio_high sm_mhz clock_is_lower source_file""".split()

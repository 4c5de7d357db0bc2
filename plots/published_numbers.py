"""Every number that a source publishes, beside ours."""

from collections.abc import Sequence
from itertools import groupby

from claims.ledger import Decision, Verdict
from claims.published import look_up
from claims.stats import significant
from plots.tables import NONE, Cell, Column, Group, Row, Table, numbers, words

COLUMNS = [*words("claim", "of what"), Column("unit", align="l")]
COLUMNS += numbers("source", "ours", "interval", "difference")


def table(name: str, decisions: Sequence[Decision]) -> Table:
    """One row per number; those that nothing is compared with come last, with the reason."""
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for source, found in groupby(decisions, lambda d: d.source):
        rows.append(Group(f"{source.author} ({source.reference}), on {source.gpu}"))
        for d in found:
            for v in (v for v in d.verdicts if v.cell.value is not None):
                rows.append(row(d, v))
                data.append(csv_row(d, v))
        if source.without_cell:
            rows.append(Group("Of the same, compared with nothing:"))
        for path, why in source.without_cell.items():
            for number, value in below(source.tables, path):
                rows.append([number, why, "", f"{value:g}", NONE, NONE, NONE, NONE])
                data.append(dict.fromkeys(csv_row_names()) | without(source.id, number, value, why))
    columns = [*COLUMNS, *words("verdict")]
    title = "All published numbers, beside ours"
    note = "Where a verdict names a GPU, only that one can show the number; ours is of this one."
    return Table(name, title, columns, rows, data, [note])


def below(tables: dict, path: str) -> list[tuple[str, float]]:
    found = tables
    for name in path.split("/"):
        found = found[name]
    if not isinstance(found, dict):
        return [(path, look_up(tables, path, path))]
    return [pair for name in found for pair in below(tables, f"{path}/{name}")]


def row(d: Decision, v: Verdict) -> Row:
    ends = "{}-{}".format(*(significant(end, 3) for end in v.interval)) if v.interval else NONE
    change = v.difference_percent
    verdict = v.verdict.replace("_", " ")
    return [
        *(d.claim.id, of_what(v), v.comparison.unit, f"{v.cell.value:g}"),
        NONE if v.ours is None else significant(v.ours, 3),
        ends,
        NONE if change is None else f"{change:+.1f} %",
        Cell(f"{verdict} ({v.cell.gpu} only)" if v.elsewhere else verdict),
    ]


def of_what(v: Verdict) -> str:
    return ", ".join(filter(None, (v.cell.text, v.comparison.reading)))


def csv_row_names() -> list[str]:
    names = "source claim of_what unit source_value our_value our_low our_high difference_percent"
    return [*names.split(), "only_on", "verdict", "why"]


def csv_row(d: Decision, v: Verdict) -> dict[str, object]:
    low, high = v.interval or (None, None)
    values = (d.source.id, d.claim.id, of_what(v), v.comparison.unit, v.cell.value, v.ours, low)
    values += (high, v.difference_percent, v.cell.gpu, v.verdict, v.why)
    return dict(zip(csv_row_names(), values, strict=True))


def without(source: str, number: str, value: float, why: str) -> dict[str, object]:
    return {"source": source, "claim": "", "of_what": number, "source_value": value, "why": why}

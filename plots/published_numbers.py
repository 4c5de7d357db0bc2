"""Every number that a source publishes, beside ours."""

from collections.abc import Sequence
from itertools import groupby

from claims.ledger import Decision, Verdict
from claims.published import look_up
from plots.tables import WORDS, Column, Noted, Table, Values, rounded

COLUMNS = [
    Column("claim", "claim", **WORDS),
    Column("of what", "of_what", **WORDS),
    Column("unit", "unit", align="l"),
    Column("source", "source_value", "{:g}".format),
    Column("ours", "our_value", rounded),
    Column("interval", ("our_low", "our_high"), lambda *ends: "-".join(map(rounded, ends))),
    Column("difference", "difference_percent", "{:+.1f} %".format),
    Column("verdict", "verdict", **WORDS),
]
OURS = ("our_value", "our_low", "our_high", "difference_percent", "only_on", "verdict")


def table(name: str, decisions: Sequence[Decision]) -> Table:
    """One row per number; those that nothing is compared with come last, with the reason."""
    rows: list[Values] = []
    for source, found in groupby(decisions, lambda d: d.source):
        under = f"{source.author} ({source.reference}), on {source.gpu}"
        every = [(d, v) for d in found for v in d.verdicts if v.cell.value is not None]
        rows += [{"_under": under} | row(d, v) for d, v in every]
        for path, why in source.without_cell.items():
            without: Values = {"_under": (source.id, "Of the same, compared with nothing:")}
            without |= {"source": source.id}
            for number, value in below(source.tables, path):
                what = {"claim": Noted("", text=number), "of_what": Noted(number, text=why)}
                what |= {"unit": "", "source_value": value} | dict.fromkeys(OURS)
                rows.append(without | what | {"why": why})
    title = "All published numbers, beside ours"
    note = "Where a verdict names a GPU, only that one can show the number; ours is of this one."
    return Table(name, title, COLUMNS, rows, [note])


def below(tables: dict, path: str) -> list[tuple[str, float]]:
    found = tables
    for name in path.split("/"):
        found = found[name]
    if not isinstance(found, dict):
        return [(path, look_up(tables, path, path))]
    return [pair for name in found for pair in below(tables, f"{path}/{name}")]


def row(d: Decision, v: Verdict) -> Values:
    test = v.comparison
    of_what = ", ".join(filter(None, (v.cell.text, test.reading)))
    said = v.verdict.replace("_", " ") + f" ({v.cell.gpu} only)" * v.elsewhere
    found: Values = {"source": d.source.id, "claim": d.claim.id, "of_what": of_what}
    found |= {"unit": test.unit, "source_value": v.cell.value}
    ours = (v.ours, *(v.interval or (None, None)), v.difference_percent, v.cell.gpu)
    found |= dict(zip(OURS, (*ours, Noted(v.verdict, text=said)), strict=True))
    return found | {"why": v.why}

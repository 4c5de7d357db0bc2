"""Every number that a source publishes, beside ours."""

from collections.abc import Sequence
from itertools import groupby

from claims.ledger import Decision, Verdict
from claims.published import look_up
from plots.tables import WORDS, Column, Noted, Table, Values
from records.stats import significant


def rounded(value: float) -> str:
    return significant(value, 3)


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


def table(name: str, decisions: Sequence[Decision]) -> Table:
    """One row per number; those that nothing is compared with come last, with the reason."""
    groups: list[tuple[str, list[Values]]] = []
    for source, found in groupby(decisions, lambda d: d.source):
        rows = [row(d, v) for d in found for v in d.verdicts if v.cell.value is not None]
        groups.append((f"{source.author} ({source.reference}), on {source.gpu}", rows))
        without = [
            row_without(source.id, number, value, why)
            for path, why in source.without_cell.items()
            for number, value in below(source.tables, path)
        ]
        groups += [("Of the same, compared with nothing:", without)] * bool(source.without_cell)
    title = "All published numbers, beside ours"
    note = "Where a verdict names a GPU, only that one can show the number; ours is of this one."
    return Table(name, title, COLUMNS, groups, [note])


def below(tables: dict, path: str) -> list[tuple[str, float]]:
    found = tables
    for name in path.split("/"):
        found = found[name]
    if not isinstance(found, dict):
        return [(path, look_up(tables, path, path))]
    return [pair for name in found for pair in below(tables, f"{path}/{name}")]


def row(d: Decision, v: Verdict) -> Values:
    (low, high), test = v.interval or (None, None), v.comparison
    of_what = ", ".join(filter(None, (v.cell.text, test.reading)))
    said = v.verdict.replace("_", " ") + f" ({v.cell.gpu} only)" * v.elsewhere
    found: Values = {"source": d.source.id, "claim": d.claim.id, "of_what": of_what}
    found |= {"unit": test.unit, "source_value": v.cell.value, "our_value": v.ours}
    found |= {"our_low": low, "our_high": high, "difference_percent": v.difference_percent}
    return found | {"only_on": v.cell.gpu, "verdict": Noted(v.verdict, text=said), "why": v.why}


def row_without(source: str, number: str, value: float, why: str) -> Values:
    found: Values = {"source": source, "claim": Noted("", text=number)}
    found |= {"of_what": Noted(number, text=why), "unit": "", "source_value": value}
    none = ("our_value", "our_low", "our_high", "difference_percent", "only_on", "verdict")
    return found | dict.fromkeys(none) | {"why": why}

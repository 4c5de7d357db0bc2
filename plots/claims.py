"""Verdicts on a source's claims, as a table; for any experiment."""

from collections.abc import Sequence

from plots.bandwidth import NONE
from plots.captions import machine_notes
from plots.results import Results
from plots.stats import significant
from plots.tables import Column, Group, Row, Table

VERDICT_WORDS = {
    "reproduced": "reproduced",
    "not_reproduced": "not reproduced",
    "premise_false": "premise false",
    "not_testable": "not testable",
}


def claims_table(
    title: str, passes: Sequence[Results], notes: list[str], shown_elsewhere: str = ""
) -> Table:
    """Every verdict of the experiment's passes, but for the claim that has its own table."""
    columns = [
        Column("source", "l"),
        Column("its value"),
        Column("ours (interval)"),
        Column("difference"),
        Column("verdict", "l", wrap=True),
        Column("what decided it", "l", wrap=True),
    ]
    rows: list[Row | Group] = []
    data: list[Sequence[object]] = [CSV_HEADER]
    provenance: list[str] = []
    for results in passes:
        verdicts = [v for v in results.verdicts if v.claim != shown_elsewhere]
        if verdicts:
            provenance += machine_notes(results)
        for v in verdicts:
            cell = ", ".join(f"{key} {value}" for key, value in v.cell.items())
            rows.append(Group(f"{v.claim}: {v.text}" + (f" ({cell})" if cell else "")))
            ours = with_unit(v.our_value, v.unit)
            if v.our_interval:
                ours += " ({}-{})".format(*(significant(x, 3) for x in v.our_interval))
            rows.append(
                [
                    v.source,
                    with_unit(v.source_value, v.unit),
                    ours,
                    NONE if v.difference_percent is None else f"{v.difference_percent:+.1f} %",
                    VERDICT_WORDS[v.verdict],
                    v.reason,
                ]
            )
            low, high = v.our_interval or (None, None)
            numbers = [v.source_value, v.our_value, low, high, v.difference_percent]
            keys = " ".join(v.decided_by)
            data.append(
                [v.claim, v.source, cell, v.text, v.unit, *numbers]
                + [v.tolerance, v.verdict, v.reason, keys]
            )
    if not rows:
        provenance = machine_notes(passes[0])
    return Table("claims", title, columns, rows, data, notes, provenance)


def with_unit(value: float | None, unit: str) -> str:
    return NONE if value is None else f"{significant(value, 3)} {unit}".rstrip()


CSV_HEADER = (
    "claim,source,cell,text,unit,source_value,our_value,our_low,our_high,difference_percent,"
    "tolerance,verdict,reason,decided_by"
).split(",")

"""The evidence for each claim, cell by cell, on the page that the ledger links to; and every number
that a source publishes, next to ours.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from reprolab.claims.ledger import Decision, Verdict
from reprolab.claims.prediction import VALIDATED, validation
from reprolab.claims.published import NAMED_GPU, Reading
from reprolab.claims.rules import DIRECTIONS
from plots.documents import markdown_code, markdown_escape, markdown_link
from plots.sentences import IN_DOCUMENT, quoted, spelled, verdict_in_words
from reprolab.code import OLDER_NOTE
from reprolab.printable import printable
from reprolab.tables import WORDS, Column, Noted, Table, Values, in_unit, rounded

COLUMNS = [
    Column("claim", "claim", **WORDS),
    Column("cell", "cell", **WORDS),
    Column("unit", "unit", align="l"),
    Column("source", "source_value", "{:g}".format),
    Column("ours", "our_value", rounded),
    Column("interval", "_interval", lambda ends: "-".join(map(rounded, ends))),
    Column("difference", "difference_percent", "{:+.1f} %".format),
    Column("predicted", "predicted", align="l"),
    Column("verdict", "verdict", **WORDS),
]
OURS = ("our_value", "our_low", "our_high", "difference_percent", "only_on", "verdict")


def anchor(d: Decision) -> str:
    """GitHub's anchor of the claim's heading."""
    return re.sub(r"[^a-z0-9-]", "", d.claim.id)


@dataclass(frozen=True)
class CellEvidence:
    """`text`: 'qwen3-32b, batch 8: reproduced, 2.19 there, 2.11 here (2.11-2.12): why'; `files`:
    '2 rows of replay.json', and the file.
    """

    text: str
    files: list[tuple[str, Path]]


@dataclass(frozen=True)
class ClaimEvidence:
    """Criterion, direction and scope of each comparison, and every cell with its evidence."""

    id: str
    anchor: str
    says: str
    verdict: str
    spelled: str
    remark: str
    readings: list[str]
    comparisons: list[tuple[str, list[CellEvidence]]]
    command: str


@dataclass(frozen=True)
class SourceEvidence:
    title: str
    notes: list[str]
    claims: list[ClaimEvidence]


def by_source(decisions: Sequence[Decision]) -> list[SourceEvidence]:
    return [
        SourceEvidence(
            f"{source.author}, {source.reference}",
            [f"Note on {note.about}: {note.text}" for note in source.notes],
            list(map(claim_evidence, group)),
        )
        for source, group in groupby(decisions, lambda d: d.source)
    ]


def claim_evidence(d: Decision) -> ClaimEvidence:
    sections = d.claim.section
    word = "" if not sections or sections.startswith("abstract") else "section "
    where = f" ({word}{sections})" if sections else ""
    return ClaimEvidence(
        d.claim.id,
        anchor(d),
        f"Says{where}: {d.claim.text}.",
        d.verdict,
        verdict_in_words(d),
        f" {d.claim.remark}." if d.claim.remark else "",
        [f"{reading_text(reading)}." for reading in d.claim.readings if d.claim.readings[0].name],
        [
            (compared(verdicts[0]), list(map(cell_evidence, verdicts)))
            for _, group in groupby(d.verdicts, lambda v: id(v.comparison))
            if (verdicts := list(group))
        ],
        d.command,
    )


TITLE = "Evidence for each claim"


def page(decisions: Sequence[Decision], seen_from: Path, head: Sequence[str] = ()) -> str:
    """The page in Markdown; links of the evidence are relative to the folder `seen_from`."""
    lines = [f"# {TITLE}", "", *head]
    for source in by_source(decisions):
        lines += [f"## {markdown_escape(source.title)}", ""]
        for note in source.notes:
            lines += [markdown_escape(note), ""]
        for claim in source.claims:
            lines += [*markdown_claim(claim, seen_from), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def markdown_claim(claim: ClaimEvidence, seen_from: Path) -> Iterator[str]:
    yield f"### {claim.id}"
    yield ""
    yield f"{markdown_escape(claim.says)} "
    yield f"Verdict: **{claim.spelled}**.{markdown_escape(claim.remark)}"
    yield ""
    yield from (f"- {markdown_escape(reading)}" for reading in claim.readings)
    if claim.readings:
        yield ""
    for test, cells in claim.comparisons:
        yield f"- {markdown_escape(test)}"
        for one in cells:
            links = [
                markdown_link(markdown_escape(name), relative(file, seen_from))
                for name, file in one.files
            ]
            yield f"  - {markdown_escape(one.text)}" + f". {', '.join(links)}" * bool(links)
    yield ""
    yield f"Measured by {markdown_code(claim.command)}."


def compared(v: Verdict) -> str:
    test = v.comparison
    reading = f"Read as {test.reading}: reproduced" if test.reading else "Reproduced"
    scope = "a number only of the named GPU" if test.scope == NAMED_GPU else "of any GPU"
    kind = DIRECTIONS.get(test.direction, "a statement without a number")
    return f"{reading} if {v.criterion} ({kind}; {scope})"


def reading_text(reading: Reading) -> str:
    """'Primary reading, which decides: tiles of 512 bytes, because TILE_SIZE counts bytes'."""
    kind = "Our own measurement, not a reading of the source" if reading.own_measurement else ""
    kind = "Primary reading, which decides" if reading.primary_because else kind
    text = f"{kind or 'Other reading'}: {reading.name}"
    text += f", because {reading.primary_because}" * bool(reading.primary_because)
    return text + f" (added on {reading.added}, with a verdict known)" * bool(reading.added)


def cell_evidence(v: Verdict) -> CellEvidence:
    parts = [f"{v.cell.text or 'all'}: {spelled(v.verdict, [v])}"]
    unit = f" {v.comparison.unit}".rstrip()
    if v.cell.value is not None:
        parts.append(f"{v.cell.value:g}{unit} there")
    if v.ours is not None:
        shown = in_unit(v.comparison.unit)
        ends = " ({}-{})".format(*map(shown, v.interval)) if v.interval else ""
        parts.append(f"{shown(v.ours)}{unit} here{ends}")
    if v.documented is not None:
        parts.append(f"{quoted(v.documented)}{unit} {IN_DOCUMENT}")
    if v.predicted:
        other = f" of {v.predicted.what}" * bool(v.predicted.what)
        parts.append(f"predicted {v.predicted.text}{other}")
    text = f"{', '.join(parts)}: {v.reason}"
    text += f" ({OLDER_NOTE.rstrip('.')})" * v.of_older_code
    files = []
    for file in dict.fromkeys(file for file, _ in v.evidence):
        rows = [key for source, key in v.evidence if source == file and key]
        count = f"{len(rows)} row{'s' * (len(rows) > 1)} of " if rows else "provenance of "
        files.append((f"{count}{printable(file.name)}", file))
    return CellEvidence(text, files)


def relative(file: Path, seen_from: Path) -> str:
    return os.path.relpath(os.path.realpath(file), os.path.realpath(seen_from))


def numbers_table(name: str, decisions: Sequence[Decision]) -> Table:
    """One row per number; numbers that nothing is compared with come last, with the reason."""
    rows: list[Values] = []
    for source, group in groupby(decisions, lambda d: d.source):
        under = f"{source.author} ({source.reference}), on {source.gpu}"
        every = [(d, v) for d in group for v in d.verdicts if v.cell.value is not None]
        rows += [{"_under": under} | number_row(d, v) for d, v in every]
        for path, why in source.without_cell.items():
            without: Values = {"_under": (source.id, "Other numbers, compared with nothing:")}
            without |= {"source": source.id}
            for number, value in source.numbers_below(path).items():
                fields = {"claim": Noted("", text=number), "cell": Noted(number, text=why)}
                fields |= {"unit": "", "source_value": value} | dict.fromkeys(OURS)
                rows.append(without | fields | {"why": why})
    title = "All published numbers, and ours"
    notes = ["If a verdict names a GPU, only that GPU can show the number; ours is from this one."]
    if any(row.get("predicted") for row in rows):
        off = "; ".join(f"{VALIDATED[name]}, {p:+.1f} %" for name, p in validation().items())
        notes.append(
            "Predicted on the source's GPU from times here: kernels bound by instruction issue "
            "by multiprocessors and clock, products by bandwidth. Errors are the largest from one "
            f"recorded GPU to the other: {off}. No prediction counts as reproduced."
        )
    return Table(name, title, COLUMNS, rows, notes)


def number_row(d: Decision, v: Verdict) -> Values:
    test = v.comparison
    same = [o for o in d.verdicts if (o.cell.at, o.comparison.reading) == (v.cell.at, test.reading)]
    distinctions = []
    if len(v.cell.paths) > 1:  # no source prints the quotient
        distinctions = [" / ".join(f"{d.source.numbers[path]:g}" for path in v.cell.paths)]
    elif len(same) > 1:
        named = {v.cell.model, *map(str, v.cell.at.values())}
        path = "/".join(part for part in v.cell.paths[0].split("/") if part not in named)
        distinctions = [test.arguments.get("kernel", ""), path]
        distinctions += [test.experiment] if len(d.claim.experiments) > 1 else []
    cell = ", ".join(filter(None, (v.cell.text, test.reading, *distinctions)))
    verdict = spelled(v.verdict, [v]) + f" ({v.cell.gpu} only)" * v.elsewhere
    row: Values = {"source": d.source.id, "claim": d.claim.id, "cell": cell}
    row |= {"unit": test.unit, "source_value": v.cell.value}
    ours = (v.ours, *(v.interval or (None, None)), v.difference_percent, v.cell.gpu)
    row |= dict(zip(OURS, (*ours, Noted(v.verdict, text=verdict)), strict=True))
    if v.ours is not None:
        older = (OLDER_NOTE,) * v.of_older_code
        row["our_value"] = Noted(v.ours, older, text=in_unit(test.unit)(v.ours))
    if v.documented is not None:
        row["our_value"] = Noted(None, text=f"{quoted(v.documented)} {IN_DOCUMENT}")
    if v.predicted:
        notes = (f"Predicted: {v.predicted.what}.",) * bool(v.predicted.what)
        row["predicted"] = Noted(v.predicted.text, notes)
    return row | {"why": v.why, "_interval": v.interval}

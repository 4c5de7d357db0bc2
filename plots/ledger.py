"""The ledger: every claim with its verdict, as a table for each machine."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from claims.code import unknown_note
from claims.evidence import Evidence, machines
from claims.ledger import Decision, Verdict, decide
from claims.printable import printable
from claims.published import load_sources
from claims.rules import NOT_TESTED, REPRODUCED, VERDICTS
from claims.stats import INTERVAL_NOTE, significant
from plots import console
from plots.captions import banner, machine
from plots.output import table_files, write_files
from plots.tables import NONE, Cell, Column, Group, Row, Table, numbers, words

COLUMNS = [*words("claim"), *words("what it says", detail=True), *words("section")]
COLUMNS += numbers("source's value", "ours (interval)", "difference", wrap=1)
COLUMNS += [Column("verdict", "l", wrap=len("not reproduced"))]
COLUMNS += words("what decided it, or what is missing", "evidence", detail=True)
MOST_REASONS = 3  # of one claim; the CSV has every cell's


def spell(verdict: str) -> str:
    return verdict.replace("_", " ") + " yet" * (verdict == NOT_TESTED)


def count_line(decisions: Sequence[Decision], what: str = "claims") -> str:
    """'35 claims: 5 reproduced, 4 not reproduced, ...'"""
    found = [d.verdict for d in decisions]
    counts = [f"{found.count(v)} {spell(v)}" for v in (REPRODUCED, *VERDICTS[:-1]) if v in found]
    return f"{len(found)} {what}: {', '.join(counts)}."


def claims_table(name: str, title: str, decisions: Sequence[Decision], seen_from: Path) -> Table:
    """One row per claim, by source; the CSV has one per cell. Links begin at `seen_from`."""
    rows: list[Row | Group] = []
    waiting: dict[str, list[str]] = {}  # command -> the claims that it would decide
    for source, found in groupby(decisions, lambda d: d.source):
        rows.append(Group(f"{source.author}: {source.title} ({source.reference})"))
        for d in found:
            rows.append(claim_row(d, seen_from))
            if d.verdict == NOT_TESTED:
                waiting.setdefault(d.command, []).append(d.claim.id)
    data = [csv_row(d, v, seen_from) for d in decisions for v in d.verdicts]
    notes = [count_line(decisions)]
    notes += [f"Waiting for {command}: {', '.join(ids)}." for command, ids in waiting.items()]
    notes.append(
        f"Over several cells: the range of their values. {INTERVAL_NOTE} Over several layers or "
        "comparisons: from the least to the greatest."
    )
    notes += unknown_note(k for d in decisions for v in d.verdicts for k in v.of_unknown_code)
    return Table(name, title, COLUMNS, rows, data, notes)


def claim_row(d: Decision, seen_from: Path) -> Row:
    unit, verdicts = d.claim.unit, d.verdicts
    ours = value_range([v.ours for v in verdicts], unit, rounded)
    if verdicts[0].interval and len(verdicts) == 1:
        ours += " ({}-{})".format(*map(rounded, verdicts[0].interval))
    files = list(dict.fromkeys(file for v in verdicts for file, _ in v.evidence))
    evidence: Cell | str = NONE
    if files:
        number = len({row for v in verdicts for row in v.evidence})
        names = printable(", ".join(file.name for file in files))
        text = f"{number} row{'s' * (number > 1)} of {names}"
        evidence = Cell(text, link=relative(files[0], seen_from))
    return [
        *(d.claim.id, d.claim.text, d.claim.section),
        value_range([v.cell.value for v in verdicts], unit, quoted),
        ours,
        value_range([v.difference_percent for v in verdicts], "%", "{:+.1f}".format),
        *(in_cells(d), reasons(d), evidence),
    ]


def in_cells(d: Decision) -> str:
    """'not reproduced in 1 of 3 cells, premise false in 2': the claim's verdict first."""
    found, cells = [v.verdict for v in d.verdicts], len(d.verdicts)
    if cells == 1 or set(found) == {NOT_TESTED}:
        return spell(d.verdict)
    text = f"{spell(d.verdict)} in {found.count(d.verdict)} of {cells} cells"
    others = [v for v in (REPRODUCED, *VERDICTS[:-1]) if v in found and v != d.verdict]
    return ", ".join([text, *(f"{spell(v)} in {found.count(v)}" for v in others)])


def quoted(value: float) -> str:
    """A source's number: 64 remains 64."""
    return f"{value:.0f}" if value == int(value) else rounded(value)


def rounded(value: float) -> str:
    return significant(value, 3)


def value_range(values: Sequence[float | None], unit: str, show: Callable[[float], str]) -> str:
    """'2.03 to 2.20 x', or one value where the two ends look the same."""
    known = [value for value in values if value is not None]
    ends = dict.fromkeys(show(end) for end in (min(known), max(known))) if known else {}
    return f"{' to '.join(ends)} {unit}".rstrip() if ends else NONE


def reasons(d: Decision) -> str:
    """Why the claim has its verdict, or the command that would decide it; then our remark."""
    found = [v for v in d.verdicts if v.verdict == d.verdict]
    texts, several = [found[0].reason], len({v.reason for v in d.verdicts}) > 1
    if several and len(d.verdicts) <= MOST_REASONS:
        texts = [cell_text(d, v) for v in d.verdicts]
    elif d.verdict == REPRODUCED and len(found) > 1:
        texts = [d.criterion]
    elif len({v.reason for v in found}) > 1:
        texts = [f"{v.cell.text}: {v.reason}" for v in found[:MOST_REASONS]]
        texts += [f"and {len(found) - MOST_REASONS} more"] * (len(found) > MOST_REASONS)
    texts += [d.command] * (d.verdict == NOT_TESTED)
    texts += [f"reproduced if {d.criterion}"] * bool(d.criterion and texts[0] != d.criterion)
    texts += [f"remark: {d.claim.remark}"] * bool(d.claim.remark)
    return "; ".join(texts)


def cell_text(d: Decision, v: Verdict) -> str:
    """'batch 8, reproduced, 1.30 x: the reason'; without the verdict where all cells have it."""
    verdict = [spell(v.verdict)] * any(other.verdict != v.verdict for other in d.verdicts)
    ours = [] if v.ours is None else [value_range([v.ours], d.claim.unit, rounded)]
    return f"{', '.join([v.cell.text, *verdict, *ours])}: {v.reason}"


def csv_row(d: Decision, v: Verdict, seen_from: Path) -> dict[str, object]:
    claim, (low, high) = d.claim, v.interval or (None, None)
    found: dict[str, object] = {"source": d.source.id, "claim": claim.id, "section": claim.section}
    found |= {"text": claim.text, "remark": claim.remark, "cell": v.cell.text, "unit": claim.unit}
    found |= {"source_value": v.cell.value, "our_value": v.ours, "our_low": low, "our_high": high}
    found |= {"difference_percent": v.difference_percent, "reproduced_if": d.criterion}
    found |= {"verdict": v.verdict, "reason": v.reason, "needs": claim.needs}
    files = dict.fromkeys(printable(relative(file, seen_from)) for file, _ in v.evidence)
    keys = (key for _, key in v.evidence)
    last = {"evidence_file": " ".join(files), "evidence_keys": " ".join(keys)}
    return found | {"command": d.command} | last


def relative(file: Path, seen_from: Path) -> str:
    return os.path.relpath(os.path.realpath(file), os.path.realpath(seen_from))


def machine_table(evidence: Evidence, name: str, seen_from: Path) -> Table:
    """The ledger of one machine, with where its numbers come from."""
    newest = evidence.newest
    gpu = newest.gpu if newest else "this machine: nothing yet"
    title = f"Every claim, and what was measured on {gpu}"
    table = claims_table(name, title, decide(evidence, load_sources()), seen_from)
    table.banner = banner(newest) if newest and evidence.folder else ""
    for r in evidence.results.values():
        table.provenance.append(f"{r.experiment}, {r.pass_name}: {'; '.join(machine(r))}.")
    return table


def run(args: argparse.Namespace) -> int:
    """One table per machine; a recorded one's has the name of its folder."""
    tables, own = [], 0
    for evidence in machines(args.results) or [Evidence({})]:
        own += evidence.folder is None
        suffix = f"-{evidence.folder.name}" if evidence.folder else f"-{own}" * (own > 1)
        tables.append(machine_table(evidence, f"claims{suffix}", args.output))
    write_files(table_files(tables, args.output))
    for table in tables:
        box = console.box(table.banner) if table.banner else ""
        sys.stdout.write(f"{box}{console.render(table)}\n")
    place = printable(str(args.output))
    print(f"With what decided each, and every cell (txt, md, csv, tex): {place}/")
    return 0

"""The ledger: every claim with its verdict and the reason, as a table for each machine."""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from reprolab.claims import differing, findings, several_gpus
from reprolab.claims.evidence import Evidence, machines
from reprolab.claims.ledger import Decision, Verdict, decide, verdict_on
from reprolab.claims.published import load_sources
from reprolab.claims.rules import (
    NOT_REPRODUCED,
    NOT_TESTABLE,
    NOT_TESTED,
    PREMISE_FALSE,
    REPRODUCED,
    UNDECIDED,
)
from plots import claim_details, forest
from plots.documents import table_files
from plots.sentences import (
    IN_DOCUMENT,
    count_line,
    counted_in,
    quoted,
    spell,
    spelled,
    value_range,
    verdict_in_words,
)
from reprolab import console
from reprolab.captions import Used, banner, listed, origins
from reprolab.code import OLDER_NOTE, unknown_note
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.tables import NONE, WORDS, Column, Noted, Table, Values, in_unit

COLUMNS = [
    Column("claim", "claim", **WORDS),
    Column("verdict", "verdict", **WORDS),
    Column("source", "source", wrap=9),
    Column("ours", "ours", wrap=9),
    Column("why", "why", **WORDS),
]
MOST_WORDS = 25  # in a row
MOST_GPUS = 3  # named in a verdict


def claims_table(
    name: str, title: str, decisions: Sequence[Decision], details: str, seen_from: Path
) -> Table:
    """One row per claim, by source; the CSV has one per cell. `details`: the page that they link
    to; paths of the CSV's evidence are relative to the folder `seen_from`.
    """
    waiting: dict[str, list[str]] = {}  # command -> the claims that it would decide
    for d in decisions:
        if d.verdict == NOT_TESTED:
            waiting.setdefault(d.command, []).append(d.claim.id)
    rows = [claim_row(d, details) for d in decisions]
    data = [csv_row(d, v, seen_from) for d in decisions for v in d.verdicts]
    notes = [count_line(decisions)]
    notes += [f"Waiting for {command}: {', '.join(ids)}." for command, ids in waiting.items()]
    notes.append(
        "Over several cells: the range of the deciding ones. The primary reading of a source "
        "decides. Other readings, intervals, rows and notes: the page that a claim's name links to."
    )
    notes += unknown_note(k for d in decisions for v in d.verdicts for k in v.of_unknown_code)
    return Table(name, title, COLUMNS, rows, notes, data=data)


def claim_row(d: Decision, details: str) -> Values:
    """The claim, the verdict, two numbers, and the reason if they do not show the verdict."""
    counted = [v for v in counted_in(d.primary) if not v.awaits] or counted_in(d.primary)
    decisive = [v for v in counted if v.verdict == d.verdict] or counted
    if in_part(d):
        decisive = counted
    unit = next((v.comparison.unit for v in decisive if v.comparison.unit), "")
    decisive = [v for v in decisive if v.comparison.unit == unit]  # the first of several
    ours = our_values(decisive, unit)
    is_false = d.verdict == PREMISE_FALSE  # a reason is shown rather than numbers
    hides = is_false and d.primary[0].cell.value is None
    older = (OLDER_NOTE,) * any(v.of_older_code for v in decisive)
    row: Values = {
        "_under": f"{d.source.author}: {d.source.title} ({d.source.reference})",
        "claim": Noted(
            d.claim.id, text=d.claim.in_short, link=details, anchor=claim_details.anchor(d)
        ),
        "verdict": spell(d.verdict) if is_false else verdict_in_brief(d),
        "source": value_range([v.cell.value for v in decisive], unit, quoted),
        "ours": Noted(None, older, text=NONE if hides else ours),
    }
    left = MOST_WORDS - sum(len(str(plain_text(value)).split()) for value in list(row.values())[1:])
    is_clear = d.verdict == REPRODUCED and ours != NONE
    fitting = (v.why for v in decisive if len(v.why.split()) <= left)
    return row | {"why": "" if is_clear else next(fitting, "")}


def our_values(cells: Sequence[Verdict], unit: str) -> str:
    """'2.11 to 2.12 x'; '8 KB in the document' if that is another number than the source's."""
    if not unit:
        return NONE
    ours = value_range([v.ours for v in cells], unit, in_unit(unit))
    documented = [v.documented for v in cells if v.verdict != REPRODUCED]
    other = value_range(documented, unit, quoted)
    return f"{other} {IN_DOCUMENT}" if ours == NONE != other else ours


def plain_text(value: object) -> object:
    return value.text if isinstance(value, Noted) else value


def verdict_in_brief(d: Decision) -> str:
    """'not reproduced (3 of 28 cells)'; for a claim that was measured in part, that part."""
    counted = counted_in(d.primary)
    if d.is_elsewhere:
        gpus = list(dict.fromkeys(v.cell.gpu for v in d.primary))
        if len(gpus) > MOST_GPUS:
            gpus = [*gpus[: MOST_GPUS - 1], f"{len(gpus) - MOST_GPUS + 1} others"]
        return f"{spell(d.verdict)} (only on {listed(gpus)})"
    if measured := in_part(d):
        of = f"{len(measured)} of {len(counted)} cells"
        return f"{spell(d.verdict)} ({of} {spell(verdict_on(measured))})"
    cells = [v for v in counted if v.verdict == d.verdict]
    share = f" ({len(cells)} of {len(counted)} cells)" * (0 < len(cells) < len(counted))
    return spelled(d.verdict, cells) + share + of_one_gpu(d, counted)


def in_part(d: Decision) -> list[Verdict]:
    """The decided cells of a claim that as a whole is not tested or not testable."""
    undecidable = d.verdict in (NOT_TESTED, NOT_TESTABLE)
    return [v for v in counted_in(d.primary) if undecidable and v.verdict != d.verdict]


def of_one_gpu(d: Decision, counted: Sequence[Verdict]) -> str:
    """' (H100-80GB alone)' if the source has numbers of several GPUs, each only of its own."""
    here = list(dict.fromkeys(v.cell.gpu for v in counted))
    others = {v.cell.gpu for v in d.primary} - {*here}
    return f" ({listed(here)} alone)" if all(here) and others else ""


def csv_row(d: Decision, v: Verdict, seen_from: Path) -> Values:
    claim, test, (low, high) = d.claim, v.comparison, v.interval or (None, None)
    row: Values = {"source": d.source.id, "claim": claim.id, "section": claim.section}
    row |= {"text": claim.text, "remark": claim.remark, "reading": test.reading}
    (reading,) = (r for r in claim.readings if r.name == test.reading)
    row |= {"primary": reading is claim.readings[0], "reading_added": reading.added}
    row |= {"cell": v.cell.text, "direction": test.direction, "scope": test.scope}
    row |= {"only_on": v.cell.gpu, "unit": test.unit}
    row |= {"source_value": v.cell.value, "our_value": v.ours, "our_low": low, "our_high": high}
    row |= {"document_value": v.documented}
    row |= {"difference_percent": v.difference_percent, "reproduced_if": v.criterion}
    row |= {"predicted": v.predicted and v.predicted.value}
    row |= {"verdict": v.verdict, "claim_verdict": d.verdict, "reason": v.reason}
    files = dict.fromkeys(
        printable(claim_details.relative(file, seen_from)) for file, _ in v.evidence
    )
    keys = (key for _, key in v.evidence if key)
    last = {"evidence_file": " ".join(files), "evidence_keys": " ".join(keys)}
    return row | {"command": d.command} | last


def undecidable(decisions: Sequence[Decision]) -> int:
    """The number of claims that are not tested or not testable."""
    return sum(d.verdict in (NOT_TESTED, NOT_TESTABLE) for d in decisions)


def machine_table(evidence: Evidence, name: str, details: str, seen_from: Path) -> Table:
    """The ledger of one machine, with the provenance of its numbers."""
    decisions = decide(evidence, load_sources())
    gpu = evidence.newest.gpu if evidence.newest else "this machine: nothing yet"
    title = f"Every claim, and what was measured on {gpu}"
    table = claims_table(name, title, decisions, details, seen_from)
    used = used_by(evidence, decisions)
    table.banner = banner(*(r for r, _ in used)) if used and evidence.folder else ""
    table.provenance = origins(used)
    return table


def used_by(evidence: Evidence, decisions: Sequence[Decision]) -> Used:
    """The machine's files that decide claims, and their rows that do."""
    keys: dict[Path, set[str]] = {}
    for d in decisions:
        for v in d.verdicts:
            for file, key in v.evidence:
                keys.setdefault(file, set()).add(key)
    ran = (r for r in evidence.results.values() if r.gpu and r.file in keys)
    return [(r, [row for row in r.records if row.key in keys[r.file]]) for r in ran]


def gpu_names(machines: Sequence[Evidence]) -> list[str]:
    """'H100', with its memory if that distinguishes it from another; followed by the recording's
    folder if there are several of this GPU.
    """
    gpus = [(m.newest.gpu if m.newest else "this machine") for m in machines]
    names = [gpu.removeprefix("NVIDIA ") for gpu in gpus]
    short = [re.sub(r" \d+GB\b.*", "", name) for name in names]
    models = {s: {n for n, of_it in zip(names, short, strict=True) if of_it == s} for s in short}
    shown = [s if len(models[s]) == 1 else n for s, n in zip(short, names, strict=True)]
    return [
        f"{name}, recorded as {m.folder.name}" if shown.count(name) > 1 and m.folder else name
        for name, m in zip(shown, machines, strict=True)
    ]


def ledger_by_gpu(
    machines: Sequence[Evidence],
    ledgers: Sequence[list[Decision]],
    details: Sequence[str],
    seen_from: Path,
) -> Table:
    """One row per claim, and a column for each machine; `details`: the page that each links to."""
    gpus = gpu_names(machines)
    columns = [COLUMNS[0], COLUMNS[2]]
    columns += [Column(gpu, f"on {gpu}", **WORDS) for gpu in gpus]
    rows: list[Values] = []
    for decisions in zip(*ledgers, strict=True):
        claim_rows = [claim_row(d, page) for d, page in zip(decisions, details, strict=True)]
        cells = map(on_gpu, claim_rows)
        why = differing.why(gpus, machines, decisions)
        claim = Noted(
            decisions[0].claim.id, (f"{why}.",) * bool(why), text=claim_rows[0]["claim"].text
        )
        row = claim_rows[0] | {"claim": claim}
        rows.append(row | {f"on {gpu}": cell for gpu, cell in zip(gpus, cells, strict=True)})
    data = [
        {"gpu": gpu, **csv_row(d, v, seen_from)}
        for gpu, decisions in zip(gpus, ledgers, strict=True)
        for d in decisions
        for v in d.verdicts
    ]
    notes = [
        count_line(decisions, f"claims on {gpu}")
        for gpu, decisions in zip(gpus, ledgers, strict=True)
    ]
    notes.append("Each verdict with our measurement, as a range over several cells.")
    title = "Every claim on every GPU"
    pairs = list(zip(machines, ledgers, strict=True))
    provenance = [origin for m, decisions in pairs for origin in origins(used_by(m, decisions))]
    table = Table("claims-by-gpu", title, columns, rows, notes, provenance, data)
    table.banner = recorded_banner(machines)
    return table


def recorded_banner(machines: Sequence[Evidence]) -> str:
    """A remark about recorded runs; '' if all are measurements of this machine."""
    pairs = zip(gpu_names(machines), machines, strict=True)
    recorded = [gpu for gpu, m in pairs if m.folder]
    if not recorded:
        return ""
    return f"Recorded runs of {listed(recorded)}. Not measured on this machine."


def on_gpu(row: Values) -> Noted:
    """'reproduced: 2.03 to 2.20 x'."""
    hidden = "only on" in row["verdict"] or row["verdict"] == spell(NOT_TESTED)
    ours = row["ours"]
    known = ours.text != NONE and not hidden
    text = row["verdict"] + f": {ours.text}" * known
    return replace(row["claim"], text=text, notes=ours.notes)


SHOWN = (NOT_REPRODUCED, PREMISE_FALSE, UNDECIDED)  # verdicts with a row on the terminal


def brief_table(gpu: str, decisions: Sequence[Decision]) -> Table:
    """The claims that are not reproduced or undecided, for the terminal."""
    columns = [Column("claim", "id", **WORDS), Column("verdict", "verdict", **WORDS)]
    columns.append(Column("result", "numbers", **WORDS))
    rows = [
        {"_under": d.source.author, "id": d.claim.id, "verdict": spell(d.verdict)}
        | {"numbers": numbers_in_short(claim_row(d, ""))}
        for d in decisions
        if d.verdict in SHOWN
    ]
    return Table("brief", f"Not reproduced on {gpu}, or undecided", columns, rows)


def numbers_in_short(row: Values) -> str:
    """'1.07 x in the source, 1.00 x here', or the reason if there are not two numbers."""
    ours = row["ours"].text
    ours += " here" * (not ours.endswith(IN_DOCUMENT))
    if NONE not in (row["source"], row["ours"].text):
        return f"{row['source']} in the source, {ours}"
    return row["why"] or ours


def other_lines(gpu: str, decisions: Sequence[Decision]) -> Iterator[str]:
    """The claims with the other verdicts, by name."""
    yield count_line(decisions, f"claims on {gpu}")
    for verdict in (REPRODUCED, NOT_TESTABLE):
        same = [d for d in decisions if d.verdict == verdict]
        names = [d.claim.id + verdict_in_words(d).removeprefix(spell(verdict)) for d in same]
        if names:
            yield f"{spell(verdict).capitalize()}: {', '.join(names)}."
    waiting = Counter(d.command for d in decisions if d.verdict == NOT_TESTED)
    if waiting:
        commands = (f"{command} ({count})" for command, count in waiting.most_common())
        yield f"Not tested yet, by the command that will: {', '.join(commands)}."


def run(args: argparse.Namespace) -> int:
    """Prints the findings, and the claims that are not reproduced on the machine with the most
    measurements. Writes one table per machine, named by its folder if it is recorded, and one of
    all machines if there are several.
    """
    all_evidence = machines(args.results) or [Evidence({})]
    ledgers = [decide(evidence, load_sources()) for evidence in all_evidence]
    tables: list[Table] = []
    pages: dict[Path, bytes] = {}
    own = 0
    for evidence, decisions in zip(all_evidence, ledgers, strict=True):
        own += evidence.folder is None
        suffix = f"-{evidence.folder.name}" if evidence.folder else f"-{own}" * (own > 1)
        details = args.output / f"claim-details{suffix}.md"
        tables.append(machine_table(evidence, f"claims{suffix}", details.name, args.output))
        numbers_of_it = claim_details.numbers_table(f"published-numbers{suffix}", decisions)
        numbers_of_it.banner = tables[-1].banner
        tables.append(numbers_of_it)
        pages[details] = claim_details.page(decisions, args.output).encode("utf-8")
    if len(all_evidence) > 1:
        tables.append(
            ledger_by_gpu(all_evidence, ledgers, [page.name for page in pages], args.output)
        )
    figures = {args.output / "claims.png": forest.png(gpu_names(all_evidence), ledgers)}
    write_files(table_files(tables, args.output) | pages | figures)
    gpus = gpu_names(all_evidence)
    most = max(range(len(all_evidence)), key=lambda i: sum(d.is_measured for d in ledgers[i]))
    lines = [*findings.lines(several_gpus.machines_of(gpus, all_evidence, ledgers))]
    lines += [line for gpu, ds in zip(gpus, ledgers, strict=True) for line in other_lines(gpu, ds)]
    lines.append(f"Evidence for each, and all published numbers with ours: {args.output}/")
    shown = brief_table(gpus[most], ledgers[most])
    console.show(recorded_banner(all_evidence), [], list(map(printable, lines)), [shown])
    return 0

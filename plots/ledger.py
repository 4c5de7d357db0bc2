"""The ledger: every claim with its verdict and why it has it, as a table for each machine."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from claims.evidence import Evidence, machines
from claims.ledger import Decision, Verdict, decide, verdict_on
from claims.published import load_sources
from claims.rules import NOT_TESTABLE, NOT_TESTED, REPRODUCED, VERDICTS
from plots import claim_details, console
from plots.bandwidth import with_interval
from plots.captions import banner, machine
from plots.documents import table_files
from plots.tables import NONE, WORDS, Column, Noted, Origin, Table, Values, rounded
from records.code import unknown_note
from records.output import write_files
from records.printable import printable
from records.stats import Estimate

COLUMNS = [
    Column("claim", "claim", **WORDS),
    Column("verdict", "verdict", **WORDS),
    Column("source", "source", wrap=9),
    Column("ours", "ours", wrap=9),
    Column("why", "why", **WORDS),
]
SEVERAL = 2  # reasons that are given in full, the first and the last
MOST_WORDS = 25  # of a row


def spell(verdict: str) -> str:
    return verdict.replace("_", " ") + " yet" * (verdict == NOT_TESTED)


def counts(decisions: Sequence[Decision]) -> dict[str, int]:
    """How many claims have each verdict that one has."""
    found = [d.verdict for d in decisions]
    return {v: found.count(v) for v in (REPRODUCED, *VERDICTS[:-1]) if v in found}


def count_line(decisions: Sequence[Decision], what: str = "claims") -> str:
    """'35 claims: 5 reproduced (3 of them in every reading), 4 not reproduced, ...'"""
    every = sum(d.holds_in_every_reading for d in decisions)
    parts = [f"{count} {spell(verdict)}" for verdict, count in counts(decisions).items()]
    if decisions and parts[0].endswith(f" {REPRODUCED}"):
        parts[0] += f" ({every} of them in every reading)"
    documents = sum(d.verdict != NOT_TESTED and not d.is_measured for d in decisions)
    without = f" {documents} were decided without a measurement." * bool(documents)
    return f"{len(decisions)} {what}: {', '.join(parts)}.{without}"


def claims_table(
    name: str, title: str, decisions: Sequence[Decision], details: str, seen_from: Path
) -> Table:
    """One row per claim, by source; the CSV has one per cell. `details`: the page they link to;
    the evidence of the CSV begins at the folder `seen_from`.
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
        "Over several cells: the range of those that decide. The primary reading of a source "
        "decides. Other readings, intervals, rows and notes: the page that a claim's name links to."
    )
    notes += unknown_note(k for d in decisions for v in d.verdicts for k in v.of_unknown_code)
    return Table(name, title, COLUMNS, rows, notes, data=data)


def claim_row(d: Decision, details: str) -> Values:
    """One line: what the claim says, the verdict, two numbers and, where they do not show it, why."""
    counted = [v for v in counted_in(d.primary) if not v.awaits] or counted_in(d.primary)
    decisive = [v for v in counted if v.verdict == d.verdict] or counted
    unit = next((v.comparison.unit for v in decisive if v.comparison.unit), "")
    decisive = [v for v in decisive if v.comparison.unit == unit]  # the first of several
    ours = value_range([v.ours for v in decisive], unit, rounded) if unit else NONE
    row: Values = {
        "_under": f"{d.source.author}: {d.source.title} ({d.source.reference})",
        "claim": Noted(
            d.claim.id, text=d.claim.in_short, link=details, anchor=claim_details.anchor(d)
        ),
        "verdict": verdict_in_brief(d),
        "source": value_range([v.cell.value for v in decisive], unit, quoted),
        "ours": ours,
    }
    left = MOST_WORDS - sum(len(str(plain_text(value)).split()) for value in list(row.values())[1:])
    is_clear = d.verdict == REPRODUCED and ours != NONE
    fitting = (v.why for v in decisive if len(v.why.split()) <= left)
    return row | {"why": "" if is_clear else next(fitting, "")}


def plain_text(value: object) -> object:
    return value.text if isinstance(value, Noted) else value


def verdict_in_brief(d: Decision) -> str:
    """'not reproduced (3 of 28 cells)'; of a claim that was measured in part, that part."""
    counted = counted_in(d.primary)
    if all(v.elsewhere and not v.awaits for v in d.primary):
        return f"only on {listed(list(dict.fromkeys(v.cell.gpu for v in d.primary)))}"
    measured = [v for v in counted if v.verdict != NOT_TESTED]
    if d.verdict == NOT_TESTED and measured:
        of = f"{len(measured)} of {len(counted)} cells"
        return f"{of} {spell(verdict_on(measured))}, the others not tested yet"
    cells = [v for v in counted if v.verdict == d.verdict]
    share = f" ({len(cells)} of {len(counted)} cells)" * (0 < len(cells) < len(counted))
    return spell(d.verdict) + share


def counted_in(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Those that this GPU can show, if there are any: they make the verdict."""
    return [v for v in verdicts if not v.elsewhere] or list(verdicts)


def headline(d: Decision) -> str:
    """What is claimed, and what became of it."""
    return f"{d.claim.text}: {verdict_sentence(d)}."


def headline_by_gpu(found: Mapping[str, Decision]) -> str:
    """The same of several GPUs, without the reasons."""
    gpus: dict[str, list[str]] = {}
    for gpu, d in found.items():
        gpus.setdefault(spell(d.verdict), []).append(gpu)
    said = "; ".join(f"{verdict} on {listed(names)}" for verdict, names in gpus.items())
    return f"{next(iter(found.values())).claim.text}: {said}."


def verdict_sentence(d: Decision) -> str:
    """The verdict of the primary reading, and what became of the others; without a full stop."""
    (primary, *others), found = d.claim.readings, d.readings
    said = reading_in_short(found[primary.name], primary.name and f", read as {primary.name}")
    for reading in others:
        added = f" (added on {reading.added}, with a verdict known)" * bool(reading.added)
        how = "our own measurement" if reading.own_measurement else "read otherwise"
        said += f"; {how}, {reading.name}{added}: {reading_in_short(found[reading.name])}"
    return said


def reading_in_short(verdicts: Sequence[Verdict], read_as: str = "") -> str:
    """'reproduced in 28 of 28 cells, read as tiles of 512 bytes: -4.0 to +4.7 % from ...'"""
    counted, verdict = counted_in(verdicts), verdict_on(verdicts)
    order = [verdict, *(v for v in (REPRODUCED, *VERDICTS[:-1]) if v != verdict)]
    parts, left, known = [], len(counted), ""
    for found in order:
        cells = [v for v in counted if v.verdict == found]
        if not cells:
            continue
        text = spell(found)
        if len(cells) == left < len(counted):
            text += " in the other" + f" {left}" * (left > 1)
        elif len(counted) > 1:
            text += f" in {len(cells)} of {len(counted)} cells"
        text += read_as if found == verdict else ""
        why = "; ".join(whys(cells)) if found != NOT_TESTED or found == verdict else ""
        parts.append(f"{text}: {why}" if why and why != known else text)
        left, known = left - len(cells), why
    return "; ".join(parts)


def whys(cells: Sequence[Verdict]) -> Iterator[str]:
    """The reasons of cells with one verdict; of many numbers, how far they are off."""
    gpus = list(dict.fromkeys(v.cell.gpu for v in cells))
    if len(cells) > 1 and all(v.elsewhere and not v.awaits for v in cells):
        such = "such a GPU" if len(gpus) == 1 else "such GPUs"
        yield f"numbers of the source's {listed(gpus)}, which only {such} can show"
        return
    texts = list(dict.fromkeys(v.why for v in cells))
    differences = [v.difference_percent for v in cells if v.difference_percent is not None]
    if len(texts) > SEVERAL and len(differences) == len(cells) and not cells[0].elsewhere:
        yield f"{value_range(differences, '%', '{:+.1f}'.format)} from the source's values"
        return
    yield from dict.fromkeys((texts[0], texts[-1]))
    if len(texts) > SEVERAL:
        yield f"and {len(texts) - SEVERAL} more"


def listed(names: Sequence[str]) -> str:
    """'T4, L4 and A100'"""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def quoted(value: float) -> str:
    """A source's number: 64 remains 64."""
    return f"{value:.0f}" if value == int(value) else rounded(value)


def value_range(values: Sequence[float | None], unit: str, show: Callable[[float], str]) -> str:
    """'2.03 to 2.20 x', or one value where the two ends look the same."""
    known = [value for value in values if value is not None]
    ends = dict.fromkeys(show(end) for end in (min(known), max(known))) if known else {}
    return f"{' to '.join(ends)} {unit}".rstrip() if ends else NONE


def ours_text(v: Verdict, show: Callable[[float], str]) -> str:
    """'2.11 (2.11-2.12)', without the interval where there is none."""
    if v.ours is None:
        return NONE
    return with_interval(Estimate(v.ours, *v.interval), show) if v.interval else show(v.ours)


def csv_row(d: Decision, v: Verdict, seen_from: Path) -> Values:
    claim, test, (low, high) = d.claim, v.comparison, v.interval or (None, None)
    found: Values = {"source": d.source.id, "claim": claim.id, "section": claim.section}
    found |= {"text": claim.text, "remark": claim.remark, "reading": test.reading}
    (reading,) = (r for r in claim.readings if r.name == test.reading)
    found |= {"primary": reading is claim.readings[0], "reading_added": reading.added}
    found |= {"cell": v.cell.text, "direction": test.direction, "scope": test.scope}
    found |= {"only_on": v.cell.gpu, "unit": test.unit}
    found |= {"source_value": v.cell.value, "our_value": v.ours, "our_low": low, "our_high": high}
    found |= {"difference_percent": v.difference_percent, "reproduced_if": v.criterion}
    found |= {"verdict": v.verdict, "claim_verdict": d.verdict, "reason": v.reason}
    files = dict.fromkeys(
        printable(claim_details.relative(file, seen_from)) for file, _ in v.evidence
    )
    keys = (key for _, key in v.evidence if key)
    last = {"evidence_file": " ".join(files), "evidence_keys": " ".join(keys)}
    return found | {"command": d.command} | last


def machine_table(evidence: Evidence, name: str, details: str, seen_from: Path) -> Table:
    """The ledger of one machine, with where its numbers come from."""
    newest = evidence.newest
    gpu = newest.gpu if newest else "this machine: nothing yet"
    title = f"Every claim, and what was measured on {gpu}"
    table = claims_table(name, title, decide(evidence, load_sources()), details, seen_from)
    table.banner = banner(newest) if newest and evidence.folder else ""
    passes: dict[str, list[str]] = {}
    for r in evidence.results.values():
        passes.setdefault("; ".join(machine(r)), []).append(f"{r.experiment}/{r.pass_name}")
    table.provenance = [Origin(f"{', '.join(names)}: {text}") for text, names in passes.items()]
    return table


def gpu_names(machines: Sequence[Evidence]) -> list[str]:
    """'H200'; behind it the recording's folder, where several are of such a GPU."""
    gpus = [(m.newest.gpu if m.newest else "this machine") for m in machines]
    names = [gpu.removeprefix("NVIDIA ") for gpu in gpus]
    return [
        f"{name}, recorded as {m.folder.name}" if names.count(name) > 1 and m.folder else name
        for name, m in zip(names, machines, strict=True)
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
    for found in zip(*ledgers, strict=True):
        beside = [claim_row(d, page) for d, page in zip(found, details, strict=True)]
        cells = map(on_gpu, beside)
        row = beside[0] | {"claim": Noted(found[0].claim.id, text=beside[0]["claim"].text)}
        rows.append(row | {f"on {gpu}": cell for gpu, cell in zip(gpus, cells, strict=True)})
    data = [
        {"gpu": gpu, **csv_row(d, v, seen_from)}
        for gpu, decisions in zip(gpus, ledgers, strict=True)
        for d in decisions
        for v in d.verdicts
    ]
    notes = [
        count_line(found, f"claims on {gpu}") for gpu, found in zip(gpus, ledgers, strict=True)
    ]
    notes.append("Each verdict with what was measured here, as a range over several cells.")
    origins = [Origin("; ".join(machine(m.newest))) for m in machines if m.newest]
    title = "Every claim on every GPU"
    table = Table("claims-by-gpu", title, columns, rows, notes, origins, data)
    table.banner = recorded_banner(machines)
    return table


def recorded_banner(machines: Sequence[Evidence]) -> str:
    """Which of them are no measurement of this machine; '' where all are."""
    pairs = zip(gpu_names(machines), machines, strict=True)
    recorded = [gpu for gpu, m in pairs if m.folder]
    if not recorded:
        return ""
    return f"Recorded runs of {listed(recorded)}. Not measured on this machine."


def on_gpu(row: Values) -> Noted:
    """'reproduced: 2.03 to 2.20 x'."""
    known = row["ours"] != NONE and not row["verdict"].startswith(("only on", spell(NOT_TESTED)))
    text = row["verdict"] + f": {row['ours']}" * known
    return replace(row["claim"], text=text)


def run(args: argparse.Namespace) -> int:
    """One table per machine, and where there are several, one of all, which is then shown; a
    recorded machine's has the name of its folder.
    """
    found = machines(args.results) or [Evidence({})]
    ledgers = [decide(evidence, load_sources()) for evidence in found]
    tables: list[Table] = []
    pages: dict[Path, bytes] = {}
    own = 0
    for evidence, decisions in zip(found, ledgers, strict=True):
        own += evidence.folder is None
        suffix = f"-{evidence.folder.name}" if evidence.folder else f"-{own}" * (own > 1)
        details = args.output / f"claim-details{suffix}.md"
        tables.append(machine_table(evidence, f"claims{suffix}", details.name, args.output))
        numbers_of_it = claim_details.numbers_table(f"published-numbers{suffix}", decisions)
        numbers_of_it.banner = tables[-1].banner
        tables.append(numbers_of_it)
        pages[details] = claim_details.page(decisions, args.output).encode("utf-8")
    shown = tables[0]
    if len(found) > 1:
        shown = ledger_by_gpu(found, ledgers, [page.name for page in pages], args.output)
        tables.append(shown)
    write_files(table_files(tables, args.output) | pages)
    place = printable(str(args.output))
    lines = [f"What decided each, and all published numbers beside ours: {place}/"]
    console.show(shown.banner, [shown], lines)
    return 0

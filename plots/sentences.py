"""Verdicts in words: for one cell, for a claim with its readings, and for many claims as counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from reprolab.claims.ledger import Decision, Verdict, verdict_on
from reprolab.claims.rules import NOT_TESTABLE, NOT_TESTED, PREMISE_FALSE, REPRODUCED, VERDICTS
from plots.bandwidth import with_interval
from reprolab.captions import listed
from reprolab.stats import Estimate
from reprolab.tables import NONE, rounded

SEVERAL = 2  # reasons given in full: the first and the last


def spell(verdict: str) -> str:
    return verdict.replace("_", " ") + " yet" * (verdict == NOT_TESTED)


IN_DOCUMENT = "in the document"  # a number that is quoted from one, where nothing is measured


def spelled(verdict: str, cells: Sequence[Verdict]) -> str:
    """The verdict on the cells; 'reproduced (in the document)' if each is decided by a document."""
    quoted_alone = verdict == REPRODUCED and all(v.documented is not None for v in cells)
    return spell(verdict) + f" ({IN_DOCUMENT})" * quoted_alone


def verdict_in_words(d: Decision) -> str:
    return spelled(d.verdict, counted_in(d.primary))


def counts(decisions: Sequence[Decision]) -> dict[str, int]:
    """The number of claims with each verdict that occurs."""
    verdicts = [d.verdict for d in decisions]
    return {v: verdicts.count(v) for v in (REPRODUCED, *VERDICTS[:-1]) if v in verdicts}


def count_line(decisions: Sequence[Decision], what: str = "claims") -> str:
    """'35 claims: 5 reproduced (3 of them in every reading), 4 not reproduced, ...'"""
    every = sum(d.holds_in_every_reading for d in decisions)
    parts = [f"{count} {spell(verdict)}" for verdict, count in counts(decisions).items()]
    if decisions and parts[0].endswith(f" {REPRODUCED}"):
        quotations = sum(verdict_in_words(d).endswith(f"({IN_DOCUMENT})") for d in decisions)
        documented = f", {quotations} {IN_DOCUMENT}" * bool(quotations)
        parts[0] += f" ({every} of them in every reading{documented})"
    decided = [d for d in decisions if d.verdict not in (NOT_TESTED, NOT_TESTABLE)]
    documents = sum(not d.is_measured for d in decided)
    without = f" {documents} were decided without a measurement." * bool(documents)
    return f"{len(decisions)} {what}: {', '.join(parts)}.{without}"


def counted_in(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The cells that this GPU can show, if there are any: they decide the verdict."""
    return [v for v in verdicts if not v.elsewhere] or list(verdicts)


def headline(d: Decision) -> str:
    """The claim, and its verdict in the reading that decides."""
    (name, primary), *_ = d.readings.items()
    return f"{d.claim.text}: {reading_in_short(primary, name and f', read as {name}')}."


def headline_by_gpu(decisions: Mapping[str, Decision]) -> str:
    """The claim with its verdict and our numbers on each of several GPUs, without the reasons; then
    the source's other readings that have another verdict on one of them.
    """
    first = next(iter(decisions.values()))
    (name, *others) = (r.name for r in first.claim.readings if not r.own_measurement)
    text = f"{first.claim.text}: {verdicts_by_gpu(decisions, name)}"
    for other in others:
        verdicts = {gpu: verdict_on(d.readings[other]) for gpu, d in decisions.items()}
        if any(verdicts[gpu] not in (d.verdict, NOT_TESTED) for gpu, d in decisions.items()):
            text += f"; read as {other}: {verdicts_by_gpu(decisions, other)}"
    return f"{text}."


def verdicts_by_gpu(decisions: Mapping[str, Decision], reading: str) -> str:
    """'reproduced on H100 (1.15 to 1.85 x) and H200 (1.14 to 1.97 x)'"""
    gpus: dict[str, list[str]] = {}
    for gpu, d in decisions.items():
        cells = counted_in(d.readings[reading])
        unit = cells[0].comparison.unit
        ours = value_range([v.ours for v in cells if v.comparison.unit == unit], unit, rounded)
        verdict = verdict_on(d.readings[reading])
        word = spelled(verdict, cells)
        hides = ours == NONE or verdict in (NOT_TESTED, PREMISE_FALSE)
        gpus.setdefault(word, []).append(gpu if hides else f"{gpu} ({ours})")
    return ", ".join(f"{verdict} on {listed(names)}" for verdict, names in gpus.items())


def verdict_sentence(d: Decision) -> str:
    """The verdicts of the primary reading and of the others, without a full stop."""
    (primary, *others), readings = d.claim.readings, d.readings
    text = reading_in_short(readings[primary.name], primary.name and f", read as {primary.name}")
    for reading in others:
        added = f" (added on {reading.added}, with a verdict known)" * bool(reading.added)
        how = "our own measurement" if reading.own_measurement else "read otherwise"
        text += f"; {how}, {reading.name}{added}: {reading_in_short(readings[reading.name])}"
    return text


def reading_in_short(verdicts: Sequence[Verdict], read_as: str = "") -> str:
    """'reproduced in 28 of 28 cells, read as tiles of 512 bytes: -4.0 to +4.7 % from ...'"""
    counted, overall = counted_in(verdicts), verdict_on(verdicts)
    order = [overall, *(v for v in (REPRODUCED, *VERDICTS[:-1]) if v != overall)]
    parts, left, known = [], len(counted), ""
    for verdict in order:
        cells = [v for v in counted if v.verdict == verdict]
        if not cells:
            continue
        text = spelled(verdict, cells)
        if len(cells) == left < len(counted):
            text += " in the other" + f" {left}" * (left > 1)
        elif len(counted) > 1:
            text += f" in {len(cells)} of {len(counted)} cells"
        text += read_as if verdict == overall else ""
        why = "; ".join(whys(cells)) if verdict != NOT_TESTED or verdict == overall else ""
        parts.append(f"{text}: {why}" if why and why != known else text)
        left, known = left - len(cells), why
    return "; ".join(parts)


def whys(cells: Sequence[Verdict]) -> Iterator[str]:
    """The reasons of cells with one verdict; for many numbers, their differences from the
    source."""
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


def quoted(value: float) -> str:
    """A source's number: 64 remains 64."""
    return f"{value:.0f}" if value == int(value) else rounded(value)


def value_range(values: Sequence[float | None], unit: str, show: Callable[[float], str]) -> str:
    """'2.03 to 2.20 x', or one value if the two ends look the same."""
    known = [value for value in values if value is not None]
    ends = dict.fromkeys(show(end) for end in (min(known), max(known))) if known else {}
    return f"{' to '.join(ends)} {unit}".rstrip() if ends else NONE


def ours_text(v: Verdict, show: Callable[[float], str]) -> str:
    """'2.11 (2.11-2.12)', without the interval if there is none."""
    if v.ours is None:
        return NONE
    return with_interval(Estimate(v.ours, *v.interval), show) if v.interval else show(v.ours)

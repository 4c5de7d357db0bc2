"""Every claim of every source, with a verdict in each of its cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reprolab import code
from reprolab.claims import rules
from reprolab.claims.evidence import Case, Evidence, NotTestable, NotTested
from reprolab.claims.published import Claim, Source, load_sources
from reprolab.claims.rules import Verdict


@dataclass(frozen=True)
class Decision:
    """A claim with the verdicts on its cells."""

    source: Source
    claim: Claim
    verdicts: tuple[Verdict, ...]

    @property
    def primary(self) -> list[Verdict]:
        """The cells of the reading that decides the claim."""
        return [v for v in self.verdicts if v.cell.reading == self.claim.readings[0]["name"]]

    @property
    def verdict(self) -> str:
        """The worst of its cells; only cells that this GPU can show count, if there are any.

        If several of our models represent one of the source's, one is enough: the others do not
        leave the claim undecided.
        """
        here = [v for v in self.primary if not v.elsewhere] or self.primary
        tested = [v for v in here if v.kind != rules.NOT_TESTED]
        reached = {v.cell.as_published for v in tested}
        counted = (v for v in here if v in tested or v.cell.as_published not in reached)
        return rules.worst(v.kind for v in counted)


def decide(evidence: Evidence, sources: Sequence[Source]) -> list[Decision]:
    """All claims, in the order of the sources."""
    decisions = []
    for source, claim in ((s, c) for s in sources for c in s.claims):
        verdicts = (decide_cell(Case(source, cell, evidence)) for cell in claim.cells)
        decisions.append(Decision(source, claim, tuple(verdicts)))
    return decisions


def claim_rows(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """The frame's rows of one machine: one for each cell. `note` says why, in a few words; `file`
    and `keys` are those of the records that show it; `primary` is whether its reading decides.
    """
    gpu = evidence.newest.gpu if evidence.newest else ""
    for d in decide(evidence, load_sources()):
        for v in d.verdicts:
            low, high = v.interval or (None, None)
            yield {
                "source": d.source.id,
                "claim": d.claim.id,
                "short": d.claim.short or d.claim.text,
                "section": d.claim.section,
                "text": d.claim.text,
                "remark": d.claim.remark,
                "reading": v.cell.reading,
                "primary": v in d.primary,
                "cell": v.cell.text,
                "experiment": v.cell.experiment,
                "unit": v.cell.unit,
                "gpu": gpu,
                "recorded": evidence.folder.name if evidence.folder else "",
                "published": v.cell.value,
                "ours": v.ours,
                "low": low,
                "high": high,
                "verdict": v.kind,
                "claim_verdict": d.verdict,
                "note": v.note,
                "reproduced_if": v.criterion,
                "command": f"make reproduce-{v.cell.experiment}",
                "file": " ".join(dict.fromkeys(file for file, _ in v.rows)),
                "keys": " ".join(key for _, key in v.rows if key),
            }


def decide_cell(case: Case) -> Verdict:
    cell = case.cell
    rule = rules.rule_named(cell.rule)
    direction = rules.DIRECTIONS.get(cell.direction)
    criterion = rule.criterion.format(**vars(cell) | {"direction": direction} | cell.arguments)
    try:
        found = rule(case, **cell.arguments)
    except NotTested as nothing:
        found = Verdict(rules.NOT_TESTED, str(nothing))
    except NotTestable as why:
        found = Verdict(rules.NOT_TESTABLE, str(why))
    if why_not := code.differing(filter(None, case.used.values())):
        found = Verdict(rules.NOT_TESTABLE, why_not)
    newest = case.evidence.newest
    elsewhere = bool(cell.gpu and newest and not is_on(newest.gpu, cell.gpu))
    is_half = found.kind == rules.NOT_TESTED and case.used  # some of the rows exist
    if elsewhere and not is_half:
        note = f"a number of the source's {cell.gpu}, which only such a GPU can show"
        found = replace(found, kind=rules.NOT_TESTABLE, note=note)
    return replace(
        found,
        cell=cell,
        criterion=criterion,
        rows=() if is_half else tuple(case.used),
        elsewhere=elsewhere,
    )


def is_on(gpu: str, wanted: str) -> bool:
    """'A100-80GB' matches 'NVIDIA A100-SXM4-80GB', and 'T4' 'Tesla T4', but not a MIG slice of
    one."""
    words = set(gpu.upper().replace("-", " ").split())
    return "MIG" not in words and words >= set(wanted.upper().replace("-", " ").split())

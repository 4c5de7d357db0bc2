"""Every claim of every source, decided: `frame` has a row for each cell on each GPU."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from reprolab.claims.evidence import Evidence


def frame(folders: Sequence[Path]) -> "DataFrame":
    """Columns: source, claim, short, section, text, remark; reading and whether it is the primary
    one; cell, experiment, unit, gpu, recorded; published, ours, low, high; verdict of the cell and
    claim_verdict; note (why, in a few words), reproduced_if, command, file and keys of the rows.
    """
    import pandas  # here alone: it takes half a second

    from reprolab.claims.evidence import machines

    found = machines([Path(folder) for folder in folders])
    return pandas.DataFrame([row for evidence in found for row in rows_of(evidence)])


def rows_of(evidence: "Evidence") -> Iterator[dict[str, Any]]:
    """The rows of one machine."""
    from reprolab.claims.ledger import decide
    from reprolab.claims.published import load_sources

    gpu = evidence.newest.gpu if evidence.newest else ""
    for d in decide(evidence, load_sources()):
        for v in d.verdicts:
            low, high = v.interval or (None, None)
            files = dict.fromkeys(file for file, _ in v.rows)
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
                "command": d.command,
                "file": " ".join(files),
                "keys": " ".join(key for _, key in v.rows if key),
            }

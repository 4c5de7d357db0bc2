"""Every claim of every source, decided: `frame` has a row for each cell on each GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(folders: Sequence[Path]) -> "DataFrame":
    """Columns: source, claim, short, section, text, remark; reading and whether it is the primary
    one; cell, experiment, unit, gpu, recorded; published, ours, low, high; verdict of the cell and
    claim_verdict; note (why, in a few words), reproduced_if, command, file and keys of the rows.
    """
    import pandas  # here alone: it takes half a second

    from reprolab.claims.evidence import machines
    from reprolab.claims.ledger import decide
    from reprolab.claims.published import load_sources

    rows = []
    for evidence in machines([Path(folder) for folder in folders]):
        gpu = evidence.newest.gpu if evidence.newest else ""
        for d in decide(evidence, load_sources()):
            for v in d.verdicts:
                low, high = v.interval or (None, None)
                rows.append(
                    {
                        "source": d.source.id,
                        "claim": d.claim.id,
                        "short": d.claim.short or d.claim.text,
                        "section": d.claim.section,
                        "text": d.claim.text,
                        "remark": d.claim.remark,
                        "reading": v.comparison.reading,
                        "primary": v in d.primary,
                        "cell": v.cell.text,
                        "experiment": v.comparison.experiment,
                        "unit": v.comparison.unit,
                        "gpu": gpu,
                        "recorded": evidence.folder.name if evidence.folder else "",
                        "published": v.cell.value,
                        "ours": v.ours if v.documented is None else v.documented,
                        "low": low,
                        "high": high,
                        "verdict": v.verdict,
                        "claim_verdict": d.verdict,
                        "note": v.why,
                        "reproduced_if": v.criterion,
                        "command": d.command,
                        "file": " ".join(dict.fromkeys(str(file) for file, _ in v.evidence)),
                        "keys": " ".join(key for _, key in v.evidence if key),
                    }
                )
    return pandas.DataFrame(rows)

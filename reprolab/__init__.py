"""Results as pandas frames: docs/pandas.md."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from records.errors import InputError
from records.frames import Row, frame, record_rows

if TYPE_CHECKING:
    from pandas import DataFrame

    from reprolab.claims.evidence import Evidence


class Frames(NamedTuple):
    """`records`: a row for each metric of each result. `claims`: a row for each cell of each claim
    on each GPU, as in the CSV of `make claims`.
    """

    records: "DataFrame"
    claims: "DataFrame"


def load(*places: str | os.PathLike[str]) -> Frames:
    """The contents of these result files, or of folders of them. As in `make report`, GPUs of one
    name are one machine, recorded runs stay apart from the user's own, and of several files of one
    experiment's pass on a machine the newest counts. InputError says what is wrong with a file.
    """
    from plots.claim_details import relative  # these import parts of this package
    from reprolab.claims.evidence import machines

    if not places:
        raise TypeError("load: give result files or folders, such as load('results')")
    if not all(map(str, places)):
        raise InputError("load: an empty path is not a folder; give '.' for this one")
    here = Path.cwd()
    found = machines([Path(place) for place in places])
    if not found:
        raise InputError(f"{', '.join(map(str, places))}: no result files")
    # Facts of compiled code belong to several machines.
    files = {results.file: results for evidence in found for results in evidence.results.values()}
    records = [row for r in files.values() for row in record_rows(r, relative(r.file, here))]
    return Frames(frame(records), frame([row for e in found for row in claim_rows(e, here)]))


def claim_rows(evidence: "Evidence", here: Path) -> Iterator[Row]:
    from plots.ledger import csv_row
    from reprolab.claims.ledger import decide
    from reprolab.claims.published import load_sources

    machine = {"gpu": evidence.newest and evidence.newest.gpu}
    machine |= {"recorded": evidence.folder is not None}
    for decision in decide(evidence, load_sources()):
        for verdict in decision.verdicts:
            yield machine | csv_row(decision, verdict, here)

"""Results as pandas frames: docs/pandas.md."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reprolab.errors import InputError
from reprolab.results import Results, frame, frame_of, result_files

if TYPE_CHECKING:
    from pandas import DataFrame


class Frames(NamedTuple):
    """`records`: a row for each metric of each result. `claims`: a row for each cell of each claim
    on each GPU, as `reprolab.claims.ledger.claim_rows` has it.
    """

    records: "DataFrame"
    claims: "DataFrame"


def load(*places: str | os.PathLike[str]) -> Frames:
    """The contents of these result files, or of folders of them. As in `make report`, GPUs of one
    name are one machine, recorded runs stay apart from the user's own, and of several files of one
    experiment's pass on a machine the newest counts. InputError says what is wrong with a file.
    """
    from reprolab.claims.evidence import machines
    from reprolab.claims.ledger import claim_rows

    if not places:
        raise TypeError("load: give result files or folders, such as load('results')")
    if not all(map(str, places)):
        raise InputError("load: an empty path is not a folder; give '.' for this one")
    files: list[Results] = []
    for place in places:
        files += result_files(Path(place))
    found = machines(files)
    if not found:
        raise InputError(f"{', '.join(map(str, places))}: no result files")
    # Facts of compiled code belong to several machines.
    newest = {results.file: results for e in found for results in e.results.values()}
    cells: list[dict[str, Any]] = []
    for evidence in found:
        cells += claim_rows(evidence)
    return Frames(frame_of(newest.values()), frame(cells))

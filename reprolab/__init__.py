"""Results as pandas frames: docs/pandas.md."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reprolab.errors import InputError
from reprolab.results import frame, frame_of

if TYPE_CHECKING:
    from pandas import DataFrame


class Frames(NamedTuple):
    """`records`: a row for each metric of each result. `claims`: a row for each cell of each claim
    on each GPU: the columns of `reprolab.claims.frame`.
    """

    records: "DataFrame"
    claims: "DataFrame"


def load(*places: str | os.PathLike[str]) -> Frames:
    """The contents of these result files, or of folders of them. As in `make report`, GPUs of one
    name are one machine, recorded runs stay apart from the user's own, and of several files of one
    experiment's pass on a machine the newest counts. InputError says what is wrong with a file.
    """
    from reprolab.claims import rows_of
    from reprolab.claims.evidence import machines

    if not places:
        raise TypeError("load: give result files or folders, such as load('results')")
    if not all(map(str, places)):
        raise InputError("load: an empty path is not a folder; give '.' for this one")
    found = machines([Path(place) for place in places])
    if not found:
        raise InputError(f"{', '.join(map(str, places))}: no result files")
    # Facts of compiled code belong to several machines.
    files = {results.file: results for evidence in found for results in evidence.results.values()}
    return Frames(frame_of(files.values()), frame([row for e in found for row in rows_of(e)]))

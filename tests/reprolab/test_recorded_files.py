"""Recorded files: every one fits the schema, and names a row once."""

from collections import Counter

import made

from reprolab.json_files import ROOT
from reprolab.results import result_files

DATA = ROOT / "data"


def test_every_recorded_file_fits_the_schema_and_names_a_row_once():
    files = [*result_files(DATA / "recorded")]
    for archive in DATA.glob("repetitions/*.tar.xz"):
        files += [r for run in made.repetitions(archive.name[:-7]).values() for r in run]
    assert len(files) > 100
    for results in files:
        rows = Counter((record.problem["name"], record.kernel) for record in results.records)
        assert set(rows.values()) == {1}, results.file

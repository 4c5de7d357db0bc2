"""Files that users add to data/ fit their schemas; others are refused by their reader."""

import json
from collections import Counter

import made
import pytest

from reprolab import families
from reprolab.claims.published import SCHEMA as PUBLISHED
from reprolab.declared import SCHEMA as EXPERIMENT
from reprolab.declared import experiment, names
from reprolab.json_files import ROOT
from reprolab.results import result_files

DATA = ROOT / "data"
CASES = {
    "families.json": families.SCHEMA,
    **{f"published/{file.name}": PUBLISHED for file in sorted(DATA.glob("published/*.json"))},
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_fits_its_schema_and_a_damaged_one_is_one_line(name, write, refused):
    root = CASES[name].read(DATA / name)
    largest = max(root, key=lambda part: len(json.dumps(root[part])))
    for damaged in ([root], root | {largest: None}, root | {f"{largest}x": 1}):
        assert "/file.json: " in refused(CASES[name].read, write("file.json", damaged))


def test_every_recorded_file_fits_the_schema_and_names_a_row_once():
    files = [*result_files(DATA / "recorded")]
    for archive in DATA.glob("repetitions/*.tar.xz"):
        files += [r for run in made.repetitions(archive.name[:-7]).values() for r in run]
    assert len(files) > 100
    for results in files:
        rows = Counter((record.problem["name"], record.kernel) for record in results.records)
        assert set(rows.values()) == {1}, results.file


def test_every_experiment_is_declared_as_its_schema_says(refused):
    assert len(names()) > 5 and all(experiment(name).passes for name in names())
    assert "/x.toml: " in refused(EXPERIMENT.check, DATA / "x.toml", {"pass": 7})

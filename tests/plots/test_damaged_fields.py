"""Result files with one damaged field: all is as it should be, or an error of one line.
FUZZ=all tries every field in every way.
"""

import json
from pathlib import Path
from xml.etree import ElementTree

import damaged
import pytest
from looking import look

from claims.evidence import machines
from plots.bandwidth import bandwidth_table
from plots.documents import table_files
from plots.experiments import CLAIM_DETAILS, all_tables, figure_files, load_run, names
from plots.ledger import machine_table
from plots.single_files import kernel_list
from plots.tables import Table
from records.errors import InputError

EVERY = 20  # of the variants that have tables, one's figures are drawn too


def tables_of(name: str, folder: Path) -> list[Table]:
    """Every table that there is of the run in the folder."""
    experiment, pass_name = name.split("/")
    run = load_run(experiment, folder)
    found = all_tables(experiment, run, CLAIM_DETAILS, folder)
    found += [
        machine_table(evidence, "machine", CLAIM_DETAILS, folder) for evidence in machines([folder])
    ]
    return [*found, kernel_list([run[pass_name]]), bandwidth_table(run[pass_name], "bench", "")]


@pytest.fixture(params=damaged.KEPT)
def name(request):
    return request.param


@pytest.fixture
def folder(name, tmp_path):
    """The passes of one experiment, not damaged yet."""
    for other in damaged.KEPT:
        if other.split("/")[0] == name.split("/")[0]:
            damaged.write(tmp_path, other, json.dumps(damaged.few(other)))
    look(table_files(tables_of(name, tmp_path), tmp_path))
    return tmp_path


def test_every_field(name, folder):
    refused, shown = 0, 0
    for what, text in damaged.damaged(damaged.few(name)):
        damaged.write(folder, name, text)
        try:
            look(table_files(tables_of(name, folder), folder))
            shown += 1
            if shown % EVERY == 0:
                run = load_run(name.split("/")[0], folder)
                for content in figure_files(run.first.experiment, run, folder, ("svg",)).values():
                    ElementTree.fromstring(content)
        except InputError as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 1000, what
        except Exception as error:
            raise AssertionError(f"{name}: {what}") from error
    assert refused > 1000 / damaged.SAMPLED and shown > 100 / damaged.SAMPLED


@pytest.mark.parametrize("experiment", names())
def test_no_bytes_at_all(experiment, recorded_evidence, tmp_path):
    """Of whatever was recorded: one line that names the file."""
    for file in (damaged.RECORDED / experiment).glob("*.json"):
        results = json.loads(file.read_text())
        for row in results.get("records", ()):
            row["bytes"] = {"read": 0, "written": 0}
        (tmp_path / file.name).write_text(json.dumps(results))
    if experiment == "end_to_end":  # whose tables need none
        load_run(experiment, tmp_path, evidence=recorded_evidence)
        return
    with pytest.raises(InputError, match=rf"^{tmp_path}/.*\.bytes are all 0") as error:
        load_run(experiment, tmp_path, evidence=recorded_evidence)
    assert "\n" not in str(error.value)

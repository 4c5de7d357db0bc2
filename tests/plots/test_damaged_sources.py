"""What the project says of its sources with one damaged field: all is as it should be, or an error
of one line that names the file.
"""

import json
from dataclasses import replace
from pathlib import Path

import damaged
import made
import pytest
from looking import look

from claims.ledger import decide
from claims.published import FOLDER, load_source, load_sources
from plots import claim_details, published_numbers
from plots.documents import markdown
from plots.experiments import CLAIM_DETAILS, all_tables, experiment
from plots.ledger import claims_table
from records.errors import InputError

SAMPLE = 20  # of each file
EVERY = 100  # of the variants that have tables, one's figures are drawn too


@pytest.fixture(autouse=True)
def no_neighbours(monkeypatch):
    """They are of results alone, and take longer than all else."""
    monkeypatch.setattr("plots.neighbours.counters_for", lambda times: None)


@pytest.fixture
def runs(recorded_runs, recorded_evidence):
    """Every recorded run that decides claims, and the evidence of all."""
    return {name: run for name, run in recorded_runs.items() if run.decisions}, recorded_evidence


def draw(runs, file, with_figures):
    """All that is made of the source: claims, numbers, and the tables of its experiments."""
    runs, evidence = runs
    spoilt = load_source(file)
    sources = [spoilt if source.id == spoilt.id else source for source in load_sources()]
    decisions = decide(evidence, [spoilt])
    tables = [claims_table("claims", "title", decisions, CLAIM_DETAILS, file.parent)]
    tables.append(published_numbers.table("numbers", decisions))
    claim_details.page(decisions, file.parent)
    for name, run in runs.items():
        if run.source.id == spoilt.id:
            again = replace(run, decisions=decide(evidence, sources, name))
            tables += all_tables(name, again, CLAIM_DETAILS, file.parent)
            for _, figure in experiment(name).FIGURES.values() if with_figures else ():
                figure(again)
    look({Path(f"{table.name}.md"): markdown(table).encode() for table in tables})


def test_a_share_of_no_model_is_not_drawn(runs, tmp_path):
    root = made.raw("paper")
    del made.claim_in(root, "dequantization-overhead")["comparisons"][0]["cells"][0]["at"]["model"]
    damaged.write(tmp_path, "paper", json.dumps(root))
    draw(runs, tmp_path / "paper.json", True)


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.json")))
def test_every_field(name, runs, tmp_path):
    root = json.loads((FOLDER / f"{name}.json").read_text())
    refused, shown = 0, 0
    draw(runs, FOLDER / f"{name}.json", True)
    for what, text in damaged.sampled(root, SAMPLE):
        damaged.write(tmp_path, name, text)
        try:
            draw(runs, tmp_path / f"{name}.json", shown % EVERY == EVERY - 1)
            shown += 1
        except InputError as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 1000, what
            assert str(error).startswith(f"{tmp_path}/{name}.json: "), what
        except Exception as error:
            raise AssertionError(f"{name}: {what}") from error
    assert refused

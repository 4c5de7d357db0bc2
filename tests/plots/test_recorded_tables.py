"""The numbers of every table of the recorded runs, as CSV: code that is moved or written anew must
show what was shown before. New recordings change them: UPDATE_GOLDEN=1 writes the digests anew.
"""

import hashlib
import json

import pytest

from claims.json_files import ROOT
from plots.documents import csv_text
from plots.experiments import CLAIM_DETAILS, all_tables, load_run, names

RECORDED = ROOT / "data/recorded/h200"


def without_notes(csv: str) -> str:
    return "".join(line for line in csv.splitlines(keepends=True) if not line.startswith("#"))


@pytest.mark.parametrize("name", names())
def test_the_recorded_tables_are_the_same(name, golden):
    run = load_run(name, RECORDED / name)
    tables = all_tables(name, run, CLAIM_DETAILS, RECORDED / name)
    numbers = {table.name: without_notes(csv_text(table)) for table in tables}
    assert all(text.count("\n") > 1 for text in numbers.values())
    digests = {n: hashlib.sha256(text.encode()).hexdigest()[:16] for n, text in numbers.items()}
    golden(f"recorded-{name}.json", json.dumps(digests, indent=1) + "\n")

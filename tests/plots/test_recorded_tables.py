"""The numbers of every table of the recorded runs, as CSV: code that is moved or written anew must
show what was shown before. New recordings change them: UPDATE_GOLDEN=1 writes the digests anew.
"""

import csv
import hashlib
import json

import pytest

from claims.json_files import ROOT
from plots.documents import csv_text
from plots.experiments import CLAIM_DETAILS, all_tables, load_run, names

RECORDED = ROOT / "data/recorded/h200"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@pytest.mark.parametrize("name", names())
def test_the_recorded_tables_are_the_same(name, golden):
    run = load_run(name, RECORDED / name)
    tables = all_tables(name, run, CLAIM_DETAILS, RECORDED / name)
    rows = {table.name: rows_of(csv_text(table)) for table in tables}
    assert all(rows.values())
    texts = {name: json.dumps(found, sort_keys=True) for name, found in rows.items()}
    digests = {n: hashlib.sha256(text.encode()).hexdigest()[:16] for n, text in texts.items()}
    golden(f"recorded-{name}.json", json.dumps(digests, indent=1) + "\n")

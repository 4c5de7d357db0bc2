"""docs/verdicts.md names existing claims, and the numbers of the code."""

import re

import made

from reprolab.claims import prediction, uncertainty
from reprolab.json_files import ROOT

PAGE = (ROOT / "docs/verdicts.md").read_text()


def test_every_claim_that_the_page_names_is_one():
    known = {claim.id for source in made.all_sources() for claim in source.claims}
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([^`/]+)`", row)}
    assert len(named) > 30 and named <= known


def test_the_hosts_parts_are_those_of_the_data():
    short, long = uncertainty.host_classes()
    assert f"{short.gain_percent:.1f} % up to 5 s" in PAGE
    assert f"{long.gain_percent:.1f} % beyond" in PAGE


def test_the_predictions_errors_are_those_of_the_validation():
    table = PAGE.partition("## Predictions")[2].partition("## ")[0]
    shown = re.findall(r"\| ([\d.]+) % \|", table)
    assert shown == [f"{abs(off):.1f}" for off in prediction.validation().values()]

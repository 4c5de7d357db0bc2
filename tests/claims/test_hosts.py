"""Eager generations on six H100 hosts: data/repetitions/eager."""

from functools import cache
from statistics import median

import pytest

from reprolab.claims import evidence, uncertainty
from reprolab.claims.ledger import decide
from reprolab.claims.published import load_sources
from reprolab.claims.rules import NOT_TESTABLE, UNDECIDED
from reprolab.json_files import ROOT, read_json
from reprolab.results import result_files

HOSTS = (1, 2, 3)  # of Gemma-2-27B, nine generations per row
ALL_HOSTS = (*HOSTS, 4, 5, 6)
GAINS = ("end-to-end-llama", "end-to-end", "small-batches-gain-more", "gemma-rises")
BASELINE, SUBJECT = "branch_tree", "shared_lut"


@cache
def measured(host):
    return tuple(result_files(ROOT / f"data/repetitions/eager/{host}"))


def eager_rows(host, model="gemma-2-27b"):
    """By batch and kernel."""
    (file,) = measured(host)
    rows = [r for r in file.records if r.problem["way"] == "eager" and r.problem["model"] == model]
    return {(r.problem["batch"], r.kernel): r for r in rows}


def is_steady(row):
    return 2 * row.disturbed <= len(row.metrics["wall_time"].samples)


def median_us(row):
    return round(median(row.metrics["wall_time"].samples))


def test_each_host_is_another_one():
    units = [measured(host)[0].provenance["gpu"]["unit"] for host in ALL_HOSTS]
    assert len(set(units)) == len(ALL_HOSTS)
    processes = [{row.process for row in eager_rows(host).values()} for host in HOSTS]
    assert [len(p) for p in processes] == [1, 2, 1] and len(set().union(*processes)) == 4


def cells_of(model):
    """The cells of data/host_to_host.json for a model that two or more of these hosts measured."""
    by_host = [eager_rows(host, model) for host in ALL_HOSTS]
    for batch in (2, 4, 8, 16, 32, 64):
        pairs = [[rows.get((batch, k)) for k in (BASELINE, SUBJECT)] for rows in by_host]
        pairs = [pair for pair in pairs if None not in pair and all(map(is_steady, pair))]
        if len(pairs) < 2:
            continue
        cell = {"gpu": "NVIDIA H100 80GB HBM3", "model": model, "batch": batch}
        for i, name in enumerate(("baseline_us", "subject_us")):
            cell[name] = [median_us(pair[i]) for pair in pairs]
        yield cell


def test_what_hosts_differ_by_is_computed_from_them():
    recorded = read_json(uncertainty.HOST_TO_HOST)["cells"]
    models = ("gemma-2-27b", "gemma-3-27b", "llama-3.3-70b")
    cells = [cell for model in models for cell in cells_of(model)]
    assert cells == [cell for cell in recorded if "H100" in cell["gpu"]]


def verdicts(host):
    """The verdicts on eager cells of the claims on gains, by claim and cell."""
    by_cell = {}
    for decision in decide(evidence.collect(measured(host)), load_sources()):
        for v in decision.verdicts:
            if decision.claim.id in GAINS and v.evidence and v.cell.at.get("way") != "graph":
                by_cell[decision.claim.id, *v.cell.at.items()] = v
    return by_cell


def test_verdicts_on_two_hosts_are_the_same():
    first, _, third = map(verdicts, HOSTS)
    assert first.keys() > third.keys() and third
    assert {v.verdict for v in (*first.values(), *third.values())} == {UNDECIDED}


@pytest.mark.parametrize("other", [5, 6])
def test_no_cell_is_decided_in_another_way_on_another_host(other):
    """Llama-3.3-70B and Gemma-3-27B: a slow host leaves cells undecided, or not testable."""
    here, there = verdicts(4), verdicts(other)
    both = [{here[cell].verdict, there[cell].verdict} for cell in here.keys() & there.keys()]
    assert both and all(len(of_cell - {NOT_TESTABLE}) <= 1 for of_cell in both)


def test_a_host_that_was_slow_decides_nothing():
    slow = verdicts(2)
    assert slow.keys() >= verdicts(1).keys()
    assert {v.verdict for v in slow.values()} == {NOT_TESTABLE}
    assert all("host was slow" in v.reason for v in slow.values())


@pytest.mark.parametrize("host", HOSTS)
def test_the_page_has_the_gains_of_each_host(host):
    rows, cells = eager_rows(host), []
    for batch in (2, 8, 16, 64):
        pair = [rows.get((batch, kernel)) for kernel in (BASELINE, SUBJECT)]
        if None in pair:
            cells.append("")
            continue
        ratio = uncertainty.ratio(*pair, "wall_time").value
        cells.append(f"{ratio:.2f}" if all(map(is_steady, pair)) else f"({ratio:.2f})")
    line = f"| {host} | " + " | ".join(cells) + " |"
    assert line in (ROOT / "docs/verdicts.md").read_text()

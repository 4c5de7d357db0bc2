"""The claim on latencies: each way that its cells can go."""

import json

import made
import pytest

from claims.published import load_source
from records.errors import InputError

CLAIM = "latency-12-15"
READ, WRITE, L1 = "global_dram, shared_load", "global_dram, shared_store", "global_l1, shared_load"
PAPERS = {"shared_load": 23, "shared_store": 19, "shared_store_to_load": 26, "global_l1": 33}
PAPERS |= {"global_dram": 290}
H200 = {"shared_load": 28.8, "shared_store": 4, "shared_store_to_load": 33, "global_l1": 39.6}
H200 |= {"global_dram": 697}


def file_of(cycles, **changes):
    values = cycles | changes
    return made.latency({kernel: [0.99 * c, c, 1.01 * c] for kernel, c in values.items()})


def decided(file):
    found = made.decided(file)
    return {cell: found[CLAIM, cell] for cell in (READ, WRITE, L1)}


def test_on_the_papers_own_cycles_reads_hold_and_what_they_rest_on_does_not():
    found = decided(file_of(PAPERS))
    assert [v.verdict for v in found.values()] == ["reproduced", "premise_false", "premise_false"]
    assert found[READ].ours == pytest.approx(290 / 23)
    assert found[L1].ours == pytest.approx(33 / 23)
    keys = [key for _, key in found[READ].evidence]
    assert keys == ["chain of global_dram/global_dram", "chain of shared_load/shared_load"]


def test_a_store_is_no_latency_whatever_its_cycles():
    for cycles in (2, 19, 100):
        v = decided(file_of(H200, shared_store=cycles))[WRITE]
        assert (v.verdict, v.ours, v.difference_percent) == ("premise_false", None, None)
        assert v.reason.startswith("divides a load by a store, which nothing waits for: here a ")
        assert f"store again after {cycles}" in v.reason
        assert v.reason.endswith("can be read after 33.0, where a load alone takes 28.8")


@pytest.mark.parametrize(
    ("dram", "verdict"),
    [
        (261 / 0.98 * 1.01 / 0.99 * 1.001, "reproduced"),
        (261 / 0.98 * 1.01 / 0.99 * 0.999, "undecided"),
        (261 / 1.02 * 0.99 / 1.01 * 1.001, "undecided"),
        (261 / 1.02 * 0.99 / 1.01 * 0.999, "not_reproduced"),
        (290 * 1.5, "reproduced"),  # more is no less of an advantage
    ],
)
def test_a_tenth_less_is_allowed_and_near_the_bound_nothing_is_decided(dram, verdict):
    assert decided(file_of(PAPERS, global_dram=dram))[READ].verdict == verdict


@pytest.mark.parametrize(
    ("l1", "verdict"),
    [(23 * 10.79, "premise_false"), (23 * 10.81, "reproduced"), (290, "reproduced")],
)
def test_the_premise_holds_where_an_l1_hit_is_as_slow_as_claimed(l1, verdict):
    assert decided(file_of(PAPERS, global_l1=l1))[L1].verdict == verdict


@pytest.mark.parametrize(
    ("spoil", "cycles", "what"),
    [
        (
            lambda claim: claim["comparisons"][0]["arguments"].update(least="x"),
            28.8,
            "ValueError: ",
        ),
        (lambda claim: claim["comparisons"][0]["cells"][0].update(at={}), 28.8, "KeyError: 'slow'"),
        (lambda claim: None, 0, "ZeroDivisionError: "),
    ],
)
def test_what_does_not_fit_the_rule_is_one_line_that_names_it(write, spoil, cycles, what):
    paper = json.loads((made.PUBLISHED / "paper.json").read_text())
    spoil(next(claim for claim in paper["claims"] if claim["id"] == CLAIM))
    path, file = write("paper.json", paper), file_of(H200)
    (row,) = made.rows_of(file, "shared_load")
    next(m for m in row["metrics"] if m["name"] == "latency").update(samples=[cycles] * 3)
    with pytest.raises(InputError) as error:
        made.decided(file, sources=[load_source(path)])
    where = f"{path}: claim '{CLAIM}': rule counters.latency_ratio"
    said = f"{where}: does not fit its arguments, cell or rows: {what}"
    assert str(error.value).startswith(said) and "\n" not in str(error.value)

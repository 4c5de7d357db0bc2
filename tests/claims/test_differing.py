"""Why two GPUs have different verdicts."""

from dataclasses import replace

import pytest

from reprolab.claims import differing
from reprolab.claims.evidence import machines
from reprolab.claims.ledger import decide
from reprolab.claims.published import load_sources
from reprolab.claims.rules import NOT_TESTABLE, NOT_TESTED, REPRODUCED
from reprolab.json_files import ROOT

NAMES = ("H100", "H200")


@pytest.fixture(scope="module")
def recorded():
    evidence = machines([ROOT / f"data/recorded/{name}" for name in ("h100", "h200")])
    return evidence, [{d.claim.id: d for d in decide(m, load_sources())} for m in evidence]


def why(recorded, name, *decisions):
    evidence, ledgers = recorded
    return differing.why(NAMES, evidence, decisions or [of_it[name] for of_it in ledgers])


def decided(d, verdict):
    return replace(d, verdicts=tuple(replace(v, verdict=verdict) for v in d.verdicts))


def with_a_reason():
    return [c.id for s in load_sources() for c in s.claims if c.differs]


@pytest.mark.parametrize("name", with_a_reason())
def test_rows_show_each_reason(recorded, name):
    evidence, ledgers = recorded
    differs = ledgers[0][name].claim.differs
    values = {k: [differing.of_kernel(differs, k, m) for m in evidence] for k in differs.kernels}
    if differs.metric == differing.CLOCK:
        undecided = [of_it[name].verdict for of_it in ledgers].index("undecided")
        for by_gpu in values.values():
            spreads = [max(of_it) / min(of_it) - 1 for of_it in by_gpu]
            assert spreads[undecided] > 2 * spreads[1 - undecided]
    elif len(values) == 1:  # what the kernels share
        ((slower, faster),) = values.values()
        assert min(slower) > 1.3 * min(faster) and max(slower) > 1.3 * max(faster)
    else:  # waits of the kernel that gains more, and of the other
        (more, less), (more_fast, less_fast) = zip(*values.values(), strict=True)
        assert min(more) > max(less)
        assert min(more) - max(more_fast) > max(less) - min(less_fast)
    sentence = why(recorded, name)
    assert sentence.startswith(f"{name} is ") and differs.because in sentence
    assert all(kernel in sentence for kernel in differs.kernels)


def test_every_difference_that_is_recorded_has_a_sentence(recorded):
    _, (h100, h200) = recorded
    left_out = {NOT_TESTED, NOT_TESTABLE}
    for name in h100:
        verdicts = {h100[name].verdict, h200[name].verdict}
        assert bool(why(recorded, name)) == (len(verdicts) > 1 and not verdicts & left_out)


def test_a_reason_that_is_not_known(recorded):
    d = recorded[1][1]["kernel-speedup"]
    assert why(recorded, "", d, decided(d, REPRODUCED)) == ""
    assert why(recorded, "", d, decided(d, NOT_TESTED)) == ""
    sentence = why(recorded, "", d, decided(d, "undecided"))
    assert sentence == (
        "kernel-speedup is reproduced on H100 and undecided on H200; why is not known"
    )


def test_a_gpu_without_the_rows_shows_no_numbers(recorded):
    evidence, ledgers = recorded
    d = ledgers[0]["batch-invariant"]
    without = replace(evidence[1], results={})
    sentence = differing.why(NAMES, [evidence[0], without], [d, decided(d, REPRODUCED)])
    assert "MHz" not in sentence and d.claim.differs.because in sentence

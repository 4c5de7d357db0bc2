"""The figures of the report's first screen."""

import pytest
from edited import recorded_names

from reprolab.claims.evidence import collect
from reprolab.claims.ledger import decide
from reprolab.claims.published import load_sources
from plots.experiments import experiment
from plots.figures import figure_style
from plots.summary import claim_figure
from reprolab.results import result_files
from reprolab.json_files import ROOT

HEADLINES = [*filter(None, (experiment(name).HEADLINE for name in recorded_names()))]


@pytest.fixture(scope="module")
def by_gpu():
    """Decisions by the folder of a recorded GPU, then by claim."""
    decisions = {}
    for folder in ("h100", "h200"):
        evidence = collect(result_files(ROOT / "data" / "recorded" / folder))
        decisions[folder] = {d.claim.id: d for d in decide(evidence, load_sources())}
    return decisions


@pytest.mark.parametrize("claim", HEADLINES)
def test_a_cards_axis_has_the_sources_value_and_ours(by_gpu, claim):
    with figure_style():
        (axes,) = claim_figure({gpu: by_claim[claim] for gpu, by_claim in by_gpu.items()}).axes
    output = [text.get_text() for text in axes.texts]
    waiting = sum(found[claim].verdict == "not_tested" for found in by_gpu.values())
    assert len(output) == 1 + len(by_gpu) and output.count("no value") == waiting < len(by_gpu)
    assert all(any(map(str.isdigit, text)) for text in output if text != "no value")


def test_a_reading_that_does_not_decide_is_named(by_gpu):
    with figure_style():
        (axes,) = claim_figure({"h200": by_gpu["h200"]["mojo-is-cuda-like"]}).axes
        (primary,) = claim_figure({"h200": by_gpu["h200"]["kernel-speedup"]}).axes
    assert "right indices" in axes.get_xlabel()
    assert "read as" not in primary.get_xlabel()


def test_a_statement_without_numbers_has_no_axis(by_gpu):
    assert claim_figure({"h200": by_gpu["h200"]["token-exact"]}) is None

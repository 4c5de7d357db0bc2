"""Claims that need no measurement: a source's numbers compared with each other and with
documents."""

import made
import pytest

from reprolab.claims import codebook

YES, NO, PREMISE = "reproduced", "not_reproduced", "premise_false"


def verdicts(name, source=None):
    decisions = made.decisions(sources=[source] if source else made.with_claim(name))
    return decisions[name].verdicts


@pytest.mark.parametrize(
    ("claim", "numbers"),
    [
        ("severe-with-throughput", ["39.8", "21.4"]),
        ("layers-28-64", ["llama-3.3-70b has 80"]),
        ("figure-4-agrees", ["1.063"]),
        ("environment", ["2.2"]),
        ("tensor-cores", ["INT4"]),
    ],
)
def test_contradictions_within_the_paper(claim, numbers):
    v = verdicts(claim)[0]
    assert v.verdict == PREMISE
    assert all(number in v.why for number in numbers)


def test_gemmas_tokens_and_seconds_at_batch_64():
    """506 tokens/s in 23.13 s and 633 in 17.49 s are of 64 sequences; 5.64 s are saved."""
    _, tokens, seconds = verdicts("figure-4-agrees")
    assert tokens.why == "183 tokens per sequence before, 173 after"
    assert (tokens.verdict, seconds.verdict) == (PREMISE, PREMISE)
    needed = 5.64 / (1 - 1 / 1.063)
    assert f"{needed:.0f} s" in seconds.why


def change_figure4(write, **values):
    def change(paper):
        paper["tables"]["figure4"]["gemma-27b"]["64"].update(values)

    return made.paper(write, change)


def test_with_other_numbers_figure_4_would_agree(write):
    source = change_figure4(write, speedup_latency=1.25, optimized_tokens_per_s=669.2)
    average, tokens, _ = verdicts("figure-4-agrees", source)
    assert (average.verdict, tokens.verdict) == (YES, YES)


def test_numbers_are_held_against_the_document_that_is_cited(write):
    def change(paper):
        paper["tables"]["cited_latency_cycles"]["shared_write"] = 20

    ratio, *cited = verdicts("latency-12-15", made.paper(write, change))
    assert ratio.cell.gpu == "A100-80GB"
    assert [v.verdict for v in cited] == [YES, YES, NO]
    assert [(v.documented, v.ours) for v in cited] == [(290, None), (23, None), (20, None)]
    of_l1, _ = verdicts("table-latency")
    assert (of_l1.verdict, of_l1.documented) == (NO, pytest.approx(33 / 23))
    assert of_l1.ours is of_l1.difference_percent is None


def test_nf4_is_the_published_table_and_does_not_minimize_the_error():
    values = codebook.nf4()
    assert len(values) == 16 and {-1.0, 0.0, 1.0} <= set(values)
    assert values[1] == pytest.approx(-0.6961928) and values[14] == pytest.approx(0.7229568)
    best, kept = codebook.least_error(), codebook.least_error((-1.0, 0.0, 1.0))
    assert best < kept < codebook.nf4_error()
    (v,) = verdicts("nf4-error")
    assert (v.verdict, v.ours) == (NO, pytest.approx(10.9, abs=0.3))


@pytest.mark.parametrize(("apart", "verdict"), [(0, YES), (0.5, NO)])
def test_equal_shares_are_those_of_every_code(apart, verdict, monkeypatch):
    """Two codes are half and one and a half times as frequent; 14 are as expected."""
    shares = [1 / 16] * 14 + [(1 - apart) / 16, (1 + apart) / 16]
    monkeypatch.setattr(codebook, "code_shares", lambda: shares)
    (v,) = verdicts("equal-mass")
    assert (v.verdict, v.ours) == (verdict, pytest.approx((1 + apart) / (1 - apart)))


def test_codes_of_normal_weights_are_no_equal_shares():
    shares = codebook.code_shares()
    assert sum(shares) == pytest.approx(1)
    assert (min(shares), max(shares)) == (pytest.approx(0.017, 0.05), pytest.approx(0.092, 0.02))

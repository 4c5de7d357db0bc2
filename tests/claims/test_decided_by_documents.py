"""Claims that need no measurement: a source's numbers compared with each other and with
documents."""

import made
import pytest

from reprolab.claims import documents
from reprolab.claims.evidence import Evidence
from reprolab.claims.ledger import decide

SAME, OTHER, NO = "documented", "contradicted", "not_reproduced"


def verdicts(name, source=None):
    every = decide(Evidence({}), [source] if source else made.with_claim(name))
    return next(d.verdicts for d in every if d.claim.id == name)


def test_gemmas_tokens_and_seconds_at_batch_64():
    """506 tokens/s in 23.13 s and 633 in 17.49 s are of 64 sequences; 5.64 s are saved."""
    average, tokens, seconds = verdicts("figure-4-agrees")
    assert average.note.startswith("at most 1.063 x")
    assert tokens.note == "183 tokens per sequence before, 173 after"
    assert {average.kind, tokens.kind, seconds.kind} == {OTHER}
    assert f"{5.64 / (1 - 1 / 1.063):.0f} s" in seconds.note


def test_what_its_tables_allow_at_batch_32():
    """29.5 % and 2.19 x make 1.191 x, where it has 1.29 x."""
    assert (verdicts("tables-agree")[0].kind, verdicts("tables-agree")[0].note[-6:]) == (
        OTHER,
        "1.19 x",
    )


def test_with_other_numbers_the_paper_would_agree(write):
    def change(paper):
        changed = {"speedup_latency": 1.25, "optimized_tokens_per_s": 669.2}
        paper["tables"]["figure4"]["gemma-27b"]["64"].update(changed)
        paper["tables"]["figure4"]["qwen3-32b"]["32"]["speedup_latency"] = 1.214  # 2 % allowed
        paper["tables"]["table1_qwen3_32b"]["64"]["overhead_percent"] = 27.1
        paper["tables"]["cited_latency_cycles"]["shared_write"] = 20

    source = made.paper(write, change)
    average, tokens, _ = verdicts("figure-4-agrees", source)
    assert (average.kind, tokens.kind) == (SAME, SAME)
    assert {v.kind for v in verdicts("tables-agree", source)} == {SAME}
    assert [v.kind for v in verdicts("thirty-to-forty", source)] == [SAME]
    ratio, *cited = verdicts("latency-12-15", source)
    assert ratio.cell.gpu == "A100-80GB" and [v.kind for v in cited] == [SAME, SAME, NO]


def test_a_table_in_l1_is_as_near_as_shared_memory():
    of_document, _ = verdicts("table-latency")
    assert (of_document.kind, of_document.ours) == (NO, None) and "33 / 23" in of_document.note


def test_nf4_is_the_published_table_and_does_not_minimize_the_error():
    values = documents.nf4()
    assert len(values) == 16 and {-1.0, 0.0, 1.0} <= set(values)
    assert values[1] == pytest.approx(-0.6961928) and values[14] == pytest.approx(0.7229568)
    least = documents.least_error()
    assert least < documents.least_error((-1.0, 0.0, 1.0)) < documents.error_of(values)
    (v,) = verdicts("nf4-error")
    assert (v.kind, v.ours) == (NO, pytest.approx(10.9, abs=0.3))


def test_codes_of_normal_weights_are_no_equal_shares():
    shares = documents.code_shares()
    assert sum(shares) == pytest.approx(1)
    assert (min(shares), max(shares)) == (pytest.approx(0.017, 0.05), pytest.approx(0.092, 0.02))
    (v,) = verdicts("equal-mass")
    assert (v.kind, v.ours) == (NO, pytest.approx(5.35, rel=0.02))

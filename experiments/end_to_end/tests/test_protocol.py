"""Times from kernel records, and the comparison of tokens with the baseline's."""

from dataclasses import replace

import pytest

from experiments.end_to_end import protocol
from experiments.end_to_end.protocol import Launch, LaunchNames, RecordsLost
from experiments.end_to_end.rows import Row

NAMES = LaunchNames(frozenset({"dequantize"}), frozenset({"gemm", "reduce"}), 1)


def launches(text, gap=0):
    """Launches one after the other, from their names and microseconds: 'dequantize:5 gemm:2'."""
    records, now = [], 0
    for word in text.split():
        name, _, us = word.partition(":")
        records.append(Launch(name, now, now + 1000 * int(us)))
        now = records[-1].end_ns + gap
    return records


def test_overlapping_records_count_once():
    records = [Launch("a", 0, 10), Launch("b", 5, 20), Launch("c", 6, 7), Launch("d", 30, 31)]
    assert protocol.busy_ns(reversed(records)) == 21
    assert protocol.busy_ns([]) == 0


def test_products_directly_follow_their_dequantization():
    records = launches(
        "gemm:1 dequantize:1 gemm:2 reduce:4 add:1 gemm:8 dequantize:1 dequantize:1 gemm:16"
    )
    assert [x.end_ns - x.start_ns for x in protocol.products(records, NAMES)] == [2000, 4000, 16000]


def test_a_generation_and_its_steps():
    prompt = "dequantize:10 gemm:50 attention:5 mark:1 "
    step = "dequantize:10 gemm:4 attention:2 mark:1 "
    ran = launches(prompt + 3 * step + "left:1", gap=500)
    sample = protocol.profile(reversed(ran), "mark", NAMES, 4, tokens=11)
    assert sample == {
        "kernel_time": 10 + 10 * 10,
        "product_time": 50 + 10 * 4,
        "busy_time": 65 + 10 * 16,
        "kernel_time.step": 10,
        "product_time.step": 4,
        "busy_time.step": 16,
    }
    alone = protocol.profile(launches(3 * step), "mark", NAMES, 3)
    assert alone == {k: v for k, v in sample.items() if k.endswith(".step")}


def test_lost_records_give_no_time():
    records = launches("dequantize:1 gemm:1 mark:1 gemm:1 mark:1")
    with pytest.raises(RecordsLost, match="recorded 0 of 1 dequantizations of a pass"):
        protocol.profile(records, "mark", NAMES, 2, 2)
    fuses = replace(NAMES, per_pass=None)
    with pytest.raises(RecordsLost, match="recorded 2 of 3 forward passes"):
        protocol.profile(records, "mark", fuses, 3, 3)
    times = protocol.profile(records, "mark", fuses, 2, 2)
    assert times["kernel_time"] == 1 and "product_time" not in times


A, B, C = [[1, 2], [3, 4]], [[1, 2], [3, 5]], [[9, 2], [3, 4]]
BASELINE, OURS, INSTALLED = Row("branch_tree"), Row("ours"), Row("as installed", "installed")


def judgement(baseline, *ours, again=A, row=OURS):
    """A row's outcome, reason and mismatches; the baseline's outcome and its number of new runs."""
    runs = []
    outcomes = protocol.judge(
        {BASELINE: baseline, row: ours},
        BASELINE,
        lambda row: row == INSTALLED,
        lambda: runs.append(again) or again,
    )
    return outcomes[row], outcomes[BASELINE][0], len(runs)


def test_equal_tokens_need_one_run_of_the_baseline():
    same = ("bit_exact", "4 tokens compared each time, 4 distinct", None)
    assert judgement([A, A], A, A) == (same, "bit_exact", 0)
    short = ("bit_exact", "2 tokens compared each time, 2 distinct", None)
    assert judgement([A], [[1], [3]]) == (short, "bit_exact", 0)


@pytest.mark.parametrize("ours", [[B, A], [A, B]])
def test_a_difference_reruns_the_baseline_against_itself(ours):
    why = "1 of 4 tokens differ; first in sequence 1, token 1: expected 4, actual 5"
    wrong = ("mismatch", f"{why}; {protocol.REPEATS}", 1)
    assert judgement([A], *ours) == (wrong, "bit_exact", 1)
    unknown = ("not_verified", f"{why}; {protocol.VARIES}", 1)
    assert judgement([A], *ours, again=C) == (unknown, "bit_exact", 1)
    # Its own generations already show that it varies.
    assert judgement([A, A, C], *ours) == (unknown, "not_verified", 0)


def test_equal_tokens_of_a_varying_baseline_have_a_remark():
    (outcome, reason, _), *others = judgement([A, B], A)
    assert (outcome, *others) == ("bit_exact", "not_verified", 0)
    assert reason.endswith(f"; {protocol.VARIES}")


def test_an_allowed_difference_is_not_run_again():
    (outcome, reason, count), *others = judgement([A], A, B, row=INSTALLED)
    assert (outcome, count, *others) == ("deviation_as_declared", 1, "bit_exact", 0)
    assert reason.endswith("token 1: expected 4, actual 5")

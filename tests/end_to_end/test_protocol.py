"""Times from kernel records, and whether tokens are the baseline's."""

import pytest

from experiments.end_to_end import protocol
from experiments.end_to_end.protocol import Exactness, Launch, Names, RecordsLost

NAMES = Names(frozenset({"dequantize"}), frozenset({"gemm", "reduce"}))


def launches(text, gap=0):
    """'dequantize:5 gemm:2': one behind the other, with their microseconds."""
    found, now = [], 0
    for word in text.split():
        name, _, us = word.partition(":")
        found.append(Launch(name, now, now + 1000 * int(us)))
        now = found[-1].end_ns + gap
    return found


def test_overlapping_records_count_once():
    found = [Launch("a", 0, 10), Launch("b", 5, 20), Launch("c", 6, 7), Launch("d", 30, 31)]
    assert protocol.busy_ns(reversed(found)) == 21
    assert protocol.busy_ns([]) == 0


def test_passes_end_with_marks():
    found = launches("a:1 mark:1 b:1 c:1 mark:1 left:1")
    passes = protocol.split(reversed(found), "mark")
    assert [[x.name for x in forward] for forward in passes] == [["a"], ["b", "c"]]


def test_products_are_right_behind_their_dequantization():
    found = launches(
        "gemm:1 dequantize:1 gemm:2 reduce:4 add:1 gemm:8 dequantize:1 dequantize:1 gemm:16"
    )
    assert [x.end_ns - x.start_ns for x in protocol.products(found, NAMES)] == [2000, 4000, 16000]


def test_a_generation_and_its_steps():
    prompt = "dequantize:10 gemm:50 attention:5 mark:1 "
    step = "dequantize:10 gemm:4 attention:2 mark:1 "
    found = protocol.profile(launches(prompt + 3 * step, gap=500), "mark", NAMES, 4, 1, tokens=11)
    assert found == {
        "kernel_time": 10 + 10 * 10,
        "product_time": 50 + 10 * 4,
        "busy_time": 65 + 10 * 16,
        "kernel_time.step": 10,
        "product_time.step": 4,
        "busy_time.step": 16,
    }
    alone = protocol.profile(launches(3 * step), "mark", NAMES, 3, 1)
    assert alone == {k: v for k, v in found.items() if k.endswith(".step")}


def test_lost_records_give_no_time():
    found = launches("dequantize:1 gemm:1 mark:1 gemm:1 mark:1")
    with pytest.raises(RecordsLost, match="recorded 0 of 1 dequantizations of a pass"):
        protocol.profile(found, "mark", NAMES, 2, 1, 2)
    with pytest.raises(RecordsLost, match="recorded 2 of 3 forward passes"):
        protocol.profile(found, "mark", NAMES, 3, None, 3)
    assert protocol.profile(found, "mark", NAMES, 2, None, 2)["kernel_time"] == 1


class Runs:
    """Gives outputs one after another, and counts how often it was asked."""

    def __init__(self, *outputs):
        self.outputs, self.count = list(outputs), 0

    def __call__(self):
        self.count += 1
        return self.outputs[min(self.count, len(self.outputs)) - 1]


A, B, C = [[1, 2], [3, 4]], [[1, 2], [3, 5]], [[9, 2], [3, 4]]


def test_equal_tokens_need_one_run_of_the_baseline():
    baseline = Runs(A)
    exact = Exactness(baseline)
    assert exact.compare(A) == exact.compare(A) == ""
    assert (baseline.count, exact.varies, exact.remark) == (1, False, "")


def test_a_difference_lets_the_baseline_run_against_itself():
    baseline = Runs(A)
    exact = Exactness(baseline)
    said = "1 of 4 tokens differ; first in sequence 1, token 1: expected 4, actual 5"
    assert exact.compare(B) == said
    assert (baseline.count, exact.varies) == (2, False)


@pytest.mark.parametrize("tokens", [B, C], ids=["those of its second run", "others"])
def test_where_the_baseline_varies_a_difference_from_its_first_run_remains_one(tokens):
    baseline = Runs(A, B)
    exact = Exactness(baseline)
    assert "1 of 4 tokens differ; " in exact.compare(tokens)
    assert exact.varies
    assert exact.remark == "the baseline's own tokens differ from run to run"
    assert exact.compare(tokens) and baseline.count == 2  # that is known now
    assert exact.compare(A) == ""


def test_the_baselines_own_generations_show_that_it_varies():
    exact = Exactness(Runs())
    for tokens, varies in ((A, False), (A, False), (B, True), (A, True)):
        exact.admit(tokens)
        assert exact.varies is varies
    assert exact.compare(A) == "" and exact.compare(B)


def test_where_a_difference_is_allowed_nothing_is_run_again():
    baseline = Runs(A)
    exact = Exactness(baseline)
    assert exact.difference(A) == ""
    assert exact.difference(B).endswith("token 1: expected 4, actual 5")
    assert baseline.count == 1


def test_distinct_tokens():
    assert protocol.distinct([[1, 2], [2, 3]]) == 3

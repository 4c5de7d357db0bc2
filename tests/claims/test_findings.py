"""Findings: their numbers are those of the rows of every GPU, and their sentences hold on all."""

import re
from dataclasses import replace
from datetime import date
from statistics import geometric_mean

import pytest

from reprolab.claims.evidence import Evidence, machines
from reprolab.claims.findings import answer, findings, lines
from reprolab.claims.headlines import months_between
from reprolab.claims.ledger import decide
from reprolab.claims.published import load_sources
from reprolab.claims.rules import NOT_REPRODUCED, PREMISE_FALSE, REPRODUCED
from reprolab.claims.several_gpus import machines_of
from reprolab.json_files import ROOT
from reprolab.results import KERNEL_TIME

RECORDED = ROOT / "data/recorded"
NAMES = ("H100", "H200")
PLACE, LIBRARY = "Does the table's place matter?", "What is it against today's library?"
REPLAY = ("table2", "replay")
SHARES = r"take (\d+) to (\d+) % of its quantized products \(paper: ([\d.]+) %\)"


@pytest.fixture(scope="module")
def recorded():
    return machines([RECORDED / "h100", RECORDED / "h200"])


def seen(*evidence, names=NAMES):
    ledgers = [decide(of_it, load_sources()) for of_it in evidence]
    return machines_of(names[-len(evidence) :], evidence, ledgers)


@pytest.fixture(scope="module")
def both(recorded):
    return seen(*recorded)


def with_times(evidence, kernel, factor, pass_name=REPLAY):
    """The same run with a kernel that is slower by the factor."""

    def slower(metric):
        return replace(metric, samples=tuple(factor * sample for sample in metric.samples))

    results = evidence.results[pass_name]
    rows = [
        replace(r, metrics=r.metrics | {KERNEL_TIME: slower(r.metrics[KERNEL_TIME])})
        if r.kernel == kernel and KERNEL_TIME in r.metrics
        else r
        for r in results.records
    ]
    changed = replace(results, records=tuple(rows))
    return Evidence(evidence.results | {pass_name: changed}, evidence.folder)


def ratio(evidence, over, under):
    """The mean over all forward passes, of geometric means."""
    results = evidence.results[REPLAY]
    times = [
        [
            geometric_mean(results.find(p["name"], kernel).metrics[KERNEL_TIME].samples)
            for kernel in (over, under)
        ]
        for p in results.problems()
    ]
    return geometric_mean([a / b for a, b in times])


def that_answers(question, shown):
    return next(one for one in findings(shown) if one.question == question)


def that_says(word, shown):
    return next(one for one in findings(shown) if word in one.statement)


def test_they_are_at_most_ten_and_of_each_gpu_that_has_the_rows(both, recorded):
    headlines = findings(both)
    assert 8 <= len(headlines) <= 10
    for m, evidence in zip(both, recorded, strict=True):
        ours = [v.ours for v in m.decisions["kernel-speedup"].primary]
        first = headlines[0].numbers[m.gpu]
        assert first.startswith(f"{min(ours):.2f} to {max(ours):.2f} x, streaming ")
        gains = [ratio(evidence, "branch_tree", k) for k in ("global_lut", "shared_lut")]
        numbers = re.findall(r"[\d.]+ x", that_answers(PLACE, both).numbers[m.gpu])
        assert numbers == [f"{gain:.2f} x" for gain in gains]
    assert "all 21 numbers (28 cells" in headlines[0].result
    assert len({tuple(one.numbers) for one in headlines}) > 1  # of one GPU, of both, of none


def test_opposite_signs_are_said_of_each_gpu(both, recorded):
    h100, h200 = (ratio(e, "global_lut", "shared_lut") for e in recorded)
    assert h200 < 1 < h100
    words = f"{100 * (h100 - 1):.1f} % slower on the H100 and {100 * (1 / h200 - 1):.1f} % faster"
    assert f"{words} on the H200" in that_answers(PLACE, both).result
    assert f"{words} on the H200" in answer(both).replace(" (undecided)", "")
    library = that_answers(LIBRARY, both).result
    assert re.search(r"% faster on the H100 and [\d.]+ % slower on the H200$", library)


def test_equal_signs_and_numbers_are_said_once(recorded):
    other = replace(recorded[1], folder=None)
    shown = seen(other, recorded[1], names=("A100", "H200"))
    headline = that_answers(PLACE, shown)
    assert "A100" not in headline.result and len(headline.numbers) == 2
    assert headline.in_full.count("A100") == 1 and ". A100 and H200: gain" in headline.in_full


def test_a_large_effect_of_the_place_is_not_called_small(recorded):
    shown = seen(*(with_times(e, "global_lut", 1.3) for e in recorded))
    sentence = that_answers(PLACE, shown).result
    assert "hardly" not in sentence and sentence.count("slower") == 2
    assert "global memory" not in answer(shown)  # which is then no wrong reason


def test_one_gpu_is_not_named_in_sentences(recorded):
    for name, evidence in zip(NAMES, recorded, strict=True):
        shown = seen(evidence, names=(name,))
        headlines = findings(shown)
        assert len(headlines) >= 8
        assert not any(re.search(r" on the H[12]00", one.result) for one in headlines)
        assert all(set(one.numbers) <= {shown[0].gpu} for one in headlines)
        assert "with 1/" not in that_says("memory-bound", shown).result  # compares two


def test_without_measurements_there_is_only_the_sources_arithmetic():
    (one,) = findings(seen(Evidence({})))
    assert one.statement.startswith("Gemma") and not one.numbers
    assert answer(seen(Evidence({}))) == "" and list(lines([])) == []


def test_a_finding_changes_with_the_rows_and_goes_with_them(recorded):
    slower = with_times(recorded[1], "shared_lut", 2)
    first, *_ = findings(seen(slower))
    assert "0 of 21 numbers" in first.result and first.numbers["H200"].startswith("1.05 to 1.06 x")
    mixed = seen(recorded[0], slower)
    assert "all 21 numbers on the H100 and 0 of 21 numbers on the H200" in findings(mixed)[0].result
    assert "is reproduced on the H100 and not reproduced on the H200" in answer(mixed)
    rows = {k: v for k, v in recorded[1].results.items() if k[0] != "table2"}
    without = seen(recorded[0], Evidence(rows, recorded[1].folder))
    assert {*findings(without)[0].numbers} == {"H100"}
    assert "H200" not in that_answers(PLACE, without).result


def test_no_gpu_may_disagree_with_a_cause(both):
    """A verdict on one GPU takes the statement from all."""
    name = "lut-traffic-64"
    d = both[0].decisions[name]
    other = replace(d, verdicts=tuple(replace(v, verdict=REPRODUCED) for v in d.verdicts))
    shown = [replace(both[0], decisions=both[0].decisions | {name: other}), both[1]]
    assert "reads no table" in answer(both) and "reads no table" not in answer(shown)
    assert not any("64x" in one.statement for one in findings(shown))


def test_the_answer_counts_the_papers_claims(both):
    counts = []
    for m in both:
        of_paper = [d.verdict for d in m.decisions.values() if d.source.id == "paper"]
        counts.append([of_paper.count(v) for v in (REPRODUCED, NOT_REPRODUCED, PREMISE_FALSE)])
    (a, b, c), (x, y, z) = counts
    first = f"On the H100 {a} of its {len(of_paper)} claims are reproduced, {b} are not, and {c}"
    assert answer(both).endswith(f". {first} have a false premise; on the H200 {x}, {y} and {z}.")


def test_with_less_bandwidth_alone_only_memory_bound_kernels_take_longer(both):
    sentence = that_says("memory-bound", both).result
    less, baseline, paper, streaming, products = map(float, re.findall(r"\d\.\d+", sentence))
    assert 1.4 < less < 1.5 and 0.95 < baseline < 1.05 and 0.95 < paper < 1.05
    assert min(streaming, products) > 1.3


def test_shown_seconds_divide_to_the_shown_gain(both):
    """Geometric means, as in the claims' ratios."""
    headline = that_says("Mojo", both)
    gains = re.search(r"in place of two ([\d.]+) to ([\d.]+) x", headline.result).groups()
    ratios = []
    for text in headline.numbers.values():
        one_launch, _, library, _ = map(float, re.findall(r"\d\.\d+", text))
        ratios.append(library / one_launch)
    assert [f"{r:.2f}" for r in sorted(ratios)] == [*gains]


def test_the_answer_says_which_reason_holds_and_what_was_not_measured(both, recorded):
    text = answer(both)
    assert "One of its reasons holds: no divergence. Its main reason does not hold: " in text
    assert "; its own A100-80GB was not measured." in text
    assert "slower (undecided) on the H100" in text
    results = recorded[1].results[REPLAY]
    gpu = results.provenance["gpu"] | {"name": "NVIDIA A100-SXM4-80GB"}
    measured = replace(results, provenance=results.provenance | {"gpu": gpu})
    shown = seen(Evidence({REPLAY: measured}, recorded[1].folder), names=("A100",))
    assert "was not measured" not in answer(shown) and "2.1" in answer(shown)


def test_the_library_merged_its_table_whole_months_before_the_paper(both):
    assert months_between(date(2025, 9, 18), date(2026, 4, 2)) == 6
    assert months_between(date(2025, 9, 2), date(2026, 4, 2)) == 7
    assert that_answers(LIBRARY, both).result.startswith("6 months before the paper (2026-04-02)")


def test_a_prediction_says_so(both):
    numbers = that_says("13.0 s", both).numbers
    assert numbers and all("predicted, not measured" in number for number in numbers.values())


def test_the_seconds_of_table_1_and_figure_4_are_as_many_passes(both):
    headline = that_says("13.0 s", both)
    said = re.search(r"are (\d+) to (\d+) passes, which agrees", headline.result)
    low, high = map(float, said.groups())
    counts = [float(re.search(r"about (\d+) passes", n)[1]) for n in headline.numbers.values()]
    assert all(0.9 * high <= count <= 1.1 * low for count in counts)
    low, high, its = map(float, re.search(SHARES, headline.result).groups())
    assert its == both[0].decisions["qmatmul-72"].primary[0].cell.value
    predicted = [
        v.predicted.value for m in both for v in m.decisions["qmatmul-72"].primary if v.predicted
    ]
    assert [low, high] == [round(min(predicted)), round(max(predicted))]


def test_a_library_of_unknown_version_is_not_todays(recorded):
    replayed = recorded[1].results[REPLAY]
    rows = [
        replace(r, kernel=f"bitsandbytes_cuda{i}") if r.origin == "peer" else r
        for i, r in enumerate(replayed.records)
    ]
    results = recorded[1].results | {REPLAY: replace(replayed, records=tuple(rows))}
    shown = seen(Evidence(results, recorded[1].folder))
    assert LIBRARY not in {one.question for one in findings(shown)}

"""Simulations, with fixed seeds: the rate of wrong verdicts on two equal kernels, the detection of
a planted difference, and the coverage of intervals.
"""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import made
import numpy as np
import pytest

from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import collect
from reprolab.claims.ledger import decide
from reprolab.json_files import ROOT, read_json
from reprolab.results import Metric
from reprolab.stats import CONFIDENCE, FALSE_SHARE, LogMean, log_mean, summarize

PAPER = made.all_sources()[0]
MODELS, BATCHES = PAPER.every("model"), PAPER.every("batch")
TRIALS = 100
WITHIN = 0.0005  # standard deviation of samples within a run, of Table II
BETWEEN = uncertainty.between_runs_percent("NVIDIA H200", "kernel_time", 2000, "branch_tree") / 100
US = 2000.0


def samples(random, us, n=3, between=BETWEEN):
    """The samples of one row in a separate run."""
    run = us * math.exp(random.normal(0, between))
    return [run * math.exp(random.normal(0, WITHIN)) for _ in range(n)]


def replay(times):
    records = []
    for model in MODELS:
        for batch in BATCHES:
            problem = made.forward_pass(model, batch)
            records += [made.record(problem, kernel, [us]) for kernel, us in times.items()]
    return made.results("table2", "replay", records)


def repeated(random, row, times):
    """The row with the samples of another run."""
    metric = Metric("kernel_time", "us", tuple(samples(random, times[row.kernel])))
    return replace(row, metrics={metric.name: metric})


def outcomes(claim, cell, times, seed):
    """The verdicts on one cell, in `runs` runs."""
    random, sources, verdicts = np.random.default_rng(seed), made.with_claim(claim), []
    file = made.read(replay(times))
    for _ in range(TRIALS):
        run = replace(file, records=tuple(repeated(random, r, times) for r in file.records))
        (d,) = decide(collect([run]), sources)
        verdicts.append(d.verdicts[cell].verdict)
    return verdicts


EQUAL = {"branch_tree": US, "shared_lut": US, "shared_lut_cooperative": US, "global_lut": US}


@pytest.mark.parametrize("claim", ["single-thread-fill", "shared-memory-makes-it"])
def test_equal_kernels_are_neither_slower_nor_faster_in_24_places(claim):
    verdicts = outcomes(claim, 0, EQUAL, 1)
    assert verdicts.count("undecided") >= (1 - FALSE_SHARE) * TRIALS


@pytest.mark.parametrize(("percent", "verdict"), [(3, "reproduced"), (-3, "not_reproduced")])
def test_a_planted_3_percent_is_found_in_24_places(percent, verdict):
    planted = EQUAL | {"global_lut": US * (1 + percent / 100)}
    assert set(outcomes("shared-memory-makes-it", 0, planted, 2)) == {verdict}


@pytest.mark.parametrize("claim", ["consistent", "batch-invariant"])
def test_equal_gains_and_times_are_alike(claim):
    assert set(outcomes(claim, 0, EQUAL | {"branch_tree": 2 * US}, 3)) == {"reproduced"}


def test_equal_kernels_have_no_gain():
    """At its bound of 1, a gain is neither confirmed nor refuted."""
    verdicts = outcomes("kernel-speedup", 0, EQUAL, 4)
    assert set(verdicts) == {"not_reproduced"}  # far below 2.1 x
    wrong = sum(cell_of_equal(np.random.default_rng(seed), 24) != 0 for seed in range(300))
    assert wrong <= FALSE_SHARE * 300


def cell_of_equal(random, cells, n=3, us=US):
    """-1, 0 or 1: the one of two equal kernels that appears slower in any of the cells."""
    for _ in range(cells):
        a, b = (log_mean(samples(random, us, n)).with_part(100 * BETWEEN) for _ in range(2))
        deciding = a.over(b).ratio.deciding(cells)
        if deciding.low > 1 or deciding.high < 1:
            return 1 if deciding.low > 1 else -1
    return 0


def test_a_cell_holds_by_itself_and_fails_among_all():
    """All cells have to hold, and one that fails decides: its interval is the wider one."""
    ratio = LogMean(0.0, ((0.01**2, math.inf),)).ratio
    ends = zip(ratio.deciding().interval, ratio.deciding(24).interval, strict=True)
    below, above = (sum(pair) / 2 for pair in ends)  # inside the wider interval alone
    sides = (rules.side_above, rules.side_below)
    verdicts = [side(ratio, end, 24) for end in (below, above) for side in sides]
    assert verdicts == ["reproduced", "undecided", "undecided", "reproduced"]
    one = LogMean(math.log(below), ratio.log.parts).ratio
    assert rules.above_one([one], 1) == "not_reproduced"
    assert rules.above_one([one], 24) == "undecided"
    case = SimpleNamespace(family_size=24, comparisons=lambda *names: [one])
    verdict = rules.slower_in_every_cell(case, metric="kernel_time", slow="a", fast="b")
    assert verdict.verdict == "undecided" and "faster in 0" in verdict.reason


def test_the_ends_of_many_are_as_far_apart_as_the_most_different_of_all_pairs():
    case = SimpleNamespace(tolerance_percent=0, family_size=1)
    values = [LogMean(0.038 * i / 23, ((0.01**2 / 2, math.inf),)) for i in range(24)]
    for some, verdict in ((values, "undecided"), (values[::23], "not_reproduced")):
        assert rules.spread(case, some, "a time", "us").verdict == verdict


def test_equal_kernels_on_different_hosts_are_undecided():
    """Eager generations of a model whose steps wait for the host."""
    host = uncertainty.host_spread(3e6)
    random, wrong = np.random.default_rng(5), 0
    for _ in range(1000):
        apart = random.normal(0, host.gain_percent / 100)
        ratio = log_mean([math.exp(apart)] * 2).with_part(host.gain_percent, host.freedom).ratio
        deciding = ratio.deciding(1)
        wrong += deciding.low > 1 or deciding.high < 1
    assert wrong <= FALSE_SHARE * 1000


def coverage(n, trials=4000):
    """The rate at which the interval of a ratio covers the true one."""
    random, covered = np.random.default_rng(6), 0
    for _ in range(trials):
        a, b = (log_mean(samples(random, US, n)).with_part(100 * BETWEEN) for _ in range(2))
        ratio = a.over(b).ratio
        covered += ratio.low <= 1 <= ratio.high
    return covered / trials


@pytest.mark.parametrize("n", [2, 3, 5, 21])
def test_intervals_cover_as_often_as_the_page_says(n):
    share = coverage(n)
    assert share >= CONFIDENCE - 0.01
    text = (ROOT / "docs/verdicts.md").read_text()
    (row,) = re.findall(rf"^\| {n} samples \|(.*)\|$", text, re.MULTILINE)
    assert f"{100 * share:.0f} %" in row


def test_the_time_of_eager_generations_alone_is_the_hosts():
    cases = [("eager", "wall_time"), ("graph", "wall_time"), ("eager", "kernel_time")]
    of_host = [uncertainty.is_of_host({"way": way}, metric) for way, metric in cases]
    assert of_host == [True, False, False]


def test_an_eager_gain_and_an_eager_time_have_other_parts_of_the_host():
    wall_time = Metric("wall_time", "us", (3e6, 3e6))
    facts = {"problem": {"way": "eager"}, "metrics": {"wall_time": wall_time}}
    row = SimpleNamespace(**facts, summary_of=lambda name: summarize(wall_time.samples))
    gain = uncertainty.ratio(row, row, "wall_time").log
    time = uncertainty.log_baseline(row, "wall_time")
    host = uncertainty.host_spread(3e6)
    assert gain.parts[-1] == ((host.gain_percent / 100) ** 2, host.freedom)
    assert time.parts[-1] == ((host.baseline_percent / 100) ** 2, host.freedom)


def test_hosts_differ_as_recorded():
    """The gains of models up to 32B differ by far more between hosts than Llama's."""
    cells = read_json(uncertainty.HOST_TO_HOST)["cells"]
    small, large = uncertainty.host_classes()
    assert (small.freedom, large.freedom) == (18, 9) and len(cells) == 26
    assert 10 < small.gain_percent < 15 and 0.5 < large.gain_percent < 2
    assert max(small.baseline_percent, large.baseline_percent) < 3  # the GPU's own work

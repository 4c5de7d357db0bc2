"""`make compare`: planted differences are named, equal runs are not, and a wrong kernel fails."""

import copy
import math

import made
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from reprolab import compare
from reprolab.json_files import ROOT
from reprolab.results import frame_of
from reprolab.run_to_run import PROBLEM, SpreadClass, recorded, recorded_budgets, spread_of
from reprolab.stats import LogMean, log_mean

KERNELS = {"branch_tree": [100.0, 101.0, 102.0, 100.5], "shared_lut": [50.0, 50.2, 50.1, 49.9]}
# Their code is that of all recorded runs.
EQUAL = ("branch_tree", "constant_lut", "global_lut", "shared_lut", "bitsandbytes_0.50.2")


@pytest.fixture
def run(tmp_path, write, capsys):
    """The command's status, the rows of its CSV by kernel, and what it prints."""

    def call(a, b, *options):
        sides = [write(f"{name}/replay.json", file) for name, file in (("a", a), ("b", b))]
        words = [f"--a={sides[0].parent}", f"--b={sides[1].parent}", f"--output={tmp_path}/out"]
        status = compare.command_line.run(compare.parser(), [*words, *options])
        rows = pd.read_csv(tmp_path / "out/compare.csv").set_index("kernel")
        return status, rows, capsys.readouterr().out

    return call


def frame(samples, **more):
    row = {"experiment": "e", "pass": "p", "problem_family": "nf4", "metric": "kernel_time"}
    row |= {"bytes_moved": 1, "gpu": "G", "unit": "us", "outcome": "bit_exact", "reason": ""}
    row |= {"origin": "", "n": len(samples[0]), "median": [np.median(s) for s in samples]}
    return pd.DataFrame(row | {"samples": samples} | more)


def other(file, **changes):
    """The file of a later run, with the samples of kernels scaled."""
    file = copy.deepcopy(file)
    file["provenance"]["started"] = "2026-11-21T08:00:00Z"
    for row in file["records"]:
        for metric in row["metrics"]:
            metric["samples"] = [changes.get(row["kernel"], 1) * s for s in metric["samples"]]
    return file


def test_a_slower_kernel_is_named_and_fails_a_threshold(run):
    a = made.replay(KERNELS)
    b = other(a, shared_lut=1.5)
    status, rows, text = run(a, b)
    assert status == 0 and rows.verdict.to_dict()["shared_lut"] == "slower"
    assert rows.ratio["shared_lut"] == pytest.approx(1.5) and "slower: 1" in text
    assert rows.low["shared_lut"] < 1.5 < rows.high["shared_lut"]
    assert rows.verdict["branch_tree"] in ("no difference", "undecided")
    assert run(a, b, "--threshold=1")[0] == 1
    assert run(b, a, "--threshold=1", "--allow=undecided")[0] == 0  # faster
    assert run(a, b, "--threshold=80", "--allow=undecided")[0] == 0


def test_a_kernel_that_became_wrong_always_fails(run):
    a = made.replay(KERNELS)
    b = other(a)
    made.fail(b["records"][1], "mismatch")
    status, rows, text = run(a, b)
    assert status == 1 and rows.verdict["shared_lut"] == "wrong" and "FAILED: " in text
    assert "1 of 8 weights differ" in text
    assert "wrong" not in run(b, a)[1].verdict.tolist()
    made.fail(b["records"][0], "mismatch")
    assert set(run(a, b)[1].verdict) == {"wrong"}  # of a run without times, too


def test_a_lost_row_fails_unless_allowed(run):
    a = made.replay(KERNELS)
    b = other(a)
    b["records"].pop()
    allow = "--allow=undecided"
    assert run(a, b)[1].verdict["shared_lut"] == "lost"
    assert run(a, b, "--threshold=1", allow)[0] == 1
    assert run(a, b, "--threshold=1", f"{allow},lost")[0] == 0
    assert len(run(b, a)[1]) == 1  # an added row is none


def test_a_run_does_not_differ_from_itself(run):
    a = made.replay(KERNELS | {"once": [3.0]})
    assert set(run(a, a, "--threshold=1")[1].verdict) == {"no difference"}


@pytest.mark.parametrize("us", [1e-6, 1e8])
def test_samples_of_any_length(run, us):
    a = made.replay({"branch_tree": [us, 1.1 * us, us], "once": [us]})
    _, rows, _ = run(a, other(a, branch_tree=1e6))
    assert rows.verdict.to_dict() == {"branch_tree": "slower", "once": "undecided"}
    assert rows.why["once"] == "a single sample"
    frames = [frame_of(made.repetitions("h200")["data/repetitions/h200/1"]) for _ in range(2)]
    for frame, samples in zip(frames, [(1e-6, 2e-6), (1e15, 2e15)], strict=True):
        frame["samples"] = [samples] * len(frame)
    assert set(compare.compare(*frames, 1, recorded_budgets()).verdict) == {"slower"}


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        ("--a=nowhere --b=docs", "nowhere"),
        ("--a=docs --b=docs", "no results"),
        (
            "--a=data/recorded/h200/counters/nf4_counters.json.xz --b=data/recorded/h200/table2",
            "row",
        ),
        ("--a=data/recorded/h200/table2 --b=data/recorded/h200/puzzle", "row"),
        ("--a=docs --b=docs --threshold=nan", "'nan'"),
        ("--a=docs --b=docs --allow=wrong", "'wrong'"),
    ],
)
def test_bad_input_is_one_line(words, noun, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = [*words.split(), f"--output={tmp_path / 'out'}"]
    assert compare.command_line.run(compare.parser(), words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and noun in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_only_repeated_kernels_say_what_runs_share():
    for logs, repeated, of_runs in (([0.05, 0.05, 0.0], 2, []), ([0.04] * 5, 3, [0, 1, 2])):
        beside = [0.001 if i < repeated else math.inf for i in range(len(logs))]
        rows = {"gpu_a": "G", "value": logs, "within": 1e-6, "alone": 0.05, "beside": beside}
        rows = pd.DataFrame(dict.fromkeys(PROBLEM, "one") | rows)
        assert compare.shared(rows).dropna().index.tolist() == of_runs


def test_equal_runs_are_named_in_at_most_the_stated_share():
    """2,000 rows of two runs of one normal distribution, with the recorded kind of spread."""
    random, within, between = np.random.default_rng(5), 0.002, 0.003
    budgets = {"G": {"kernel_time": [SpreadClass(0, 100 * between, 1)]}}
    true = np.where(np.arange(2000) < 100, 0.05, 0.0)  # of B

    def side(shift):
        means = shift + random.normal(0, between, 2000)
        rows = np.exp(means[:, None] + random.normal(0, within, (2000, 5)))
        names = {"kernel": "k", "problem": [str(i) for i in range(2000)], "started": shift.sum()}
        return frame([tuple(row) for row in rows], **names)

    rows = compare.compare(side(0 * true), side(true), 1, budgets)
    named = rows.verdict.isin(["slower", "faster"]).to_numpy()
    assert named[:100].sum() > 95
    assert named[100:].sum() <= 0.03 * named.sum()  # on average at most 1 %


@pytest.mark.parametrize("gpu", recorded())
def test_a_planted_5_percent_is_named_and_equal_runs_are_not(gpu):
    """In two recorded runs: of a product, whose time differs by 2 % from run to run, one row; of a
    kernel all rows. The other kernels' rows are no kernel's.
    """
    of = recorded()[gpu]
    found = made.repetitions(of["runs"][0].split("/")[2])
    a, b = (compare.times(frame_of(found[of["runs"][i]])) for i in (0, -1))
    a, b = (rows[rows.kernel.isin(EQUAL)].reset_index(drop=True) for rows in (a, b))
    is_row = (b.metric == "product_time") & (b.kernel == "shared_lut")
    for planted in ([], is_row[is_row].index[:1], b.index[b.kernel == "branch_tree"]):
        slower = b.copy()
        for row in planted:
            slower.at[row, "samples"] = tuple(1.05 * s for s in b.at[row, "samples"])
        rows = compare.compare(a, slower, 1, recorded_budgets()).set_index(compare.KEY)
        rows = rows[rows.verdict != "lost"]
        named = rows.index[rows.verdict.isin(["slower", "faster"])]
        wanted = rows.index.intersection(pd.MultiIndex.from_frame(b.loc[planted, compare.KEY]))
        assert set(named) <= set(wanted) and len(named) >= 0.95 * len(wanted)


def test_what_no_other_run_shows_is_not_the_runs():
    """All kernels of a problem are 5 % slower: no row is without a difference."""
    budgets = {"G": {"kernel_time": [SpreadClass(0, 1.0, 9, beside=dict.fromkeys("abc", 0.1))]}}

    def side(started, times):
        samples = [(10.0 * t, 10.01 * t, 10.02 * t) for t in times]
        return frame(samples, kernel=["a", "b", "c"], problem="1", started=started)

    def verdicts(*factors):
        return compare.compare(side(0, (1, 1, 1)), side(1, factors), 1, budgets).verdict.tolist()

    assert verdicts(1.02, 1.02, 1.07) == ["undecided", "undecided", "slower"]
    assert verdicts(1.00, 1.07, 1.07) == ["undecided", "slower", "slower"]
    assert verdicts(1.15, 1.15, 1.15) == ["slower"] * 3
    assert verdicts(1.02, 1.02, 1.02) == ["undecided"] * 3


def test_the_mean_is_welchs_where_runs_do_not_vary():
    a, b = [10.0, 10.2, 9.9, 10.1], [11.0, 11.5, 10.9]
    ours = log_mean(b).over(log_mean(a))
    theirs = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    ends = theirs.confidence_interval()
    assert ours.ratio.interval == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    assert ours.freedom == pytest.approx(theirs.df)
    wide = LogMean(ours.value, ours.parts).with_part(5.0)
    assert wide.error == pytest.approx(math.hypot(ours.error, 0.05))


@pytest.mark.parametrize("gpu", recorded())
def test_the_recorded_spread_is_that_of_the_repetitions(gpu):
    of = recorded()[gpu]
    found = made.repetitions(of["runs"][0].split("/")[2])
    runs = [compare.times(frame_of(found[place])) for place in of["runs"]]
    assert spread_of(runs, of["kernels"]) == recorded_budgets()[gpu]

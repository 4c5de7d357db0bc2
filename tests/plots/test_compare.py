"""Two runs side by side: edited copies of the recorded ones, and synthetic runs."""

import copy
import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import combinations

import made
import numpy as np
import pytest
from edited import RECORDED, scale
from scipy import stats

from plots.cli import main
from plots.compare import compared, figure_of
from plots.figures import PAGE, figure_style
from plots.sides import load_side
from reprolab.comparison import (
    FASTER,
    SAME,
    SLOWER,
    UNDECIDED,
    budget_of,
    compare,
    times,
)
from reprolab.json_files import ROOT
from reprolab.results import Metric
from reprolab.run_to_run import Budget, SpreadClass, recorded_budgets

GPU = "NVIDIA H200"
KERNEL, PROBLEM = "shared_lut", "qwen3-32b/batch2/fp16/b64"
OLDER = ROOT / "data/repetitions/h200/2"


@pytest.fixture
def two(edited):
    """A and B, equal until one is changed."""
    return edited("table2", "a"), edited("table2", "b")


@pytest.fixture
def shown(tmp_path, capsys, monkeypatch):
    """`plots compare` of two edited runs: status, output, and the CSV's rows of kernel_time by
    kernel and problem.
    """
    monkeypatch.setattr("plots.compare.draw.encode", lambda figure, kind: b"")  # takes seconds

    def run(a, b, *options):
        arguments = ["compare", "--a", str(a.write()), "--b", str(b.write())]
        status = main([*arguments, "--output", str(tmp_path / "out"), *options])
        lines = (tmp_path / "out/compare.csv").read_text().splitlines()
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        by_place = {(r["kernel"], r["problem"]): r for r in rows if r["metric"] == "kernel_time"}
        return status, " ".join(capsys.readouterr().out.split()), by_place

    return run


def test_a_planted_slow_down_is_found_with_its_interval(two, shown):
    a, b = two
    scale(b.rows("replay", KERNEL), 1.02)
    status, text, rows = shown(a, b, "--threshold", "1")
    row = rows[KERNEL, PROBLEM]
    assert (status, row["verdict"], row["ratio"]) == (1, SLOWER, "1.02")
    assert 1.01 < float(row["ratio_low"]) < 1.02 < float(row["ratio_high"]) < 1.03
    wrong = {kernel for (kernel, _), r in rows.items() if r["verdict"] in (SLOWER, FASTER)}
    assert wrong == {KERNEL}
    assert f"slower: {KERNEL} on {PROBLEM}, kernel_time: B / A 1.020 (1.0" in text
    assert text.count("), same machine code") == 2
    allow = ("--allow", "undecided")
    status, _, rows = shown(b, a, "--threshold", "1", *allow)  # the other way round it is a gain
    assert (status, rows[KERNEL, PROBLEM]["verdict"]) == (0, FASTER)
    status, _, rows = shown(a, b)  # only a threshold that is given makes it fail
    assert (status, rows[KERNEL, PROBLEM]["verdict"]) == (0, SLOWER)
    status, text, rows = shown(a, b, "--threshold", "3", "--verbose", *allow)
    assert (status, rows[KERNEL, PROBLEM]["verdict"]) == (0, SAME)
    ends = [f"{float(row[name]):.3f}" for name in ("ratio", "ratio_low", "ratio_high")]
    assert f"{ends[0]} ({ends[1]}-{ends[2]}) {SAME} same" in text and "Welch's t" in text
    assert "%: 0 slower, 0 faster, " in text and "Only in" not in text


def test_different_gpus_are_compared_over_their_copies(two, shown):
    a, b = two
    b.provenance(gpu={"name": "NVIDIA A100"})
    scale(b.rows(), 2)
    scale(b.rows("shapes", KERNEL), 1.5)
    _, text, rows = shown(a, b, "--verbose")
    small, large = "1024x5120/fp16/b64", "25600x5120/fp16/b64"
    scale(b.rows("shapes", "copy", small), 2)  # that of the other problem is another's
    assert (rows[KERNEL, large]["ratio"], rows[KERNEL, large]["verdict"]) == ("1.5", SLOWER)
    assert rows["branch_tree", large]["ratio"] == rows["branch_tree", PROBLEM]["ratio"] == "1"
    assert ("copy", large) not in rows
    assert "different GPUs" in text
    assert "NVIDIA H200, driver" in text and "NVIDIA A100, driver" in text
    assert rows["branch_tree", large]["same_code"] == "1"
    _, _, rows = shown(a, b)
    assert rows["branch_tree", small]["ratio"] == "0.5"
    assert rows["branch_tree", large]["ratio"] == rows["branch_tree", PROBLEM]["ratio"] == "1"
    b.drop(lambda row: row["kernel"] == "copy")
    _, text, rows = shown(a, b, "--verbose")
    assert {(r["ratio"], r["verdict"]) for r in rows.values()} == {("", UNDECIDED)}
    assert "no copy was measured" in text


def test_rows_that_one_side_lacks_are_counted(two, shown):
    a, b = two
    b.drop(lambda row: row["kernel"] in (KERNEL, "streaming"))
    row = b.row("replay", "branch_tree", PROBLEM)
    row["bytes"]["read"] += 1  # other work, such as fewer layers
    failed = b.row("replay", "global_lut", PROBLEM)
    failed |= {"outcome": "mismatch", "mismatches": 1, "metrics": [], "launch": None}
    b.row("shapes", "global_lut", "1024*")["outcome"] = "not_verified"
    status, text, rows = shown(a, b)
    assert status == 1 and "wrong in B: global_lut (1)." in text
    kernels = f"{KERNEL} (6), streaming (6), branch_tree (2), global_lut (1)"
    assert re.search(rf"Only in A: 15 rows, \D*{re.escape(kernels)}\.", text)
    assert re.search(r"Only in B: 2 rows, \D*branch_tree \(2\)\.", text)
    assert not {(KERNEL, PROBLEM), ("branch_tree", PROBLEM), ("global_lut", PROBLEM)} & rows.keys()


def test_whether_the_code_is_the_same(two, shown):
    a, b = two
    code = b.row("replay", KERNEL, PROBLEM)["code"]
    code["sha256"] = dict.fromkeys(code["sha256"], "0" * 64)
    b.row("replay", "global_lut", PROBLEM)["code"] = None
    b.row("replay", "constant_lut", PROBLEM)["code"]["target"] = "sm_80"
    _, _, rows = shown(a, b)
    kernels = (KERNEL, "global_lut", "constant_lut", "branch_tree")
    assert [rows[kernel, PROBLEM]["same_code"] for kernel in kernels] == ["0", "", "", "1"]


def test_without_an_interval_a_row_is_undecided(two, shown):
    a, b = two
    for metric in b.row("replay", KERNEL, PROBLEM)["metrics"]:
        metric["samples"] = [1.0]
    for run in two:
        for metric in run.row("replay", "global_lut", PROBLEM)["metrics"]:
            metric["name"] = metric["name"].replace("product", "wall")
    _, text, rows = shown(a, b, "--verbose")
    assert rows[KERNEL, PROBLEM]["verdict"] == UNDECIDED
    assert "a single sample" in text
    assert "no repetitions of wall_time" in text


def test_each_sides_machine_is_named_once_and_a_recorded_run_as_one(edited, shown):
    a, b = edited("table2", "data/recorded/h200/x"), edited("table2")
    for side in (a, b):
        side.provenance(started="2026-11-23T01:02:03Z")
    b.provenance(clocks={"policy": "locked", "locked_mhz": 1410.0}, commit="1" * 40, dirty=True)
    b.files["shapes"]["provenance"]["started"] = "2027-01-02T03:04:05Z"
    _, text, _ = shown(a, b)
    assert text.count("not locked") == text.count("locked at 1410 MHz") == 1
    assert "2026-11-23 to 2027-01-02; commit 111111111+dirty" in text
    assert " A: Recorded run of NVIDIA H200, 2026-11-23. " in text
    a.files["shapes"]["provenance"]["started"] = "2027-01-02T03:04:05Z"
    _, text, _ = shown(a, b)
    assert "NVIDIA H200, 2026-11-23 to 2027-01-02. " in text


@pytest.mark.parametrize(
    ("b", "options", "noun"),
    [
        ("nowhere", (), "folder"),
        ("nothing:data", (), "commit"),
        ("--output=x:data", (), "commit"),
        ("docs", (), "times"),
        ("data/recorded/h200/counters/sass.json.xz", (), "/sass.json"),
        ("data/counters.json", (), "schema"),
        ("data/recorded/h200/puzzle", (), "row"),
        ("docs", ("--threshold", "one"), "'one'"),
        ("docs", ("--threshold", "nan"), "'nan'"),
    ],
)
def test_bad_input_is_one_line(b, options, noun, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    a = str(RECORDED / "ladder/nested.json.xz")
    arguments = ["compare", f"--a={a}", f"--b={b}", f"--output={tmp_path / 'out'}", *options]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and noun in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_two_recorded_runs(capsys, tmp_path, monkeypatch):
    """Between them a mistake in packed_512 was corrected, and the baseline did not change."""
    monkeypatch.setattr("plots.compare.draw.encode", lambda figure, kind: b"")  # takes seconds
    b = str(RECORDED / "table2")
    assert main(["compare", f"--a={OLDER}", f"--b={b}", f"--output={tmp_path / 'out'}"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "faster: packed_512 on " in text and f"A: {OLDER}: NVIDIA H200" in text
    old, new = (times(load_side(side).files) for side in (str(OLDER), b))
    pairs = [p for p in compare(old, new, recorded_budgets(), 1) if p.key.kernel == "branch_tree"]
    assert len(pairs) > 60 and not {p.verdict for p in pairs} & {SLOWER, FASTER}


def test_a_run_in_a_commit(edited, two, tmp_path, monkeypatch, refused):
    run = two[0].write()
    repository = tmp_path / "repository"
    shutil.copytree(run, repository / "runs")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "all"]):
        user = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *user, *words], cwd=repository, check=True)
    for name in ("plots.sides.ROOT", "reprolab.sources.ROOT"):
        monkeypatch.setattr(name, repository)
    wanted = times(load_side(str(run)).files).keys()
    assert times(load_side("HEAD:runs").files).keys() == wanted
    for source in ("HEAD:nowhere", f"HEAD:{repository}/runs"):
        assert "that commit" in refused(load_side, source)
    (repository / "runs/replay.json").write_text(json.dumps({"schema": "reprolab-results/1"}))
    subprocess.run(["git", *user, "commit", "-qam", "older"], cwd=repository, check=True)
    assert refused(load_side, "HEAD:runs").startswith("HEAD:runs/replay.json: schema ")


def test_the_newest_of_several_files_of_a_pass_is_compared(write, tmp_path):
    newest, older = "2026-11-20T09:00:00Z", "2026-11-20T08:00:00Z"
    for i, started in enumerate((newest, older)):
        origin = {"provenance": made.provenance(started=started)}
        write(f"a/{i}/replay.json", made.replay({"branch_tree": [10.0, 11.0]}) | origin)
    (file,) = load_side(str(tmp_path / "a")).files
    assert file.provenance["started"] == newest


def test_a_figure_of_many_kernels_fits_a_page(two):
    for run in two:
        for row in run.rows("shapes", "*", "1024*"):
            for i in range(5):
                new = {"kernel": f"{row['kernel']}_{i}", "key": f"{row['key']}_{i}"}
                run.files["shapes"]["records"].append(copy.deepcopy(row) | new)
    scale(two[1].rows("shapes", "branch_tree_3"), 1.5)
    comparison = compared(*(load_side(str(run.write())) for run in two), 1)
    with figure_style():
        figure = figure_of(comparison)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert figure.get_size_inches()[1] <= PAGE and len(labels) == 40
    assert labels[0].split()[0] == "branch_tree_3"
    (slower,) = [x for x in axes.lines if x.get_gid() == SLOWER]
    assert list(slower.get_xydata()[0]) == [pytest.approx(1.5), 0]


def test_the_interval_is_welchs_where_runs_do_not_differ(two):
    a, b = (
        {k: t for k, t in side.items() if t.record.origin != "ceiling"} for side in times_of(two)
    )
    for i, key in enumerate(b):
        count = len(b[key].metric.samples) + i % 2  # the two sides need not have equally many
        samples = tuple(np.random.default_rng(i).lognormal(5, 0.01, count))
        b[key] = replace(b[key], metric=replace(b[key].metric, samples=samples))
    none = {kind: [SpreadClass(0, 0, 1)] for kind in recorded_budgets()[GPU].spread}
    for p in compare(a, b, {GPU: Budget(none, {})}, 1):
        logs = [np.log(side.metric.samples) for side in (p.b, p.a)]
        welch = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
        assert p.mean.ratio.interval == pytest.approx(np.exp(welch))


def test_a_verdict_needs_more_among_many_rows(two):
    """A verdict needs a larger difference if more rows are compared."""
    scale(two[1].rows("replay", "branch_tree", PROBLEM), 1.0168)
    a, b = times_of(two)
    (key,) = (k for k in a if k[2:5] == (PROBLEM, "branch_tree", "kernel_time"))
    (alone,) = compare({key: a[key]}, b, recorded_budgets(), 1)
    among = next(p for p in compare(a, b, recorded_budgets(), 1) if p.key == key)
    assert (alone.verdict, among.verdict) == (SLOWER, UNDECIDED)
    assert alone.mean == among.mean


def times_of(runs):
    return [times(load_side(str(run.write())).files) for run in runs]


def made_up(run, seed, slower=()):
    """A repetition of the run: each row with its own deviation, as recorded, and three samples."""
    rng, spread = np.random.default_rng(seed), recorded_budgets()[GPU].spread
    repeated = {}
    for key, time in run.items():
        usual = [c.percent for c in spread[time.kind] if c.from_us <= time.us][-1] / 100
        middle = time.mean + rng.normal(0, usual) + 0.02 * 0.99 * (key.kernel in slower)
        samples = tuple(np.exp(middle + rng.normal(0, 0.0007, 3)))
        repeated[key] = replace(time, metric=Metric(key.metric, "us", samples))
    return repeated


def test_on_made_up_runs_verdicts_are_right_and_intervals_hold(two):
    """Runs that differ like the recorded ones: below 1 % of unchanged rows are called slower or
    faster, 95 of 100 intervals cover the true ratio, and most changes of 2 % are detected.
    """
    run = times(load_side(str(two[0].write())).files)
    budgets = recorded_budgets()
    runs = [made_up(run, seed) for seed in range(12)]
    same = [p for a, b in combinations(runs, 2) for p in compare(a, b, budgets, 1)]
    wrong = [p for p in same if p.verdict in (SLOWER, FASTER)]
    assert len(wrong) < 0.01 * len(same)
    holds = [p for p in same if p.mean.ratio.low <= 1 <= p.mean.ratio.high]
    assert 0.93 < len(holds) / len(same) < 0.97
    slowed = []
    for seed, other in enumerate(runs[:6]):
        pairs = compare(other, made_up(run, 100 + seed, (KERNEL,)), budgets, 1)
        assert {p.key.kernel for p in pairs if p.verdict in (SLOWER, FASTER)} <= {KERNEL}
        slowed += [
            p for p in pairs if p.key[1:5:2] == ("replay", KERNEL) and p.a.kind == "kernel_time"
        ]
    assert sum(p.verdict == SLOWER for p in slowed) > len(slowed) / 2
    ratios = [p.mean.ratio for p in slowed if p.verdict == SLOWER]
    assert sum(not r.low < 1.02 < r.high for r in ratios) <= 0.1 * len(ratios)
    estimated = budget_of(runs).spread
    for kind, classes in budgets[GPU].spread.items():
        for c in estimated[kind]:
            usual = [x.percent for x in classes if x.from_us <= c.from_us][-1]
            assert usual / 1.5 < c.percent < usual * 1.5

"""How often intervals cover between recorded repetitions of one kernel, which do not truly differ:
in the runs that the spread is estimated from, in others, and by simulation.
"""

import re
from functools import cache
from itertools import combinations

import made
import numpy as np
import pytest

from reprolab.claims import uncertainty
from reprolab.json_files import ROOT
from reprolab.results import KERNEL_TIME, frame_of
from reprolab.run_to_run import spread_of
from reprolab.stats import FALSE_SHARE, log_mean

PAGE = (ROOT / "docs/verdicts.md").read_text()
RUNS = {"h100": 20, "h200": 6}
UNITS = {"h100": lambda run: (run - 1) // 5, "h200": lambda run: run}  # GPUs that runs are of
KERNELS = {"h100": ("branch_tree", "shared_lut", "streaming")}
KERNELS["h200"] = ("branch_tree", "constant_lut", "global_lut", "shared_lut")
CASES = [(gpu, kernel) for gpu in RUNS for kernel in KERNELS[gpu]]
CLASS_US = 1000  # all these forward passes are longer


@cache
def repeated(gpu):
    """By kernel, problem and run: the mean of the logarithms of the passes."""
    logs = {}
    for run in range(1, RUNS[gpu] + 1):
        for results in made.repetitions(gpu)[f"data/repetitions/{gpu}/{run}"]:
            for row in results.records if results.pass_name == "replay" else ():
                if row.kernel in KERNELS[gpu]:
                    of_run = logs.setdefault((row.kernel, row.problem["name"]), {})
                    of_run[run] = row.metrics[KERNEL_TIME].log
    return logs


def places(gpu, kernel):
    return [runs for (name, _), runs in repeated(gpu).items() if name == kernel]


@cache
def replays(gpu, run):
    files = made.repetitions(gpu)[f"data/repetitions/{gpu}/{run}"]
    rows = frame_of(file for file in files if file.pass_name == "replay")
    return rows[rows.metric == KERNEL_TIME]


def spread(gpu, kernel, runs):
    (long,) = spread_of([replays(gpu, run) for run in runs], "|".join(KERNELS[gpu]))[KERNEL_TIME]
    return long.at_worst(kernel)[0]


def covered(gpu, kernel, runs, percent):
    """The percentages of pairs of runs whose 95 and 99 % intervals cover no difference."""
    found = []
    for logs in places(gpu, kernel):
        for pair in combinations([run for run in runs if run in logs], 2):
            a, b = (logs[run].with_part(percent) for run in pair)
            both = [a.over(b).interval(level) for level in (0.95, 0.99)]
            found.append([ratio.low < 1 < ratio.high for ratio in both])
    return 100 * np.mean(found, axis=0)


def out_of_sample(gpu, kernel):
    """The same, of half of the GPUs, with the spread of the other half; over all halves."""
    runs = range(1, RUNS[gpu] + 1)
    units = sorted({UNITS[gpu](run) for run in runs})
    halves = []
    for half in combinations(units, len(units) // 2):
        fitted, others = (
            [r for r in runs if (UNITS[gpu](r) in half) == of] for of in (True, False)
        )
        halves.append(covered(gpu, kernel, others, spread(gpu, kernel, fitted)))
    return np.mean(halves, axis=0)


@pytest.mark.parametrize(("gpu", "kernel"), CASES)
def test_intervals_cover_in_and_out_of_sample_as_the_page_says(gpu, kernel):
    """False verdicts on equal kernels are what 99 % intervals leave uncovered: below 1 %."""
    recorded = uncertainty.between_runs(made.GPU_NAMES[gpu], KERNEL_TIME, CLASS_US, kernel)[0]
    inside = covered(gpu, kernel, range(1, RUNS[gpu] + 1), recorded)
    outside = out_of_sample(gpu, kernel)
    assert inside[0] >= 95 and inside[1] >= 99 and outside[1] >= 100 * (1 - FALSE_SHARE)
    shown = [f"{x:.1f}" for x in (recorded, *inside, *outside)]
    (row,) = re.findall(rf"^\| {gpu.upper()} \| `{kernel}` \|(.*)\|$", PAGE, re.MULTILINE)
    assert [cell.strip(" %") for cell in row.split("|")] == shown


@pytest.mark.parametrize("n", [2, 3, 21])
def test_intervals_of_few_samples_cover_95_percent(n):
    """Runs that differ by as much as the samples of one."""
    random, hits = np.random.default_rng(6), 0
    for _ in range(2000):
        rows = [log_mean(np.exp(random.normal(0, 0.01) + random.normal(0, 0.01, n))) for _ in "ab"]
        a, b = (row.with_part(1.0) for row in rows)
        ratio = a.over(b).ratio
        hits += ratio.low <= 1 <= ratio.high
    assert hits >= 0.94 * 2000


def test_what_hosts_differ_by_is_of_nine_and_three_degrees_of_freedom():
    small, large = (uncertainty.host_spread(weights) for weights in (31e9, 69e9))
    assert (small.freedom, large.freedom) == (9, 3)
    for of in (small, large):
        assert f"{of.gain_percent:.1f} % ({of.freedom} degrees of freedom)" in PAGE

"""`make compare`: the times of one run against those of another (docs/comparing-runs.md)."""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from reprolab import command_line, run_to_run
from reprolab.errors import WRONG_OUTPUT, InputError
from reprolab.output import write_files
from reprolab.results import VERIFIED, WRONG, age, frame_of, result_files
from reprolab.run_to_run import kind_of, recorded_budgets
from reprolab.stats import CONFIDENCE, FALSE_SHARE, log_mean

ROW = ["experiment", "pass", "problem", "kernel"]
KEY = [*ROW, "metric", "bytes_moved"]  # other bytes are other work
SLOWER, FASTER, SAME, UNDECIDED = "slower", "faster", "no difference", "undecided"
LOST, WRONG_ROWS = "lost", "wrong"
ALLOWED = (UNDECIDED, LOST)  # what a user may ask not to fail
SHOWN = 20  # rows of each verdict
MOST = 2 / 3  # of the kernels on a problem have to agree


def load_side(given: str) -> pd.DataFrame:
    """The rows of a result file, or of a folder of them; of several files of a GPU's pass the
    newest.
    """
    files = sorted(result_files(Path(given)), key=age)
    newest = {(r.gpu, r.experiment, r.pass_name): r for r in files if r.gpu}
    rows = frame_of(newest.values())
    if rows.empty:
        raise InputError(f"{given}: holds no results of a GPU; give a folder such as results")
    return rows


def times(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a time that may be compared."""
    right = rows.outcome.isin(VERIFIED) | (rows.origin == "ceiling")
    return rows[(rows.unit == "us") & (rows.n > 0) & right]


def difference(row: tuple, budgets: dict) -> dict:
    """The logarithm of B / A, its variance within the runs with the degrees of freedom, and the
    standard deviations between runs: alone, and beside other kernels; or why there is none.
    """
    found = [run_to_run.budget_for(budgets, gpu, row.kind) for gpu in (row.gpu_a, row.gpu_b)]
    if min(len(row.samples_a), len(row.samples_b)) < 2:
        return {"why": "a single sample"}
    if None in found:
        return {"why": f"no repetitions of {row.kind}"}
    log = log_mean(row.samples_b).over(log_mean(row.samples_a))
    medians = row.median_a, row.median_b
    of = [run_to_run.in_class(f[row.kind], us) for f, us in zip(found, medians, strict=True)]
    alone = math.hypot(*(c.of(row.kernel) for c in of)) / 100
    beside = math.hypot(*(c.beside.get(row.kernel, math.inf) for c in of)) / 100
    parts = {"value": log.value, "within": log.error**2, "freedom": log.freedom}
    return parts | {"alone": alone, "beside": beside, "why": ""}


def differences(pairs: pd.DataFrame, budgets: dict) -> pd.DataFrame:
    """The same of all rows. Three samples do not tell their variance; those of all problems of
    their kernel do.
    """
    found = [difference(row, budgets) for row in pairs.itertuples()]
    columns = ["value", "within", "freedom", "alone", "beside", "why"]
    rows = pairs.join(pd.DataFrame(found, index=pairs.index, columns=columns))
    kernel = rows.groupby(["gpu_a", "experiment", "pass", "kernel", "metric"])
    rows["within"] = np.maximum(rows.within, kernel.within.transform("mean"))
    rows["freedom"] = kernel.freedom.transform("sum")
    return rows


def shared(rows: pd.DataFrame) -> pd.Series:
    """The median of the repeated kernels on a problem, which is a matter of the runs and not of a
    kernel: where most of them agree, other runs differ by as much, and the row alone says less.
    """
    rows = rows.assign(repeated=rows.value.where(np.isfinite(rows.beside)))
    problem = rows.groupby(["gpu_a", *run_to_run.PROBLEM])
    median = problem.repeated.transform("median")
    is_near = (rows.repeated - median).abs() <= 2 * np.sqrt(rows.within + rows.beside**2)
    near, count = is_near.groupby(problem.ngroup()), problem.repeated.transform("count")
    agree = (near.transform("sum") >= MOST * count) & (count > 2)
    is_of_runs = median.abs() <= 2 * np.sqrt(rows.within + rows.alone**2)
    return median.where(agree & is_of_runs & (rows.beside < rows.alone))


def welch(rows: pd.DataFrame, between: pd.Series) -> tuple[pd.Series, pd.Series]:
    """The standard error with Welch and Satterthwaite's degrees of freedom."""
    variance = rows.within + between**2
    return np.sqrt(variance), rows.freedom * (variance / rows.within) ** 2


def decide(rows: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Ratio with interval, and verdict. Welch's test of each row is whether it is beyond the
    threshold from what kernels share; Benjamini and Hochberg's procedure is over all rows.
    """
    from scipy.stats import false_discovery_control, t

    error, freedom = welch(rows, rows.alone)
    reach, of_runs = error * t.ppf((1 + CONFIDENCE) / 2, freedom), shared(rows)
    far = rows.value.abs() + reach  # the interval's end
    own = rows.value - of_runs.fillna(0)
    error, freedom = welch(rows, rows.beside.where(of_runs.notna(), rows.alone))
    chances = sum(t.sf((own.abs() + sign * margin) / error, freedom) for sign in (-1, 1))
    is_sure = false_discovery_control(np.minimum(chances, 1)) <= FALSE_SHARE
    named = np.where(own > 0, SLOWER, FASTER)
    verdict = np.where(is_sure, named, np.where(far <= margin, SAME, UNDECIDED))
    logs = {"ratio": rows.value, "low": rows.value - reach, "high": rows.value + reach}
    return np.exp(pd.DataFrame(logs | {"shared": of_runs})).assign(verdict=verdict)


def compare(a: pd.DataFrame, b: pd.DataFrame, percent: float, budgets: dict) -> pd.DataFrame:
    """Each row of A with a time: the ratio B / A, its interval and its verdict."""
    key = KEY + ["gpu"] * (max(a.gpu.nunique(), b.gpu.nunique()) > 1)
    pairs = times(a).merge(times(b), on=key, how="left", suffixes=("_a", "_b"), validate="1:1")
    if "gpu" in key:
        pairs["gpu_a"] = pairs["gpu_b"] = pairs.gpu
    origins, families = pairs.origin_a, pairs.problem_family_a
    pairs["kind"] = list(map(kind_of, pairs.metric, origins, families, pairs.kernel))
    lost, pairs["verdict"] = pairs.samples_b.isna(), UNDECIDED
    pairs["ratio"] = (pairs.median_b / pairs.median_a).astype(float)  # of no number at all, object
    rows = differences(pairs[~lost], budgets)
    pairs["why"], rows = rows.why, rows[rows.value.notna()]
    if len(rows):
        found = decide(rows, math.log1p(percent / 100))
        pairs = found.combine_first(pairs)
    one = [(r.samples_a, r.started_a) == (r.samples_b, r.started_b) for r in pairs.itertuples()]
    pairs.loc[one, "verdict"] = SAME  # one measurement
    pairs["verdict"] = pairs.verdict.mask(lost, LOST)
    wrong = wrong_rows(a, b, [name for name in key if name in (*ROW, "gpu")])
    names = [name for name in key if name in wrong]
    is_wrong = pd.MultiIndex.from_frame(pairs[names]).isin(pd.MultiIndex.from_frame(wrong[names]))
    pairs = pairs[~(is_wrong & lost)]  # named once
    return pd.concat([wrong.assign(verdict=WRONG_ROWS), pairs], ignore_index=True)


def wrong_rows(a: pd.DataFrame, b: pd.DataFrame, row: list[str]) -> pd.DataFrame:
    """B's rows whose output is wrong, and was verified in A."""
    wrong = b[b.outcome.isin(WRONG)].drop_duplicates(row)
    verified = a[a.outcome.isin(VERIFIED)][row].drop_duplicates()
    return wrong[[*row, "outcome", "reason"]].merge(verified, on=row)


def failures(rows: pd.DataFrame, is_bound: bool, allowed: list[str]) -> list[str]:
    """Why B fails; `is_bound`: the user gave a threshold."""
    fails = [WRONG_ROWS, *([SLOWER, *ALLOWED] if is_bound else [])]
    counts = rows.verdict.value_counts()
    return [f"{counts[v]} {v}" for v in fails if v in counts and v not in allowed]


def shown(rows: pd.DataFrame) -> list[str]:
    """The named rows by verdict, the farthest apart first."""
    columns = ["experiment", "pass", "problem", "kernel", "metric", "median_a", "median_b"]
    columns = [*columns, "ratio", "low", "high", "shared", "why", "reason"]
    lines = []
    for verdict in (WRONG_ROWS, LOST, SLOWER, FASTER):
        of = rows[rows.verdict == verdict]
        if of.empty:
            continue
        far = of.assign(far=-np.log(of.ratio).abs()).sort_values("far", kind="stable")
        few = far.head(SHOWN)
        left = f" (the first {SHOWN})" * (len(few) < len(far))
        has = [c for c in columns if c in few and few[c].notna().any() and (few[c] != "").any()]
        table = few[has].to_string(index=False, na_rep="-", float_format="{:.4g}".format)
        lines += [f"\n{verdict}: {len(of)}{left}", table]
    return lines


def machine(rows: pd.DataFrame) -> str:
    """GPU, driver, dates and commits, and whether it is a recorded run."""
    recorded = "a recorded run: " * bool(rows.recorded.all())
    days = sorted({str(day.date()) for day in rows.started})
    parts = [", ".join(dict.fromkeys(rows.gpu)), f"driver {', '.join(set(rows.driver.dropna()))}"]
    parts += [" to ".join(dict.fromkeys((days[0], days[-1])))]
    return f"{recorded}{'; '.join(parts)}; commit {', '.join(sorted({c[:9] for c in rows.commit}))}"


def run(args: argparse.Namespace) -> int:
    try:
        percent = float(args.threshold or 1)
        allowed = [word for word in args.allow.replace(",", " ").split() if word]
    except ValueError:
        percent = math.nan
    if not 0 <= percent <= 100:
        raise InputError(f"THRESHOLD: give a percentage from 0 to 100, not '{args.threshold}'")
    if strange := set(allowed) - set(ALLOWED):
        raise InputError(f"ALLOW: give {' or '.join(ALLOWED)}, not '{min(strange)}'")
    a, b = (load_side(given) for given in (args.a, args.b))
    rows = compare(a, b, percent, recorded_budgets())
    if rows.verdict.eq(LOST).all():
        raise InputError(f"{args.a} and {args.b} have no common row with times")
    counts = rows.verdict.value_counts()
    faults = failures(rows, bool(args.threshold), allowed)
    print(f"{'FAILED: ' * bool(faults)}B / A: {', '.join(f'{n} {v}' for v, n in counts.items())}")
    print(f"  (threshold {percent:g} %; ratios of medians where no interval is known)")
    for name, given, side in (("A", args.a, a), ("B", args.b, b)):
        print(f"{name}: {given}: {machine(side)}")
    if not set(a.gpu) & set(b.gpu):
        print("The GPUs differ: these ratios are theirs, too.")
    print("\n".join(shown(rows)))
    columns = [*KEY, "gpu_a", "gpu_b", "verdict", "ratio", "low", "high", "shared"]
    columns += [f"{name}_{side}" for name in ("median", "n", "sm_mhz", "code") for side in "ab"]
    columns += ["why", "outcome", "reason"]
    table = rows[[c for c in columns if c in rows]].to_csv(index=False)
    write_files({args.output / "compare.csv": table.encode()})
    print(f"\nAll rows: {args.output / 'compare.csv'}")
    return WRONG_OUTPUT if faults else 0


def parser() -> argparse.ArgumentParser:
    p = command_line.Parser(prog="python -m reprolab.compare", description=__doc__)
    side = {"required": True, "metavar": "RUN"}
    p.add_argument("--a", help="result file, or folder of them", **side)
    p.add_argument("--b", help="what is compared with A", **side)
    p.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="of compare.csv")
    p.add_argument("--threshold", metavar="PERCENT", help="exit 1 if B is slower by more")
    p.add_argument("--allow", default="", metavar="WORDS", help="undecided, lost: no failure")
    p.set_defaults(run=run)
    return p


if __name__ == "__main__":
    sys.exit(command_line.run(parser()))

"""`make compare`: the times of one run against those of another (docs/comparing-runs.md)."""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from reprolab import command_line
from reprolab.errors import WRONG_OUTPUT, InputError
from reprolab.output import write_files
from reprolab.results import VERIFIED, WRONG, age, frame_of, result_files
from reprolab.run_to_run import budget_for, in_class, kind_of, recorded_budgets
from reprolab.stats import FALSE_SHARE, LogMean, log_mean

ROW = ["experiment", "pass", "problem", "kernel"]
KEY = [*ROW, "metric", "bytes_moved"]  # other bytes are other work
SLOWER, FASTER, SAME, UNDECIDED = "slower", "faster", "no difference", "undecided"
LOST, WRONG_ROWS = "lost", "wrong"
ALLOWED = (UNDECIDED, LOST)  # what a user may ask not to fail
SHOWN = 20  # rows of each verdict


def load_side(given: str) -> pd.DataFrame:
    """The rows of a result file, or of a folder of them; of several files of a GPU's pass the
    newest.
    """
    files = sorted(result_files(Path(given)), key=age)
    newest = {(r.gpu, r.experiment, r.pass_name): r for r in files if r.gpu}
    rows = frame_of(newest.values())
    if rows.empty or not (rows.unit == "us").any():
        raise InputError(f"{given}: holds no times")
    return rows


def times(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a time that may be compared."""
    right = rows.outcome.isin(VERIFIED) | (rows.origin == "ceiling")
    return rows[(rows.unit == "us") & (rows.n > 0) & right]


def spread(row: tuple, side: str, budgets: dict) -> float | None:
    """The standard deviation of such a time between runs on that GPU, as a share."""
    kind = kind_of(row.metric, row.origin_a)
    budget = budget_for(budgets, getattr(row, f"gpu_{side}"), kind)
    if budget is None:
        return None
    return in_class(budget[kind], getattr(row, f"median_{side}")).of(row.kernel) / 100


def difference(row: tuple, budgets: dict) -> tuple[LogMean | None, str]:
    """The mean logarithm of B / A with the variance between runs; or why there is none."""
    if min(len(row.samples_a), len(row.samples_b)) < 2:
        return None, "a single sample"
    between = [spread(row, side, budgets) for side in "ab"]
    if None in between:
        return None, f"no repetitions of {row.metric.split('.')[0]}"
    both = log_mean(row.samples_b).over(log_mean(row.samples_a))
    return both.with_part(100 * math.hypot(*between)), ""


def decide(row: tuple, margin: float, budgets: dict) -> tuple:
    """Verdict, why it has no interval, ratio and interval, and the chance of such a ratio if the
    true one is within the margin; what differs more than by chance is decided over all rows.
    """
    is_same = (row.samples_a, row.started_a) == (row.samples_b, row.started_b)  # one measurement
    mean, why = difference(row, budgets)
    if mean is None:
        return SAME if is_same else UNDECIDED, why, row.median_b / row.median_a, None, None, None
    low, high = mean.ratio.interval
    is_same = is_same or max(abs(math.log(low)), abs(math.log(high))) <= margin
    verdict = SAME if is_same else UNDECIDED
    return verdict, "", mean.geometric_mean, low, high, mean.chance(margin)


def compare(a: pd.DataFrame, b: pd.DataFrame, percent: float, budgets: dict) -> pd.DataFrame:
    """Each row of A with a time: the ratio B / A, its interval and its verdict. Welch's test of
    each row is against the threshold; Benjamini and Hochberg's procedure is over all rows.
    """
    from scipy.stats import false_discovery_control

    key = KEY + ["gpu"] * (max(a.gpu.nunique(), b.gpu.nunique()) > 1)
    pairs = times(a).merge(times(b), on=key, how="left", suffixes=("_a", "_b"), validate="1:1")
    if "gpu" in key:
        pairs["gpu_a"] = pairs["gpu_b"] = pairs.gpu
    margin, lost = math.log1p(percent / 100), pairs.samples_b.isna()
    decided = [decide(row, margin, budgets) for row in pairs[~lost].itertuples()]
    columns = ["verdict", "why", "ratio", "low", "high", "chance"]
    pairs = pairs.join(pd.DataFrame(decided, index=pairs.index[~lost], columns=columns))
    pairs["verdict"] = pairs.verdict.fillna(LOST)
    tested = pairs[pairs.chance.notna()]
    if len(tested):
        sure = tested[false_discovery_control(tested.chance) <= FALSE_SHARE]
        pairs.loc[sure.index, "verdict"] = np.where(sure.ratio > 1, SLOWER, FASTER)
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
    columns = [*columns, "ratio", "low", "high", "why", "reason"]
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
    return f"{recorded}{'; '.join(parts)}; commit {', '.join({c[:9] for c in rows.commit})}"


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
    if rows.verdict.isin([LOST, WRONG_ROWS]).all():
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
    columns = [*KEY, "gpu_a", "gpu_b", "verdict", "ratio", "low", "high", "median_a", "median_b"]
    columns += [f"{name}_{side}" for name in ("n", "sm_mhz", "code") for side in "ab"]
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

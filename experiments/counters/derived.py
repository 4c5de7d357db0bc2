"""What tables of experiment counters derive from its rows."""

import pandas as pd

from plots.counters import with_derived
from plots.frame import against, chosen
from reprolab.claims.published import load_sources
from reprolab.results import KERNEL_TIME

BASELINE, EQUAL, NORMAL = "branch_tree", "equal", "normal"
SHOWN = ["instructions_per_element", "threads_per_instruction", "divergent_targets"]


def counters(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Every counter of both families, with what follows from it and from the launches."""
    counted = [
        with_derived(chosen(rows, {"pass": f"{name}_counters"}), chosen(rows, {"pass": launches}))
        for name in ("nf4", "transpose")
        if (launches := f"{name}_launches") in set(rows["pass"])
    ]
    return pd.concat(counted) if counted else rows[:0]


def latency(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Cycles of one step, with the paper's, and in ns at the clock seen with the samples."""
    paper = next(source for source in load_sources() if source.id == "paper")
    ours, theirs = paper.setup["our_kernels"]["latency_cycles"], paper.tables["latency_cycles"]
    by_kernel = {kernel: theirs[name] for name, kernel in ours.items()}
    cycles = rows[rows.metric == "latency"].copy()
    cycles["paper"] = cycles.kernel.map(by_kernel)
    return cycles.assign(ns=1e3 * cycles["median"] / cycles.sm_mhz)


def divergence(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The time over that on equal codes, with which no warp diverges, and three counters."""
    if "data" not in rows:
        return rows[:0]
    rows = rows.assign(data=rows.data.fillna(NORMAL))
    times = chosen(rows, {"pass": "divergence", "metric": KERNEL_TIME})
    names = {f"time_ratio{end}": f"over_equal{end}" for end in ("", "_low", "_high")}
    times = against(times, {"data": EQUAL}, ["kernel"]).rename(columns=names)
    times = times.drop(columns=[n for n in times if n.endswith("_base")] + ["change"])
    counted = with_derived(chosen(rows, {"pass": "divergence_counters"}))
    counts = counted[counted.metric.isin(SHOWN)].set_index(["data", "kernel", "metric"])["median"]
    return times.join(counts.unstack("metric"), on=["data", "kernel"])


def attribution(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Of the time that a kernel saves on normal weights, the part that the baseline also saves
    where no warp diverges; and the speed-up there.
    """
    if "data" not in rows:
        return rows[:0]
    right = rows[rows.ranked.astype(bool) & ~rows.older_code.astype(bool)]
    right = right.assign(data=right.data.fillna(NORMAL))
    us = chosen(right, {"pass": "divergence"}).set_index(["data", "kernel"]).geometric_mean
    if not {(NORMAL, BASELINE), (EQUAL, BASELINE)} <= {*us.index}:
        return rows[:0]
    base, equal = us[NORMAL, BASELINE], us[EQUAL, BASELINE]
    kernels = [k for k in us[NORMAL].index if k != BASELINE and k in us[EQUAL].index]
    return pd.DataFrame(
        {
            "kernel": kernels,
            "saved_us": [base - us[NORMAL, k] for k in kernels],
            "divergence_us": base - equal,
            "divergence_share": [(base - equal) / (base - us[NORMAL, k]) for k in kernels],
            "gain": [base / us[NORMAL, k] for k in kernels],
            "gain_on_equal": [equal / us[EQUAL, k] for k in kernels],
        }
    )

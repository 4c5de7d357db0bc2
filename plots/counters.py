"""Values that follow from the hardware counters of a row and from its launch."""

from math import prod
from typing import Any

import pandas as pd

from reprolab.results import NO_WAIT, WARP

MAX_WARPS = 1000  # more than any SM can hold
STALL = "stall_"
ROW = ["file", "key"]


def with_derived(rows: pd.DataFrame, launches: pd.DataFrame | None = None) -> pd.DataFrame:
    """The rows of counters with rows of further metrics, and each row's `main_stalls`. `launches`:
    rows of the same kernels and problems in a pass that recorded their launches.

    instructions_per_element: 32 x warp instructions / elements, so that one instruction of a whole
    warp counts for each of its threads. bytes_in_flight: what the warps that are resident on
    average read. theoretical_occupancy: the warps of the blocks that fit on an SM, in percent.
    """
    counted = rows[rows.metric.notna()]
    if counted.empty:
        return rows
    wide = counted.set_index([*ROW, "metric"])["median"].unstack("metric")
    first = counted.drop_duplicates(ROW).set_index(ROW)
    wide = wide.reindex(first.index)
    made = pd.DataFrame(index=first.index)
    made["instructions_per_element"] = WARP * wide.warp_instructions / first.problem_n.astype(float)
    resident_bytes = wide.active_warps * first.multiprocessors.astype(float) * first.bytes_read
    made["bytes_in_flight"] = resident_bytes / wide.warps_launched
    if launches is not None:
        timed = launches.drop_duplicates(ROW).set_index(["problem", "kernel"]).launch
        of_row = [timed.get(at, ()) for at in zip(first.problem, first.kernel, strict=True)]
        facts = pd.DataFrame([launch_facts(launch) for launch in of_row], index=first.index)
        most = (100 * wide.active_warps / wide.achieved_occupancy).round()  # of an SM
        resident = facts.get("resident_warps", pd.Series(index=first.index, dtype=float))
        occupancy = (100 * resident / most).where(most.between(1, MAX_WARPS))
        made["theoretical_occupancy"] = occupancy
        made = made.join(facts.drop(columns="resident_warps", errors="ignore"))
    stalls = wide[[n for n in wide if n.startswith(STALL) and n not in NO_WAIT]]
    main = [main_stalls(row) for row in stalls.to_dict("records")]
    added = [
        first.assign(metric=name, median=made[name], unit="", samples=None, **NO_ENDS)
        for name in made
    ]
    every = pd.concat([rows, *(part[part["median"].notna()].reset_index() for part in added)])
    texts = pd.Series(main, index=first.index, name="main_stalls")
    return every.join(texts, on=ROW)


NO_ENDS = dict.fromkeys(("low", "high", "q1", "q3", "min", "max", "n"), float("nan"))


def main_stalls(stalls: dict[str, float]) -> str:
    """The three reasons for which warps wait longest, in cycles per issued instruction."""
    largest = sorted((-n, name) for name, n in stalls.items() if n > 0)[:3]
    named = (f"{name.removeprefix(STALL).replace('_', ' ')} {-n:.1f}" for n, name in largest)
    return ", ".join(named)


def launch_facts(launch: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """CUPTI's record; nothing for several kernels in one call."""
    if len(launch) != 1:
        return {}
    (kernel,) = launch
    threads, fitting = prod(kernel["block"]), kernel["blocks_per_multiprocessor"]
    return {
        "registers": kernel["registers"],
        "static_shared_bytes": kernel["static_shared_bytes"],
        "dynamic_shared_bytes": kernel["dynamic_shared_bytes"],
        "threads_per_block": threads,
        "blocks": prod(kernel["grid"]),
        "blocks_per_multiprocessor": fitting,
        "resident_warps": fitting and fitting * -(-threads // WARP),
    }

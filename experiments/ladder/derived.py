"""What a table of experiment ladder derives from its rows."""

import pandas as pd

from plots.counters import with_derived
from plots.frame import against, chosen

# Each ladder is a pass, with two more whose names end in _counters and _launches; its steps, with
# the change of each from the one before.
LADDERS = {
    "plain": {
        "branch_tree": "a tree of branches for the 16 values",
        "global_lut": "a table in global memory replaces the tree",
        "shared_lut": "the table in shared memory",
        "scalar_store": "no CUB transpose: a byte per thread",
        "packed_store": "both weights in one 4-byte store",
        "wide_store": "4 bytes per thread, one 16-byte store",
        "wide_store_hints": "streaming cache hints",
        "wide_store_unrolled": "unrolled: two words per thread",
        "streaming": "prefetch to L2 in bursts",
    },
    "nested": {
        "two_launches": "nested scales in a separate launch",
        "streaming": "nested scales in the same kernel",
    },
}
RATIO = ["ratio", "ratio_low", "ratio_high"]


def steps(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The steps in order: each with its speed-up over the first and over the one before, its
    instructions per weight and the registers of its kernels."""
    made = []
    for ladder, changes in LADDERS.items():
        names = list(changes)
        of_pass = chosen(rows, {"pass": ladder, "kernel": names})
        first = against(of_pass, {"kernel": names[0]}, ["problem"]).set_index("kernel")
        for name, before in zip(names[1:], names, strict=False):
            step = against(of_pass, {"kernel": before}, ["problem"]).set_index("kernel")
            if name in step.index:
                first.loc[name, [f"step_{x}" for x in RATIO]] = step.loc[name, RATIO].to_numpy()
        counted = with_derived(chosen(rows, {"pass": f"{ladder}_counters"}))
        per_weight = counted[counted.metric == "instructions_per_element"].set_index("kernel")
        launches = chosen(rows, {"pass": f"{ladder}_launches"}).set_index("kernel").launch
        first = first.reindex([name for name in names if name in first.index])
        first["instructions_per_weight"] = per_weight["median"].reindex(first.index)
        first["registers"] = [
            " + ".join(str(k["registers"]) for k in launches.get(name, ())) for name in first.index
        ]
        made.append(first.assign(what=first.index.map(changes)).reset_index())
    return pd.concat(made)

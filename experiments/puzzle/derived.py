"""What tables of experiment puzzle derive: times as published beside those by graphs."""

import pandas as pd

from experiments.puzzle.rules import WALL_TIME
from reprolab.results import KERNEL_TIME

TIMES = {"median": "", "low": "_low", "high": "_high", "min": "_min"}


def puzzle(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Every kernel's time by graphs, with its time as published: the host's clock, which waits for
    the GPU after every launch. `one_us`: of one launch, as published.
    """
    main = rows[rows["pass"] == "mlps"]
    graphs = main[main.metric.isin([KERNEL_TIME]) | main.metric.isna()]
    alone = main[(main.metric == WALL_TIME) & ~main.key.isin(graphs.key)]
    made = pd.concat([graphs, alone.assign(median=None, low=None, high=None, min=None)])
    wall = main[main.metric == WALL_TIME].set_index("key")[list(TIMES)]
    wall.columns = [f"published{end}" for end in TIMES.values()]
    made = made.join(wall, on="key")
    made["published_gb_per_s"] = made.bytes_moved / made.published / 1e3
    return made.assign(one_us=made.published / made.launches.astype(float))


def mlps(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """One launch in each MLP, as published and by graphs."""
    main = rows[(rows["pass"] == "mlps") & rows.metric.notna() & ~rows.older_code.astype(bool)]
    if main.empty:
        return main
    parts = main.metric.str.extract(r"^(\w+)\.(\d+)x(\d+)$")
    main = main.assign(time=parts[0], mlp=parts[1] + "x" + parts[2])[parts[0].notna()]
    at = ["kernel", "mlp"]
    made = main.set_index([*at, "time"])["median"].unstack("time").reset_index()
    facts = main.drop_duplicates("kernel").set_index("kernel")
    sizes = made.mlp.str.split("x").map(lambda size: int(size[0]) * int(size[1]))
    share = sizes / sizes.groupby(made.kernel).transform("sum")
    count = sizes.groupby(made.kernel).transform("count")
    launches = facts.launches.reindex(made.kernel).to_numpy(float) / count
    moved = facts.bytes_moved.reindex(made.kernel).to_numpy(float)
    made["published_us"] = made[WALL_TIME] / launches
    made["graphs_us"] = made[KERNEL_TIME] / launches
    return made.assign(graphs_gb_per_s=share * moved / launches / made.graphs_us / 1e3)


def peers(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Unsloth as its Python calls it, with the post's kernel; times as published."""
    asked = (rows["pass"] == "peers") | (rows.kernel == "mojo_packed_512")
    wall = rows[asked & (rows.metric == WALL_TIME)]
    if not (wall["pass"] == "peers").any():
        return wall[:0]
    return wall.assign(one_us=wall["median"] / wall.launches.astype(float))

"""What tables of experiment product derive: floors, the fastest of ours, and generate()."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from plots.counters import with_derived
from plots.frame import ratios_of
from reprolab.json_files import read_json, stored
from reprolab.stats import ratio, summarize

READ_ONLY = "read_only"
DETOURS = ["streaming_then_cublas", "shared_lut_then_cublas"]  # they write 16-bit weights first
NOT_OURS = [*DETOURS, "simple"]
AT = ["pass", "problem"]


def floors(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Every product with its floor: the time to read codes and scales once, at read_only's
    bandwidth on the largest layer with the fewest rows of the pass; or that of multiplying at the
    highest rate of any row of `layers`, if it is more.
    """
    size, batch = (
        rows["rows"].astype(float) * rows["columns"].astype(float),
        rows.batch.astype(float),
    )
    operations = 2 * size * batch
    ranked = (rows["pass"] == "layers") & rows.ranked.astype(bool)
    tflops = (operations / rows["median"] / 1e6)[ranked].max()
    activations = 2 * batch * rows["columns"].astype(float)
    bias = 2 * rows["rows"].astype(float) * rows.bias.astype(float)
    rows = rows.assign(weight_bytes=rows.bytes_read.astype(float) - activations - bias, size=size)
    rows["multiplying_us"] = operations / tflops / 1e6
    ceilings = rows[rows.kernel == READ_ONLY].sort_values(
        ["size", "batch"], ascending=[True, False]
    )
    speed = ceilings.drop_duplicates("pass", keep="last").set_index("pass").gb_per_s
    products = rows[rows.origin != "ceiling"].drop_duplicates(AT).set_index(AT).weight_bytes
    bytes_of = products.reindex(pd.MultiIndex.from_frame(rows[AT])).to_numpy()
    rows["reading_us"] = bytes_of / rows["pass"].map(speed).to_numpy() / 1e3
    rows["floor_us"] = rows[["reading_us", "multiplying_us"]].max(axis=1, skipna=False)
    rows["of_floor"] = (rows.floor_us / rows["median"]).where(rows.ranked.astype(bool))
    return rows.sort_values(["size", "batch"], kind="stable")


def ours(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The fastest of ours for each problem, and of what it is compared with: how many times as
    fast it is as each, and `kernel`'s name."""
    rows = floors(rows, claims)
    ranked = rows[rows.ranked.astype(bool) & ~rows.older_code.astype(bool)]
    own = (ranked.origin == "project") & ~ranked.kernel.isin(NOT_OURS)
    named = ranked.assign(
        group=ranked.kernel.str.removesuffix("_gemm")
        .str.removesuffix("_gemv")
        .mask(own, "ours")
        .mask(ranked.kernel.isin(DETOURS), "dequantizing")
    )
    gemm = named.kernel.str.endswith("_gemm")  # a library's, where it has one, before its gemv
    named = named.assign(second=~gemm & (named.origin == "peer")).sort_values(["second", "median"])
    best = named.drop_duplicates([*AT, "group"]).copy()
    base = best[best.group == "ours"].set_index(AT)[["kernel", "median", "row"]]
    best = best.join(base.add_prefix("ours_"), on=AT)
    best = best.join(ratios_of("over", best.row, best.ours_row))
    return best.sort_values(["size", "batch"], kind="stable")


def crossover(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The number of rows from which on another kernel is faster than ours, beyond the intervals, at
    every number of rows at which ours was measured with this code."""
    best = ours(rows[rows["pass"] == "layers"], claims).dropna(subset="over")
    made = []
    for (layer, group), cells in best[best.group != "ours"].groupby(["layer", "group"], sort=False):
        slower = cells.sort_values("batch", ascending=False)
        first = slower[(slower.over_high < 1).cumprod().astype(bool)].batch
        text = str(first.min()) if len(first) else f"not up to {slower.batch.max()}"
        made.append({"layer": layer, "other": group, "from_rows": text})
    return pd.DataFrame(made)


def counters(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    return with_derived(rows[rows.origin != "ceiling"])


def weights(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The percent of the weights that a kernel multiplies by whose bits are not dequantization's,
    asked by rows of zeros with a single one; the largest difference in units in the last place."""
    products = rows[rows.origin != "ceiling"].copy()
    size = products["rows"].astype(float) * products["columns"].astype(float)
    for name in ("weights_different", "weights_max_ulps"):
        products[name] = [(f or {}).get(name) for f in products.findings]
    scales = products["pass"].map({"one_hot": "plain", "one_hot_nested": "nested"})
    return products.assign(scales=scales, different=100 * products.weights_different / size)


def cells_of(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Of generation.json, in the folder of the passes: where a cell is, the cell and the file."""
    for file in sorted(
        {stored(Path(file).parent / "generation.json") for file in rows.file.unique()}
    ):
        content = read_json(file) if file.is_file() else {"sequences": []}
        for cell in content["sequences"]:
            names = ("model", "layers", "cache", "sequences", "tokens")
            scales = {"scales": "nested" if cell["nested"] else "plain"}
            yield {name: cell[name] for name in names} | scales, cell, content


def generation(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Tokens per second of generate(), and how many times those of bitsandbytes, by medians: the
    first generation is slow.
    """
    made = []
    for at, cell, _ in cells_of(rows):
        speeds = {name: summarize(samples) for name, samples in cell["tokens_per_s"].items()}
        for name, s in speeds.items():
            gain = ratio(s, speeds["bitsandbytes"])
            ends = {"tokens_per_s_low": s.low, "tokens_per_s_high": s.high}
            row = at | {"backend": name, "tokens_per_s": s.median, "n": s.n, "gain": gain.value}
            made.append(row | ends | {"gain_low": gain.low, "gain_high": gain.high})
    return pd.DataFrame(made).sort_values(["cache", "sequences"]) if made else rows[:0]


def steps(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Of a decoding step the part in which no kernel, copy or fill runs, as CUPTI records it; its
    floor is the time to read each weight once at the bandwidth of a copy."""
    made = []
    for at, cell, content in cells_of(rows):
        for name, us in cell.get("steps", {}).items():
            row = at | {"backend": name, "launches": us.get("launches")}
            row["wall_ms"] = us["wall_us"] / 1e3
            row["floor_ms"] = cell["bytes"][name] / content["copy_gb_s"] / 1e6
            if (busy := us.get("busy_us")) is not None:
                gaps = max(0.0, 100 * (1 - busy / us["wall_us"]))
                row |= {"busy_ms": busy / 1e3, "gaps": gaps}
            made.append(row)
    return pd.DataFrame(made).sort_values(["cache", "sequences"]) if made else rows[:0]

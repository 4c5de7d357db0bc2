"""What tables of experiment end_to_end derive: both passes by setting, and Amdahl's law."""

import pandas as pd

from experiments.end_to_end.protocol import EAGER, GRAPH, INSTALLED, NOTHING
from experiments.end_to_end.rules import KERNEL_SPEEDUP, amdahl, log_share
from experiments.end_to_end.rules import papers_predictions as predictions
from plots.frame import ratios_of, summaries
from reprolab.claims.published import FOLDER, load_source
from reprolab.stats import share_percent

AT = ["model", "batch", "way"]
SAME = [*AT, "tokens", "prompts", "kernel"]  # the passes may come from two runs
BASELINE, SUBJECT = "branch_tree", "shared_lut"
ENDS = ("", "_low", "_high")
NEEDED = {"wall_time", "wall_time.step", "kernel_time", "kernel_time.step", "busy_time.step"}
TABLE1 = "table1_qwen3_32b"
PAPER = load_source(FOLDER / "paper.json")


def by_metric(rows: pd.DataFrame, pass_name: str) -> pd.DataFrame:
    """A row for each setting and kernel; the times of each metric, with dots as underscores."""
    of_pass = rows[(rows["pass"] == pass_name) & rows.metric.notna()]
    times = of_pass.set_index([*SAME, "metric"])[["median", "low", "high", "row"]].unstack("metric")
    ends = {"median": "", "low": "_low", "high": "_high", "row": "_row"}
    times.columns = [metric.replace(".", "_") + ends[end] for end, metric in times.columns]
    return times


def settings(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Every kernel at every model, batch and decode mode: times of a generation (wall_time) and of
    a decoding step, speed-ups over the baseline and the installed library, the shares of
    dequantization, Amdahl's prediction, and the paper's numbers.
    """
    if not set(rows.metric) >= NEEDED:
        return rows[:0]
    facts = rows[rows["pass"] == "timing"].drop_duplicates(SAME).set_index(SAME)
    facts = facts[["outcome", "reason", "lineage", "older_code", "mismatches", "file", "key"]]
    made = facts.join(by_metric(rows, "timing")).join(by_metric(rows, "profile"))
    made = with_nothing_dequantized(made, rows).reset_index()
    count = 1e6 * made.batch.astype(float) * made.tokens.astype(float)
    made["per_pass_ms"] = made.kernel_time / 1e3 / made.tokens.astype(float)
    made = with_share(made, "share", "kernel_time", "wall_time")
    made = with_share(made, "step_share", "kernel_time_step", "wall_time_step")
    made = with_share(made, "busy", "busy_time_step", "wall_time_step")
    shares = [f"{name}{end}" for name in ("share", "step_share", "busy") for end in ENDS]
    made[shares] = made[shares].clip(upper=100)  # the interval of a ratio may end above
    for end, other in zip(ENDS, ("", "_high", "_low"), strict=True):
        made[f"tokens_per_s{end}"] = count / made[f"wall_time{other}"]
        made[f"idle{end}"] = 100 - made[f"busy{other}"]
    times = [n for n in made if n.startswith(("wall_time", "kernel_time"))]
    own = made.kernel[made.lineage == INSTALLED]
    for prefix, kernels in (("base_", [BASELINE]), ("own_", own.unique())):
        base = made[made.kernel.isin(kernels)].drop_duplicates(AT).set_index(AT)[times]
        made = made.join(base.add_prefix(prefix), on=AT)
    for name, over, metric in (
        ("gain", "base", "wall_time"),
        ("gain_over_own", "own", "wall_time"),
        ("step_gain", "base", "wall_time_step"),
        ("step_gain_over_own", "own", "wall_time_step"),
        ("kernel_gain", "base", "kernel_time"),
        ("kernel_gain_step", "base", "kernel_time_step"),
    ):
        made = made.join(ratios_of(name, made[f"{over}_{metric}_row"], made[f"{metric}_row"]))
    made = with_share(made, "percent_of_base", "kernel_time", "base_wall_time")
    made = with_share(made, "percent_of_base_step", "kernel_time_step", "base_wall_time_step")
    return with_paper(with_prediction(made), claims).sort_values("batch", kind="stable")


def with_share(made: pd.DataFrame, name: str, part: str, whole: str) -> pd.DataFrame:
    """Adds the share of a time in another, in percent; nothing has no share."""
    found = ratios_of(name, made[f"{part}_row"], made[f"{whole}_row"], log_share, 100)
    found.loc[(made[part] == 0) & made[whole].notna(), name] = 0.0
    return made.join(found)


def with_nothing_dequantized(made: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """No time of dequantizing is 0 where all products are computed right from the codes."""
    nothing = rows[(rows["pass"] == "profile") & (rows.missing == NOTHING)]
    for metric, of_metric in nothing.groupby("metric"):
        at = made.index.intersection(pd.MultiIndex.from_frame(of_metric[SAME]))
        made.loc[at, metric.replace(".", "_")] = 0.0
    return made


def with_prediction(made: pd.DataFrame) -> pd.DataFrame:
    """Eager, of a generation; in a graph, of a decoding step: as the tables of left and Amdahl."""
    graph = made.way == GRAPH
    for name, whole, step in (
        ("part_share", "share", "step_share"),
        ("part_gain", "gain", "step_gain"),
        ("part_gain_low", "gain_low", "step_gain_low"),
        ("part_gain_high", "gain_high", "step_gain_high"),
        ("part_kernel_gain", "kernel_gain", "kernel_gain_step"),
        ("part_percent_of_base", "percent_of_base", "percent_of_base_step"),
    ):
        made[name] = made[step].where(graph, made[whole])
    base = made[made.kernel == BASELINE].drop_duplicates(AT).set_index(AT).part_share
    made = made.join(base.rename("base_share"), on=AT)
    pairs = zip(made.base_share / 100, made.part_kernel_gain, strict=True)
    return made.assign(predicted=[amdahl(*p) if pd.notna(sum(p)) else None for p in pairs])


def with_paper(made: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Adds the numbers of the paper's Table I and Figure 4 to the rows of the same setting."""
    cells = claims[claims.claim.isin(["end-to-end-llama", "end-to-end"])]
    gains = cells.drop_duplicates("cell").set_index("cell").published
    names = {ours: name for name, all_ours in PAPER.models.items() for ours in all_ours}
    rows: list[dict[str, float | None]] = []
    for row in made.itertuples():
        which = {BASELINE: "baseline", SUBJECT: "optimized"}.get(row.kernel, "")
        figure = PAPER.tables["figure4"].get(names.get(row.model, ""), {})
        figure = figure.get(str(row.batch), {}) if row.way == EAGER else {}
        is_table1 = (row.model, row.way, row.kernel) == ("qwen3-32b", EAGER, BASELINE)
        table = PAPER.tables[TABLE1].get(str(row.batch), {}) if is_table1 else {}
        is_gain = (row.way, row.kernel) == (EAGER, SUBJECT)
        rows.append(
            {
                "paper": gains.get(f"{row.model}, batch {row.batch}") if is_gain else None,
                "paper_s": figure.get(f"{which}_s"),
                "paper_tokens_per_s": figure.get(f"{which}_tokens_per_s"),
                "paper_share": table.get("overhead_percent"),
                "paper_ms": table.get("kernel_latency_ms"),
            }
        )
    return made.join(pd.DataFrame(rows, made.index))


def amdahl_table(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Predicted and measured speed-ups of the paper's kernel; the paper's own first."""
    made = settings(rows, claims)
    ours = made[made.kernel == SUBJECT]
    source, model = PAPER, "qwen3-32b"
    cells = claims[(claims.claim == "tables-agree") & claims.published.notna()]
    batches = cells.cell.str.extract(r"batch (\d+)")[0].astype(float)
    reported = dict(zip(batches, cells.published, strict=True))
    theirs = [
        {"way": "paper", "model": model, "batch": batch, "predicted": predicted}
        | {"base_share": source.tables[TABLE1][str(batch)]["overhead_percent"]}
        | {"part_kernel_gain": source.numbers[f"{KERNEL_SPEEDUP}/{model}/{batch}"]}
        | {"part_gain": reported.get(float(batch)), "older_code": False}
        for batch, predicted in predictions(source, TABLE1, model).items()
    ]
    return pd.concat([pd.DataFrame(theirs), ours])


def qmatmul(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Dequantization's share of the quantized products of an eager generation, in percent."""
    eager = rows[(rows.way == EAGER) & rows.kernel.isin([BASELINE, SUBJECT])]
    made = eager[eager.metric == "kernel_time"]
    products = eager[eager.metric == "product_time"].set_index(["file", "key"])
    made = made.join(products[["median", "samples"]].add_prefix("product_"), on=["file", "key"])
    made = made[made.product_samples.notna()]
    shares = [share_percent(*p) for p in zip(made.samples, made.product_samples, strict=True)]
    made = made.join(summaries(shares, "percent", made.index))
    tokens = made.tokens.astype(float)
    made["dequantize_ms"] = made["median"] / 1e3 / tokens
    return made.assign(products_ms=made.product_median / 1e3 / tokens).sort_values("batch")

"""Tables of the products with NF4 weights: every layer over the number of rows, the time of each
kernel, the number of rows from which on another way is faster, other formats, and the weights that
kernels multiply by.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from experiments.product.views.cells import (
    CUBLAS,
    DEQUANTIZING,
    DETOURS,
    MODEL,
    OURS,
    SIMPLE,
    Cell,
    by_layer,
    cells,
    measured_peak,
    of_model,
    others,
    peers,
    shape,
)
from plots import bandwidth
from plots.bandwidth import Measured, compared, over, percent, values_of
from plots.experiments import Run
from reprolab.captions import machine_notes
from reprolab.code import older_mark
from reprolab.stats import INTERVAL_NOTE, significant
from reprolab.tables import CODE, KERNEL, NONE, WORDS, Column, Noted, Table, Values, rounded

FORMATS = {"nested": "nested scales", "bf16": "bf16", "block_sizes": ""}  # by pass
ONE_HOT = ("one_hot", "one_hot_nested")

FLOOR_NOTE = (
    "Of floor %: the floor over the median. It is the time to read codes and scales once, at the "
    "bandwidth of read_only, which reads and computes nothing, on the largest layer and the fewest "
    "rows of the pass; or that of the multiplications at the tensor cores' measured peak, where "
    "that is more"
)
PEER_NOTE = (
    "bitsandbytes: its own product with 4-bit weights, gemm where the library has one, else gemv. "
    "Its Python takes gemm up to 4 rows, and for more where its table by GPU and layer says so; "
    "elsewhere it dequantizes with a kernel of its own, which has no row here."
)
DETOUR_NOTE = (
    f"Dequantizing: the faster of {' and '.join(DETOURS)}, which write 16-bit weights "
    f"before cuBLAS multiplies; not what bitsandbytes runs. {CUBLAS}: cuBLAS on weights that are "
    "16-bit already, as an unquantized model has them."
)
OVER_NOTE = (
    "Over: times as fast; ratio of medians of one shuffled run, with its interval. " + INTERVAL_NOTE
)
ULP_NOTE = (
    "Asked by rows of zeros with a single one, for every weight of the matrix. Percent: weights "
    "whose bits are not those that dequantization writes; at most: the largest difference, in "
    "units in the last place, over all numbers of rows."
)
BATCH = Column("rows", "batch")
FASTEST = [
    Column("fastest of ours", "kernel", **CODE),
    Column("us (interval)", "us", wrap=1),
    Column("of floor %", "of_floor", percent),
]


def floor_note(run: Run) -> str:
    tflops, where = measured_peak(run)
    peak = f": {rounded(tflops)} TFLOP/s, the highest rate of any row ({where})"
    return f"{FLOOR_NOTE}{peak if where else ''}."


def heading(cell: Cell) -> str:
    """'1024x8192: llama-3.3-70b.k, llama-3.3-70b.v'"""
    return f"{cell.layer}: {', '.join(cell.problem['models'])}"


def time(cell: Cell) -> Values:
    """The fastest of ours: its name, time and share, or its outcome."""
    m = cell.ours
    if m is None or not m.record.ranked:
        return {"kernel": None, "us": m.no_number if m else None}
    text = bandwidth.with_interval(m.record.times.estimate, significant)
    us = Noted(m.record.times.median, m.time_marks, text=text)
    return {"kernel": m.record.kernel, "us": us, "of_floor": cell.of_floor(m)}


def layers_table(run: Run) -> Table:
    """One row per layer and number of rows; the CSV has every kernel in full."""
    results, every = run["layers"], cells(run)
    columns = [BATCH, *FASTEST, *kernel_columns(others(results), "over ")]
    rows = [
        {"_under": heading(cell), "batch": cell.batch}
        | time(cell)
        | {name: over(cell.chosen.get(name), cell.ours) for name in others(results)}
        for cell in every
    ]
    data = [
        {"layer": cell.layer, "batch": cell.batch, "reading_us": cell.reading_us}
        | {"multiplying_us": cell.multiplying_us}
        | values_of(m)
        | {"share_of_floor": cell.of_floor(m)}
        | {"rows_different_alone": m.record.findings.get("rows_different_alone")}
        for cell in every
        for m in cell.rows.values()
    ]
    notes = [floor_note(run), PEER_NOTE, DETOUR_NOTE, OVER_NOTE]
    title = "Products with NF4 weights, every layer of the paper's models: the fastest of ours"
    return Table("layers", title, columns, rows, notes, machine_notes(results), data)


def kernel_columns(names: Iterable[str], before: str = "") -> list[Column]:
    return [Column(before + name.replace("_", " "), name, wrap=1) for name in names]


def kernels_table(run: Run) -> Table:
    """Every kernel's time on the largest model's layers."""
    every = [(name, m) for cell in of_model(run) for name, m in cell.rows.items()]
    names = [*sorted({name for name, m in every if not m.record.is_ceiling}), SIMPLE]
    simple = {c.layer: replace(c.rows[SIMPLE], best=False) for c in cells(run, SIMPLE)}
    rows = []
    for cell in of_model(run):
        kernels = cell.rows | {SIMPLE: simple.get(cell.layer) if cell.batch == 1 else None}
        shown = {n: median(cell, kernels.get(n), lambda share: f"{100 * share:.0f}") for n in names}
        rows.append({"_under": heading(cell), "batch": cell.batch} | shown)
    notes = [
        "Median us, and of floor % in brackets. The fastest of all kernels, and those whose "
        f"interval overlaps with it, are {bandwidth.BEST}.",
        floor_note(run),
        f"{SIMPLE}: a pass of its own, one row alone. Intervals, and all other layers: layers.csv.",
    ]
    title = f"Every kernel on the layers of {MODEL}"
    provenance = machine_notes(run["layers"], run[SIMPLE])
    columns = [BATCH, *kernel_columns(names)]
    return Table("kernels", title, columns, rows, notes, provenance)


def median(cell: Cell, m: Measured | None, of_floor: Callable[[float], str]) -> Noted | None:
    """'41.4 (78)': the time and the floor's share; a footnote instead of a missing time."""
    if m is None or not m.record.ranked:
        return m and replace(m.no_number, text=NONE)
    us, share = m.record.times.median, cell.of_floor(m)
    text = rounded(us) + (f" ({of_floor(share)})" if share else "")
    return Noted(us, m.time_marks, m.best, text=text)


def peers_table(
    run: Run, name: str = "peers", others: str = "what else multiplies by 4-bit weights"
) -> Table | None:
    """Each way under torch, on every layer; None for a run without that pass."""
    results = run.passes.get(name)
    if results is None:
        return None
    plain = {(cell.layer, cell.batch): cell for cell in cells(run)}
    of_row = {r.kernel: r for r in results.records}
    rows, data = [], []
    for cell in cells(run, name):
        base = plain.get((cell.layer, cell.batch))
        beside = base or replace(cell, reading_us=None)  # it has the floor
        every = cell.rows.items()
        shown = {k: median(beside, m, lambda share: f"{1 / share:.2f}") for k, m in every}
        rows.append({"_under": heading(base) if base else cell.layer, "batch": cell.batch} | shown)
        facts = {"layer": cell.layer, "batch": cell.batch, "floor_us": beside.floor_us}
        data += [facts | values_of(m) | {"bound": m.record.bound} for _, m in every]
    notes = [
        "Median us, and times the floor of NF4 weights in brackets, whatever a row holds. The "
        f"fastest of all, and those whose interval overlaps with it, are {bandwidth.BEST}.",
        floor_note(run),
        *(f"{k}: {r.maker or 'ours'}; {r.lineage}; {r.bound}." for k, r in of_row.items()),
    ]
    title = f"Compared with {others} under PyTorch, in CUDA graphs"
    columns = [BATCH, *kernel_columns(of_row)]
    return Table(name, title, columns, rows, notes, machine_notes(results), data)


def takes_over(group: list[Cell], one: str, other: str) -> Noted:
    """The number of rows from which on `other` is faster at every one that was measured."""
    first = None
    gains = [(cell.batch, cell.gain(one, other)) for cell in group]
    for batch, gain in reversed(gains):
        if gain is None or gain.low <= 1:
            break
        first = batch
    last = [batch for batch, gain in gains if gain][-1:]
    rows = [m.record for cell in group for name in (one, other) if (m := cell.chosen.get(name))]
    text = "" if first or not last else f"not up to {last[0]}"
    return Noted(first, older_mark(*rows), text=text)


def crossover_table(run: Run) -> Table:
    """One row per layer."""
    pairs = [(OURS, DEQUANTIZING), (OURS, CUBLAS)]
    pairs += [(name, DEQUANTIZING) for name in peers(run["layers"].records)]
    pairs.append((DEQUANTIZING, CUBLAS))
    names = [f"{one} to {other}" for one, other in pairs]
    columns = [Column("layer", "layer", **WORDS), *kernel_columns(names)]
    columns += [Column("used by", "users", detail=True, **WORDS)]
    rows = [
        {"layer": layer, "users": ", ".join(group[0].problem["models"])}
        | {name: takes_over(group, *pair) for name, pair in zip(names, pairs, strict=True)}
        for layer, group in by_layer(cells(run)).items()
    ]
    notes = [
        "A to B: the number of rows from which on B is faster than A, with no overlap of their "
        "intervals, at every number of rows that was measured. Ours: the fastest of ours.",
        PEER_NOTE,
        DETOUR_NOTE,
    ]
    title = "From how many rows on another way is faster"
    return Table("crossover", title, columns, rows, notes, machine_notes(run["layers"]))


def formats_table(run: Run) -> Table:
    """The fastest of ours on other formats, compared with plain scales, fp16 and block size 64."""
    plain = {(cell.layer, cell.batch): cell.ours for cell in cells(run)}
    columns = [BATCH, Column("format", "format", **WORDS), *FASTEST]
    columns.append(Column("of plain x", "of_plain", bandwidth.times_text))
    every = [(text, cell) for name, text in FORMATS.items() for cell in cells(run, name)]
    every.sort(key=lambda pair: (shape(pair[1].problem), pair[1].batch))
    rows = [
        {"_under": cell.layer, "batch": cell.batch}
        | {"format": text or f"block size {cell.problem['block_size']}"}
        | time(cell)
        | {"of_plain": of_plain(cell.ours, plain.get((cell.layer, cell.batch)))}
        for text, cell in every
    ]
    notes = [
        "Of plain: the time over that of the fastest of ours on plain scales, fp16 and block size "
        "64, in another pass of this run; ~ where the intervals of the two overlap.",
        floor_note(run),
    ]
    provenance = machine_notes(*(run[name] for name in ("layers", *FORMATS)))
    title = "Other formats: nested scales, bf16, and block sizes"
    return Table("formats", title, columns, rows, notes, provenance)


def of_plain(ours: Measured | None, plain: Measured | None) -> Noted:
    ratio = compared(ours, plain)
    return Noted(ratio, older_mark(plain.record) if ratio else ())


def weights_table(run: Run) -> Table:
    """One row per kernel: the share of weights that are not dequantization's, and by how much."""
    batches = sorted({p["batch"] for name in ONE_HOT for p in run[name].problems()})
    columns = [KERNEL, *(Column(f"{b} row{'s' * (b > 1)} %", f"_{b}") for b in batches)]
    columns += [Column("at most ulp", "ulps")]
    columns += [Column("what it says of itself", "bound", detail=True, **WORDS)]
    rows: dict[tuple[str, str], Values] = {}  # by heading and kernel
    data: list[Values] = []
    for cell in [cell for name in ONE_HOT for cell in cells(run, name)]:
        p, scales = cell.problem, "nested scales" if cell.problem["nested"] else "plain scales"
        for r in [m.record for _, m in sorted(cell.rows.items()) if not m.record.is_ceiling]:
            count, ulps = map(r.findings.get, ("weights_different", "weights_max_ulps"))
            share = None if count is None else count / (p["rows"] * p["columns"])
            text = "" if share is None else rounded(100 * share)
            different = Noted(share, older_mark(r), text=text)
            different = different if r.is_verified else cell.rows[r.kernel].no_number
            under = f"{scales}, {p['output']}"
            head = {"_under": under, "kernel": r.kernel, "bound": r.bound, "ulps": None}
            row = rows.setdefault((under, r.kernel), head)
            row[f"_{p['batch']}"] = different
            row["ulps"] = max((u for u in (ulps, row["ulps"]) if u is not None), default=None)
            facts = {"scales": scales, "output": p["output"], "batch": p["batch"]}
            facts |= {"kernel": r.kernel, "outcome": r.outcome}
            data.append(facts | {"share_different": different, "max_ulps": ulps})
    provenance = machine_notes(*(run[name] for name in ONE_HOT))
    title = "Which weights each kernel multiplies by, against those that dequantization writes"
    return Table("weights", title, columns, list(rows.values()), [ULP_NOTE], provenance, data)

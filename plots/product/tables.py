"""Products with NF4 weights: every layer over the number of rows, what each kernel takes, from how
many rows on another way is faster, other formats, and which weights are multiplied by.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from plots import bandwidth
from plots.bandwidth import Measured, Rows, compared, percent, rows_by, values_of
from plots.captions import machine_notes
from plots.experiments import Run
from plots.tables import CODE, KERNEL, NONE, WORDS, Column, Noted, Table, Values
from records.results import Results
from records.stats import INTERVAL_NOTE, Estimate, significant

CUBLAS = "cublas_16bit"
DETOURS = ("streaming_then_cublas", "shared_lut_then_cublas")  # they write 16-bit weights first
DEQUANTIZING = "dequantizing"  # with the faster of them
SIMPLE = "simple"
MODEL = "llama-3.3-70b"  # the largest: its layers have every kernel's time, and the figure
FORMATS = {"nested": "nested scales", "bf16": "bf16"}  # by pass, at block size 64
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
    "elsewhere it dequantizes with a kernel of its own, which is no row here."
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

Problem = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Cell:
    """All rows on one layer with one number of rows."""

    problem: Problem
    rows: Rows
    reading_us: float | None  # codes and scales once
    multiplying_us: float  # at the measured peak; 0 where there is none

    @property
    def batch(self) -> int:
        return self.problem["batch"]

    @property
    def layer(self) -> str:
        return f"{self.problem['rows']}x{self.problem['columns']}"

    def fastest(self, kernels: Iterable[str]) -> Measured | None:
        """Of these kernels, the one with the lowest time; without any, one that says why."""
        found = [self.rows[name] for name in kernels if name in self.rows]
        ranked = [m for m in found if m.record.ranked]
        return min(ranked or found[:1], key=median, default=None)

    @property
    def ours(self) -> Measured | None:
        projects = [name for name, m in self.rows.items() if m.record.origin == "project"]
        return self.fastest(name for name in projects if name not in (*DETOURS, SIMPLE))

    @property
    def detour(self) -> Measured | None:
        return self.fastest(DETOURS)

    @property
    def cublas(self) -> Measured | None:
        return self.rows.get(CUBLAS)

    def peer(self, name: str) -> Measured | None:
        """The product that the library has for any number of rows, else that for one."""
        found = [self.rows[k] for end in ("gemm", "gemv") if (k := f"{name}_{end}") in self.rows]
        return next((m for m in found if m.record.ranked), found[0] if found else None)

    @property
    def floor_us(self) -> float | None:
        return self.reading_us and max(self.reading_us, self.multiplying_us)

    def of_floor(self, m: Measured | None) -> float | None:
        if m is None or not m.record.ranked or self.floor_us is None:
            return None
        return self.floor_us / m.record.times.median


def median(m: Measured) -> float:
    return m.record.summary.median if m.record.summary else 0.0


def shape(p: Problem) -> Key:
    """Smaller layers come first."""
    return p["rows"] * p["columns"], p["rows"], p["columns"]


def cells(run: Run, name: str = "layers") -> list[Cell]:
    """Of a pass by layer, the smallest first, then by block size, type and number of rows."""
    key = lambda p: (*shape(p), p["block_size"], p["output"], p["batch"])  # noqa: E731
    found = rows_by(run[name], key)
    gb_s, (tflops, _) = reading_gb_s(found), measured_peak(run)
    made = []
    for rows in found.values():
        p = next(iter(rows.values())).record.problem
        reading = weight_bytes(rows) / gb_s / 1e3 if gb_s else None
        made.append(Cell(p, rows, reading, operations(p) / tflops / 1e6 if tflops else 0.0))
    return made


def operations(p: Problem) -> int:
    """A multiplication and an addition for every weight and row."""
    return 2 * p["batch"] * p["rows"] * p["columns"]


def measured_peak(run: Run) -> tuple[float, str]:
    """Of the tensor cores: the highest rate of a row of `layers`, in TFLOP/s, and of which."""
    timed = [r for r in run["layers"].records if r.ranked and not r.is_ceiling]
    rates = ((operations(r.problem) / r.times.median / 1e6, r.place) for r in timed)
    return max(rates, default=(0.0, ""))


def floor_note(run: Run) -> str:
    tflops, where = measured_peak(run)
    peak = f": {significant(tflops, 3)} TFLOP/s, the highest rate of any row ({where})"
    return f"{FLOOR_NOTE}{peak if where else ''}."


def weight_bytes(rows: Rows) -> int:
    """Codes and scales: what every kernel reads, without activations and bias."""
    record = next(m.record for m in rows.values() if not m.record.is_ceiling)
    p = record.problem
    return record.bytes_read - 2 * p["batch"] * p["columns"] - 2 * p["rows"] * p["bias"]


def reading_gb_s(found: dict[Key, Rows]) -> float | None:
    """Of the largest layer, with the fewest rows on which it was measured."""
    speeds = {key: m.gb_s for key, rows in found.items() if (m := rows.get("read_only")) and m.gb_s}
    largest = max(speeds, key=lambda key: (key[0], -key[-1]), default=None)
    return speeds.get(largest)


def peers(results: Results) -> list[str]:
    """The user's libraries; each is two rows."""
    found = [r.kernel for r in results.records if r.origin == "peer" and r.kernel != CUBLAS]
    return list(dict.fromkeys(k.removesuffix("_gemm").removesuffix("_gemv") for k in found))


Choice = Callable[[Cell], Measured | None]


def others(results: Results) -> dict[str, Choice]:
    """What ours is compared with, by its heading."""
    found: dict[str, Choice] = {n: lambda cell, n=n: cell.peer(n) for n in peers(results)}
    return found | {DEQUANTIZING: lambda cell: cell.detour, CUBLAS: lambda cell: cell.cublas}


def by_layer(found: Iterable[Cell]) -> dict[str, list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for cell in found:
        groups.setdefault(cell.layer, []).append(cell)
    return groups


def heading(group: list[Cell]) -> str:
    """'1024x8192: llama-3.3-70b.k, llama-3.3-70b.v'"""
    return f"{group[0].layer}: {', '.join(group[0].problem['models'])}"


def is_of_model(cell: Cell) -> bool:
    return any(user.startswith(f"{MODEL}.") for user in cell.problem["models"])


def over(base: Measured | None, m: Measured | None) -> Noted:
    """How many times as fast; what became of the other where it has no time."""
    if base is not None and not base.record.ranked:
        return base.no_number
    return Noted(None, text=bandwidth.over_text(compared(base, m)))


def time(cell: Cell, m: Measured | None) -> Values:
    """Of one kernel: its name, time and share, or what became of it."""
    if m is None or not m.record.ranked:
        return {"kernel": None, "us": m.no_number if m else None}
    s = m.record.times
    us = Noted(s.median, m.clock, text=bandwidth.with_interval(s.estimate, significant))
    return {"kernel": m.record.kernel, "us": us, "of_floor": cell.of_floor(m)}


def layers_table(run: Run) -> Table:
    """One row per layer and number of rows; the CSV has every kernel in full."""
    results, found = run["layers"], cells(run)
    columns = [Column("rows", "batch"), Column("fastest of ours", "kernel", **CODE)]
    columns += [
        Column("us (interval)", "us", wrap=1),
        Column("of floor %", "of_floor", percent),
    ]
    compared_with = others(results)
    columns += [Column(f"over {name.replace('_', ' ')}", name, wrap=1) for name in compared_with]
    groups = {}
    for group in by_layer(found).values():
        groups[heading(group)] = [
            {"batch": cell.batch}
            | time(cell, cell.ours)
            | {name: over(choose(cell), cell.ours) for name, choose in compared_with.items()}
            for cell in group
        ]
    data = [
        {"layer": cell.layer, "batch": cell.batch, "reading_us": cell.reading_us}
        | {"multiplying_us": cell.multiplying_us}
        | values_of(m)
        | {"share_of_floor": cell.of_floor(m)}
        | {"rows_different_alone": m.record.findings.get("rows_different_alone")}
        for cell in found
        for m in cell.rows.values()
    ]
    notes = [floor_note(run), PEER_NOTE, DETOUR_NOTE, OVER_NOTE]
    title = "Products with NF4 weights, every layer of the paper's models: the fastest of ours"
    return Table("layers", title, columns, groups, notes, machine_notes(results), data)


def kernels_table(run: Run) -> Table:
    """Every kernel's time on the largest model's layers."""
    simple = {c.layer: c.rows.get(SIMPLE) for c in cells(run, "simple")}
    found = [cell for cell in cells(run) if is_of_model(cell)]
    kernels = dict.fromkeys(
        name for cell in found for name, m in cell.rows.items() if not m.record.is_ceiling
    )
    names = sorted(kernels) + [SIMPLE]
    columns = [Column("rows", "batch")]
    columns += [Column(name.replace("_", " "), name, wrap=1) for name in names]
    groups = {}
    for group in by_layer(found).values():
        rows = groups.setdefault(heading(group), [])
        for cell in group:
            also = {SIMPLE: simple.get(cell.layer)} if cell.batch == 1 else {}
            every = cell.rows | also
            rows.append({"batch": cell.batch} | {n: share(cell, every.get(n)) for n in names})
    notes = [
        "Median us, and of floor % in brackets. The fastest of all kernels, and those whose "
        f"interval overlaps with it, are {bandwidth.BEST}.",
        floor_note(run),
        f"{SIMPLE}: a pass of its own, one row alone. Intervals, and all other layers: layers.csv.",
    ]
    title = f"Every kernel on the layers of {MODEL}"
    provenance = machine_notes(*(run[p] for p in ("layers", SIMPLE)))
    return Table("kernels", title, columns, groups, notes, provenance)


def share(cell: Cell, m: Measured | None) -> Noted | None:
    """'41.4 (78)'; a footnote where the row has no time."""
    if m is None or not m.record.ranked:
        return m and replace(m.no_number, text=NONE)
    found, text = cell.of_floor(m), significant(m.record.times.median, 3)
    text += f" ({100 * found:.0f})" if found else ""
    best = m.best and m.record.kernel != SIMPLE  # which was not measured among the others
    return Noted(m.record.times.median, m.clock, best, text=text)


def peers_table(run: Run) -> Table | None:
    """Each way under torch, on every layer; nothing of a run without that pass."""
    results = run.passes.get("peers")
    if results is None:
        return None
    plain = {(cell.layer, cell.batch): cell for cell in cells(run)}
    of_row = {r.kernel: r for r in results.records}
    columns = [Column("rows", "batch")]
    columns += [Column(name.replace("_", " "), name, wrap=1) for name in of_row]
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for layer, group in by_layer(cells(run, "peers")).items():
        known = [plain[c.layer, c.batch] for c in group if (c.layer, c.batch) in plain]
        rows = groups.setdefault(heading(known) if known else layer, [])
        for cell in group:
            base = plain.get((cell.layer, cell.batch))
            floor = base and base.floor_us
            rows.append({"batch": cell.batch})
            for name, m in cell.rows.items():
                rows[-1][name] = times_floor(m, floor)
                facts = {"layer": layer, "batch": cell.batch, "floor_us": floor}
                data.append(facts | values_of(m) | {"bound": m.record.bound})
    notes = [
        "Median us, and times the floor of NF4 weights in brackets, whatever a row holds. The "
        f"fastest of all, and those whose interval overlaps with it, are {bandwidth.BEST}.",
        floor_note(run),
        *(f"{name}: {r.maker or 'ours'}; {r.lineage}; {r.bound}." for name, r in of_row.items()),
    ]
    title = "Beside what else multiplies by 4-bit weights under PyTorch, in CUDA graphs"
    return Table("peers", title, columns, groups, notes, machine_notes(results), data)


def times_floor(m: Measured, floor_us: float | None) -> Noted:
    """'41.4 (1.28)'; a footnote where the row has no time."""
    if not m.record.ranked:
        return replace(m.no_number, text=NONE)
    us = m.record.times.median
    text = significant(us, 3) + (f" ({us / floor_us:.2f})" if floor_us else "")
    return Noted(us, m.clock, m.best, text=text)


def takes_over(group: list[Cell], one: Choice, other: Choice) -> int | None:
    """The number of rows from which on `other` is faster at every one that was measured."""
    found = None
    for cell in reversed(group):
        gain = compared(one(cell), other(cell))
        if gain is None or gain.low <= 1:
            break
        found = cell.batch
    return found


def crossover_table(run: Run) -> Table:
    """One row per layer."""
    results = run["layers"]
    compared_with = others(results)
    pairs: dict[str, tuple[Choice, Choice]] = {
        f"ours to {name}": (lambda cell: cell.ours, compared_with[name])
        for name in (DEQUANTIZING, CUBLAS)
    }
    for name in (*peers(results), DEQUANTIZING):
        last = CUBLAS if name == DEQUANTIZING else DEQUANTIZING
        pairs[f"{name} to {last}"] = (compared_with[name], compared_with[last])
    columns = [Column("layer", "layer", **WORDS)]
    columns += [Column(text.replace("_", " "), text, wrap=1) for text in pairs]
    columns += [Column("used by", "users", detail=True, **WORDS)]
    rows: list[Values] = []
    for layer, group in by_layer(cells(run)).items():
        row: Values = {"layer": layer, "users": ", ".join(group[0].problem["models"])}
        for text, (one, other) in pairs.items():
            at = takes_over(group, one, other)
            both = [c.batch for c in group if compared(one(c), other(c))]
            row[text] = Noted(at, text="" if at or not both else f"not up to {both[-1]}")
        rows.append(row)
    notes = [
        "A to B: the number of rows from which on B is faster than A, with no overlap of their "
        "intervals, at every number of rows that was measured. Ours: the fastest of ours.",
        PEER_NOTE,
        DETOUR_NOTE,
    ]
    title = "From how many rows on another way is faster"
    return Table("crossover", title, columns, {"": rows}, notes, machine_notes(results))


def formats_table(run: Run) -> Table:
    """The fastest of ours on other formats, beside plain scales, fp16 and block size 64."""
    plain = {(cell.layer, cell.batch): cell for cell in cells(run)}
    columns = [Column("rows", "batch"), Column("format", "format", **WORDS)]
    columns += [Column("fastest of ours", "kernel", **CODE), Column("us (interval)", "us", wrap=1)]
    columns += [
        Column("of floor %", "of_floor", percent),
        Column("of plain x", "of_plain", ratio),
    ]
    found = {name: cells(run, name) for name in (*FORMATS, "block_sizes")}
    every = [(FORMATS.get(name), cell) for name, those in found.items() for cell in those]
    every.sort(key=lambda pair: (shape(pair[1].problem), pair[1].batch))
    groups: dict[str, list[Values]] = {}
    for text, cell in every:
        base = plain.get((cell.layer, cell.batch))
        row = {"batch": cell.batch, "format": text or f"block size {cell.problem['block_size']}"}
        row |= time(cell, cell.ours) | {"of_plain": compared(cell.ours, base and base.ours)}
        groups.setdefault(cell.layer, []).append(row)
    notes = [
        "Of plain: the time over that of the fastest of ours on plain scales, fp16 and block size "
        "64, in another pass of this run; ~ where the intervals of the two overlap.",
        floor_note(run),
    ]
    provenance = machine_notes(*(run[name] for name in ("layers", *found)))
    title = "Other formats: nested scales, bf16, and block sizes"
    return Table("formats", title, columns, groups, notes, provenance)


def ratio(found: Estimate) -> str:
    return bandwidth.times_text(found, 2)


def weights_table(run: Run) -> Table:
    """One row per kernel: how many weights are not dequantization's, and by how much."""
    batches = sorted({p["batch"] for name in ONE_HOT for p in run[name].problems()})
    columns = [KERNEL, *(Column(f"{b} row{'s' * (b > 1)} %", f"_{b}", few) for b in batches)]
    columns += [Column("at most ulp", "ulps")]
    columns += [Column("what it says of itself", "bound", detail=True, **WORDS)]
    groups: dict[str, dict[str, Values]] = {}
    data: list[Values] = []
    for name in ONE_HOT:
        for cell in cells(run, name):
            p = cell.problem
            scales = "nested scales" if p["nested"] else "plain scales"
            group = groups.setdefault(f"{scales}, {p['output']}", {})
            for kernel, m in sorted(cell.rows.items()):
                if m.record.is_ceiling:
                    continue
                row = group.setdefault(kernel, {"kernel": kernel, "bound": m.record.bound})
                row[f"_{p['batch']}"] = different(m)
                ulps = m.record.findings.get("weights_max_ulps")
                if ulps is not None:
                    row["ulps"] = max(ulps, row.get("ulps", 0))
                data.append(
                    {"scales": scales, "output": p["output"], "batch": p["batch"], "kernel": kernel}
                    | {"outcome": m.record.outcome, "share_different": different(m)}
                    | {"max_ulps": ulps}
                )
    shown = {text: list(rows.values()) for text, rows in groups.items()}
    provenance = machine_notes(*(run[name] for name in ONE_HOT))
    title = "Which weights each kernel multiplies by, against those that dequantization writes"
    return Table("weights", title, columns, shown, [ULP_NOTE], provenance, data)


def different(m: Measured) -> Noted:
    """The share of all weights."""
    found, p = m.record.findings.get("weights_different"), m.record.problem
    if not m.record.is_verified:
        return m.no_number
    return Noted(None if found is None else found / (p["rows"] * p["columns"]))


def few(share: float) -> str:
    return significant(100 * share, 3)

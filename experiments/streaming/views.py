"""Experiment streaming: every layer of the models, every format, every alignment, and the fastest
shape of the streaming kernel by size.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from plots import bandwidth, sample_figures
from plots.bandwidth import Measured, Rows, compared, over, percent, rows_by, values_of
from plots.experiments import Run
from plots.figures import add_caption
from plots.sweeps import WINNER, winner_note, winner_values
from reprolab.captions import machine_notes
from reprolab.errors import InputError
from reprolab.results import Results
from reprolab.stats import difference_percent, ratio, significant
from reprolab.tables import WORDS, Column, Noted, Table, Values, columns_of, side_by_side

OURS = "streaming"
SCALES = {"": "plain", "_nested": "nested"}  # by how the name of a pass ends

Key = tuple[Any, ...]  # number of weights, rows and columns of a matrix, and more facts of it
# Millions of weights from which on the time should depend only on bandwidth, and nested scales
# should be free.
LARGE = {"layers": 100, "layers_nested": 58}
BASES = {"layers": ("branch_tree", "shared_lut"), "layers_nested": ("two_launches", "branch_tree")}
BLOCK_SIZE = 64  # to which the others are compared
TYPES = ("fp16", "bf16")
OVER_NOTE = (
    "Over a kernel: the speed-up over that kernel, in one shuffled run. " + bandwidth.RATIO_NOTE
)
NESTED_NOTE = (
    "'Of plain' is the time over that of the same layer with plain scales, from another pass of "
    "this run; ~ if the two intervals overlap, so that no difference was seen."
)
ALIGNMENT_NOTE = (
    "Offset: distance in elements of every array's start from an aligned address; an element is "
    "2 bytes in the output, 1 in the codes, and in the scales 4, or 1 if nested. Against "
    "aligned: GB/s compared with the same matrix at offset 0; an odd one with that of one more "
    "row and column."
)


def matrices(results: Results, *facts: str) -> dict[Key, Rows]:
    """The rows by shape and by these facts, the smallest matrices first."""
    for p in results.problems():
        if "model" in p:
            why = "is a forward pass, but single matrices are needed here"
            raise InputError(f"{results.file}: problem '{p['name']}' {why}")
    names = ("n", "rows", "columns", *facts)
    return rows_by(results, lambda p: tuple(p.get(name, 0) for name in names))


def ours(results: Results, *facts: str) -> dict[Key, Measured]:
    """The rows of our kernel."""
    return {k: rows[OURS] for k, rows in matrices(results, *facts).items() if OURS in rows}


def text_of(key: Key) -> str:
    """'28672x8192 at offset 1', without the offset if it is 0."""
    offset = key[3] if len(key) > 3 else 0
    return f"{key[1]}x{key[2]}" + f" at offset {offset}" * (offset > 0)


def change(m: Measured | None, base: Measured | None) -> float | None:
    """The difference of its GB/s from another's in percent; None if one has no time."""
    ranked = m and base and m.record.ranked and base.record.ranked and m.gb_s and base.gb_s
    return difference_percent(m.gb_s, base.gb_s) if ranked else None


def time_and_speed(m: Measured | None) -> Values:
    """The text for a row: its outcome if it has no time."""
    if m is None:
        return {"us": Noted(None, text="not run")}
    s, shares = m.record.summary, {"share_of_copy": m.of_copy, "share_of_ceiling": m.of_ceiling}
    if s is None:
        return {"us": m.no_number} | shares
    remark = () if m.record.ranked else m.outcome.notes
    speed = Noted(m.gb_s, m.marks, text=bandwidth.gb_text(m.gb_s) if m.gb_s else "")
    return {"us": Noted(s.median, remark, text=significant(s.median)), "gb_s": speed} | shares


def millions(weights: int) -> str:
    return f"{weights / 1e6:.1f}"


def signed(percent: float) -> str:
    return f"{round(percent, 1) + 0.0:+.1f}"  # never -0.0


def peers(results: Results) -> list[str]:
    """The user's libraries."""
    return list(dict.fromkeys(r.kernel for r in results.records if r.origin == "peer"))


def is_large(key: Key, name: str) -> bool:
    return key[0] >= LARGE[name] * 1_000_000


def layers_table(name: str, run: Run) -> Table:
    """One row per layer; the CSV has every kernel and ceiling in full."""
    results, is_nested = run[name], name == "layers_nested"
    libraries, second = peers(results), BASES[name][1]
    plain = ours(run["layers"]) if is_nested else {}
    columns = [Column("layer", "layer", **WORDS), Column("million weights", "weights", millions)]
    columns += [Column("us", "us"), Column("GB/s", "gb_s"), bandwidth.COPY_SHARE]
    columns += [Column("of fastest ceiling %", "share_of_ceiling", percent)]
    three = partial(bandwidth.times_text, digits=3)
    columns += [Column("of plain x", "of_plain", three)] * is_nested
    for kernel in (*BASES[name], *libraries):
        head = kernel.replace("_", " ") if kernel in libraries else kernel  # it is long
        # The terminal has no room for the second.
        columns.append(Column(f"over {head}", kernel, wrap=1, detail=kernel == second))
    columns += [Column("used by", "users", detail=True, **WORDS)]
    limit = f"{LARGE[name]} million weights"
    rows, data = [], []
    by_shape = sorted(matrices(results).items(), key=lambda item: not is_large(item[0], name))
    for key, by_kernel in by_shape:
        m = by_kernel.get(OURS)
        users = next(iter(by_kernel.values())).record.problem.get("models", [])
        under = f"{limit} and more" if is_large(key, name) else f"less than {limit}"
        row = {"_under": under, "layer": text_of(key), "weights": key[0]}
        row |= {"users": ", ".join(users) or None, "of_plain": compared(m, plain.get(key))}
        beside = {kernel: over(by_kernel.get(kernel), m) for kernel in (*BASES[name], *libraries)}
        rows.append(row | time_and_speed(m) | beside)
        for other in by_kernel.values():
            faster = bandwidth.estimate_values(f"{OURS}_speedup", compared(other, m))
            data.append({"layer": text_of(key)} | values_of(other) | faster)
    notes = [bandwidth.GB_NOTE, bandwidth.COPY_NOTE, bandwidth.CEILING_NOTE]
    notes += [*[NESTED_NOTE] * is_nested, OVER_NOTE]
    scales = "nested scales, in one kernel" if is_nested else "plain scales"
    title = f"{OURS} on every layer of the paper's models: {scales}"
    return Table(name, title, columns, rows, notes, machine_notes(results), data)


def beside(names: Iterable[str], against: str) -> list[Column]:
    """Columns for time, speed and change of each."""
    change = Column(against, "change", signed)
    return columns_of(names, Column("{} us", "us"), Column("{} GB/s", "gb_s"), change)


def described(m: Measured, *facts: str) -> Values:
    """For a CSV: the matrix, these facts of its problem, and everything else."""
    p = m.record.problem
    matrix = {"rows": p["rows"], "columns": p["columns"]} | {fact: p.get(fact, 0) for fact in facts}
    return matrix | values_of(m)


def formats_table(run: Run) -> Table:
    """One row per shape and block size."""
    by_format = ours(run["formats"], "block_size", "output")
    columns = [Column("block size", "block_size"), *beside(TYPES, f"against {BLOCK_SIZE} %")]
    columns.append(Column("bf16 against fp16 %", "types", signed))
    rows = []
    for key in dict.fromkeys(key[:4] for key in by_format):
        by_type = {output: by_format.get((*key, output)) for output in TYPES}
        bases = {output: by_format.get((*key[:3], BLOCK_SIZE, output)) for output in TYPES}
        cells = {t: time_and_speed(m) | {"change": change(m, bases[t])} for t, m in by_type.items()}
        row = {"_under": text_of(key[:3]), "block_size": key[3]} | side_by_side(cells)
        rows.append(row | {"types": change(by_type["bf16"], by_type["fp16"])})
    data = [described(m, "block_size", "output") for m in by_format.values()]
    notes = [bandwidth.GB_NOTE, "Against: difference in GB/s. Fewer scales are fewer bytes."]
    title = f"{OURS} by block size and output type"
    return Table("formats", title, columns, rows, notes, machine_notes(run["formats"]), data)


def alignments(run: Run) -> dict[str, dict[Key, Measured]]:
    """Our kernel by scales, and then by shape and offset."""
    return {scales: ours(run[f"places{end}"], "offset") for end, scales in SCALES.items()}


def alignments_table(run: Run) -> Table:
    """One row per shape and offset."""
    by_scales = alignments(run)
    columns = [Column("offset", "offset"), *beside(by_scales, "against aligned %")]
    rows: list[Values] = []
    for key in sorted({key for cells in by_scales.values() for key in cells}):
        base, cells = aligned(key), {}
        for scales, rows_of in by_scales.items():
            m = rows_of.get(key)
            cells[scales] = time_and_speed(m) | {"change": change(m, rows_of.get(base))}
        against = f", against {text_of(base)} at offset 0" if base[:3] != key[:3] else ""
        row = {"_under": text_of(key[:3]) + against, "offset": key[3]}
        rows.append(row | side_by_side(cells))
    every = [(scales, m) for scales, cells in by_scales.items() for m in cells.values()]
    data = [{"scales": scales} | described(m, "offset") for scales, m in every]
    provenance = machine_notes(*(run[f"places{end}"] for end in SCALES))
    title = f"{OURS} wherever its arrays begin, and on odd sizes"
    notes = [ALIGNMENT_NOTE, bandwidth.GB_NOTE]
    return Table("places", title, columns, rows, notes, provenance, data)


def aligned(key: Key) -> Key:
    """Shape and offset that an alignment is compared with."""
    rows, columns = (size + size % 2 for size in key[1:3])
    return rows * columns, rows, columns, 0


def shapes_table(run: Run) -> Table:
    """One row per kind of scales and size; the CSV has every shape."""
    columns = [Column("matrix", "matrix", **WORDS), Column("million weights", "weights", millions)]
    rows, data = [], []
    for end, scales in SCALES.items():
        # Aligned matrices first.
        swept = sorted(matrices(run[f"shapes{end}"], "offset").items(), key=lambda item: item[0][3])
        for key, by_kernel in swept:
            # The swept shapes without the kernel's row: the fastest, and those not distinguished
            # from it.
            forms = [m for m in by_kernel.values() if m.record.ranked and m.record.kernel != OURS]
            times = [m.record.times for m in forms]
            pairs = zip(forms, times, strict=True)
            best = [m for m, us in pairs if not ratio(us, times[0]).differs_from_one]
            row = {"_under": f"{scales} scales", "matrix": text_of(key), "weights": key[0]}
            rows.append(row | winner_values(best, by_kernel.get(OURS)))
            where = {"scales": scales, "matrix": text_of(key[:3]), "offset": key[3]}
            data += [where | values_of(m) for m in by_kernel.values()]
    notes = [
        winner_note(f"{OURS}, with the shape that kernels/nf4/streaming.cu chooses for the size"),
        bandwidth.COPY_NOTE,
        "Every shape at every size: the CSV file.",
    ]
    provenance = machine_notes(*(run[f"shapes{end}"] for end in SCALES))
    title = "The fastest shape of the streaming kernel by size"
    return Table("shapes", title, columns + WINNER, rows, notes, provenance, data)


def highlights(run: Run) -> list[str]:
    """The minimum of the large layers, the worst alignment, and rows without a time."""
    lines = []
    for name, title in {"layers": "Layers", "layers_nested": "Nested scales, layers"}.items():
        if parts := least(run, name):
            large = f"{LARGE[name]} million weights and more"
            lines.append(f"{title} of {large}, at least: {', '.join(parts)}.")
    apart = {}
    for scales, by_place in alignments(run).items():
        for key, m in by_place.items():
            percent = change(m, by_place.get(aligned(key)))
            if key != aligned(key) and percent is not None:
                apart[f"{text_of(key)}, {scales}"] = percent
    if apart:
        where = min(apart, key=apart.get)
        lines.append(
            "Offsets and odd sizes, GB/s against the aligned matrix: at worst "
            f"{apart[where]:+.1f} % ({where}), of {len(apart)}."
        )
    untimed = [
        f"{results.name}: {r.problem['name']}: {r.reason or r.outcome.replace('_', ' ')}"
        for results in run.passes.values()
        for r in results.records
        if r.kernel == OURS and not r.ranked
    ]
    if untimed:
        more = f" ({len(untimed) - 1} more such rows.)" * (len(untimed) > 1)
        lines.append(f"NO TIME of {OURS}: {untimed[0]}.{more}")
    return lines


def least(run: Run, name: str) -> list[str]:
    """'3.51 times as fast as branch_tree (36864x4608)', for the large layers if there is one."""
    layers = {text_of(key): r for key, r in matrices(run[name]).items() if is_large(key, name)}
    layers = {text: r for text, r in layers.items() if OURS in r and r[OURS].record.ranked}
    by_base: dict[str, dict[str, float | None]] = {}
    if name == "layers":
        for share in ("of_copy", "of_ceiling"):
            by_base[share] = {text: getattr(r[OURS], share) for text, r in layers.items()}
    for kernel in (*BASES[name], *peers(run[name])):
        gains = {text: compared(r.get(kernel), r[OURS]) for text, r in layers.items()}
        by_base[kernel] = {text: gain and gain.value for text, gain in gains.items()}
    parts = []
    for base, values in by_base.items():
        known = {text: value for text, value in values.items() if value is not None}
        if known:
            where = min(known, key=known.get)
            shares = {"of_copy": "cudaMemcpy", "of_ceiling": "the fastest ceiling"}
            ratio = f"{known[where]:.2f} times as fast as {base}"
            if base in shares:
                ratio = f"{100 * known[where]:.1f} % of {shares[base]}"
            parts.append(f"{ratio} ({where})")
    return parts


def layers_figure(run: Run) -> Figure:
    """GB/s against the size of the layer, under the ceilings."""
    panels = {f"{text} scales": list(run[f"layers{end}"].records) for end, text in SCALES.items()}
    stressed = (OURS, BASES["layers"][0])
    figure = sample_figures.bandwidth_figure(panels, stressed)
    notes = ["Each layer of the paper's models once. Medians; intervals: the tables."]
    add_caption(figure, run["layers"], notes, run.recorded)
    return figure


TABLES = (
    partial(layers_table, "layers"),
    partial(layers_table, "layers_nested"),
    formats_table,
    alignments_table,
    shapes_table,
)
ON_TERMINAL = ("layers", "layers_nested", "formats", "places", "shapes")
FIGURES = {"layers": ("Bandwidth of every layer, plain and nested scales", layers_figure)}

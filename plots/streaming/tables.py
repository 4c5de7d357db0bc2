"""The streaming kernel's tables: every layer of the models, every format, wherever arrays begin,
and the shape that is the fastest at a size.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from plots import bandwidth
from plots.bandwidth import Measured, Rows, compared, percent, rows_by, values_of
from plots.captions import machine_notes
from plots.experiments import Run
from plots.sweeps import WINNER, winner_note, winner_values
from plots.tables import WORDS, Column, Noted, Table, Values
from records.errors import InputError
from records.results import Results
from records.stats import Estimate, difference_percent, ratio, significant

OURS = "streaming"
SCALES = {"": "plain", "_nested": "nested"}  # by how the name of a pass ends

Problem = dict[str, Any]
Key = tuple[Any, ...]
LARGE = 100_000_000  # weights from which on bandwidth alone should count
LARGE_NESTED = 58_000_000  # weights from which on nested scales should cost nothing
BASES = {"layers": ("branch_tree", "shared_lut"), "layers_nested": ("two_launches", "branch_tree")}
BLOCK_SIZE = 64  # to which the others are compared
TYPES = ("fp16", "bf16")
OVER_NOTE = (
    "Over a kernel: how many times as fast as that kernel, in one shuffled run. "
    + bandwidth.RATIO_NOTE
)
NESTED_NOTE = (
    "Of plain: the time over that of the same layer with plain scales, which another pass of this "
    "run measured; ~ where the intervals of the two overlap, so that no difference was seen."
)
ALIGNMENT_NOTE = (
    "Offset: elements by which every array begins past an aligned address; an element is 2 bytes "
    "in the output, 1 in the codes, and in the scales 4, or 1 where they are nested. Against "
    "aligned: GB/s beside those of the same matrix at offset 0; of an odd one, of that with one "
    "row and one column more."
)

ByKey = dict[Key, Measured]  # of our kernel, where there is a row of it


def matrices(results: Results, key: Callable[[Problem], Key]) -> dict[Key, Rows]:
    """The rows by what tells the matrices apart, the smallest first."""
    for p in results.problems():
        if "model" in p:
            what = "is a forward pass, but single matrices are needed here"
            raise InputError(f"{results.file}: problem '{p['name']}' {what}")
    return rows_by(results, key)


def shape(problem: Problem) -> Key:
    """Smaller matrices come first."""
    return problem["n"], problem["rows"], problem["columns"]


def alignment(problem: Problem) -> Key:
    """The shape, and by how many elements the arrays begin past an aligned address."""
    return *shape(problem), problem.get("offset", 0)


def shape_text(key: Key) -> str:
    """'28672x8192', of a key that begins with a shape."""
    return f"{key[1]}x{key[2]}"


def alignment_text(key: Key) -> str:
    """'28672x8192 at offset 1', of a key that is an alignment; without the offset where it is 0."""
    return shape_text(key) + f" at offset {key[3]}" * (key[3] > 0)


def speed(m: Measured | None) -> float | None:
    """GB/s of a row that takes part in comparisons."""
    return m.gb_s if m is not None and m.record.ranked else None


def change(m: Measured | None, base: Measured | None) -> float | None:
    """By how many percent its GB/s differ from another's; None where one has no time."""
    ours, theirs = speed(m), speed(base)
    return None if ours is None or theirs is None else difference_percent(ours, theirs)


def time_and_speed(m: Measured | None) -> Values:
    """What is shown of a row: what became of it where it has no time."""
    if m is None:
        return {"us": Noted(None, text="not run")}
    s, shares = m.record.summary, {"share_of_copy": m.of_copy, "share_of_ceiling": m.of_ceiling}
    if s is None:
        return {"us": m.no_number} | shares
    remark = () if m.record.ranked else m.outcome.notes
    speed = Noted(m.gb_s, m.marks, text=bandwidth.gb_text(m.gb_s) if m.gb_s else "")
    return {"us": Noted(s.median, remark, text=significant(s.median)), "gb_s": speed} | shares


def untimed(run: Run) -> Iterator[str]:
    """Where our kernel has no time, and why."""
    for results in run.passes.values():
        for r in results.records:
            if r.kernel == OURS and not r.ranked:
                why = r.reason or r.outcome.replace("_", " ")
                yield f"{results.name}: {r.problem['name']}: {why}"


def millions(weights: int) -> str:
    return f"{weights / 1e6:.1f}"


def times_as_long(found: Estimate) -> str:
    return bandwidth.times_text(found, 3)


def signed(percent: float) -> str:
    return f"{round(percent, 1) + 0.0:+.1f}"  # never -0.0


def peers(results: Results) -> list[str]:
    """The user's libraries."""
    return list(dict.fromkeys(r.kernel for r in results.records if r.origin == "peer"))


def compared_with(run: Run, name: str) -> list[str]:
    """What stands beside our kernel in a pass."""
    return [*BASES[name], *peers(run[name])]


def layers(run: Run, name: str) -> dict[Key, Rows]:
    """By shape, the smallest first."""
    return matrices(run[name], shape)


def is_large(key: Key, name: str) -> bool:
    return key[0] >= (LARGE_NESTED if name == "layers_nested" else LARGE)


def plain_table(run: Run) -> Table:
    return layers_table(run, "layers")


def nested_table(run: Run) -> Table:
    return layers_table(run, "layers_nested")


def layers_table(run: Run, name: str) -> Table:
    """One row per layer; the CSV has every kernel and ceiling in full."""
    results, nested = run[name], name == "layers_nested"
    kernels, plain = compared_with(run, name), layers(run, "layers") if nested else {}
    columns = [Column("layer", "layer", **WORDS), Column("million weights", "weights", millions)]
    columns += [Column("us", "us"), Column("GB/s", "gb_s"), bandwidth.COPY_SHARE]
    columns += [Column("of fastest ceiling %", "share_of_ceiling", percent)]
    columns += [Column("of plain x", "of_plain", times_as_long)] * nested
    for kernel in kernels:
        head = kernel.replace("_", " ") if kernel in peers(results) else kernel  # it is long
        is_second = kernel == BASES[name][1]  # for which the terminal has no room
        columns.append(Column(f"over {head}", kernel, wrap=1, detail=is_second))
    columns += [Column("used by", "users", detail=True, **WORDS)]
    limit = f"{(LARGE_NESTED if nested else LARGE) / 1e6:.0f} million weights"
    groups: dict[str, list[Values]] = {f"{limit} and more": [], f"less than {limit}": []}
    data: list[Values] = []
    for large, group in zip((True, False), groups.values(), strict=True):
        for key, rows in layers(run, name).items():
            if is_large(key, name) is not large:
                continue
            m = rows.get(OURS)
            users = next(iter(rows.values())).record.problem.get("models", [])
            row = {"layer": shape_text(key), "weights": key[0], "users": ", ".join(users) or None}
            row |= time_and_speed(m) | {"of_plain": compared(m, plain.get(key, {}).get(OURS))}
            group.append(row | {kernel: over(rows.get(kernel), m) for kernel in kernels})
            for other in rows.values():
                faster = bandwidth.estimate_values(f"{OURS}_speedup", compared(other, m))
                data.append({"layer": shape_text(key)} | values_of(other) | faster)
    notes = [bandwidth.GB_NOTE, bandwidth.COPY_NOTE, bandwidth.CEILING_NOTE]
    notes += [*[NESTED_NOTE] * nested, OVER_NOTE]
    scales = "nested scales, in one kernel" if nested else "plain scales"
    title = f"{OURS} on every layer of the paper's models: {scales}"
    shown = {text: rows for text, rows in groups.items() if rows}
    return Table(name, title, columns, shown, notes, machine_notes(results), data)


def over(base: Measured | None, m: Measured | None) -> Noted:
    """The speed-up; what became of the other kernel where it has no time."""
    if base is not None and not base.record.ranked:
        return base.no_number
    return Noted(None, text=bandwidth.over_text(compared(base, m)))


def formats(run: Run) -> ByKey:
    """By shape, block size and type."""
    return ours(run, "formats", lambda p: (*shape(p), p["block_size"], p["output"]))


def alignments(run: Run, name: str) -> ByKey:
    """By shape and offset."""
    return ours(run, name, alignment)


def ours(run: Run, name: str, key: Callable[[Problem], Key]) -> ByKey:
    """Without the ceilings."""
    return {k: rows[OURS] for k, rows in matrices(run[name], key).items() if OURS in rows}


def prefixed(prefix: str, values: Values) -> Values:
    return {prefix + name: value for name, value in values.items()}


def beside(names: Iterable[str], against: str) -> list[Column]:
    """Time, speed and change of each."""
    return [
        column
        for name in names
        for column in (
            Column(f"{name} us", f"{name}us"),
            Column(f"{name} GB/s", f"{name}gb_s"),
            Column(against, f"{name}change", signed),
        )
    ]


def formats_table(run: Run) -> Table:
    """One row per shape and block size."""
    found = formats(run)
    columns = [Column("block size", "block_size"), *beside(TYPES, f"against {BLOCK_SIZE} %")]
    columns.append(Column("bf16 against fp16 %", "types", signed))
    groups: dict[str, list[Values]] = {}
    for key in dict.fromkeys(key[:4] for key in found):
        row: Values = {"block_size": key[3]}
        for output in TYPES:
            m, base = found.get((*key, output)), found.get((*key[:3], BLOCK_SIZE, output))
            row |= prefixed(output, time_and_speed(m) | {"change": change(m, base)})
        fp16, bf16 = (found.get((*key, output)) for output in TYPES)
        groups.setdefault(shape_text(key), []).append(row | {"types": change(bf16, fp16)})
    data = [described(m, "block_size", "output") | values_of(m) for m in found.values()]
    notes = [bandwidth.GB_NOTE, "Against: difference in GB/s. Fewer scales are fewer bytes."]
    title = f"{OURS} by block size and output type"
    return Table("formats", title, columns, groups, notes, machine_notes(run["formats"]), data)


def alignments_table(run: Run) -> Table:
    """One row per shape and offset."""
    found = {scales: alignments(run, f"places{end}") for end, scales in SCALES.items()}
    columns = [Column("offset", "offset"), *beside(found, "against aligned %")]
    groups: dict[str, list[Values]] = {}
    for key in sorted({key for by_alignment in found.values() for key in by_alignment}):
        base, row = aligned(key[:3]), {"offset": key[3]}
        for scales, by_alignment in found.items():
            m = by_alignment.get(key)
            row |= prefixed(
                scales, time_and_speed(m) | {"change": change(m, by_alignment.get(base))}
            )
        against = f", against {shape_text(base)} at offset 0" if base[:3] != key[:3] else ""
        groups.setdefault(shape_text(key) + against, []).append(row)
    data = [
        {"scales": scales} | described(m, "offset") | values_of(m)
        for scales, by_alignment in found.items()
        for m in by_alignment.values()
    ]
    provenance = machine_notes(*(run[f"places{end}"] for end in SCALES))
    title = f"{OURS} wherever its arrays begin, and on odd sizes"
    notes = [ALIGNMENT_NOTE, bandwidth.GB_NOTE]
    return Table("places", title, columns, groups, notes, provenance, data)


def aligned(of_shape: Key) -> Key:
    """Shape and offset that an alignment is compared with."""
    _, rows, columns = of_shape
    rows, columns = rows + rows % 2, columns + columns % 2
    return rows * columns, rows, columns, 0


def described(m: Measured, *facts: str) -> Problem:
    """For a CSV: the matrix, and these facts of its problem."""
    p = m.record.problem
    return {"rows": p["rows"], "columns": p["columns"]} | {fact: p.get(fact, 0) for fact in facts}


def swept(run: Run, name: str) -> dict[Key, Rows]:
    """By alignment: aligned matrices first, the smallest of them first."""
    return dict(sorted(matrices(run[name], alignment).items(), key=lambda found: found[0][3]))


def fastest(found: Rows) -> list[Measured]:
    """The swept shapes without the kernel's row: the fastest, and those not told apart."""
    forms = [m for m in found.values() if m.record.ranked and m.record.kernel != OURS]
    return [m for m in forms if not ratio(m.record.times, forms[0].record.times).differs_from_one]


def shapes_table(run: Run) -> Table:
    """One row per kind of scales and size; the CSV has every shape."""
    columns = [Column("matrix", "matrix", **WORDS), Column("million weights", "weights", millions)]
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for end, scales in SCALES.items():
        group = groups.setdefault(f"{scales} scales", [])
        for key, rows in swept(run, f"shapes{end}").items():
            row = {"matrix": alignment_text(key), "weights": key[0]}
            group.append(row | winner_values(fastest(rows), rows.get(OURS)))
            where = {"scales": scales, "matrix": shape_text(key), "offset": key[3]}
            data += [where | values_of(m) for m in rows.values()]
    notes = [
        winner_note(f"{OURS}, with the shape that kernels/nf4/streaming.cu chooses for the size"),
        bandwidth.COPY_NOTE,
        "Every shape at every size: the CSV file.",
    ]
    provenance = machine_notes(*(run[f"shapes{end}"] for end in SCALES))
    title = "The fastest shape of the streaming kernel by size"
    columns += WINNER
    return Table("shapes", title, columns, groups, notes, provenance, data)

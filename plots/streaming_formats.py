"""Whether the kernel is as fast at every block size, in both types, and wherever arrays begin."""

from collections.abc import Callable

from plots import bandwidth
from plots.bandwidth import Measured
from plots.captions import machine_notes
from plots.experiments import Run
from plots.streaming_rows import (
    OURS,
    SCALES,
    Key,
    Problem,
    change,
    change_text,
    place,
    rows_by,
    shape,
    shape_text,
    time_and_speed,
)
from plots.tables import Group, Row, Table, numbers

BLOCK_SIZE = 64  # to which the others are compared
TYPES = ("fp16", "bf16")
PLACES_NOTE = (
    "Offset: elements by which every array begins past an aligned address; an element is 2 bytes "
    "in the output, 1 in the codes, and in the scales 4, or 1 where they are nested. Against "
    "aligned: GB/s beside those of the same matrix at offset 0; of an odd one, of that with one "
    "row and one column more."
)

ByFormat = dict[Key, Measured]  # of our kernel, where there is a row of it


def formats(run: Run) -> ByFormat:
    """By shape, block size and type."""
    return ours(run, "formats", lambda p: (*shape(p), p["block_size"], p["output"]))


def places(run: Run, name: str) -> ByFormat:
    """By shape and offset."""
    return ours(run, name, place)


def ours(run: Run, name: str, key: Callable[[Problem], Key]) -> ByFormat:
    """Without the ceilings."""
    found = rows_by(run[name], key)
    return {k: rows[OURS] for k, rows in sorted(found.items()) if OURS in rows}


def formats_table(run: Run) -> Table:
    """One row per shape and block size."""
    found = formats(run)
    columns = [*numbers("block size", "fp16 us", "fp16 GB/s", f"against {BLOCK_SIZE} %")]
    columns += numbers("bf16 us", "bf16 GB/s", f"against {BLOCK_SIZE} %", "bf16 against fp16 %")
    rows: list[Row | Group] = []
    for of_shape in dict.fromkeys(key[:3] for key in found):
        rows.append(Group(shape_text(of_shape)))
        for size in dict.fromkeys(key[3] for key in found if key[:3] == of_shape):
            cells = []
            for output in TYPES:
                m = found.get((*of_shape, size, output))
                base = found.get((*of_shape, BLOCK_SIZE, output))
                cells += [*time_and_speed(m), change_text(change(m, base))]
            both = [found.get((*of_shape, size, output)) for output in TYPES]
            rows.append([str(size), *cells, change_text(change(both[1], both[0]))])
    data = [described(m, "block_size", "output") | bandwidth.csv_row(m) for m in found.values()]
    notes = [bandwidth.GB_NOTE, "Against: difference in GB/s. Fewer scales are fewer bytes."]
    title = f"{OURS} by block size and output type"
    return Table("formats", title, columns, rows, data, notes, machine_notes(run["formats"]))


def places_table(run: Run) -> Table:
    """One row per shape and offset."""
    found = {scales: places(run, f"places{end}") for end, scales in SCALES.items()}
    columns = [*numbers("offset")]
    for scales in found:
        columns += numbers(f"{scales} us", f"{scales} GB/s", "against aligned %")
    every = sorted({key for by_place in found.values() for key in by_place})
    rows: list[Row | Group] = []
    for of_shape in dict.fromkeys(key[:3] for key in every):
        base = aligned(of_shape)
        beside = f", against {shape_text(base)} at offset 0" if base[:3] != of_shape else ""
        rows.append(Group(shape_text(of_shape) + beside))
        for key in [key for key in every if key[:3] == of_shape]:
            cells = []
            for by_place in found.values():
                m = by_place.get(key)
                cells += [*time_and_speed(m), change_text(change(m, by_place.get(base)))]
            rows.append([str(key[3]), *cells])
    data = [
        {"scales": scales} | described(m, "offset") | bandwidth.csv_row(m)
        for scales, by_place in found.items()
        for m in by_place.values()
    ]
    notes = [PLACES_NOTE, bandwidth.GB_NOTE]
    provenance = [note for end in SCALES for note in machine_notes(run[f"places{end}"])]
    title = f"{OURS} wherever its arrays begin, and on odd sizes"
    provenance = list(dict.fromkeys(provenance))
    return Table("places", title, columns, rows, data, notes, provenance)


def aligned(of_shape: Key) -> Key:
    """Shape and offset that a place is compared with."""
    _, rows, columns = of_shape
    rows, columns = rows + rows % 2, columns + columns % 2
    return rows * columns, rows, columns, 0


def described(m: Measured, *facts: str) -> Problem:
    """For a CSV: the matrix, and these facts of its problem."""
    p = m.record.problem
    return {"rows": p["rows"], "columns": p["columns"]} | {fact: p.get(fact, 0) for fact in facts}

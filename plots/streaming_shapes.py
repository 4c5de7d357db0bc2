"""Which shape of the kernel is the fastest at a size, beside the one that the kernel chooses."""

from claims.stats import ratio
from plots import bandwidth
from plots.bandwidth import Measured
from plots.captions import machine_notes
from plots.experiments import Run
from plots.streaming_rows import OURS, SCALES, Key, Rows, place, place_text, rows_by, shape_text
from plots.sweeps import WINNER, winner_cells, winner_note
from plots.tables import Group, Row, Table, numbers, words


def swept(run: Run, name: str) -> dict[Key, Rows]:
    """By place: aligned matrices first, the smallest of them first."""
    found = rows_by(run[name], place)
    return {key: found[key] for key in sorted(found, key=lambda key: (key[3], key))}


def fastest(found: Rows) -> list[Measured]:
    """Of the swept shapes, without the kernel's row: the fastest, and those not told apart."""
    forms = [m for m in found.values() if m.record.ranked and m.record.kernel != OURS]
    return [m for m in forms if not ratio(m.record.times, forms[0].record.times).differs_from_one]


def shapes_table(run: Run) -> Table:
    """One row per kind of scales and size; the CSV has every shape."""
    columns = [*words("matrix"), *numbers("million weights"), *WINNER]
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for end, scales in SCALES.items():
        rows.append(Group(f"{scales} scales"))
        for key, found in swept(run, f"shapes{end}").items():
            cells = winner_cells(fastest(found), found.get(OURS))
            rows.append([place_text(key), f"{key[0] / 1e6:.1f}", *cells])
            where = {"scales": scales, "matrix": shape_text(key), "offset": key[3]}
            data += [where | bandwidth.csv_row(m) for m in found.values()]
    notes = [
        winner_note(f"{OURS}, with the shape that kernels/nf4/streaming.cu chooses for the size"),
        bandwidth.COPY_NOTE,
        "Every shape at every size: the CSV file.",
    ]
    provenance = [note for end in SCALES for note in machine_notes(run[f"shapes{end}"])]
    title = "The fastest shape of the streaming kernel by size"
    provenance = list(dict.fromkeys(provenance))
    return Table("shapes", title, columns, rows, data, notes, provenance)

"""few_rows in 99 KiB of shared memory, compared with all that the GPU has."""

from dataclasses import replace

from experiments.product.views.cells import cells
from experiments.product.views.tables import BATCH, heading, median
from plots.bandwidth import over, values_of
from plots.experiments import Run
from reprolab.captions import machine_notes
from reprolab.stats import INTERVAL_NOTE
from reprolab.tables import Column, Table, Values

PASS = "shared_memory"
SMALL = "_99kib"  # the end of a name
PAIRS = {name: name + SMALL for name in ("few_rows", "few_rows_exact")}
NOTES = [
    "Median us. Over: the time in 99 KiB over the time in as much shared memory as a block may "
    "have on this GPU; ratio of medians of one shuffled run, with its interval. " + INTERVAL_NOTE,
    "99 KiB is what compute capability 8.6, 8.9 and 12.0 have. Those GPUs differ in more than "
    "that, such as multiprocessors and bandwidth: their times are not measured.",
]


def shared_memory_table(run: Run) -> Table | None:
    """One row per layer and number of rows; None for a run without the pass."""
    results = run.passes.get(PASS)
    if results is None:
        return None
    columns = [BATCH]
    for name in (name for pair in PAIRS.items() for name in pair):
        columns.append(Column(name.replace("_", " "), name, wrap=1))
        if name.endswith(SMALL):
            columns.append(Column("over", f"over_{name}"))
    rows: list[Values] = []
    data: list[Values] = []
    for cell in cells(run, PASS):
        without_floor = replace(cell, reading_us=None)
        row: Values = {"_under": heading(cell), "batch": cell.batch}
        for name, small_name in PAIRS.items():
            full, small = cell.rows.get(name), cell.rows.get(small_name)
            row |= {n: median(without_floor, cell.rows.get(n), str) for n in (name, small_name)}
            row[f"over_{small_name}"] = over(small, full)
        rows.append(row)
        facts = {"layer": cell.layer, "batch": cell.batch}
        data += [facts | values_of(m) for m in cell.rows.values()]
    title = "few_rows in 99 KiB of shared memory"
    return Table(PASS, title, columns, rows, NOTES, machine_notes(results), data)

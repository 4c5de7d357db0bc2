"""The table behind the curves: GB/s of each kernel by the size of the output, cold and warm."""

from claims.errors import InputError
from claims.results import COPY, Results
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import machine_notes
from plots.experiments import Run
from plots.ladder_figures import output_mib, size_text
from plots.tables import NONE, Cell, Group, Row, Table, numbers

HEADS = {
    "cold": "cold: every launch finds its memory out of the cache",
    "warm": "warm: every launch is in the same memory, so that what fits is in the cache",
}
WARM_NOTE = (
    "Warm rows may be faster than memory. They rank with warm rows alone, their copy is warm too, "
    "and no claim is decided by them."
)

BySize = dict[float, dict[str, Measured]]  # by MiB of output, ascending, and by kernel


def by_size(results: Results) -> BySize:
    found: BySize = {}
    for p in sorted(results.problems(), key=lambda p: p["n"]):
        rows = {m.record.kernel: m for m in measure(results, p["name"])}
        size = output_mib(next(iter(rows.values())).record)
        if size in found:
            raise InputError(f"{results.file}: problem '{p['name']}' has the size of another")
        found[size] = rows
    return found


def sizes_table(run: Run) -> Table:
    """One row per size and one column per kernel; the CSV has every row in full."""
    found = {name: by_size(run[name]) for name in HEADS}
    kernels = compared_kernels(found["cold"])
    columns = [*numbers("output"), *numbers(*kernels, f"{COPY} (cudaMemcpy)", wrap=1)]
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for name, sizes in found.items():
        rows.append(Group(HEADS[name]))
        for size, by_kernel in sizes.items():
            cells = [speed_cell(by_kernel.get(kernel)) for kernel in (*kernels, COPY)]
            rows.append([size_text(size), *cells])
            for m in by_kernel.values():
                row = {"cache": name, "output_mib": size, "problem": m.record.problem["name"]}
                data.append(row | bandwidth.csv_row(m))
    notes = [bandwidth.GB_NOTE, bandwidth.BEST_NOTE, WARM_NOTE]
    provenance = [note for name in HEADS for note in machine_notes(run[name])]
    title = "Bandwidth by the size of the output, GB/s"
    return Table("sizes", title, columns, rows, data, notes, list(dict.fromkeys(provenance)))


def compared_kernels(sizes: BySize) -> list[str]:
    """The fastest on the largest output first."""
    rows = [m.record for found in reversed(sizes.values()) for m in found.values()]
    return list(dict.fromkeys(r.kernel for r in rows if not r.is_ceiling))


def speed_cell(m: Measured | None) -> Cell | str:
    if m is None:
        return NONE
    return m.outcome if m.gb_s is None else bandwidth.speed_cell(m)

"""Experiment ceilings: the fastest way to move so many bytes, of all forms that were swept."""

from collections.abc import Sequence

from claims.results import Results
from claims.stats import significant
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import machine_notes
from plots.experiments import Run
from plots.sweeps import WINNER, winner_cells, winner_note
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers

PASS = "sweep"
# By family: what it moves, and the ceiling that is one of its forms.
FAMILIES = {
    "copy": ("Copies: as much read as written", "copy_kernel"),
    "mixed": ("A dequantization's bytes: 9 read for 32 written", "same_bytes"),
    "even": ("A transposition's bytes: as much read as written, elsewhere", "same_bytes"),
}
SHOWN_FORMS = 12


def by_size(results: Results, family: str) -> dict[int, list[Measured]]:
    """Every row of a family's problems, by MiB of output, ascending."""
    found = [p for p in results.problems() if p["family"] == family]
    found.sort(key=lambda p: p["n"])
    return {p["n"] * 4 >> 20: measure(results, p["name"]) for p in found}


def winners_table(run: Run) -> Table:
    """One row per family and size: the fastest form, beside the ceiling as it is now."""
    results = run[PASS]
    columns = [*numbers("output MiB"), *WINNER]
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for family, (what, ceiling) in FAMILIES.items():
        sizes = by_size(results, family)
        rows += [Group(f"{what}; the ceiling is {ceiling}")] if sizes else []
        for mib, found in sizes.items():
            best = [m for m in found if m.best]
            now = next((m for m in found if m.record.kernel == ceiling), None)
            rows.append([str(mib), *winner_cells(best, now)])
            data += [{"output_mib": mib} | bandwidth.csv_row(m) for m in found]
    notes = [
        winner_note("the ceiling with the constants that are in profiling/ceilings.cu"),
        bandwidth.COPY_NOTE,
        "Every form at every size: the CSV file.",
    ]
    title = "The fastest way to move so many bytes"
    return Table("winners", title, columns, rows, data, notes, machine_notes(results))


def forms_table(run: Run) -> Table:
    """The forms that come nearest to the fastest over all sizes: copy % at each."""
    results = run[PASS]
    swept = {family: by_size(results, family) for family in FAMILIES}
    every = {family: found for family, found in swept.items() if found}
    sizes = sorted({mib for found in every.values() for mib in found})
    columns = [KERNEL, *numbers("of fastest %"), *numbers(*(f"{mib} MiB" for mib in sizes), wrap=1)]
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for family, by_mib in every.items():
        rows.append(Group(FAMILIES[family][0]))
        found = ranking(by_mib)
        for kernel, mean in list(found.items())[:SHOWN_FORMS]:
            rows.append([kernel, f"{100 * mean:.1f}", *shares(by_mib, kernel, sizes)])
        data += [{"kernel": kernel, "mean_of_fastest": mean} for kernel, mean in found.items()]
    notes = [
        f"The {SHOWN_FORMS} forms of each kind with the highest mean; the rest: the CSV file. Of "
        "fastest %: bandwidth over that of the fastest form of a size, mean of the sizes.",
        f"By size: copy %. {bandwidth.COPY_NOTE}",
    ]
    title = "The forms that are near the fastest at every size"
    return Table("forms", title, columns, rows, data, notes, machine_notes(results))


def ranking(sizes: dict[int, list[Measured]]) -> dict[str, float]:
    """By form, its mean share of the fastest form's bandwidth; of those timed at every size."""
    found: dict[str, list[float]] = {}
    for rows in sizes.values():
        ranked = [m for m in rows if m.record.ranked]
        fastest = max((m.gb_s or 0 for m in ranked), default=0)
        for m in ranked:
            found.setdefault(m.record.kernel, []).append((m.gb_s or 0) / fastest)
    means = {k: sum(s) / len(s) for k, s in found.items() if len(s) == len(sizes)}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def shares(found: dict[int, list[Measured]], kernel: str, sizes: Sequence[int]) -> list[Cell | str]:
    cells: list[Cell | str] = []
    for mib in sizes:
        m = next((m for m in found.get(mib, ()) if m.record.kernel == kernel), None)
        cells.append(Cell(bandwidth.share_text(m), m.clock, m.best) if m else NONE)
    return cells


def highlights(run: Run) -> list[str]:
    """The one form of each family that does best over all sizes."""
    lines = []
    for family, (what, ceiling) in FAMILIES.items():
        for kernel, mean in list(ranking(by_size(run[PASS], family)).items())[:1]:
            record = next(r for r in run[PASS].records if r.kernel == kernel)
            lines.append(
                f"{what}. Best over all sizes: {kernel}, {significant(100 * mean, 3)} % of the "
                f"fastest on average; as a line of {ceiling}'s sizes in profiling/ceilings.cu: "
                f"{record.lineage}."
            )
    return lines


PASSES = {PASS: tuple(FAMILIES)}
TABLES = (winners_table, forms_table)
ON_TERMINAL = ("winners", "forms")
SHORT_TABLE = HEADLINE = None
FIGURES: dict = {}

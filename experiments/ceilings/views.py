"""Experiment ceilings: the fastest of all swept forms by number of bytes."""

from plots import bandwidth
from plots.bandwidth import Measured, Rows
from plots.counter_values import by_family
from plots.experiments import Run
from plots.sweeps import WINNER, winner_note, winner_values
from records.captions import machine_notes
from records.results import Results
from records.tables import KERNEL, Column, Noted, Table, rounded

PASS = "sweep"
FAMILIES = ("copy", "mixed", "even")  # whose baseline is the ceiling that is one of their forms
SHOWN_FORMS = 12


def by_size(results: Results, family: str) -> dict[int, Rows]:
    """Every row of a family's problems, by MiB of output, ascending."""
    of_family = [r for r in by_family(results) if r.records[0].problem["family"] == family]
    return bandwidth.rows_by(of_family[0], lambda p: p["n"] * 4 >> 20) if of_family else {}


def winners_table(run: Run) -> Table:
    """One row per family and size: the fastest form, next to the current ceiling."""
    rows, data = [], []
    for of in map(run[PASS].families.get, FAMILIES):
        for mib, by_form in by_size(run[PASS], of.name).items():
            row = {"_under": f"{of.moves}; the ceiling is {of.baseline}", "mib": mib}
            now = by_form.get(of.baseline)
            rows.append(row | winner_values([m for m in by_form.values() if m.best], now))
            data += [{"output_mib": mib} | bandwidth.values_of(m) for m in by_form.values()]
    notes = [
        winner_note("the ceiling with the constants that are in profiling/ceilings.cu"),
        bandwidth.COPY_NOTE,
        "Every form at every size: the CSV file.",
    ]
    title, columns = (
        "The fastest way to move a number of bytes",
        [Column("output MiB", "mib"), *WINNER],
    )
    return Table("winners", title, columns, rows, notes, machine_notes(run[PASS]), data)


def forms_table(run: Run) -> Table:
    """The forms that are nearest to the fastest over all sizes, with copy % at each size."""
    swept = {family: by_size(run[PASS], family) for family in FAMILIES}
    sizes = sorted({mib for by_mib in swept.values() for mib in by_mib})
    columns = [KERNEL, Column("of fastest %", "mean_of_fastest", bandwidth.percent)]
    columns += [Column(f"{mib} MiB", f"_{mib}", bandwidth.percent, wrap=1) for mib in sizes]
    rows, data = [], []
    for family, by_mib in swept.items():
        heading = {"_under": run[PASS].families[family].moves}
        forms = [
            heading
            | {"kernel": kernel, "mean_of_fastest": mean}
            | {
                f"_{mib}": Noted(m.of_copy, m.time_marks, m.best)
                for mib, of_size in by_mib.items()
                if (m := of_size.get(kernel))
            }
            for kernel, mean in ranking(by_mib).items()
        ]
        data += forms
        rows += forms[:SHOWN_FORMS] or [heading] * bool(by_mib)
    notes = [
        f"The {SHOWN_FORMS} forms of each kind with the highest mean; the rest: the CSV file. 'Of "
        "fastest %' is the bandwidth over that of the fastest form of a size, mean of the sizes.",
        f"By size: copy %. {bandwidth.COPY_NOTE}",
    ]
    title = "The forms that are near the fastest at every size"
    return Table("forms", title, columns, rows, notes, machine_notes(run[PASS]), data)


def ranking(sizes: dict[int, Rows]) -> dict[str, float]:
    """By form, its mean share of the fastest form's bandwidth, for forms timed at every size."""
    shares: dict[str, list[float]] = {}
    for rows in sizes.values():
        ranked = [m for m in rows.values() if m.record.ranked]
        fastest = max((m.gb_s or 0 for m in ranked), default=0)
        for m in ranked:
            shares.setdefault(m.record.kernel, []).append((m.gb_s or 0) / fastest)
    means = {k: sum(s) / len(s) for k, s in shares.items() if len(s) == len(sizes)}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def highlights(run: Run) -> list[str]:
    """The best form of each family over all sizes."""
    lines = []
    for of in map(run[PASS].families.get, FAMILIES):
        for kernel, mean in list(ranking(by_size(run[PASS], of.name)).items())[:1]:
            record = next(r for r in run[PASS].records if r.kernel == kernel)
            lines.append(
                f"{of.moves}. Best over all sizes: {kernel}, {rounded(100 * mean)} % of the "
                f"fastest on average; as a line of {of.baseline}'s sizes in profiling/ceilings.cu: "
                f"{record.lineage}."
            )
    return lines


def brief(run: Run) -> list[Measured]:
    """The fastest forms of the largest copy."""
    *_, largest = [{}, *by_size(run[PASS], FAMILIES[0]).values()]
    return [m for m in largest.values() if m.best]


BRIEF = brief
TABLES = (winners_table, forms_table)
ON_TERMINAL = ("winners", "forms")
FIGURES: dict = {}

"""Experiment ceilings: the fastest way to move so many bytes, of all forms that were swept."""

from plots import bandwidth
from plots.bandwidth import Measured
from plots.captions import machine_notes
from plots.counter_values import by_family
from plots.experiments import Run
from plots.sweeps import WINNER, winner_note, winner_values
from plots.tables import KERNEL, Column, Noted, Table, Values
from records.results import Results
from records.stats import significant

PASS = "sweep"
FAMILIES = ("copy", "mixed", "even")  # whose baseline is the ceiling that is one of their forms
SHOWN_FORMS = 12


def by_size(results: Results, family: str) -> dict[int, list[Measured]]:
    """Every row of a family's problems, by MiB of output, ascending."""
    found = [r for r in by_family(results) if r.records[0].problem["family"] == family]
    swept = bandwidth.rows_by(found[0], lambda p: p["n"] * 4 >> 20) if found else {}
    return {mib: list(rows.values()) for mib, rows in swept.items()}


def winners_table(run: Run) -> Table:
    """One row per family and size: the fastest form, beside the ceiling as it is now."""
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for family in FAMILIES:
        of = run[PASS].families[family]
        for mib, found in by_size(run[PASS], family).items():
            best = [m for m in found if m.best]
            now = next((m for m in found if m.record.kernel == of.baseline), None)
            group = groups.setdefault(f"{of.moves}; the ceiling is {of.baseline}", [])
            group.append({"mib": mib} | winner_values(best, now))
            data += [{"output_mib": mib} | bandwidth.values_of(m) for m in found]
    notes = [
        winner_note("the ceiling with the constants that are in profiling/ceilings.cu"),
        bandwidth.COPY_NOTE,
        "Every form at every size: the CSV file.",
    ]
    title, columns = "The fastest way to move so many bytes", [Column("output MiB", "mib"), *WINNER]
    return Table("winners", title, columns, groups, notes, machine_notes(run[PASS]), data)


def forms_table(run: Run) -> Table:
    """The forms that come nearest to the fastest over all sizes: copy % at each."""
    swept = {family: by_size(run[PASS], family) for family in FAMILIES}
    sizes = sorted({mib for found in swept.values() for mib in found})
    columns = [KERNEL, Column("of fastest %", "mean_of_fastest", bandwidth.percent)]
    columns += [Column(f"{mib} MiB", f"_{mib}", bandwidth.percent, wrap=1) for mib in sizes]
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for family, by_mib in swept.items():
        found = [
            {"kernel": kernel, "mean_of_fastest": mean} | shares(by_mib, kernel)
            for kernel, mean in ranking(by_mib).items()
        ]
        data += found
        if by_mib:
            groups[run[PASS].families[family].moves] = found[:SHOWN_FORMS]
    notes = [
        f"The {SHOWN_FORMS} forms of each kind with the highest mean; the rest: the CSV file. Of "
        "fastest %: bandwidth over that of the fastest form of a size, mean of the sizes.",
        f"By size: copy %. {bandwidth.COPY_NOTE}",
    ]
    title = "The forms that are near the fastest at every size"
    return Table("forms", title, columns, groups, notes, machine_notes(run[PASS]), data)


def shares(found: dict[int, list[Measured]], kernel: str) -> Values:
    """Share of the copy's bandwidth, by size."""
    return {
        f"_{mib}": Noted(m.of_copy, m.clock, m.best)
        for mib, rows in found.items()
        for m in rows
        if m.record.kernel == kernel
    }


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


def highlights(run: Run) -> list[str]:
    """The one form of each family that does best over all sizes."""
    lines = []
    for family in FAMILIES:
        of = run[PASS].families[family]
        for kernel, mean in list(ranking(by_size(run[PASS], family)).items())[:1]:
            record = next(r for r in run[PASS].records if r.kernel == kernel)
            lines.append(
                f"{of.moves}. Best over all sizes: {kernel}, {significant(100 * mean, 3)} % of the "
                f"fastest on average; as a line of {of.baseline}'s sizes in profiling/ceilings.cu: "
                f"{record.lineage}."
            )
    return lines


def brief(run: Run) -> list[Measured]:
    """The fastest forms of the largest copy."""
    *_, largest = [[], *by_size(run[PASS], FAMILIES[0]).values()]
    return [m for m in largest if m.best]


BRIEF = brief
TABLES = (winners_table, forms_table)
ON_TERMINAL = ("winners", "forms")
FIGURES: dict = {}

"""Experiment ceilings: what there is to see of it."""

from plots.ceilings.tables import FAMILIES, PASS, by_size, forms_table, ranking, winners_table
from plots.experiments import Run
from records.stats import significant


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


TABLES = (winners_table, forms_table)
ON_TERMINAL = ("winners", "forms")
FIGURES: dict = {}

"""What separates two neighbours: under a table of times, the counters that differ most."""

from collections.abc import Container
from dataclasses import replace
from pathlib import Path

from claims.evidence import recorded_folder
from plots.captions import date
from plots.counter_tables import Counted, counted, largest
from plots.counter_values import Value, by_family
from plots.tables import Table
from records.code import Place, differing, unknown, unknown_note
from records.counter_table import known
from records.json_files import ROOT
from records.results import Results, load

RECORDED = ROOT / "data/recorded"
EXPERIMENT = "counters"
NAMED = 3
MIN_FACTOR = 1.05  # below it two kernels do not differ in a counter
FLOOR_PERCENT = 1
# Counts that are weighed against the baseline's warp instructions: each costs about an issue slot.
LIKE_INSTRUCTIONS = ("instructions", "branches", "conflicts", "wavefronts", "requests")
RATE_FLOORS = {"%": 5.0, "threads": 1.0, "warps": 5.0}  # where a unit has no total to weigh against
# What is long because the kernel is slow, and what says again what another counter says.
CONSEQUENCES = ("cycles", "stalls", "DRAM")  # groups; of DRAM its two counts of bytes stay
KEPT = ("dram_bytes_read", "dram_bytes_written")
AGAIN = (
    "predicated_threads_per_instruction",
    "warp_execution_efficiency",
    "warps_launched",
    "blocks_launched",
    "pipe_cbu",
    "pipe_fmaheavy",
    "pipe_fmalite",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "active_warps",
    "eligible_warps",
    "issue_utilisation",
)
RULE = (
    "By the largest factor, small counts aside; without cycles, stalls and utilisation, which "
    "follow from the time."
)


def with_neighbours(table: Table, times: Results) -> Table:
    """The table with a note per variant; as it is where no counters of the same GPU are at hand."""
    return replace(table, notes=[*table.notes, *neighbour_notes(times)])


def neighbour_notes(times: Results) -> list[str]:
    """One sentence per variant of the family's baseline; none of warm rows: what is counted is
    cold.
    """
    wanted = {r.kernel for r in times.records if r.timed and not r.is_warm}
    return [note for family in by_family(times) for note in notes_of(family, wanted)]


def notes_of(times: Results, wanted: set[str]) -> list[str]:
    """The sentences of one family."""
    family, counters = times.family, counters_for(times)
    if counters is None:
        return []
    problem = largest(counters)["name"]
    lines, together = [], []
    for c in counted(counters, problem, None, family.baseline):
        if c.base and c.record.kernel in wanted:
            rows = rows_of_both({c.record.kernel, family.baseline}, times, counters)
            if why := differing(rows):
                lines.append(f"{c.record.kernel}: not compared: {why}.")
                continue
            together += rows
            found = [f"{v.counter.title} {b.shown} -> {v.shown}" for b, v in changed_most(c)]
            lines.append(f"{c.record.kernel}: {'; '.join(found) or 'no counter differs'}.")
    if not lines:
        return []
    return [
        f"What separates a kernel from {family.baseline}: the three counters that changed most, "
        f"{family.baseline} -> kernel, on {problem}, by {counters.name}, {whose(counters, times)}. "
        f"{RULE}",
        *lines,
        *unknown_note(unknown(together)),
    ]


def rows_of_both(kernels: Container[str], *several: Results) -> list[Place]:
    """All rows of the kernels in the result files."""
    return [(found.file, r) for found in several for r in found.records if r.kernel in kernels]


def counters_for(times: Results) -> Results | None:
    """A run of counters of the same family; None where none are at hand."""
    family = times.family
    return pass_for(times, EXPERIMENT, f"{family.name}_counters") if family.baseline else None


def pass_for(times: Results, experiment: str, pass_name: str) -> Results | None:
    """The pass beside the run with the times; else a recorded one of the same GPU."""
    file = Path(experiment, f"{pass_name}.json")
    # A pass lies in its experiment's folder, what `make bench` writes beside those folders.
    beside = [folder / file for folder in times.file.resolve().parents[:2]]
    for place in (*beside, *sorted(RECORDED.glob(f"*/{file}"))):
        if place.exists():
            found = load(place, experiment, pass_name)
            if found.gpu == times.gpu:
                return found
    return None


def whose(counters: Results, times: Results) -> str:
    recorded = recorded_folder(counters.file)
    own = recorded_folder(times.file)
    if recorded and recorded != own:
        return f"recorded on another {counters.gpu}, {date(counters)}"
    return f"a run without times on {counters.gpu}, {date(counters)}"


def changed_most(c: Counted) -> list[tuple[Value, Value]]:
    """(the baseline's, the kernel's), at most three."""
    assert c.base is not None
    found = []
    for name, value in c.values.items():
        base = c.base.get(name)
        if is_cause(value) and base and are_comparable(base, value):
            factor = factor_of(base, value, c.base)
            if factor >= MIN_FACTOR:
                found.append((factor, base, value))
    found.sort(key=lambda item: -item[0])
    return [(base, value) for _, base, value in found[:NAMED]]


def are_comparable(base: Value, value: Value) -> bool:
    """A rate of requests that there are none of is no rate of 0."""
    if base.number is None or value.number is None:
        return False
    return not is_rate(value) or (base.number > 0 and value.number > 0)


def is_rate(value: Value) -> bool:
    return value.counter.unit in RATE_FLOORS or value.counter.id.startswith("sectors_per")


def is_cause(value: Value) -> bool:
    counter = value.counter
    if counter.id not in known() or counter.id in AGAIN:
        return False
    return counter.group not in CONSEQUENCES or counter.id in KEPT


def factor_of(base: Value, value: Value, row: dict[str, Value]) -> float:
    """How many times the larger is of the smaller, once the floor is added to both."""
    added = floor_of(base, row)
    low, high = sorted((base.number + added, value.number + added))
    return high / low if low > 0 else 1.0


def floor_of(base: Value, row: dict[str, Value]) -> float:
    unit = base.counter.unit
    if base.counter.id.startswith("sectors_per"):
        return RATE_FLOORS["threads"]
    if unit in RATE_FLOORS:
        return RATE_FLOORS[unit]
    alike = LIKE_INSTRUCTIONS if unit in LIKE_INSTRUCTIONS else (unit,)
    totals = [v.number or 0 for v in row.values() if v.counter.unit in alike]
    return FLOOR_PERCENT / 100 * max(totals, default=0)

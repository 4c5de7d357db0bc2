"""The counters that differ most between two neighbours, under a table of times."""

from collections.abc import Container
from pathlib import Path

from plots.counter_tables import Counted, counted, largest
from plots.counter_values import Value, by_family
from reprolab.captions import date
from reprolab.code import Place, differing, unknown, unknown_note
from reprolab.counter_table import known
from reprolab.results import recorded_folder
from reprolab.json_files import ROOT, stored
from reprolab.results import Results, load

RECORDED = ROOT / "data/recorded"
NAMED = 3
MIN_FACTOR = 1.05  # a smaller factor counts as equal
FLOOR_PERCENT = 1
# Units compared with the baseline's warp instructions: each count costs about an issue slot.
LIKE_INSTRUCTIONS = ("instructions", "branches", "conflicts", "wavefronts", "requests")
RATE_FLOORS = {"%": 5.0, "threads": 1.0, "warps": 5.0}  # for units without a total
# Counters that are high because the kernel is slow, and counters that repeat another one.
CONSEQUENCES = ("cycles", "stalls", "DRAM")  # groups; DRAM's two byte counts are kept
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
    "Ranked by the largest factor, ignoring small counts; without cycles, stalls and "
    "utilisation, which follow from the time."
)


def neighbour_notes(times: Results) -> list[str]:
    """One sentence per kernel about the baseline; none for warm rows, because counters are cold."""
    wanted = {r.kernel for r in times.records if r.timed and not r.is_warm}
    return [note for family in by_family(times) for note in notes_of(family, wanted)]


def notes_of(times: Results, wanted: set[str]) -> list[str]:
    """The sentences of one family."""
    family, baseline = times.family, times.family.baseline
    counters = pass_for(times, "counters", f"{family.name}_counters") if baseline else None
    if counters is None:
        return []
    problem = largest(counters)["name"]
    lines, together = [], []
    for c in counted(counters, problem, None, baseline):
        kernel = c.record.kernel
        if c.base and kernel in wanted:
            rows = rows_of_both({kernel, baseline}, times, counters)
            if why := differing(rows):
                lines.append(f"{kernel}: not compared: {why}.")
                continue
            together += rows
            changes = [f"{v.counter.title} {b.shown} -> {v.shown}" for b, v in changed_most(c)]
            lines.append(f"{kernel}: {'; '.join(changes) or 'no counter differs'}.")
    recorded = recorded_folder(counters.file)
    is_own = not recorded or recorded == recorded_folder(times.file)
    whose = "a run without times on" if is_own else "recorded on another"
    head = (
        f"Differences from {baseline}: the three counters that changed most, "
        f"{baseline} -> kernel, on {problem}, by {counters.name}, {whose} {counters.gpu}, "
        f"{date(counters)}. {RULE}"
    )
    return [head, *lines, *unknown_note(unknown(together))] if lines else []


def rows_of_both(kernels: Container[str], *several: Results) -> list[Place]:
    """All rows of the kernels in the result files."""
    return [(f.file, r) for f in several for r in f.records if r.kernel in kernels]


def pass_for(times: Results, experiment: str, pass_name: str) -> Results | None:
    """The pass next to the run with the times; else a recorded one of the same GPU."""
    file = Path(experiment, f"{pass_name}.json")
    # A pass is in its experiment's folder, the output of `make bench` next to those folders.
    beside = [folder / file for folder in times.file.resolve().parents[:2]]
    for place in map(stored, (*beside, *sorted(place / file for place in RECORDED.glob("*")))):
        if place.exists():
            results = load(place, experiment, pass_name)
            if results.gpu == times.gpu:
                return results
    return None


def changed_most(c: Counted) -> list[tuple[Value, Value]]:
    """At most three pairs (the baseline's, the kernel's), ordered by the ratio of the larger to the
    smaller after the floor is added to both.
    """
    assert c.base is not None
    ranked = []
    for name, value in c.values.items():
        counter, base = value.counter, c.base.get(name)
        is_cause = counter.group not in CONSEQUENCES or counter.id in KEPT
        if not is_cause or counter.id not in known() or counter.id in AGAIN or base is None:
            continue
        rate_floor = RATE_FLOORS.get(counter.unit)
        if counter.id.startswith("sectors_per"):
            rate_floor = RATE_FLOORS["threads"]
        if None in (base.number, value.number):
            continue
        if rate_floor and not (base.number > 0 and value.number > 0):
            continue  # a rate per request is undefined without requests
        floor = rate_floor or count_floor(counter.unit, c.base)
        low, high = sorted((base.number + floor, value.number + floor))
        if low > 0 and high / low >= MIN_FACTOR:
            ranked.append((high / low, base, value))
    ranked.sort(key=lambda item: -item[0])
    return [(base, value) for _, base, value in ranked[:NAMED]]


def count_floor(unit: str, row: dict[str, Value]) -> float:
    """FLOOR_PERCENT of the largest count of such a unit."""
    alike = LIKE_INSTRUCTIONS if unit in LIKE_INSTRUCTIONS else (unit,)
    totals = [v.number or 0 for v in row.values() if v.counter.unit in alike]
    return FLOOR_PERCENT / 100 * max(totals, default=0)

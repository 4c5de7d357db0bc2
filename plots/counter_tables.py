"""Tables of hardware counters: a short one with a row per kernel, and one with every counter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from claims.counter_table import Counter, known
from claims.results import Record, Results
from claims.stats import difference_percent
from plots.bandwidth import describe
from plots.captions import machine_notes, outcome_notes, outcome_words
from plots.counter_values import (
    ASKED_FOR,
    LAUNCH,
    Family,
    Value,
    Values,
    change,
    derived_notes,
    family_of,
    main_stalls,
    stall_name,
    values_of,
)
from plots.tables import KERNEL, NONE, Cell, Column, Group, Row, Table, numbers, words

# Of the short table: counter and heading. The long one has them all.
SHORT = {
    "instructions_per_element": "instr. per {element}",
    "threads_per_instruction": "threads per instr.",
    "divergent_targets": "divergent targets",
    "l2_hit_rate": "L2 hit %",
    "dram_utilisation": "DRAM %",
    "achieved_occupancy": "occupied %",
    "issue_utilisation": "issue %",
}
# Where no warp diverges for long, the columns on that tell less than bank conflicts do.
SHORT_OF_TRANSPOSE = {
    "threads_per_instruction": ("shared_load_bank_conflicts", "load conflicts"),
    "divergent_targets": ("shared_store_bank_conflicts", "store conflicts"),
}
CSV_COLUMNS = (
    "counter group title unit value min max n baseline baseline_value change_percent missing"
).split()
TERMINAL_KERNELS = 5  # that fit beside the counters' names
SHORT_NOTE = (
    "In brackets: the change of a count against {baseline}. Main stall: the reason for which warps "
    "wait longest, and the cycles that they do, of all warps together, per issued instruction. All "
    "counters, on every problem, with their changes: the table of all counters."
)
CHANGE_NOTE = (
    "Beside or beneath a number its change against {baseline} on the same problem: in percent, of "
    "percentages in points (pt), and as a factor (x12) from tenfold on."
)
NO_TIME_NOTE = (
    "CUPTI repeats a call until all counters are read, so no time comes from this run. "
    "Medians over the samples; k, M, G: thousands, millions, billions."
)


@dataclass(frozen=True)
class Counted:
    """One kernel on one problem."""

    record: Record
    launched: Record | None  # the same row in a pass with times and launches
    values: Values
    base: Values | None  # the baseline's; None for the baseline itself, or without one

    def change(self, name: str) -> str:
        return change(self.values[name], self.base.get(name)) if self.base else ""

    def change_percent(self, name: str) -> float | None:
        base = self.base.get(name) if self.base else None
        number = self.values[name].number
        if number is None or base is None or not base.number:
            return None
        found = difference_percent(number, base.number)
        return found if isfinite(found) else None


def counted(
    results: Results, problem: str, launches: Results | None, baseline: str
) -> list[Counted]:
    """All kernels of a problem: the baseline, then from fast to slow where times are known, and
    those without counters.
    """
    records = [r for r in results.records if r.problem["name"] == problem and not r.is_ceiling]
    launched = {r.kernel: launches.find(problem, r.kernel) if launches else None for r in records}
    values = {r.kernel: values_of(results, r, launched[r.kernel]) for r in records}

    def place(record: Record) -> tuple[bool, bool, bool, float, str]:
        timed = launched[record.kernel]
        is_timed = timed is not None and timed.timed
        us = timed.times.median if is_timed else 0.0
        return record.kernel != baseline, not record.metrics, not is_timed, us, record.kernel

    base = values.get(baseline)
    return [
        Counted(r, launched[r.kernel], values[r.kernel], base if r.kernel != baseline else None)
        for r in sorted(records, key=place)
    ]


def largest(results: Results) -> dict[str, Any]:
    return max(results.problems(), key=lambda p: p.get("n", 0))


def on_largest(results: Results) -> Results:
    """The rows of the largest problem alone."""
    name = largest(results)["name"]
    return replace(results, records=tuple(r for r in results.records if r.problem["name"] == name))


def short_table(results: Results, launches: Results | None, name: str, title: str) -> Table:
    """One row per kernel, with the counters that tell most; of one family's problems."""
    family = family_of(results)
    heads = short_heads(family)
    columns = [KERNEL, *numbers(*["GB/s"] * bool(launches))]
    columns += [*numbers(*heads.values(), wrap=1), *words("main stall")]
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for problem in results.problems():
        rows.append(Group(describe(problem)))
        for c in counted(results, problem["name"], launches, family.baseline):
            shown = [short_cell(c, counter) for counter in heads]
            speed = [speed_text(c)] * bool(launches)
            rows.append([name_cell(results, c), *speed, *shown, main_stall(c)])
            data += csv_rows(c, family)
    notes = [NO_TIME_NOTE, *[SHORT_NOTE.format(baseline=family.baseline)] * bool(family.baseline)]
    notes += derived_notes(family)[:1]
    if launches:
        notes.append(f"GB/s: of {launches.name}, a run with times and without counters.")
    provenance = machine_notes(results)
    return Table(name, title, columns, rows, data, notes, provenance)


def short_heads(family: Family) -> dict[str, str]:
    """The short table's columns by counter."""
    instead = SHORT_OF_TRANSPOSE if family.name == "transpose" else {}
    pairs = (instead.get(name, (name, head)) for name, head in SHORT.items())
    return {name: head.format(element=family.element) for name, head in pairs}


def full_table(
    results: Results, launches: Results | None, name: str, title: str, first: Sequence[str] = ()
) -> Table:
    """One row per counter, one column per kernel, on every problem; `first`: kernels that stand
    beside the baseline. Counters that are zero in every row share a note.
    """
    family, problems = family_of(results), results.problems()
    found = {
        p["name"]: {
            c.record.kernel: c for c in counted(results, p["name"], launches, family.baseline)
        }
        for p in sorted(problems, key=lambda p: -p.get("n", 0))
    }
    kernels = list(dict.fromkeys(k for by_kernel in found.values() for k in by_kernel))
    kernels.sort(key=lambda k: (k != family.baseline, k not in first))
    every = [c for by_kernel in found.values() for c in by_kernel.values()]
    counters = {n: v.counter for c in every for n, v in c.values.items()}
    zero = {n for n in counters if all(is_zero(c.values.get(n)) for c in every)}
    columns = [Column("counter", align="l", wrap=12), Column("unit", align="l", detail=True)]
    for i, kernel in enumerate(kernels):
        columns.append(Column(kernel, wrap=1, detail=i >= TERMINAL_KERNELS))
    rows: list[Row | Group] = []
    for p in problems:
        by_kernel = found[p["name"]]
        rows.append(Group(describe(p)))
        outcomes = [outcome_cell(results, by_kernel.get(k)) for k in kernels]
        rows.append(["output", NONE, *outcomes])
        for group, members in by_group(counters, zero).items():
            rows.append(Group(group))
            for counter in members:
                cells = [counter_cell(by_kernel.get(k), counter.id) for k in kernels]
                rows.append([counter.title, counter.unit or NONE, *cells])
    data = [row for c in every for row in csv_rows(c, family)]
    notes = [NO_TIME_NOTE, CHANGE_NOTE.format(baseline=family.baseline), *derived_notes(family)]
    if zero:
        titles = "; ".join(c.title for n, c in counters.items() if n in zero)
        notes.append(f"Zero in every row, and left out above: {titles}.")
    notes.append("Counter by counter with minimum, maximum and number of samples: the CSV file.")
    return Table(name, title, columns, rows, data, notes, machine_notes(results))


def by_group(counters: dict[str, Counter], left_out: set[str]) -> dict[str, list[Counter]]:
    """Groups as data/counters.json has them, then the launch, then what was asked for."""
    groups = dict.fromkeys(counter.group for counter in known().values())
    found: dict[str, list[Counter]] = {group: [] for group in (*groups, LAUNCH, ASKED_FOR)}
    for counter in counters.values():
        if counter.id not in left_out:
            found.setdefault(counter.group, []).append(counter)
    return {group: members for group, members in found.items() if members}


def is_zero(value: Value | None) -> bool:
    return value is None or (value.number == 0 and not value.missing)


def name_cell(results: Results, c: Counted) -> Cell:
    """The kernel, with a footnote where its output is not bit-exact."""
    r = c.record
    if r.outcome == "deviation_as_declared":
        return Cell(r.kernel, (f"{r.kernel}: its output deviates as declared: {r.deviation}",))
    return Cell(r.kernel, () if r.outcome == "bit_exact" else outcome_notes(results, r))


def short_cell(c: Counted, name: str) -> Cell | str:
    """Changes of counts alone: of percentages, both numbers stand in one column."""
    is_count = name in c.values and c.values[name].counter.unit != "%"
    return with_change(c, name) if is_count else counter_cell(c, name, changed=False)


def main_stall(c: Counted) -> Cell | str:
    for value in main_stalls(c.values, 1):
        return f"{stall_name(value)} {value.number:.1f}"
    return counter_cell(c, "main_stalls", changed=False)


def outcome_cell(results: Results, c: Counted | None) -> Cell | str:
    return Cell(outcome_words(c.record), name_cell(results, c).notes) if c else NONE


def counter_cell(c: Counted | None, name: str, changed: bool = True) -> Cell | str:
    if c is None or name not in c.values:
        return NONE
    return with_change(c, name) if changed else text_cell(c.values[name])


def with_change(c: Counted, name: str) -> Cell | str:
    """'193 M (-59%)', or what stands in the place of a missing value."""
    cell, changed = text_cell(c.values[name]), c.change(name)
    return replace(cell, text=f"{cell.text} ({changed})") if changed else cell


def text_cell(value: Value) -> Cell:
    return Cell(value.shown, (value.missing,) if value.missing else ())


def speed_text(c: Counted) -> str:
    found = c.launched.bandwidth if c.launched else None
    return f"{found.value:.0f}" if found else NONE


def csv_rows(c: Counted, family: Family) -> list[dict[str, object]]:
    """One row per counter; one row with the reason where nothing was counted."""
    r = c.record
    head: dict[str, object] = {"problem": r.problem["name"], "kernel": r.kernel}
    head |= {"outcome": r.outcome, "reason": r.reason or r.deviation}
    rows = []
    for value in c.values.values():
        s, counter = value.samples, value.counter
        base = c.base.get(counter.id) if c.base else None
        row = head | {"counter": counter.id, "group": counter.group, "title": counter.title}
        row |= {"unit": counter.unit, "value": value.text if value.number is None else value.number}
        row |= {"min": s.min if s else None, "max": s.max if s else None, "n": s.n if s else None}
        row |= {"baseline": family.baseline, "baseline_value": base.number if base else None}
        row |= {"change_percent": c.change_percent(counter.id)}
        rows.append(row | {"missing": value.missing})
    return rows or [head | dict.fromkeys(CSV_COLUMNS)]


def asked_for_table(results: Results, names: Sequence[str], title: str) -> Table:
    """The counters that a user named, one row per kernel and counter."""
    family = family_of(results)
    columns = [KERNEL, Column("counter", align="l", wrap=1, code=True), *numbers("value")]
    columns += numbers(f"over {family.baseline}") * bool(family.baseline) + words("unit")
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for problem in results.problems():
        rows.append(Group(describe(problem)))
        for name in names:
            for c in counted(results, problem["name"], None, family.baseline):
                if name not in c.values:
                    rows.append([name_cell(results, c), name, NONE, *[NONE] * (len(columns) - 3)])
                    continue
                value = c.values[name]
                over = [c.change(name) or NONE] * bool(family.baseline)
                unit = value.counter.unit or NONE
                rows.append([name_cell(results, c), name, text_cell(value), *over, unit])
                data += [row for row in csv_rows(c, family) if row["counter"] == name]
    notes = [NO_TIME_NOTE]
    return Table("asked_for", title, columns, rows, data, notes, machine_notes(results))

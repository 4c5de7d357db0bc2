"""Tables of counters: a short one with a row per kernel, one with every counter, and one of what
the compiler made of each kernel.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from plots.bandwidth import describe, gb_text
from plots.captions import machine_notes, outcome_notes, outcome_words
from plots.counter_values import (
    ASKED_FOR,
    LAUNCH,
    Counts,
    Value,
    change,
    counts_of,
    derived_notes,
    main_stalls,
    short,
    stall_name,
)
from plots.tables import KERNEL, NONE, WORDS, Column, Noted, Table, Values
from records.counter_table import Counter, known
from records.families import Family
from records.results import RIGHT, Record, Results
from records.stats import difference_percent

# The short table's counters and headings. The long one has them all.
SHORT = {
    "instructions_per_element": "instr. per {element}",
    "threads_per_instruction": "threads per instr.",
    "divergent_targets": "divergent targets",
    "l2_hit_rate": "L2 hit %",
    "dram_utilisation": "DRAM %",
    "achieved_occupancy": "occupied %",
    "issue_utilisation": "issue %",
}
# Where no warp diverges for long, the columns on that tell less than others, by family.
INSTEAD = {
    "transpose": {
        "threads_per_instruction": ("shared_load_bank_conflicts", "load conflicts"),
        "divergent_targets": ("shared_store_bank_conflicts", "store conflicts"),
    },
    "nf4_product": {
        "threads_per_instruction": ("shared_load_bank_conflicts", "load conflicts"),
        "divergent_targets": ("pipe_tensor", "tensor instr."),
    },
}
CSV_COLUMNS = (
    "counter group title unit value min max n baseline baseline_value change_percent missing"
).split()
TERMINAL_KERNELS = 5  # that fit beside the counters' names
SHORT_NOTE = (
    "In brackets: the change of a count against {baseline}. Main stall: the reason for which warps "
    "wait longest, and the cycles that they do, of all warps together, per issued instruction. All "
    "counters with their changes: the CSV file."
)
CHANGE_NOTE = (
    "Beside or beneath a number its change against {baseline} on the same problem: in percent, of "
    "percentages in points (pt), and as a factor (x12) from tenfold on."
)
NO_TIME_NOTE = (
    "CUPTI repeats a call until all counters are read, so no time comes from this run. Between the "
    "launches of one call it leaves gaps, in which DRAM utilisation counts as idle. Medians over "
    "the samples; k, M, G: thousands, millions, billions."
)


@dataclass(frozen=True)
class Counted:
    """One kernel on one problem."""

    record: Record
    launched: Record | None  # the same row in a pass with times and launches
    values: Counts
    base: Counts | None  # the baseline's; None for the baseline itself, or without one

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
    values = {r.kernel: counts_of(results, r, launched[r.kernel]) for r in records}

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
    family = results.family
    heads = short_heads(family)
    columns = [KERNEL, *[Column("GB/s", "_gb_per_s", gb_text)] * bool(launches)]
    columns += [Column(head, name, wrap=1) for name, head in heads.items()]
    columns.append(Column("main stall", "_main_stall", **WORDS))
    found = on_problems(results, launches)
    groups = {
        heading: [short_row(results, c, heads) for c in rows] for heading, rows in found.items()
    }
    data = [row for rows in found.values() for c in rows for row in rows_by_counter(results, c)]
    notes = [NO_TIME_NOTE, *[SHORT_NOTE.format(baseline=family.baseline)] * bool(family.baseline)]
    notes += derived_notes(family)[:1]
    if launches:
        notes.append(f"GB/s: of {launches.name}, a run with times and without counters.")
    return Table(name, title, columns, groups, notes, machine_notes(results), data)


def on_problems(results: Results, launches: Results | None) -> dict[str, list[Counted]]:
    baseline = results.family.baseline
    return {
        describe(p): counted(results, p["name"], launches, baseline) for p in results.problems()
    }


def short_row(results: Results, c: Counted, heads: Iterable[str]) -> Values:
    """Changes of counts alone: of percentages, both numbers stand in one column."""
    speed = c.launched.bandwidth if c.launched else None
    found: Values = {"kernel": kernel_of(results, c), "_gb_per_s": speed and speed.value}
    for name in heads:
        is_count = name in c.values and c.values[name].counter.unit != "%"
        found[name] = shown(c, name, changed=is_count)
    stalls = [f"{stall_name(value)} {value.number:.1f}" for value in main_stalls(c.values, 1)]
    why = shown(c, "main_stalls", changed=False)
    return found | {"_main_stall": Noted(None, text=stalls[0]) if stalls else why}


def short_heads(family: Family) -> dict[str, str]:
    """The short table's columns by counter."""
    instead = INSTEAD.get(family.name, {})
    pairs = (instead.get(name, (name, head)) for name, head in SHORT.items())
    return {name: head.format(element=family.element) for name, head in pairs}


def full_table(
    results: Results, launches: Results | None, name: str, title: str, first: Sequence[str] = ()
) -> Table:
    """One row per counter, one column per kernel, on every problem; `first`: kernels that stand
    beside the baseline. Counters that are zero in every row share a note.
    """
    family = results.family
    of_problems = on_problems(results, launches)
    from_largest = sorted(results.problems(), key=lambda p: -p.get("n", 0))
    every = [c for problem in from_largest for c in of_problems[describe(problem)]]
    kernels = list(dict.fromkeys(c.record.kernel for c in every))
    kernels.sort(key=lambda k: (k != family.baseline, k not in first))
    counters = {n: v.counter for c in every for n, v in c.values.items()}
    zero = {n for n in counters if all(is_zero(c.values.get(n)) for c in every)}
    columns = [Column("counter", "counter", align="l", wrap=12)]
    columns.append(Column("unit", "unit", align="l", detail=True))
    for i, kernel in enumerate(kernels):
        columns.append(Column(kernel, f"of {kernel}", wrap=1, detail=i >= TERMINAL_KERNELS))
    groups: list[tuple[str, list[Values]]] = []
    for heading, rows in of_problems.items():
        outcomes = {f"of {c.record.kernel}": outcome_of(results, c) for c in rows}
        groups.append((heading, [{"counter": "output"} | outcomes]))
        for group, members in by_group(counters, zero).items():
            groups.append((group, [across(counter, rows) for counter in members]))
    data = [row for c in every for row in rows_by_counter(results, c)]
    notes = [NO_TIME_NOTE, CHANGE_NOTE.format(baseline=family.baseline), *derived_notes(family)]
    if zero:
        titles = "; ".join(c.title for n, c in counters.items() if n in zero)
        notes.append(f"Zero in every row, and left out above: {titles}.")
    notes.append("Counter by counter with minimum, maximum and number of samples: the CSV file.")
    return Table(name, title, columns, groups, notes, machine_notes(results), data)


def across(counter: Counter, rows: Sequence[Counted]) -> Values:
    """One counter of every kernel."""
    found = {f"of {c.record.kernel}": shown(c, counter.id) for c in rows}
    return {"counter": counter.title, "unit": counter.unit or None} | found


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


def kernel_of(results: Results, c: Counted) -> Noted:
    """The kernel, with a footnote where its output is not bit-exact."""
    r = c.record
    if r.outcome == "deviation_as_declared":
        notes = (f"{r.kernel}: its output deviates as declared: {r.deviation}",)
    else:
        notes = () if r.outcome in RIGHT else outcome_notes(results, r)
    return Noted(r.kernel, notes)


def outcome_of(results: Results, c: Counted) -> Noted:
    return replace(kernel_of(results, c), text=outcome_words(c.record))


def shown(c: Counted, name: str, changed: bool = True) -> Noted | None:
    """'193 M (-59%)', or why there is none."""
    value = c.values.get(name)
    if value is None:
        return None
    change = c.change(name) if changed else ""
    text = value.shown + f" ({change})" * bool(change)
    return Noted(value.number, (value.missing,) * bool(value.missing), text=text)


def rows_by_counter(results: Results, c: Counted) -> list[Values]:
    """One row per counter; one row with the reason where nothing was counted."""
    r, baseline = c.record, results.family.baseline
    head: Values = {"problem": r.problem["name"], "kernel": kernel_of(results, c)}
    head |= {"outcome": r.outcome, "reason": r.reason or r.deviation}
    rows = []
    for value in c.values.values():
        s, counter = value.samples, value.counter
        base = c.base.get(counter.id) if c.base else None
        row = head | {"counter": counter.id, "group": counter.group, "title": counter.title}
        row |= {"unit": counter.unit, "value": value.text if value.number is None else value.number}
        row |= {"min": s.min if s else None, "max": s.max if s else None, "n": s.n if s else None}
        row |= {"baseline": baseline, "baseline_value": base.number if base else None}
        row |= {"change_percent": c.change_percent(counter.id), "missing": value.missing}
        row |= {"_shown": shown(c, counter.id, changed=False)}
        rows.append(row | {"_change": c.change(counter.id) or None})
    return rows or [head | dict.fromkeys(CSV_COLUMNS)]


def asked_for_table(results: Results, names: Sequence[str], title: str) -> Table:
    """The counters that a user named, one row per kernel and counter."""
    baseline = results.family.baseline
    columns = [KERNEL, Column("counter", "counter", align="l", wrap=1, code=True)]
    columns.append(Column("value", "_shown"))
    columns += [Column(f"over {baseline}", "_change")] * bool(baseline)
    columns.append(Column("unit", "unit", lambda unit: unit or NONE, **WORDS))
    groups: dict[str, list[Values]] = {}
    for heading, found in on_problems(results, None).items():
        rows = [(c, {row["counter"]: row for row in rows_by_counter(results, c)}) for c in found]
        groups[heading] = [
            by_counter.get(name, {"kernel": kernel_of(results, c), "counter": name})
            for name in names
            for c, by_counter in rows
        ]
    data = [row for rows in groups.values() for row in rows if "value" in row]
    return Table("asked_for", title, columns, groups, [NO_TIME_NOTE], machine_notes(results), data)


PATH_NOTE = (
    "Instructions are per weight (of a transpose: element), counted in the loop that stores the "
    "output, or in the whole kernel where it has none: on the shortest and on the longest way of a "
    "thread, then (in all) those of every way, which a warp runs whose threads take them all. "
    "Index: those that make an address in the table, or a choice, of a code. Look-ups: reads of "
    "the table."
)
BRANCH_NOTE = (
    "Branches: conditional ones in the loop, in brackets those not seen to be uniform. Nothing was "
    "run: these facts hold on every machine."
)
PREFIX = "sass_"


def facts_table(results: Results) -> Table:
    """What the compiler made of the kernels: one row per kernel in a group per architecture; the
    CSV has every fact.
    """
    columns = [KERNEL, Column("instr.", "instructions"), Column("in all", "instructions_in_all")]
    columns += [Column("index", "index"), Column("look-ups", "look_ups")]
    columns += [Column("registers", "registers"), Column("code bytes", "code_bytes", wrap=1)]
    columns.append(Column("branches", "branches", wrap=1))
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for arch in dict.fromkeys(map(arch_of, results.records)):
        records = [r for r in results.records if arch_of(r) == arch]
        groups[arch] = [facts_in_short(r, results.family_of(r)) for r in records]
        data += [row for record in records for row in rows_by_fact(record)]
    title, notes = "What the compiler made of the kernels", [PATH_NOTE, BRANCH_NOTE]
    return Table("sass", title, columns, groups, notes, machine_notes(results), data)


def arch_of(record: Record) -> str:
    return record.problem.get("arch", record.problem["name"])


def facts_in_short(record: Record, family: Family) -> Values:
    per = f"per_{family.element}"
    found = {
        "kernel": record.kernel,
        "instructions_in_all": fact(record, f"instructions_{per}.all"),
    }
    found |= {
        name: paths(record, f"{name}_{per}") for name in ("instructions", "index", "look_ups")
    }
    found |= {name: fact(record, name) for name in ("registers", "code_bytes")}
    branches, diverging = (number(record, f"branches{end}") for end in ("", "_may_diverge"))
    if branches is not None:
        text = f"{branches:g}" + (f" ({diverging:g})" if diverging else "")
        found["branches"] = Noted(branches, text=text)
    return found


def number(record: Record, name: str) -> float | None:
    found = record.metric(PREFIX + name)
    return found.summary.median if found and found.summary else None


def fact(record: Record, name: str) -> Noted | None:
    """With the reason as a footnote where there is none."""
    value, found = number(record, name), record.metric(PREFIX + name)
    if value is None:
        return Noted(None, (found.missing,)) if found else None
    return Noted(value, text=f"{value:g}" if value >= 1000 else short(value))


def paths(record: Record, name: str) -> Noted | None:
    """'35.19-37.19': the shortest and the longest path."""
    least, most = number(record, f"{name}.least"), number(record, f"{name}.most")
    if least is None or most in (None, least):
        return fact(record, f"{name}.least")
    return Noted(least, text=f"{short(least)}-{short(most)}")


def rows_by_fact(record: Record) -> list[Values]:
    head = {"arch": arch_of(record), "kernel": record.kernel, "family": record.problem["family"]}
    rows = []
    for name, found in record.metrics.items():
        value = found.summary.median if found.summary else None
        row = head | {"fact": name.removeprefix(PREFIX), "unit": found.unit, "value": value}
        rows.append(row | {"missing": found.missing, "function": record.problem.get("function")})
    return rows

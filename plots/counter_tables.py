"""Tables of counters: a short one with a row per kernel, one with every counter, and one of the
compiled code of each kernel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from plots.bandwidth import describe, gb_text
from plots.counter_values import (
    ASKED_FOR,
    LAUNCH,
    Counts,
    change,
    counts_of,
    derived_notes,
    main_stalls,
    short,
    stall_name,
)
from reprolab.captions import machine_notes, outcome_notes, outcome_words
from reprolab.counter_table import known
from reprolab.results import RIGHT, Record, Results
from reprolab.stats import difference_percent
from reprolab.tables import KERNEL, NONE, WORDS, Column, Noted, Table, Values

# The short table's counters and headings; the full table has all counters.
SHORT = {
    "instructions_per_element": "instr. per {element}",
    "threads_per_instruction": "threads per instr.",
    "divergent_targets": "divergent targets",
    "l2_hit_rate": "L2 hit %",
    "dram_utilisation": "DRAM %",
    "achieved_occupancy": "occupied %",
    "issue_utilisation": "issue %",
}
# By family: columns about divergence are replaced if no warp diverges for long.
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
TERMINAL_KERNELS = 5  # columns that fit next to the counters' names
SHORT_NOTE = (
    "In brackets: the change of a count against {baseline}. Main stall: the reason for which "
    "warps wait longest, and the cycles waited, of all warps together, per issued instruction. All "
    "counters with their changes: the CSV file."
)
CHANGE_NOTE = (
    "Next to or below a number its change from {baseline} on the same problem: in percent, for "
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
        percent = difference_percent(number, base.number)
        return percent if isfinite(percent) else None


def counted(
    results: Results, problem: str, launches: Results | None, baseline: str
) -> list[Counted]:
    """All kernels of a problem: the baseline, those with counters from fast to slow, others."""
    records = [r for r in results.rows_on(problem) if not r.is_ceiling]
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
    """The rows of the largest problem."""
    return replace(results, records=tuple(results.rows_on(largest(results)["name"])))


def short_table(results: Results, launches: Results | None, name: str, title: str) -> Table:
    """One row per kernel, with the most informative counters; percentages without their changes."""
    family = results.family
    instead = INSTEAD.get(family.name, {})
    heads = dict(instead.get(counter, (counter, head)) for counter, head in SHORT.items())
    columns = [KERNEL, *[Column("GB/s", "_gb_per_s", gb_text)] * bool(launches)]
    columns += [Column(h.format(element=family.element), n, wrap=1) for n, h in heads.items()]
    columns.append(Column("main stall", "_main_stall", **WORDS))
    rows, data = [], []
    for heading, members in on_problems(results, launches).items():
        for c in members:
            speed = c.launched.bandwidth if c.launched else None
            stalls = [f"{stall_name(value)} {value.number:.1f}" for value in main_stalls(c.values)]
            why = shown(c, "main_stalls", changed=False)
            row = {"_under": heading, "kernel": kernel_of(results, c)}
            row |= {"_gb_per_s": speed and speed.value}
            row |= {"_main_stall": Noted(None, text=stalls[0]) if stalls else why}
            percents = {n for n, value in c.values.items() if value.counter.unit == "%"}
            rows.append(row | {n: shown(c, n, changed=n not in percents) for n in heads})
            data += rows_by_counter(results, c)
    notes = [NO_TIME_NOTE, *[SHORT_NOTE.format(baseline=family.baseline)] * bool(family.baseline)]
    notes += derived_notes(family)[:1]
    if launches:
        notes.append(f"GB/s: of {launches.name}, a run with times and without counters.")
    return Table(name, title, columns, rows, notes, machine_notes(results), data)


def on_problems(results: Results, launches: Results | None) -> dict[str, list[Counted]]:
    baseline = results.family.baseline
    return {
        describe(p): counted(results, p["name"], launches, baseline) for p in results.problems()
    }


def full_table(
    results: Results, launches: Results | None, name: str, title: str, first: Sequence[str] = ()
) -> Table:
    """One row per counter, one column per kernel, on every problem; `first`: kernels next
    to the baseline. Counters that are zero in every row share a note.
    """
    baseline, of_problems = results.family.baseline, on_problems(results, launches)
    from_largest = sorted(results.problems(), key=lambda p: -p.get("n", 0))
    every = [c for problem in from_largest for c in of_problems[describe(problem)]]
    kernels = list(dict.fromkeys(c.record.kernel for c in every))
    kernels.sort(key=lambda k: (k != baseline, k not in first))
    # Groups in the order of data/counters.json, then the launch, then the requested counters.
    groups = [*dict.fromkeys(counter.group for counter in known().values()), LAUNCH, ASKED_FOR]
    counters = {n: v.counter for c in every for n, v in c.values.items()}
    values = {n: [c.values[n] for c in every if n in c.values] for n in counters}
    zero = {n for n, row in values.items() if all(v.number == 0 and not v.missing for v in row)}
    by_group = sorted(counters.values(), key=lambda c: (*groups, c.group).index(c.group))
    columns = [Column("counter", "counter", align="l", wrap=12)]
    columns.append(Column("unit", "unit", align="l", detail=True))
    for i, kernel in enumerate(kernels):
        columns.append(Column(kernel, f"of {kernel}", wrap=1, detail=i >= TERMINAL_KERNELS))
    rows: list[Values] = []
    for heading, members in of_problems.items():
        outcomes = {
            f"of {c.record.kernel}": replace(kernel_of(results, c), text=outcome_words(c.record))
            for c in members
        }
        rows.append({"_under": heading, "counter": "output"} | outcomes)
        rows += [
            {"_under": (heading, counter.group), "counter": counter.title}
            | {"unit": counter.unit or None}
            | {f"of {c.record.kernel}": shown(c, counter.id) for c in members}
            for counter in by_group
            if counter.id not in zero
        ]
    data = [row for c in every for row in rows_by_counter(results, c)]
    notes = [NO_TIME_NOTE, CHANGE_NOTE.format(baseline=baseline), *derived_notes(results.family)]
    if zero:
        titles = "; ".join(c.title for n, c in counters.items() if n in zero)
        notes.append(f"Zero in every row, and omitted above: {titles}.")
    notes.append("Counter by counter with minimum, maximum and number of samples: the CSV file.")
    return Table(name, title, columns, rows, notes, machine_notes(results), data)


def kernel_of(results: Results, c: Counted) -> Noted:
    """The kernel, with a footnote if its output is not bit-exact."""
    r = c.record
    if r.deviates:
        notes = (f"{r.kernel}: its output deviates as declared: {r.deviation}",)
    else:
        notes = () if r.outcome in RIGHT else outcome_notes(results, r)
    return Noted(r.kernel, notes)


def shown(c: Counted, name: str, changed: bool = True) -> Noted | None:
    """'193 M (-59%)', or the reason for having none."""
    value = c.values.get(name)
    if value is None:
        return None
    change = c.change(name) if changed else ""
    text = value.shown + f" ({change})" * bool(change)
    return Noted(value.number, (value.missing,) * bool(value.missing), text=text)


def rows_by_counter(results: Results, c: Counted) -> list[Values]:
    """One row per counter; one row with the reason if nothing was counted."""
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
    rows: list[Values] = []
    for heading, members in on_problems(results, None).items():
        by_name = [
            (c, {row["counter"]: row for row in rows_by_counter(results, c)}) for c in members
        ]
        rows += [
            {"_under": heading}
            | by_counter.get(name, {"kernel": kernel_of(results, c), "counter": name})
            for name in names
            for c, by_counter in by_name
        ]
    data = [row for row in rows if "value" in row]
    return Table("asked_for", title, columns, rows, [NO_TIME_NOTE], machine_notes(results), data)


PATH_NOTE = (
    "Instructions are per weight (for a transpose: element), counted in the loop that stores "
    "the output, or in the whole kernel if it has none: on the shortest and on the longest path "
    "of a thread, then (in all) on every path, as run by a warp whose threads take all of them. "
    "Index: instructions that turn a code into an address in the table, or a choice. Look-ups: "
    "reads of the table."
)
BRANCH_NOTE = (
    "Branches: conditional ones in the loop, in brackets those not known to be uniform. Nothing "
    "was run: these facts hold on every machine."
)
PREFIX = "sass_"


def facts_table(results: Results) -> Table:
    """The compiled code of each kernel, by architecture; the CSV has every fact."""
    columns = [KERNEL, Column("instr.", "instructions"), Column("in all", "instructions_in_all")]
    columns += [Column("index", "index"), Column("look-ups", "look_ups")]
    columns += [Column("registers", "registers"), Column("code bytes", "code_bytes", wrap=1)]
    columns.append(Column("branches", "branches", wrap=1))
    rows, data = [], []
    archs = {r.key: r.problem.get("arch", r.problem["name"]) for r in results.records}
    together = list(dict.fromkeys(archs.values()))
    for r in sorted(results.records, key=lambda r: together.index(archs[r.key])):
        arch, per = archs[r.key], f"per_{results.family_of(r).element}"
        row = {"_under": arch, "kernel": r.kernel}
        row |= {"instructions_in_all": fact(r, f"instructions_{per}.all")}
        row |= {name: paths(r, f"{name}_{per}") for name in ("instructions", "index", "look_ups")}
        row |= {name: fact(r, name) for name in ("registers", "code_bytes")}
        branches, diverging = (number(r, f"branches{end}") for end in ("", "_may_diverge"))
        if branches is not None:
            text = f"{branches:g}" + (f" ({diverging:g})" if diverging else "")
            row["branches"] = Noted(branches, text=text)
        rows.append(row)
        head = {"arch": arch, "kernel": r.kernel, "family": r.problem["family"]}
        for name, metric in r.metrics.items():
            value = metric.summary.median if metric.summary else None
            tail = {"fact": name.removeprefix(PREFIX), "unit": metric.unit, "value": value}
            tail |= {"missing": metric.missing, "function": r.problem.get("function")}
            data.append(head | tail)
    title, notes = "The compiled code of the kernels", [PATH_NOTE, BRANCH_NOTE]
    return Table("sass", title, columns, rows, notes, machine_notes(results), data)


def number(record: Record, name: str) -> float | None:
    metric = record.metric(PREFIX + name)
    return metric.summary.median if metric and metric.summary else None


def fact(record: Record, name: str) -> Noted | None:
    """The fact's value; the reason as a footnote if there is none."""
    value, metric = number(record, name), record.metric(PREFIX + name)
    if value is None:
        return Noted(None, (metric.missing,)) if metric else None
    return Noted(value, text=f"{value:g}" if value >= 1000 else short(value))


def paths(record: Record, name: str) -> Noted | None:
    """'35.19-37.19': the shortest and the longest path."""
    least, most = number(record, f"{name}.least"), number(record, f"{name}.most")
    if least is None or most in (None, least):
        return fact(record, f"{name}.least")
    return Noted(least, text=f"{short(least)}-{short(most)}")

"""Bandwidth per problem and kernel, for any family of kernels."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plots.memory_gain import difference
from reprolab.captions import (
    Used,
    clock_mark,
    machine_notes,
    origins,
    outcome_notes,
    outcome_words,
)
from reprolab.code import older_mark
from reprolab.errors import InputError
from reprolab.results import COPY, Record, Results
from reprolab.stats import INTERVAL_NOTE, Estimate, Summary, ratio, significant
from reprolab.tables import BEST, KERNEL, NONE, WORDS, Column, Noted, Table, Values, rounded

GB_NOTE = (
    "GB/s: bytes read and written, once each, over the median time; GB = 1e9 bytes. "
    + INTERVAL_NOTE
)
OTHER_NOTE = "Other metrics: medians; the CSV file also has their intervals."
CYCLE_NOTE = "B/cycle: those bytes per cycle of the SM clock measured next to the samples."
COPY_NOTE = (
    "Copy %: share of the bandwidth of a device-to-device cudaMemcpy in the same run; it may be "
    "passed."
)
CEILING_NOTE = (
    "Fastest ceiling: the row with the highest bandwidth among those that move a problem's "
    "bytes, read and written, and compute nothing."
)
PASSED_NOTE = (
    "Passes its ceiling: faster, with no overlap of intervals, than each ceiling of the run "
    "that reads and writes as many bytes. The true ceiling is therefore at least this row's "
    "speed: the ceilings lack a form (experiments/ceilings)."
)
BEST_NOTE = (
    f"The best bit-exact row of a problem, and those whose interval overlaps with it, are {BEST}."
)
LOWER_CLOCK_NOTE = (
    "Ran at a lower SM clock than other rows on that GPU, whose page has the difference."
)
DEVIATES_NOTE = "Deviates as declared: left out of the ranking."
RATIO_NOTE = (
    "Speed-up: ratio of medians; its interval is from low(base) / high(row) to high(base) / "
    "low(row). If the two intervals overlap, no difference was seen. Only bit-exact rows are "
    "ranked."
)
TIME = re.compile(r"(kernel|product|wall|busy)_time(\.|$)")  # names in data/results.schema.json


@dataclass(frozen=True)
class Measured:
    """One kernel on one problem, with the rows that it can be compared with (None if it cannot)."""

    results: Results
    record: Record
    copy: Record | None
    ceiling: Record | None  # the fastest of those that read and write
    base: Record | None  # bit-exact and timed
    ratio: Estimate | None  # over the baseline
    best: bool
    clock: tuple[str, ...]  # a footnote if another row's SM clock was higher

    @property
    def outcome(self) -> Noted:
        """The row's outcome in words, with its footnote."""
        r = self.record
        return Noted(r.outcome, outcome_notes(self.results, r), text=outcome_words(r))

    @property
    def no_number(self) -> Noted:
        """The outcome in place of a missing number."""
        return replace(self.outcome, value=None)

    @property
    def gb_s(self) -> float | None:
        return self.record.bandwidth.value if self.record.bandwidth else None

    @property
    def of_copy(self) -> float | None:
        """The share of the copy's bandwidth; may exceed 1."""
        return share(self.record, self.copy)

    @property
    def of_ceiling(self) -> float | None:
        """The share of the fastest ceiling's bandwidth; may exceed 1."""
        return share(self.record, self.ceiling)

    @property
    def passes_ceiling(self) -> bool:
        """Faster with no overlap of intervals; rows with a wrong output do not count."""
        if not self.record.ranked or self.record.bandwidth is None or self.ceiling is None:
            return False
        return self.record.bandwidth.low > self.ceiling.bandwidth.high

    @property
    def time_marks(self) -> tuple[str, ...]:
        """Footnotes of the row's time: a lower clock, and an older kernel."""
        return self.clock + older_mark(self.record)

    @property
    def marks(self) -> tuple[str, ...]:
        """Footnotes of the row's speed: those of its time, and a ceiling that it passes."""
        return self.time_marks + (PASSED_NOTE,) * self.passes_ceiling


def share(record: Record, reference: Record | None) -> float | None:
    """The bandwidth as a share of another row's."""
    if record.bandwidth is None or reference is None or reference.bandwidth is None:
        return None
    return record.bandwidth.value / reference.bandwidth.value


def compared(base: Measured | None, m: Measured | None) -> Estimate | None:
    """The speed-up over the base; None if one of the two has no time."""
    if base is None or m is None or not (base.record.ranked and m.record.ranked):
        return None
    return ratio(base.record.times, m.record.times)


def ceiling(records: Sequence[Record]) -> Record | None:
    """The fastest ceiling of one problem that reads and writes, like its kernels."""
    ceilings = [
        r for r in records if r.is_ceiling and r.bandwidth and 0 < r.bytes_read < r.bytes_moved
    ]
    return max(ceilings, key=lambda r: r.bandwidth.value, default=None)


Rows = dict[str, Measured]  # a problem's rows by kernel


def measure(results: Results, problem: str, baseline: str = "") -> Rows:
    """All rows of a problem: ranked ones by time, then deviations, failures and ceilings."""
    records = results.rows_on(problem)
    timed, ranked = [r for r in records if r.timed], [r for r in records if r.ranked]
    fastest = min((r.times for r in ranked), key=lambda s: s.median, default=None)
    copy, base = results.find(problem, COPY), results.find(problem, baseline)
    base = base if base in ranked else None
    limit = ceiling(records)
    highest_mhz = max((r.sm_mhz for r in timed if r.sm_mhz is not None), default=None)
    rows = []
    for r in records:
        best = fastest is not None and r.ranked and not ratio(r.times, fastest).differs_from_one
        speed_up = ratio(base.times, r.times) if base and r.ranked and r is not base else None
        clock = clock_mark(r, highest_mhz) if r.timed else ()
        reference = copy if r is not copy else None
        rows.append(Measured(results, r, reference, limit, base, speed_up, best, clock))
    return {m.record.kernel: m for m in sorted(rows, key=order)}


def rows_by(
    results: Results, key: Callable[[dict[str, Any]], Any], baseline: str = ""
) -> dict[Any, Rows]:
    """Every row of a file, by a key of its problems; InputError if two have the same key."""
    by_key: dict[Any, Rows] = {}
    for p in results.problems():
        if key(p) in by_key:
            raise InputError(
                f"{results.file}: problem '{p['name']}' cannot be distinguished from another"
            )
        by_key[key(p)] = measure(results, p["name"], baseline)
    return dict(sorted(by_key.items()))


def order(row: Measured) -> tuple[int, float, str]:
    r = row.record
    place = 3 if r.is_ceiling else 0 if r.ranked else 1 if r.timed else 2
    return place, r.summary.median if r.summary else 0.0, r.kernel


def fastest(rows: Rows) -> str:
    """The fastest kernel's name, or the names of several that cannot be distinguished; '' if none
    ran."""
    names = ", ".join(kernel for kernel, m in rows.items() if m.best)
    return f"no difference seen between {names}" if ", " in names else names


def describe(problem: dict[str, Any]) -> str:
    """'25600x5120/fp16/b64: qwen3-32b.gate, qwen3-32b.up', if the family names its users."""
    users = ", ".join(problem.get("models", []))
    return f"{problem['name']}: {users}" if users else problem["name"]


def with_interval(estimate: Estimate | None, show: Callable[[float], str] = "{:.2f}".format) -> str:
    """'2.16 (2.15-2.17)'"""
    if estimate is None:
        return NONE
    return f"{show(estimate.value)} ({show(estimate.low)}-{show(estimate.high)})"


def over_text(estimate: Estimate | None) -> str:
    """A speed-up, if one was seen."""
    seen = estimate is None or estimate.differs_from_one
    return with_interval(estimate) if seen else "no difference seen"


def over(base: Measured | None, m: Measured | None) -> Noted:
    """The speed-up; the outcome of the base if it has no time."""
    if base is not None and not base.record.ranked:
        return base.no_number
    speed_up = compared(base, m)
    rows = [speed_up and each.record for each in (base, m) if each]
    return Noted(None, older_mark(*rows), text=over_text(speed_up))


def times_text(estimate: Estimate, digits: int = 2) -> str:
    """'2.16', or '~1.00' if the two intervals overlap."""
    return ("" if estimate.differs_from_one else "~") + f"{estimate.value:.{digits}f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


gb_text = "{:.0f}".format

# Columns of a Measured's values.
OUTCOME = Column("outcome", "outcome", **WORDS)
MEDIAN = Column("median us", "median_us", significant)
INTERVAL = Column("interval us", "_interval", lambda e: "-".join(map(significant, e.interval)))
GB_S = Column("GB/s", "gb_per_s", gb_text)
CYCLE = Column("B/cycle", "bytes_per_cycle", rounded)
READ_ONLY = "read_only"  # the ceiling's name
COPY_SHARE = Column("copy %", "share_of_copy", percent)


def time_values(s: Summary | None, prefix: str = "") -> Values:
    """A summary in microseconds, empty if no time may be shown."""
    values = (s.median, s.low, s.high, s.min) if s else (None,) * 4
    names = (f"{prefix}{name}_us" for name in ("median", "low", "high", "min"))
    return dict(zip(names, values, strict=True)) | {"_interval": s and s.estimate}


def estimate_values(name: str, estimate: Estimate | None) -> Values:
    ends = (estimate.value, *estimate.interval) if estimate else (None,) * 3
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def values_of(m: Measured) -> Values:
    """A row's outcome, its times, and the values computed from them."""
    r, outcome = m.record, m.outcome
    if r is m.ceiling and r.summary:
        outcome = replace(outcome, text="fastest ceiling")
    values: Values = {"kernel": r.kernel, "origin": r.origin, "maker": r.maker}
    values |= {"outcome": outcome, "reason": r.reason or r.deviation} | time_values(r.summary)
    values |= {"n": r.summary.n if r.summary else None, "bytes": r.bytes_moved}
    values |= {"gb_per_s": Noted(m.gb_s, m.marks, m.best), "bytes_per_cycle": r.bytes_per_cycle}
    values |= {"share_of_copy": m.of_copy, "share_of_ceiling": m.of_ceiling}
    values |= estimate_values("speedup", m.ratio) | {"_over": Noted(m.ratio, older_mark(m.base))}
    values |= {"difference_seen": int(m.ratio.differs_from_one) if m.ratio else None}
    values |= {"best": int(m.best), "sm_mhz": r.sm_mhz, "sm_clock_is_lower": int(bool(m.clock))}
    return values | {"source_file": r.source_file}


def speed_or_outcome(m: Measured) -> Noted:
    """GB/s; the row's outcome if it has none."""
    return m.no_number if m.gb_s is None else Noted(m.gb_s, m.marks, m.best)


def other_metrics(results: Results) -> list[tuple[str, str]]:
    """Name and unit of every metric except times, for tables in which it differs between rows."""
    every = (m for r in results.records for m in r.metrics.values())
    return list(dict.fromkeys((m.name, m.unit) for m in every if not TIME.match(m.name)))


def other_values(r: Record, metrics: Sequence[tuple[str, str]]) -> Values:
    """Values of other metrics; none for an unverified row."""
    values: Values = {}
    for name, unit in metrics:
        m = r.metric(name) if r.is_verified or r.is_ceiling else None
        m = m if m and m.unit == unit else None
        s, why = m and m.summary, (m.missing,) if m and m.missing else ()
        head = headed(name, unit)
        values |= {head: Noted(s.median if s else None, why)}
        values |= {f"{head} low": s and s.low, f"{head} high": s and s.high}
    return values


def headed(name: str, unit: str) -> str:
    return f"{name} ({unit or NONE})"


def bandwidth_table(results: Results, name: str, title: str, baseline: str = "") -> Table:
    """Every problem and kernel of a file, with speed-ups if a baseline is given."""
    moves = any(r.bytes_moved for r in results.records)
    columns = [KERNEL, OUTCOME, MEDIAN, INTERVAL]
    columns += [Column("min us", "min_us", significant, detail=bool(baseline)), Column("n", "n")]
    columns += [GB_S, CYCLE, COPY_SHARE] * moves
    others = other_metrics(results)
    columns += [Column(headed(*metric), headed(*metric), significant, wrap=1) for metric in others]
    width = len("9.99 (9.99-9.99)")
    columns += [Column(f"over {baseline}", "_over", over_text, wrap=width)] * bool(baseline)
    rows = [
        {"_under": describe(p), "problem": p["name"]}
        | values_of(m)
        | other_values(m.record, others)
        for p in results.problems()
        for m in measure(results, p["name"], baseline).values()
    ]
    notes = [GB_NOTE, CYCLE_NOTE, COPY_NOTE, CEILING_NOTE] * moves
    notes += [OTHER_NOTE] * bool(others) + [BEST_NOTE] + [RATIO_NOTE] * bool(baseline)
    return Table(name, title, columns, rows, notes, machine_notes(results))


def table_by_gpu(name: str, brief: Mapping[str, Sequence[Measured]]) -> Table:
    """One row per kernel of any GPU, those with the highest share of a copy first, and the copy; a
    column for each GPU. If no copy was timed, read_only replaces it.

    `brief`: for each GPU, rows of one problem; its rows of other GPUs' kernels are also shown.
    """
    problems = {gpu: rows[0].record.problem["name"] for gpu, rows in brief.items()}
    measured = {gpu: measure(rows[0].results, problems[gpu]) for gpu, rows in brief.items()}
    first = next(iter(problems.values()))
    names = {m.record.kernel for rows in brief.values() for m in rows}
    every = [(kernel, m) for rows in measured.values() for kernel, m in rows.items()]
    has_copy = any(m.of_copy for _, m in every)
    base = COPY if has_copy else READ_ONLY  # outputs that are small beside inputs have no copy
    of_base = {
        gpu: {k: share(m.record, rows[base].record) for k, m in rows.items() if base in rows}
        for gpu, rows in measured.items()
    }
    shares = [(x or 0, k) for by_kernel in of_base.values() for k, x in by_kernel.items()]
    missing = {kernel for kernel, _ in every} - {kernel for _, kernel in shares}
    order = [kernel for _, kernel in sorted(shares, reverse=True)] + sorted(missing)
    kernels = [kernel for kernel in order if kernel in names]
    columns, shown = [KERNEL], {kernel: {"kernel": kernel} for kernel in (*kernels, base)}
    for gpu, rows in measured.items():
        other = "" if problems[gpu] == first else f", {problems[gpu]}"
        columns.append(Column(gpu + other, f"on {gpu}", wrap=len("9999 (99.9 %)")))
        for kernel in rows.keys() & shown.keys():
            shown[kernel][f"on {gpu}"] = speed_with_share(rows[kernel], of_base[gpu].get(kernel))
    data = [
        {"gpu": gpu, "problem": problems[gpu], **values_of(m)}
        for gpu, rows in measured.items()
        for m in rows.values()
    ]
    title = f"GB/s on {first}, and percent of each GPU's own {base}"
    rates = {gpu: {k: m.gb_s for k, m in timed(shown, rows)} for gpu, rows in measured.items()}
    sms = {gpu: rows[0].results.multiprocessors for gpu, rows in brief.items()}
    note = difference(rates, base, sms) if len(set(problems.values())) == 1 else ""
    notes, provenance = [note] * bool(note), origins(used_in(shown, measured))
    return Table(name, title, columns, list(shown.values()), notes, provenance, data)


def used_in(kernels: Collection[str], measured: Mapping[str, Rows]) -> Used:
    """Their rows, by result file."""
    shown = [[m for k, m in rows.items() if k in kernels] for rows in measured.values()]
    return [(rows[0].results, [m.record for m in rows]) for rows in shown if rows]


def timed(kernels: Iterable[str], rows: Mapping[str, Measured]) -> Iterator[tuple[str, Measured]]:
    return ((k, rows[k]) for k in kernels if k in rows and rows[k].gb_s)


def speed_with_share(m: Measured, share: float | None) -> Noted:
    """'4156 (99.0 %)'; the row's outcome if it has no speed."""
    if m.gb_s is None:
        return replace(m.no_number, notes=())
    of_base = f" ({percent(share)} %)" if share else ""
    notes = (LOWER_CLOCK_NOTE,) * bool(m.clock) + (DEVIATES_NOTE,) * m.record.deviates
    notes += older_mark(m.record)
    return Noted(m.gb_s, notes, m.best, text=gb_text(m.gb_s) + of_base)

"""Bandwidth per problem and kernel, for any family of kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from claims.results import COPY, Record, Results
from claims.stats import INTERVAL_NOTE, Estimate, Summary, ratio, significant
from plots.captions import clock_mark, machine_notes, outcome_notes, outcome_words
from plots.tables import (
    BEST,
    CODE,
    NONE,
    WORDS,
    Cell,
    Column,
    Get,
    Table,
    at,
    column,
    data_of,
    unseen,
)

GB_NOTE = (
    "GB/s: bytes read and written, once each, over the median time; GB = 1e9 bytes. "
    + INTERVAL_NOTE
)
CYCLE_NOTE = "B/cycle: those bytes in one cycle of the SM clock that was seen beside the samples."
COPY_NOTE = (
    "Copy %: share of the bandwidth of a device-to-device cudaMemcpy in the same run; it may be "
    "passed."
)
CEILING_NOTE = (
    "Fastest ceiling: of the rows that move a problem's bytes, read and written, and compute "
    "nothing, the one with the highest bandwidth."
)
PASSED_NOTE = (
    "Passes its ceiling: faster, with no overlap of intervals, than each kernel beside it that "
    "reads and writes as many bytes and computes nothing. So the true ceiling is at least this "
    "row's speed: the ceilings lack a form (experiments/ceilings)."
)
BEST_NOTE = (
    f"The best bit-exact row of a problem, and those whose interval overlaps with it, are {BEST}."
)
RATIO_NOTE = (
    "Speed-up: ratio of medians; its interval is from low(base) / high(row) to high(base) / "
    "low(row). Where the intervals of the two overlap, no difference was seen. Only bit-exact rows "
    "are ranked."
)


@dataclass(frozen=True)
class Measured:
    """One kernel on one problem, with what it can be compared with (None where it cannot)."""

    results: Results
    record: Record
    copy: Record | None
    ceiling: Record | None  # the fastest of those that read and write
    base: Record | None  # bit-exact and timed
    ratio: Estimate | None  # over the baseline
    best: bool
    clock: tuple[str, ...]  # a footnote where the SM clock was lower than beside it

    @property
    def outcome(self) -> Cell:
        """What became of the row, in words, with the footnote that this needs."""
        return Cell(outcome_words(self.record), outcome_notes(self.results, self.record))

    @property
    def gb_s(self) -> float | None:
        return self.record.bandwidth.value if self.record.bandwidth else None

    @property
    def of_copy(self) -> float | None:
        """1 is the copy's own bandwidth; a row may pass it."""
        return share(self.record, self.copy)

    @property
    def of_ceiling(self) -> float | None:
        """1 is the bandwidth of the fastest known way to move as many bytes."""
        return share(self.record, self.ceiling)

    @property
    def passes_ceiling(self) -> bool:
        """Beyond both intervals; a wrong output shows nothing about a ceiling."""
        if not self.record.ranked or self.record.bandwidth is None or self.ceiling is None:
            return False
        return self.record.bandwidth.low > self.ceiling.speed.high

    @property
    def marks(self) -> tuple[str, ...]:
        """Footnotes of its speed: of a lower clock, and of a ceiling that it passes."""
        return self.clock + (PASSED_NOTE,) * self.passes_ceiling


def share(record: Record, of: Record | None) -> float | None:
    """Of another row's bandwidth."""
    if record.bandwidth is None or of is None or of.bandwidth is None:
        return None
    return record.bandwidth.value / of.bandwidth.value


def compared(base: Measured | None, m: Measured | None) -> Estimate | None:
    """How many times as fast as the base; None where one of the two has no time."""
    if base is None or m is None or not (base.record.ranked and m.record.ranked):
        return None
    return ratio(base.record.times, m.record.times)


def ceiling(records: Sequence[Record]) -> Record | None:
    """Of one problem: the fastest of the ceilings that read and write, as its kernels do."""
    found = [
        r for r in records if r.is_ceiling and r.bandwidth and 0 < r.bytes_read < r.bytes_moved
    ]
    return max(found, key=lambda r: r.speed.value, default=None)


def measure(results: Results, problem: str, baseline: str = "") -> list[Measured]:
    """All rows of a problem: ranked ones by time, then deviations, failures and ceilings."""
    records = [r for r in results.records if r.problem["name"] == problem]
    timed, ranked = [r for r in records if r.timed], [r for r in records if r.ranked]
    fastest = min((r.times for r in ranked), key=lambda s: s.median, default=None)
    copy, base = results.find(problem, COPY), results.find(problem, baseline)
    base = base if base in ranked else None
    limit = ceiling(records)
    rows = []
    for r in records:
        best = fastest is not None and r.ranked and not ratio(r.times, fastest).differs_from_one
        speed_up = ratio(base.times, r.times) if base and r.ranked and r is not base else None
        clock = clock_mark(r, timed) if r.timed else ()
        beside = copy if r is not copy else None
        rows.append(Measured(results, r, beside, limit, base, speed_up, best, clock))
    return sorted(rows, key=order)


def order(row: Measured) -> tuple[int, float, str]:
    r = row.record
    place = 3 if r.is_ceiling else 0 if r.ranked else 1 if r.timed else 2
    return place, r.summary.median if r.summary else 0.0, r.kernel


def fastest(rows: Sequence[Measured]) -> str:
    """The name of the fastest kernel, or that several are not told apart; '' where none ran."""
    names = ", ".join(m.record.kernel for m in rows if m.best)
    return f"no difference seen between {names}" if ", " in names else names


def describe(problem: dict[str, Any]) -> str:
    """'25600x5120/fp16/b64: qwen3-32b.gate, qwen3-32b.up', as far as the family says so."""
    users = ", ".join(problem.get("models", []))
    return f"{problem['name']}: {users}" if users else problem["name"]


def outcome_cell(m: Measured) -> Cell | str:
    return "fastest ceiling" if m.record is m.ceiling and m.record.summary else m.outcome


def interval_text(m: Measured) -> str:
    s = m.record.summary
    return f"{significant(s.low)}-{significant(s.high)}" if s else NONE


def speed_cell(m: Measured) -> Cell:
    """GB/s: best, and with its footnotes."""
    return Cell(NONE if m.gb_s is None else f"{m.gb_s:.0f}", m.marks, m.best)


def cycle_text(m: Measured) -> str:
    return CYCLE.cell(m)


def share_text(m: Measured) -> str:
    """The copy's bandwidth that a row reaches, in percent."""
    return COPY_SHARE.cell(m)


def over_text(found: Estimate | None) -> str:
    """A speed-up with its interval: '2.16 (2.15-2.17)'."""
    if found is None:
        return NONE
    if not found.differs_from_one:
        return "no difference seen"
    return "{:.2f} ({:.2f}-{:.2f})".format(found.value, *found.interval)


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def time_data(of: Get, prefix: str = "") -> Column:
    """For a CSV: a summary in microseconds, empty where no time may be shown."""

    def end(name: str) -> Get:
        return lambda row: getattr(of(row), name, None)

    return unseen(**{f"{prefix}{name}_us": end(name) for name in ("median", "low", "high", "min")})


# Of a Measured.
NAME = Column(
    "kernel",
    at("record.kernel"),
    {"kernel": at("record.kernel"), "origin": at("record.origin"), "maker": at("record.maker")},
    **CODE,
)
OUTCOME = Column(
    "outcome",
    outcome_cell,
    {"outcome": at("record.outcome"), "reason": lambda m: m.record.reason or m.record.deviation},
    **WORDS,
)
MEDIAN = column("median us", "record.summary.median", significant, "median_us")
INTERVAL = Column(
    "interval us",
    interval_text,
    {"low_us": at("record.summary.low"), "high_us": at("record.summary.high")},
)
MIN = column("min us", "record.summary.min", significant, "min_us")
SAMPLES = column("n", "record.summary.n", str, "n")
BYTES = unseen(bytes="record.bytes_moved")
GB_S = Column("GB/s", speed_cell, {"gb_per_s": at("gb_s")})
CYCLE = column("B/cycle", "record.bytes_per_cycle", lambda b: significant(b, 3), "bytes_per_cycle")
COPY_SHARE = column("copy %", "of_copy", percent, "share_of_copy")
CEILING_SHARE = unseen(share_of_ceiling="of_ceiling")
OVER = Column(
    "over",
    lambda m: over_text(m.ratio),
    {
        "speedup": at("ratio.value"),
        "speedup_low": at("ratio.low"),
        "speedup_high": at("ratio.high"),
        "difference_seen": lambda m: int(m.ratio.differs_from_one) if m.ratio else None,
    },
    wrap=len("9.99 (9.99-9.99)"),
)
REST = unseen(
    best=lambda m: int(m.best),
    sm_mhz="record.sm_mhz",
    sm_clock_is_lower=lambda m: int(bool(m.clock)),
    source_file="record.source_file",
)
EVERYTHING = (NAME, OUTCOME, MEDIAN, INTERVAL, MIN, SAMPLES, BYTES, GB_S, CYCLE, COPY_SHARE)
EVERYTHING = (*EVERYTHING, CEILING_SHARE, OVER, REST)
PROBLEM = unseen(problem="record.problem.name")


def bandwidth_table(results: Results, name: str, title: str, baseline: str = "") -> Table:
    """Every problem and kernel of a file; speed-ups where a baseline is named."""
    shown = {MIN: replace(MIN, detail=bool(baseline))}
    shown[OVER] = replace(OVER, name=f"over {baseline}", cell=OVER.cell if baseline else None)
    columns = [PROBLEM, *(shown.get(c, c) for c in EVERYTHING)]
    groups = {describe(p): measure(results, p["name"], baseline) for p in results.problems()}
    notes = [GB_NOTE, CYCLE_NOTE, COPY_NOTE, CEILING_NOTE, BEST_NOTE]
    notes += [RATIO_NOTE] * bool(baseline)
    return Table.of(name, title, columns, groups, notes, machine_notes(results))


def csv_row(m: Measured) -> dict[str, object]:
    """What became of a row, its times, and what they come to."""
    (found,) = data_of(EVERYTHING, [m])
    return found


def time_columns(s: Summary | None, prefix: str = "") -> dict[str, object]:
    (found,) = data_of([time_data(lambda s: s, prefix)], [s])
    return found

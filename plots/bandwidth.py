"""Bandwidth per problem and kernel, for any family of kernels."""

from dataclasses import dataclass
from typing import Any

from plots.captions import clock_warning, machine_notes, outcome_notes, outcome_words
from plots.results import Record, Results
from plots.stats import INTERVAL_NOTE, Ratio, gb_per_s, overlap, significant, speed_up
from plots.tables import Cell, Column, Group, Row, Table

COPY = "copy"  # the ceiling's name: cudaMemcpy, device to device
NONE = "-"

GB_NOTE = (
    "GB/s: bytes read and written, once each, over the median time; GB = 1e9 bytes. "
    + INTERVAL_NOTE
)
COPY_NOTE = "Copy %: share of the bandwidth of a device-to-device cudaMemcpy in the same run."
BEST_NOTE = (
    "The best bit-exact row of a problem, and those whose interval overlaps with it, "
    "are marked (*)."
)
RATIO_NOTE = (
    "Speed-up: ratio of medians, from the lower interval end over the upper to the reverse. "
    "Where the two intervals overlap, no difference was seen. Bit-exact rows alone are ranked."
)


@dataclass(frozen=True)
class Measured:
    """One kernel on one problem, with what it can be compared with (None where it cannot)."""

    record: Record
    gb_s: float | None
    copy: Record | None
    of_copy: float | None  # 1 is the copy's own bandwidth
    base: Record | None
    ratio: Ratio | None  # over the baseline
    best: bool


def bandwidth(record: Record | None) -> float | None:
    """GB/s of the median sample; None where no time may be shown."""
    if record is None or record.summary is None or record.bytes_moved == 0:
        return None
    return gb_per_s(record.bytes_moved, record.summary.median)


def bandwidth_interval(record: Record) -> tuple[float, float]:
    """GB/s at the two ends of the interval of a row that is known to be timed."""
    times = record.times
    return gb_per_s(record.bytes_moved, times.high), gb_per_s(record.bytes_moved, times.low)


def sample_counts(results: Results) -> list[int]:
    """The distinct numbers of samples that the timed rows of a file have."""
    return sorted({r.summary.n for r in results.records if r.summary})


def measure(results: Results, problem: str, baseline: str | None) -> list[Measured]:
    """All rows of a problem: ranked ones by time, then deviations, failures and ceilings."""
    records = [r for r in results.records if r.problem["name"] == problem]
    ranked = [r for r in records if r.ranked]
    fastest = min((r.times for r in ranked), key=lambda s: s.median, default=None)
    copy = results.find(problem, COPY)
    copy_gb_s = bandwidth(copy)
    base = results.find(problem, baseline) if baseline else None
    base = base if base is not None and base.ranked else None
    rows = []
    for r in records:
        gb_s = bandwidth(r)
        share = gb_s / copy_gb_s if gb_s and copy_gb_s and r is not copy else None
        ratio = speed_up(base.times, r.times) if base and r.ranked and r is not base else None
        best = fastest is not None and r.ranked and overlap(r.times, fastest)
        rows.append(Measured(r, gb_s, copy, share, base, ratio, best))
    return sorted(rows, key=order)


def order(row: Measured) -> tuple[int, float, str]:
    r = row.record
    place = 3 if r.role == "ceiling" else 0 if r.ranked else 1 if r.timed else 2
    return place, r.summary.median if r.summary else 0.0, r.kernel


def describe(problem: dict[str, Any]) -> str:
    """'25600x5120/fp16/b64: qwen3-32b.gate, qwen3-32b.up', as far as the family says so."""
    users = ", ".join(problem.get("models", []))
    return f"{problem['name']}: {users}" if users else problem["name"]


def interval(record: Record) -> str:
    """'138.6-138.9', in microseconds."""
    s = record.summary
    return f"{significant(s.low)}-{significant(s.high)}" if s else NONE


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return NONE
    if not ratio.seen:
        return "no difference seen"
    return f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def bandwidth_table(results: Results, name: str, title: str, baseline: str | None) -> Table:
    """Every problem and kernel of a file; speed-ups where a baseline is named."""
    counts = sample_counts(results)
    left_out = [5] * (len(counts) == 1) + [8] * (baseline is None)
    columns = [
        Column("kernel", "l", wrap=True, code=True),
        Column("outcome", "l", wrap=True),
        Column("median us"),
        Column("interval us"),
        Column("min us"),
        Column("n"),
        Column("GB/s"),
        Column("copy %"),
        Column(f"over {baseline}"),
    ]
    rows: list[Row | Group] = []
    measured: list[tuple[dict[str, Any], Measured]] = []
    for problem in results.problems():
        rows.append(Group(describe(problem)))
        for m in measure(results, problem["name"], baseline):
            rows.append([cell for i, cell in enumerate(display(m)) if i not in left_out])
            measured.append((problem, m))
    notes = [f"n = {counts[0]} samples in every row."] if len(counts) == 1 else []
    notes += [GB_NOTE, COPY_NOTE, BEST_NOTE] + [RATIO_NOTE] * bool(baseline)
    return Table(
        name,
        title,
        [column for i, column in enumerate(columns) if i not in left_out],
        rows,
        data=[CSV_HEADER, *(csv_row(problem, m) for problem, m in measured)],
        notes=notes,
        provenance=machine_notes(results),
    )


def display(m: Measured) -> list[Cell | str]:
    r = m.record
    outcome = Cell(outcome_words(r), outcome_notes(r))
    if r.summary is None:
        return [r.kernel, outcome, *[NONE] * 7]
    warning = clock_warning(m.base, r) if m.ratio and m.base else ()
    return [
        r.kernel,
        outcome,
        significant(r.summary.median),
        interval(r),
        significant(r.summary.min),
        str(r.summary.n),
        Cell(f"{m.gb_s:.0f}" if m.gb_s else NONE, best=m.best),
        share_cell(m),
        Cell(ratio_text(m.ratio), warning),
    ]


def share_cell(m: Measured) -> Cell | str:
    """The copy's bandwidth that a row reaches, in percent."""
    if m.of_copy is None or m.copy is None:
        return NONE
    return Cell(f"{100 * m.of_copy:.1f}", clock_warning(m.record, m.copy))


CSV_HEADER = (
    "problem,kernel,role,outcome,reason,median_us,low_us,high_us,min_us,n,bytes,gb_per_s,"
    "share_of_copy,speedup,speedup_low,speedup_high,difference_seen,best,sm_mhz,source_file"
).split(",")


def csv_row(problem: dict[str, Any], m: Measured) -> list[object]:
    r, s, ratio = m.record, m.record.summary, m.ratio
    return [
        problem["name"],
        r.kernel,
        r.role,
        r.outcome,
        r.reason or r.deviation,
        *((s.median, s.low, s.high, s.min, s.n) if s else (None,) * 5),
        r.bytes_moved,
        m.gb_s,
        m.of_copy,
        *((ratio.value, ratio.low, ratio.high, int(ratio.seen)) if ratio else (None,) * 4),
        int(m.best),
        r.sm_mhz,
        r.source_file,
    ]

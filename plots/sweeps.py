"""A sweep over forms of a kernel: the fastest at a size, compared with the form in the code."""

from collections.abc import Sequence

from plots import bandwidth
from plots.bandwidth import Measured, percent
from reprolab.stats import INTERVAL_NOTE
from reprolab.tables import CODE, Column, Noted, Values

WINNER = [
    Column("fastest form", "form", **CODE),
    Column("in the code", "code", detail=True, **CODE),
    Column("GB/s (interval)", "gb_s", wrap=1),
    Column("copy %", "share_of_copy", percent, wrap=1),
    Column("equal", "equal", wrap=1),
    Column("now GB/s", "now_gb_s", bandwidth.gb_text, wrap=1),
    Column("now copy %", "now_share_of_copy", percent, wrap=1),
    Column("gain %", "gain", lambda gain: f"{100 * (gain - 1):+.1f}", wrap=1),
]


def winner_note(now: str) -> str:
    """`now`: the form that the last columns describe."""
    return (
        "Fastest: lowest median of the forms whose output was right. Equal: the number of "
        f"others with an overlapping interval. Now: {now}; gain: of the fastest over it. "
        f"{INTERVAL_NOTE}"
    )


def winner_values(best: Sequence[Measured], now: Measured | None) -> Values:
    """`best`: the fastest form and those not distinguished from it, by time."""
    values: Values = {"now_gb_s": now and now.gb_s, "now_share_of_copy": now and now.of_copy}
    if not best:
        return values
    first, e = best[0], best[0].record.bandwidth
    values |= {"form": first.record.kernel, "code": first.record.lineage, "equal": len(best) - 1}
    speed = Noted(e.value, first.time_marks, text=bandwidth.with_interval(e, bandwidth.gb_text))
    values |= {"gb_s": speed, "share_of_copy": first.of_copy}
    return values | {"gain": bandwidth.share(first.record, now.record if now else None)}

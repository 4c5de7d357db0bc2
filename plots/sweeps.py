"""A sweep over forms of a kernel: the fastest at a size, beside the one that is in the code."""

from collections.abc import Sequence

from claims.stats import INTERVAL_NOTE
from plots import bandwidth
from plots.bandwidth import Measured
from plots.tables import NONE, Cell, Column, Row, numbers

WINNER = [
    Column("fastest form", align="l", wrap=1, code=True),
    Column("in the code", align="l", wrap=1, code=True, detail=True),
    *numbers("GB/s (interval)", "copy %", "equal", "now GB/s", "now copy %", "gain %", wrap=1),
]


def winner_note(now: str) -> str:
    """`now`: what the last columns are of."""
    return (
        "Fastest: lowest median of the forms whose output was right. Equal: how many others were "
        f"not told apart from it, as their intervals overlap. Now: {now}; gain: what the fastest "
        f"has over it. {INTERVAL_NOTE}"
    )


def winner_cells(best: Sequence[Measured], now: Measured | None) -> Row:
    """`best`: the fastest form and those not told apart from it, by time."""
    speed = NONE if now is None or now.gb_s is None else f"{now.gb_s:.0f}"
    share = NONE if now is None else bandwidth.share_text(now)
    if not best:
        return [NONE, NONE, NONE, NONE, NONE, speed, share, NONE]
    first = best[0]
    e = first.record.speed
    gain = bandwidth.share(first.record, now.record if now else None)
    return [
        *(first.record.kernel, first.record.lineage),
        Cell(f"{e.value:.0f} ({e.low:.0f}-{e.high:.0f})", first.clock),
        *(bandwidth.share_text(first), str(len(best) - 1), speed, share),
        NONE if gain is None else f"{100 * (gain - 1):+.1f}",
    ]

"""What counts taken here say of the source's GPU, which need not be at hand."""

from claims.rules import Case, Finding, quotients, reproduced_if
from records.results import Record
from records.stats import significant


def bound_by_arithmetic(case: Case, baseline: str) -> Finding:
    """On the source's GPU, which need not be at hand: the time to issue against that to move."""
    (at,) = case.cell.places
    at = {name: value for name, value in at.items() if name != "by"}
    row = case.rows.measured(baseline, at, "warp_instructions")
    weights, bandwidth = row.problem["n"], case.source.fact("peak_gb_s")
    issue_ms = weights * issue_ns_per_weight(case, row) / 1e6
    bytes_ms = row.bytes_moved / bandwidth / 1e6
    short = (
        f"on the source's {case.source.gpu}, issuing the instructions of {row.problem['rows']} x "
        f"{row.problem['columns']} takes {significant(issue_ms, 3)} ms, its bytes "
        f"{significant(bytes_ms, 3)} ms"
    )
    reason = (
        f"{short}: {instructions_per_weight(row):.3f} warp instructions per weight, counted on "
        f"this {case.rows.results.gpu}, one per cycle and scheduler at "
        f"{case.source.fact('sm_clock_mhz')} MHz, and {bandwidth} GB/s"
    )
    share = 100 * bytes_ms / issue_ms
    return Finding(reproduced_if(bytes_ms > issue_ms), reason, share, None, short)


def instructions_per_weight(row: Record) -> float:
    """That a warp executes."""
    return quotients([row.summary_of("warp_instructions").median], [row.problem["n"]])[0]


def issue_ns_per_weight(case: Case, row: Record) -> float:
    """The least time on the source's GPU, all of its schedulers issuing in every cycle."""
    schedulers = 4 * case.source.fact("multiprocessors")  # of Ampere and Hopper alike
    per_ns = schedulers * case.source.fact("sm_clock_mhz") / 1e3
    return instructions_per_weight(row) / per_ns

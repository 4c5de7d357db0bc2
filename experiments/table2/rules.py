"""Rules of single claims, for the claims that experiment table2 decides."""

from reprolab import stats
from reprolab.claims.evidence import Case, NotTestable
from reprolab.claims.rules import (
    WITHIN,
    Finding,
    Ours,
    over_places,
    percent_below,
    rule,
    side_of_margins,
)
from reprolab.results import PRODUCT_TIME
from reprolab.stats import Estimate, significant, span

WEIGHT_BYTES = 2  # of fp16


@rule("products read their weights at less than {least:g} % of the theoretical bandwidth")
def products_underuse_memory(case: Case, *, kernel: str, least: float) -> Finding:
    """cuBLAS's products of a forward pass, after each weight was dequantized to fp16."""
    peak = case.results().peak_gb_s
    if peak is None:
        raise NotTestable("this GPU does not say its theoretical bandwidth")
    shares = []
    for at in case.cell.places:
        row = case.measured(kernel, PRODUCT_TIME, at)
        us = row.summary_of(PRODUCT_TIME).median
        shares.append(100 * WEIGHT_BYTES * row.problem["weights"] / us / 1e3 / peak)
    short = f"products reach {span(shares, 2)} % of {peak:.0f} GB/s"
    verdict = side_of_margins([percent_below(share, least) for share in shares])
    return over_places(verdict, short, shares)


@rule(f"of models' average gains, the greatest over the smallest, {WITHIN}")
def gains_apart(case: Case, *, metric: str, baseline: str, subject: str) -> Ours:
    """The source's order of the models does not matter."""
    by_model: dict[str, list[Estimate]] = {}
    for at in case.cell.places:
        (gain,) = case.at(at).ratios(baseline, subject, metric)
        by_model.setdefault(at["model"], []).append(gain)
    means = {model: stats.mean(gains) for model, gains in by_model.items()}
    low, high = (pick(means, key=lambda m: means[m].value) for pick in (min, max))
    ours = means[high].log.over(means[low].log).ratio
    said = f"{low} {significant(means[low].value)} x, {high} {significant(means[high].value)} x"
    return Ours(ours, f"averages from {said}", said)

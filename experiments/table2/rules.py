"""Rules of single claims, for the claims that experiment table2 decides."""

from itertools import combinations

from reprolab import stats
from reprolab.claims.evidence import Case, NotTestable
from reprolab.claims.rules import (
    WITHIN,
    Verdict,
    all_below,
    equivalent,
    judge,
    over_places,
    part_of_saving,
    rule,
)
from reprolab.results import PRODUCT_TIME
from reprolab.stats import Estimate, significant, span

WEIGHT_BYTES = 2  # of fp16


@rule("products read their weights at less than {least:g} % of the theoretical bandwidth")
def products_underuse_memory(case: Case, *, kernel: str, least: float) -> Verdict:
    """cuBLAS's products of a forward pass, after each weight was dequantized to fp16."""
    peak = case.results().peak_gb_s
    if peak is None:
        raise NotTestable("this GPU does not say its theoretical bandwidth")
    shares = []
    for at in case.cell.places:
        row = case.measured(kernel, PRODUCT_TIME, at)
        shares.append(100 * WEIGHT_BYTES * row.problem["weights"] / row.median / 1e3 / peak)
    return over_places(all_below(shares, least), f"{span(shares, 2)} % of {peak:.0f} GB/s", shares)


def averages(case: Case, metric: str, baseline: str, subject: str) -> dict[str, Estimate]:
    """The mean gain of each model over the batches."""
    by_model: dict[str, list[Estimate]] = {}
    for at in case.cell.places:
        (gain,) = case.at(at).ratios(baseline, subject, metric)
        by_model.setdefault(at["model"], []).append(gain)
    return {model: stats.mean(gains) for model, gains in by_model.items()}


@rule(f"of models' average gains, the greatest over the smallest, {WITHIN}")
def gains_apart(case: Case, *, metric: str, baseline: str, subject: str) -> Verdict:
    """The source's order of the models does not matter."""
    means = averages(case, metric, baseline, subject)
    low, high = (pick(means, key=lambda m: means[m].value) for pick in (min, max))
    note = f"{low} {significant(means[low].value)} x, {high} {significant(means[high].value)} x"
    return judge(case, means[high].over(means[low]), note)


@rule("models' average gains at most {tolerance_percent:g} % apart")
def gains_alike(case: Case, *, metric: str, baseline: str, subject: str) -> Verdict:
    """Each model's average against each other's."""
    means = averages(case, metric, baseline, subject)
    pairs = combinations(sorted(means.values(), key=lambda mean: mean.value), 2)
    ratios = [high.over(low) for low, high in pairs]
    apart = max(ratios, key=lambda ratio: ratio.value)
    kind = equivalent(ratios, case.cell.tolerance_percent, len(ratios))
    ours, *interval = (100 * (end - 1) for end in (apart.value, *apart.interval))
    averaged = ", ".join(f"{model} {significant(mean.value)} x" for model, mean in means.items())
    return Verdict(kind, averaged, ours, tuple(interval))


@rule("of the time that {subject} saves, at least {least:g} % is lost with {without} in its place")
def lost_without(
    case: Case, *, metric: str, baseline: str, subject: str, without: str, least: float
) -> Verdict:
    """On the average of all places; `without` differs from `subject` in the cause in question."""
    lost, saved = (
        stats.mean(case.ratios(kernel, subject, metric)) for kernel in (without, baseline)
    )
    return part_of_saving(lost, saved, least)

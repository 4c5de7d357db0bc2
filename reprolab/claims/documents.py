"""Rules that need no measurement: they hold a source's numbers against each other, against the
documents that it cites, and against its models' sizes; and NF4's codebook on normal weights.
"""

from functools import cache
from statistics import NormalDist

import numpy as np

from reprolab import stats
from reprolab.claims import rules
from reprolab.claims.evidence import Case
from reprolab.claims.rules import WITHIN, Verdict, rule
from reprolab.json_files import ROOT, read_json
from reprolab.stats import significant

MODELS = ROOT / "data/models.json"
ROUNDING = 0.005  # of a source's numbers with two decimals


def by_document(holds: bool, note: str) -> Verdict:
    return Verdict(rules.DOCUMENTED if holds else rules.CONTRADICTED, note)


@rule("what the source cites has the same number")
def as_cited(case: Case, *, cited: str) -> Verdict:
    """`cited`: the table with the numbers of the document that the source cites."""
    name = case.cell.paths[0].rpartition("/")[2]
    number = case.source.numbers[f"{cited}/{name}"]
    note = f"{number:g} {case.cell.unit} in the document that it cites"
    return Verdict(rules.DOCUMENTED if case.cell.value == number else rules.NOT_REPRODUCED, note)


@rule(f"of the numbers of the document that the source cites, {WITHIN}")
def cited_ratio(case: Case, *, over: str, under: str) -> Verdict:
    numbers = [case.source.numbers[path] for path in (over, under)]
    note = f"{numbers[0]:g} / {numbers[1]:g} {case.cell.unit}, in the document that it cites"
    bound = case.cell.value * (1 - case.cell.tolerance_percent / 100)
    kind = rules.all_above([numbers[0] / numbers[1]], bound, rules.COUNTS)
    return Verdict(rules.DOCUMENTED if kind == rules.REPRODUCED else kind, note)


@rule("the document named says the same")
def as_documented(case: Case, *, says: float | str, document: str) -> Verdict:
    """`says`: a text where the source gives no number, and the document says otherwise."""
    said = says if isinstance(says, str) else f"{says:g} {case.cell.unit}".rstrip()
    return by_document(case.cell.value == says, f"{said} by the {document}")


@rule("in the source's own table, dequantization's share rises with the batch")
def own_table_rises(case: Case, *, shares: str) -> Verdict:
    percents = own_shares(case, shares)
    first, last = percents[min(percents)], percents[max(percents)]
    return by_document(last > first, f"its own table goes from {first:g} to {last:g} %")


def own_shares(case: Case, shares: str) -> dict[int, float]:
    """By batch."""
    rows = case.source.tables[shares]
    return {int(batch): row["overhead_percent"] for batch, row in rows.items()}


@rule(
    "all numbers of the source's table lie within {least:g} to {most:g} %, "
    "{tolerance_percent:g} % off allowed"
)
def as_its_table(case: Case, *, least: float, most: float, shares: str) -> Verdict:
    """The source's summary, against its own numbers."""
    percents, off = own_shares(case, shares), case.cell.tolerance_percent / 100
    low, high = least * (1 - off), most * (1 + off)
    outside = [f"{v:g} % at batch {b}" for b, v in percents.items() if not low <= v <= high]
    note = f"its table has {' and '.join(outside) or stats.span(list(percents.values())) + ' %'}"
    return by_document(not outside, note)


@rule("every model of the source has {least:g} to {most:g} {of}")
def models_have(case: Case, *, least: float, most: float, of: str) -> Verdict:
    """`of`: a field of the models' public configurations."""
    sizes = {model["id"]: model[of] for model in read_json(MODELS)["models"] if of in model}
    counts = {name: sizes[name] for names in case.source.models.values() for name in names}
    note = ", ".join(f"{name} {count}" for name, count in counts.items())
    return by_document(all(least <= n <= most for n in counts.values()), note)


@rule("the other batches average at least the least gain that the source reports")
def average_leaves(case: Case, *, average: str, one: str, least_path: str) -> Verdict:
    least, most = case.source.numbers[least_path], average_of_others(case, average, one)
    return by_document(most >= least, f"at most {most:.3f} x; its least gain is {least:g} x")


def average_of_others(case: Case, average: str, one: str) -> float:
    """The largest mean of the other batches that an average and one of its numbers allow."""
    batches = len(case.source.every("batch"))
    mean, single = (case.source.numbers[path] for path in (average, one))
    return (batches * (mean + ROUNDING) - (single - ROUNDING)) / (batches - 1)


@rule("tokens per sequence are the same before and after, {tolerance_percent:g} % either way")
def same_tokens(case: Case, *, row: str, batch: float) -> Verdict:
    """Its seconds times its tokens per second at one batch."""
    their = case.source.numbers
    before, after = (
        their[f"{row}/{kind}_tokens_per_s"] * their[f"{row}/{kind}_s"] / batch
        for kind in ("baseline", "optimized")
    )
    note = f"{before:.0f} tokens per sequence before, {after:.0f} after"
    return by_document(stats.is_within(after, before, case.cell.tolerance_percent), note)


@rule("the run at the smallest batch takes no longer than that at the largest")
def constant_saving(case: Case, *, row: str, average: str, one: str) -> Verdict:
    """A cost that does not depend on the batch saves as many seconds at every batch."""
    before, after = (case.source.numbers[f"{row}/{k}_s"] for k in ("baseline", "optimized"))
    needed = (before - after) / (1 - 1 / average_of_others(case, average, one))
    note = f"a batch of 2 must take {needed:.0f} s, one of 64 takes {before:g} s"
    return by_document(needed <= before, note)


@rule("its mean squared error is at most {tolerance_percent:g} % above the least possible")
def codebook_error(case: Case) -> Verdict:
    """Normal weights, in blocks of 64 scaled by their largest: NF4's 16 values against those of
    Lloyd and Max's algorithm.
    """
    above, kept = (
        stats.difference_percent(error_of(nf4()), least_error(values))
        for values in ((), (-1.0, 0.0, 1.0))
    )
    note = (
        f"{significant(above, 3)} % above the least, {significant(kept, 2)} % where -1, 0, 1 stay"
    )
    return Verdict(rules.reproduced_if(above <= case.cell.tolerance_percent), note, above)


@rule("every code is as frequent as the others, {tolerance_percent:g} % either way")
def equal_codes(case: Case) -> Verdict:
    """For the same normal weights."""
    shares = [100 * share for share in code_shares()]
    low, high = min(shares), max(shares)
    even, percent = 100 / len(shares), case.cell.tolerance_percent
    holds = all(stats.is_within(share, even, percent) for share in shares)
    note = f"codes occur {low:.1f} to {high:.1f} % of the time"
    return Verdict(rules.reproduced_if(holds), note, high / low)


# The weights that NF4 is designed for: normal, in blocks, each scaled by its largest weight. The
# code is QLoRA's (arXiv 2305.14314): quantiles of the normal distribution.
BLOCK, BLOCKS, SEED = 64, 40_000, 1
BINS = 20_000  # of the scaled weights' density, from -1 to 1
OFFSET = 0.9677083  # of the outermost quantile
ROUNDS = 300  # of Lloyd and Max's algorithm, after which the error no longer falls


@cache
def nf4() -> np.ndarray:
    """The 16 values, the smallest first."""
    quantile = NormalDist().inv_cdf
    negative = [-quantile(p) for p in np.linspace(OFFSET, 0.5, 8)[:-1]]
    positive = [quantile(p) for p in np.linspace(OFFSET, 0.5, 9)[:-1]]
    values = np.sort([*negative, 0.0, *positive])
    return values / values.max()


@cache
def density() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middles of the bins, the share of weights in each, and that share weighted by the squares of
    the blocks' scales: an error of a scaled weight is multiplied by the scale in the weight.
    """
    blocks = np.random.default_rng(SEED).standard_normal((BLOCKS, BLOCK))
    scales = np.abs(blocks).max(axis=1, keepdims=True)
    scaled, squares = (blocks / scales).ravel(), np.broadcast_to(scales**2, blocks.shape).ravel()
    counts, edges = np.histogram(scaled, BINS, (-1, 1))
    weighted, _ = np.histogram(scaled, BINS, (-1, 1), weights=squares)
    return (edges[:-1] + edges[1:]) / 2, counts / counts.sum(), weighted / counts.sum()


def codes_of(values: np.ndarray) -> np.ndarray:
    """The nearest value of each bin."""
    return np.searchsorted((values[:-1] + values[1:]) / 2, density()[0])


def error_of(values: np.ndarray) -> float:
    middles, _, shares = density()
    return float((shares * (middles - values[codes_of(values)]) ** 2).sum())


@cache
def least_error(kept: tuple[float, ...] = ()) -> float:
    """For the best 16 values, or the best that keep some; the search starts from NF4's."""
    middles, _, shares = density()
    values = nf4()
    stays = np.isin(values, kept)
    for _ in range(ROUNDS):
        codes = codes_of(values)
        weights = np.bincount(codes, shares, len(values))
        sums = np.bincount(codes, shares * middles, len(values))
        moved = np.where(weights > 0, sums / np.maximum(weights, 1e-30), values)
        values = np.where(stays, values, moved)
    return error_of(values)


def code_shares() -> list[float]:
    shares = np.bincount(codes_of(nf4()), density()[1], len(nf4()))
    return [float(share) for share in shares]

"""Rules that need no measurement: they compare a source's numbers with each other, with the
documents that it cites, and with its models' sizes.
"""

from dataclasses import replace

from reprolab import stats
from reprolab.claims import codebook, rules
from reprolab.claims.evidence import Case
from reprolab.claims.rules import WITHIN, Finding, Ours, judge, reproduced_if, rule
from reprolab.json_files import ROOT, read_json
from reprolab.stats import Estimate, significant

MODELS = ROOT / "data/models/models.json"


def exactly(value: float) -> Estimate:
    return Estimate(value, value, value)


def premise(holds: bool, reason: str, short: str) -> Finding:
    return Finding(rules.REPRODUCED if holds else rules.PREMISE_FALSE, reason, short=short)


@rule("what the source cites has the same number")
def as_cited(case: Case, *, cited: str) -> Finding:
    """`cited`: the table with the numbers of the document that the source cites."""
    name = case.cell.paths[0].rpartition("/")[2]
    number = case.source.number(f"{cited}/{name}")
    said = f"{number:g} {case.comparison.unit} in the document that it cites"
    return Finding(reproduced_if(case.value == number), said, documented=number)


@rule(f"of the numbers of the document that the source cites, {WITHIN}")
def cited_ratio(case: Case, *, over: str, under: str) -> Finding:
    ratio = case.source.number(over) / case.source.number(under)
    parts = f"{case.source.number(over):g} / {case.source.number(under):g}"
    said = f"{parts} cycles on the {case.source.gpu} of the document that it cites"
    found = judge(case, Ours(exactly(ratio), said, said, spread_percent=0))
    return replace(found, ours=None, interval=None, documented=ratio)


@rule("nothing: the document named says otherwise")
def documented_otherwise(case: Case, *, says: str, document: str) -> Finding:
    """For a text that gives no number."""
    return Finding(rules.PREMISE_FALSE, f"{says}, by the {document}", short=says)


@rule("in the source's own table, dequantization's share rises with the batch")
def own_table_rises(case: Case, *, shares: str) -> Finding:
    rows = case.source.table(shares)
    percents = {int(batch): row["overhead_percent"] for batch, row in rows.items()}
    first, last = percents[min(percents)], percents[max(percents)]
    said = f"its own table falls from {first:g} to {last:g} %"
    return premise(last > first, f"{said}, from batch {min(percents)} to {max(percents)}", said)


@rule("every model of the source has {least:g} to {most:g} layers")
def layers_within(case: Case, *, least: float, most: float) -> Finding:
    """By the models' public configurations."""
    layers = {model["id"]: model["layers"] for model in read_json(MODELS)["models"]}
    ours = {name: layers[name] for names in case.source.models.values() for name in names}
    outside = [f"{name} has {n}" for name, n in ours.items() if not least <= n <= most]
    every = ", ".join(f"{name} {n}" for name, n in ours.items())
    said = "; ".join(outside) or f"its models have {every}"
    return premise(not outside, f"layers: {every}", said)


@rule("the other batches average at least the least gain that the source reports")
def average_leaves(case: Case, *, average: str, one: str, least_path: str) -> Finding:
    """The largest mean of the other numbers that an average and one of its numbers allow."""
    batches = len(case.source.every("batch"))
    mean, single, least = (case.source.number(path) for path in (average, one, least_path))
    most = (batches * (mean + 0.005) - (single - 0.005)) / (batches - 1)
    short = f"the other {batches - 1} batches average at most {most:.3f} x"
    reason = f"an average of {mean:g} x with {single:g} x at one batch: {short}"
    return premise(most >= least, f"{reason}; the least that it reports is {least:g} x", short)


@rule("tokens per sequence are the same before and after, {tolerance_percent:g} % either way")
def same_tokens(case: Case, *, row: str, batch: float) -> Finding:
    """Compares its seconds with its tokens per second at one batch."""
    number = case.source.number
    before, after = (
        number(f"{row}/{kind}_tokens_per_s") * number(f"{row}/{kind}_s") / batch
        for kind in ("baseline", "optimized")
    )
    short = f"{before:.0f} tokens per sequence before, {after:.0f} after"
    reason = f"its seconds times its tokens per second at batch {batch:g}: {short}"
    return premise(stats.is_within(after, before, case.tolerance_percent), reason, short)


@rule("the run at the smallest batch takes no longer than that at the largest")
def constant_saving(case: Case, *, row: str, average: str, one: str) -> Finding:
    """A cost that does not depend on the batch saves as many seconds at every batch."""
    number, batches = case.source.number, len(case.source.every("batch"))
    before, after = number(f"{row}/baseline_s"), number(f"{row}/optimized_s")
    gain = (batches * (number(average) + 0.005) - (number(one) - 0.005)) / (batches - 1)
    needed, saved = (before - after) / (1 - 1 / gain), before - after
    short = f"a batch of 2 must take {needed:.0f} s, one of 64 takes {before:g} s"
    reason = f"{saved:.2f} s are saved at every batch, at {gain:.3f} x elsewhere: {short}"
    return premise(needed <= before, reason, short)


@rule("its mean squared error is at most {tolerance_percent:g} % above the least possible")
def codebook_error(case: Case) -> Finding:
    """Normal weights, in blocks of 64 scaled by their largest: NF4's 16 values against those of
    Lloyd and Max's algorithm.
    """
    above, kept = (
        stats.difference_percent(codebook.nf4_error(), codebook.least_error(values))
        for values in ((), (-1.0, 0.0, 1.0))
    )
    short = f"its error is {significant(above, 3)} % above the least possible"
    reason = f"{short}, {significant(kept, 2)} % above that of values that keep -1, 0 and 1"
    return Finding(reproduced_if(above <= case.tolerance_percent), reason, above, short=short)


@rule("every code is as frequent as the others, {tolerance_percent:g} % either way")
def equal_codes(case: Case) -> Finding:
    """For the same normal weights."""
    shares = [100 * share for share in codebook.code_shares()]
    low, high = min(shares), max(shares)
    short = f"codes occur {low:.1f} to {high:.1f} % of the time"
    holds = all(stats.is_within(s, 100 / len(shares), case.tolerance_percent) for s in shares)
    return Finding(reproduced_if(holds), short, high / low, short=short)

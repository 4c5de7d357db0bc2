"""Rules of one claim alone, for the claims that experiment end_to_end decides; Amdahl's law."""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from experiments.counters.rules.occupancy import issue_ns_per_weight
from experiments.end_to_end.protocol import EAGER, PROFILE, STEP_TIME, WALL_TIME
from reprolab import stats
from reprolab.claims import prediction, rules, uncertainty
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.published import Source
from reprolab.claims.rules import WITHIN, Finding, Ours, rule
from reprolab.results import KERNEL_TIME, Outcome, Record
from reprolab.stats import Estimate, Summary

COUNTERS = "counters/nf4_counters"  # the pass in which instructions are counted
LAYER = {"rows": 25600, "columns": 5120}  # of Qwen3-32B
VERSIONS = {"torch": "pytorch", "bitsandbytes": "bitsandbytes"}  # by package, the source's fact
KERNEL_SPEEDUP = "table2"  # the source's table of the kernel's speed-ups


def amdahl(share: float, speed_up: float) -> float:
    """The speed-up of a whole of which `share`, from 0 to 1, becomes `speed_up` times as fast."""
    return 1 / (1 - share + share / speed_up)


def percent_of(part: Summary, whole: Summary) -> Estimate:
    """The ratio in percent of one time to another, of other runs."""
    return stats.ratio(part, whole).scaled(100)


def generated_tokens(row: Record) -> int:
    """New tokens for each prompt that were generated and compared; the others are extrapolated."""
    return row.problem.get("generated", row.problem["tokens"])


def times_in(way: str) -> tuple[str, str]:
    """The metrics of a run's time and of dequantization in it: of whole generations, as sources
    measure them, or of decoding steps in a CUDA graph, whose time the GPU alone determines.
    """
    return (WALL_TIME, KERNEL_TIME) if way == EAGER else (STEP_TIME, f"{KERNEL_TIME}.step")


def dequantization(case: Case, kernel: str, at: dict) -> tuple[Summary, Summary]:
    """The time of dequantization, and of a whole run with the same prompts and tokens."""
    whole, part = times_in(at.get("way", EAGER))
    profiled, timed = dequantization_rows(case, kernel, at)
    return profiled.summary_of(part), timed.summary_of(whole)


def dequantization_rows(case: Case, kernel: str, at: dict) -> tuple[Record, Record]:
    whole, part = times_in(at.get("way", EAGER))
    timed = case.measured(kernel, whole, at)
    same = at | {name: timed.problem[name] for name in ("tokens", "prompts")}
    return case.measured(kernel, part, same, PROFILE), timed


@rule(WITHIN)
def share_of_latency(case: Case, *, kernel: str) -> Ours:
    part, whole = dequantization(case, kernel, case.place)
    seconds = f"{part.median / 1e6:.2f} of {whole.median / 1e6:.2f} s"
    return Ours(percent_of(part, whole), seconds)


@rule("nothing: the source does not say of how many forward passes its time is")
def total_latency(case: Case, *, kernel: str) -> Finding:
    """Time of all dequantizations of a generation, in ms; it depends on the number of tokens."""
    ms = dequantization(case, kernel, case.place)[0].estimate.scaled(1e-3)
    tokens = case.measured(kernel, WALL_TIME).problem["tokens"]
    short = f"it does not say of how many forward passes; here they are {tokens}"
    reason = short
    with suppress(NotTested, NotTestable):
        row = case.measured(kernel, "warp_instructions", LAYER, COUNTERS)
        weights = case.measured(kernel, WALL_TIME).problem["weights"]
        floor_ms = issue_ns_per_weight(case.source, row) * weights / 1e6
        most = case.value / floor_ms
        reason += f"; issuing the instructions of one takes its {case.source.gpu} at least "
        reason += f"{floor_ms:.0f} ms, so that they are at most {most:.0f}"
    with suppress(NotTested, NotTestable):
        here = replace(case, used={})  # predictions decide nothing
        passes = case.value / prediction.pass_ms(here, kernel, case.place)
        saved = prediction.passes_saved(here, kernel)
        listed = ", ".join(f"{count:.0f} ({model})" for model, count in saved.items())
        reason += f"; by the predicted time of one they are {passes:.0f}"
        reason += f", and the seconds that Figure 4 saves {listed}" * bool(listed)
    return Finding(rules.NOT_TESTABLE, reason, ms.value, ms.interval, short)


@rule(
    "all numbers of the source's table lie within {least:g} to {most:g} %, "
    "{tolerance_percent:g} % off allowed"
)
def as_its_table(case: Case, *, least: float, most: float, shares: str) -> Finding:
    """The source's summaries, against its own numbers."""
    rows = case.source.tables[shares]
    percents = {int(batch): row["overhead_percent"] for batch, row in rows.items()}
    off = case.tolerance_percent / 100
    low, high = least * (1 - off), most * (1 + off)
    outside = [f"{v:g} % at batch {b}" for b, v in percents.items() if not low <= v <= high]
    if not outside:
        return Finding(rules.REPRODUCED, f"its table has {stats.span(list(percents.values()))} %")
    return Finding(rules.PREMISE_FALSE, f"its own table has {' and '.join(outside)}")


# Statements on how gains vary are decided by eager generations, as the source measures. The host's
# time reduces their gains where steps are short; steps in CUDA graphs are a second reading.


@rule("batch {more:g} gains more than batch {less:g}, beyond the intervals")
def gains_more_at(case: Case, *, baseline: str, subject: str, more: float, less: float) -> Finding:
    """Over the batches that the cell stands for."""
    gains = gains_by_batch(case, baseline, subject)
    greater, smaller = gains[int(more)], gains[int(less)]
    verdict = rules.above_one([gain_ratio(greater, smaller)], case.family_size)
    reason = gains_text(gains)
    if verdict == rules.UNDECIDED:
        reason += f"; no difference seen between {more:g} and {less:g}"
    short = f"{greater.value:.2f} x at batch {more:g}, {smaller.value:.2f} x at {less:g}"
    return Finding(verdict, reason, greater.value, greater.interval, short)


def gain_ratio(a: Estimate, b: Estimate) -> Estimate:
    """The ratio of two gains."""
    return a.log.over(b.log).ratio


@rule("every other batch gains less, beyond the intervals")
def peaks_at(case: Case, *, baseline: str, subject: str, peak: float) -> Finding:
    """Over the batches that the cell stands for; `peak`: where the source has the greatest gain."""
    gains = gains_by_batch(case, baseline, subject)
    ours, best = gains[int(peak)], max(gains, key=lambda b: gains[b].value)
    others = [e for b, e in gains.items() if b != int(peak)]
    verdict = rules.above_one([gain_ratio(ours, e) for e in others], case.family_size)
    short = f"{ours.value:.2f} x at batch {peak:g}, and {gains[best].value:.2f} x at {best}"
    return Finding(verdict, gains_text(gains), ours.value, ours.interval, short)


def gains_by_batch(case: Case, baseline: str, subject: str) -> dict[int, Estimate]:
    gains = case.comparisons(baseline, subject, times_in(case.cell.at["way"])[0])
    return {at["batch"]: gain for at, gain in zip(case.cell.places, gains, strict=True)}


def gains_text(gains: dict[int, Estimate]) -> str:
    return "speed-up by batch: " + ", ".join(f"{b}: {e.value:.2f}" for b, e in gains.items())


@rule("the average speed-up rises from each model to the next larger one, beyond the intervals")
def rises_with_size(case: Case, *, baseline: str, subject: str) -> Finding:
    whole, _ = times_in(case.cell.at["way"])
    return verdict_on_rise(
        case, lambda at: case.at(at).ratios(baseline, subject, whole)[0], "{:.2f} x"
    )


@rule(
    "the average share of dequantization rises from each model to the next larger one, beyond the "
    "intervals"
)
def share_rises_with_size(case: Case, *, kernel: str) -> Finding:
    return verdict_on_rise(case, lambda at: share_of(case, kernel, at), "{:.0f} %")


def share_of(case: Case, kernel: str, at: dict) -> Estimate:
    """The share of dequantization in percent, with the spread of runs and, eager, of hosts."""
    whole, part = times_in(at.get("way", EAGER))
    profiled, timed = dequantization_rows(case, kernel, at)
    log_share = uncertainty.log_time(profiled, part).over(uncertainty.log_baseline(timed, whole))
    return replace(log_share, value=log_share.value + math.log(100)).ratio


def verdict_on_rise(case: Case, value_at: Callable[[dict], Estimate], shown: str) -> Finding:
    """Whether the mean over the batches rises from model to model, in the order of their sizes; of
    two models with one name in the source, the cell's is taken.
    """
    means: dict[str, Estimate] = {}
    for names in case.source.models.values():
        model = case.cell.at["model"] if case.cell.at["model"] in names else names[0]
        places = [at | {"model": model} for at in case.cell.places]
        means[model] = stats.mean([value_at(at) for at in places])
    steps = [gain_ratio(b, a) for a, b in pairwise(means.values())]
    listed = ", ".join(f"{model} {shown.format(e.value)}" for model, e in means.items())
    return Finding(rules.above_one(steps, case.family_size), listed)


@rule(
    "dequantization's share at the largest batch is less than at the smallest, beyond the intervals"
)
def share_falls(case: Case, *, kernel: str) -> Finding:
    """The smallest and the largest batch decide; the reason lists all shares."""
    shares = {at["batch"]: share_of(case, kernel, at) for at in case.cell.places}
    first, last = shares[min(shares)], shares[max(shares)]
    listed = ", ".join(f"{batch}: {share.value:.1f}" for batch, share in shares.items())
    short = f"{first.value:.1f} % at batch {min(shares)}, {last.value:.1f} % at {max(shares)}"
    verdict = rules.above_one([gain_ratio(first, last)], case.family_size)
    return Finding(verdict, f"percent by batch: {listed}", last.value, last.interval, short)


@rule("products take at least half of the growth of the GPU's time over the batches")
def products_account(case: Case, *, kernel: str) -> Finding:
    """The time of a step without dequantization: products, and all else on the GPU."""
    names = ("product_time.step", "busy_time.step", f"{KERNEL_TIME}.step")
    ends = [min(case.cell.places, key=batch_of), max(case.cell.places, key=batch_of)]
    rows = [case.measured(kernel, name, at) for at in ends for name in names]
    product, busy, own, product_later, busy_later, own_later = (
        row.summary_of(name).median / 1e3 for row, name in zip(rows, 2 * names, strict=True)
    )
    before, after = busy - product - own, busy_later - product_later - own_later
    grown = product_later - product, after - before
    if not sum(grown):
        raise NotTestable("a step takes as long with the most sequences as with the fewest")
    share = 100 * grown[0] / sum(grown)
    short = f"products grow by {grown[0]:.1f} ms, all else by {grown[1]:.1f} ms"
    reason = f"products take {product:.1f} and {product_later:.1f} ms of a step at the two ends, "
    reason += f"other work {before:.1f} and {after:.1f} ms: {short}"
    return Finding(
        rules.side_of_margins([rules.percent_above(share, 50)]), reason, share, None, short
    )


def batch_of(at: dict) -> int:
    return at["batch"]


@rule(f"the smallest gain of all models, {WITHIN}")
def min_gain(case: Case, *, baseline: str, subject: str) -> Finding:
    """Over the batches that ran. Some of the models are enough to refute it, and not to show it."""
    gains, ran = {}, set()
    for at in case.cell.places:
        with suppress(NotTested):
            (gain,) = case.at(at).ratios(baseline, subject, WALL_TIME)
            gains[f"{at['model']} at batch {at['batch']}"] = gain
            ran.add(at["model"])
    if not gains:
        raise NotTested(f"{subject} did not run")
    where = min(gains, key=lambda name: gains[name].value)
    text = f"the smallest of {len(gains)} is {gains[where].value:.2f} x, {where}"
    found = rules.judge(case, Ours(gains[where], text, text))
    missing = [model for model, ours in case.source.models.items() if not ran & {*ours}]
    if missing and found.verdict != rules.NOT_REPRODUCED:
        raise NotTested(f"{subject} did not run on {' and '.join(missing)}")
    return found


@rule(
    "at every batch the speed-up is that of Amdahl's law for the dequantization's share and "
    "speed-up, {tolerance_percent:g} % either way"
)
def translates(case: Case, *, baseline: str, subject: str) -> Finding:
    """Nothing but the kernel was exchanged."""
    predicted = {}
    for at in case.cell.places:
        part, whole = (summary.median for summary in dequantization(case, baseline, at))
        faster, _ = dequantization(case, subject, at)
        predicted[at["batch"]] = amdahl(part / whole, part / faster.median)
    gains, off = gains_by_batch(case, baseline, subject), case.tolerance_percent / 100
    sides = set()
    for batch, most in predicted.items():
        sides |= {
            rules.side_above(gains[batch], most * (1 - off), case.family_size),
            rules.side_below(gains[batch], most * (1 + off), case.family_size),
        }
    most, ours = fmean(predicted.values()), stats.mean(list(gains.values()))
    short = f"{most:.2f} x is predicted and {ours.value:.2f} x was measured"
    listed = ", ".join(f"{b}: {p:.2f} and {gains[b].value:.2f}" for b, p in predicted.items())
    reason = f"predicted and measured, by batch: {listed}"
    verdict = next(v for v in rules.VERDICTS if v in sides)
    return Finding(verdict, reason, ours.value, ours.interval, short)


@rule(
    "its speed-up is at most that of Amdahl's law for its own Tables I and II, "
    "{tolerance_percent:g} % more allowed"
)
def tables_allow(case: Case, *, shares: str) -> Finding:
    """Compares two numbers of the source."""
    theirs = papers_predictions(case.source, shares, case.cell.model)
    mean = fmean(theirs.values())
    most = theirs.get(case.cell.at["batch"], mean)
    listed = ", ".join(f"{b}: {p:.2f}" for b, p in theirs.items())
    short = f"its tables allow {most:.2f} x, its figure has {case.value:g} x"
    holds = stats.is_at_least(most, case.value, case.tolerance_percent)
    verdict = rules.REPRODUCED if holds else rules.PREMISE_FALSE
    reason = f"{short}; by batch {listed} (mean {mean:.2f})"
    if not holds and case.cell.at["batch"] in theirs:
        share = case.source.number(f"{shares}/{case.cell.at['batch']}/overhead_percent") / 100
        needed = share / (share - 1 + 1 / case.value)
        reason += f"; with its share it needs a kernel {needed:.1f} times as fast"
    return Finding(verdict, reason, short=short)


def papers_predictions(source: Source, shares: str, model: str) -> dict[int, float]:
    """By batch, the speed-up by Amdahl's law from the source's Table I (`shares`) and Table II."""
    speed_ups = {}
    for batch in source.every("batch"):
        share = source.number(f"{shares}/{batch}/overhead_percent")
        speed_ups[batch] = amdahl(share / 100, source.number(f"{KERNEL_SPEEDUP}/{model}/{batch}"))
    return speed_ups


@rule(WITHIN)
def size_in_memory(case: Case, *, kernel: str, of: str = "all") -> Ours:
    """Size of the model as bitsandbytes holds it, or with two bytes per parameter, in GB; or how
    many times smaller the one is than the other. `of`: all, or the codes of the quantized weights
    alone, two to a byte, without scales and the weights in 16 bits.
    """
    problems, at = case.results().problems(), {"model": case.cell.at["model"]}
    batches = [problem["batch"] for problem in problems if at.items() <= problem.items()]
    batches = [batch for batch in batches if batch in case.source.every("batch")]
    problem = case.verified(kernel, at | ({"batch": min(batches)} if batches else {})).problem
    fp16, nf4 = 2 * problem["parameters"], problem["memory_bytes"]
    if of == "codes":
        fp16, nf4 = 2 * problem["weights"], problem["weights"] / 2
    ours = {"fp16": fp16 / 1e9, "nf4": nf4 / 1e9, "ratio": fp16 / nf4}[case.cell.at["format"]]
    sizes = f"{fp16 / 1e9:.1f} GB in fp16 and {nf4 / 1e9:.1f} GB in NF4"
    quantized = problem["quantized_bytes"]
    times = 2 * problem["weights"] / quantized  # of the layers' own fp16
    in_layers = f", {quantized / 1e9:.2f} GB of that in its quantized layers, with scales "
    in_layers += f"{times:.2f} times less than in fp16"
    reason = sizes if of == "codes" else sizes + in_layers
    return Ours(Estimate(ours, ours, ours), reason, sizes, spread_percent=0)


@rule("every token of {kernel} equals the baseline's")
def tokens_equal(case: Case, *, kernel: str) -> Finding:
    """In every generation that was compared, at all batches that the cell stands for."""
    rows = [case.verified(kernel, at) for at in case.cell.places]
    tokens = sum(row.problem["batch"] * generated_tokens(row) for row in rows)
    same = f"the same {tokens} tokens in every generation, {len(rows)} batches"
    return result_on_tokens(rows, same)


def result_on_tokens(rows: Sequence[Record], reason: str, short: str = "") -> Finding:
    wrong = [f"{row.place}: {row.reason}" for row in rows if row.outcome != Outcome.BIT_EXACT]
    if wrong:
        return Finding(rules.NOT_REPRODUCED, wrong[0])
    return Finding(rules.REPRODUCED, reason, short=short)


@rule("the layers that bitsandbytes quantized were dequantized by {kernel}, and no token changed")
def ran_unconverted(case: Case, *, kernel: str) -> Finding:
    """On the models that ran, only the kernel was exchanged under transformers."""
    batches = case.source.every("batch")
    rows_of_kernel = [r for r in case.results().records if r.kernel == kernel]
    rows_of_kernel = [r for r in rows_of_kernel if r.problem["batch"] in batches]
    if not rows_of_kernel:
        raise NotTested(f"{kernel} did not run")
    rows = [
        r for r in rows_of_kernel if r.outcome not in (Outcome.UNSUPPORTED, Outcome.NOT_MEASURED)
    ]
    for row in rows or rows_of_kernel[:1]:
        case.used[case.results().file, row.key] = row
        case.require_verified(row)
    models = dict.fromkeys(row.problem["model"] for row in rows)
    made_with = case.results().provenance["build"]["compiler"]
    count = f"{len(models)} model{'s' * (len(models) > 1)}"
    short = f"{kernel} ran under quantized layers of {count}, with the same tokens"
    return result_on_tokens(rows, f"{short} ({', '.join(models)}; {made_with})", short)


@rule("the source's two versions ran here")
def versions_ran(case: Case) -> Finding:
    """The source's build is unknown; the versions that ran here are recorded."""
    results = case.results()
    case.used[results.file, ""] = None  # the file's provenance alone
    theirs = {name: case.source.fact(fact) for name, fact in VERSIONS.items()}
    ours = results.provenance["build"].get("versions", {})
    wanted = {name: numbers_of(version) for name, version in theirs.items()}
    if not theirs.keys() <= ours.keys():
        made_with = results.provenance["build"]["compiler"]
        raise NotTestable(f"its file lists no versions, only what it was made with: {made_with}")
    here = f"here {' and '.join(f'{name} {ours[name]}' for name in theirs)} ran"
    same = all(numbers_of(ours[name])[: len(wanted[name])] == wanted[name] for name in wanted)
    return Finding(rules.REPRODUCED if same else rules.NOT_TESTABLE, here)


def numbers_of(version: str) -> list[int]:
    """'2.11.0+cu130' is [2, 11, 0]."""
    return [int(number) for number in re.match(r"[\d.]*\d", version)[0].split(".")]

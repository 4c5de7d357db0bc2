"""Rules of single claims, for the claims that experiment end_to_end decides; Amdahl's law."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from experiments.counters.rules import issue_ns_per_weight
from experiments.end_to_end.protocol import EAGER, PROFILE, STEP_TIME, WALL_TIME
from reprolab import stats
from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import (
    Case,
    NotTestable,
    NotTested,
    recorded_beside,
    require_verified,
)
from reprolab.claims.published import Source
from reprolab.claims.rules import WITHIN, Verdict, judge, rule
from reprolab.results import KERNEL_TIME, Outcome, Row
from reprolab.stats import Estimate, LogMean, significant

COUNTERS = "counters/nf4_counters"  # the pass in which instructions are counted
LAYER = {"rows": 25600, "columns": 5120}  # of Qwen3-32B
EVERY, SPEED_UP = "every other", "speed-up"  # as arguments
KERNEL_SPEEDUP = "table2"  # the source's table of the kernel's speed-ups
ALIKE = ("compute_capability", "multiprocessors")  # what two GPUs have to have in common
APART_PERCENT = 20  # that their memories' bandwidths differ by at the least


def amdahl(share: float, speed_up: float) -> float:
    """The speed-up of a whole of which `share`, from 0 to 1, becomes `speed_up` times as fast."""
    return 1 / (1 - share + share / speed_up)


def times_in(mode: str) -> tuple[str, str]:
    """The metrics of a run's time and of dequantization in it: of whole generations, as sources
    measure them, or of decoding steps in a CUDA graph, whose time the GPU alone determines.
    """
    return (WALL_TIME, KERNEL_TIME) if mode == EAGER else (STEP_TIME, f"{KERNEL_TIME}.step")


def dequantization_rows(case: Case, kernel: str, at: dict) -> tuple[Row, Row]:
    """The rows with the time of dequantization, and of a whole run with the same prompts and
    tokens.
    """
    whole, part = times_in(at.get("way", EAGER))
    timed = case.measured(kernel, whole, at)
    same = at | {name: timed.problem[name] for name in ("tokens", "prompts")}
    return case.measured(kernel, part, same, PROFILE), timed


@rule(WITHIN)
def share_of_latency(case: Case, *, kernel: str) -> Verdict:
    return judge(case, share_of(case, kernel, case.place))


@rule("nothing: the source does not say of how many forward passes its time is")
def total_latency(case: Case, *, kernel: str) -> Verdict:
    """Time of all dequantizations of a generation, in ms; it depends on the number of tokens."""
    profiled, timed = dequantization_rows(case, kernel, case.place)
    ms, problem = profiled.estimate.scaled(1e-3), timed.problem
    note = f"of {problem['tokens']} passes"
    with suppress(NotTested, NotTestable):
        row = case.measured(kernel, "warp_instructions", LAYER, COUNTERS)
        floor_ms = issue_ns_per_weight(case.source, row) * problem["weights"] / 1e6
        note += f"; its {case.source.gpu} takes at least {floor_ms:.0f} ms to issue the"
        note += (
            f" instructions of one, so that its time is of at most {case.cell.value / floor_ms:.0f}"
        )
    return Verdict(rules.NOT_TESTABLE, note, ms.value, ms.interval)


# Statements on how gains vary are decided by eager generations, as the source measures. The host's
# time reduces their gains where steps are short; steps in CUDA graphs are a second reading.


@rule("batch {most:g} gains more than {others}, beyond the intervals")
def gains_most_at(case: Case, *, baseline: str, subject: str, most: float, others: str) -> Verdict:
    """Over the batches that the cell stands for. `others`: every other batch, or one."""
    gains = gains_by_batch(case, baseline, subject)
    ours = gains[int(most)]
    smaller = [b for b in gains if b != most and others in (EVERY, str(b))]
    return ordered(case, [ours.over(gains[b]) for b in smaller], by_batch(gains), ours)


def ordered(case: Case, ratios: Sequence[Estimate], note: str, ours: Estimate) -> Verdict:
    """Reproduced if all ratios are above 1."""
    kind = rules.worst(rules.side_above(ratio, 1, case.cell.family_size) for ratio in ratios)
    if kind == rules.UNDECIDED:
        nearest = min(ratios, key=lambda ratio: ratio.value)
        note = "; ".join(filter(None, [note, rules.by_hosts(case, nearest, 1)]))
    return Verdict(kind, note, ours.value, ours.interval)


def gains_by_batch(case: Case, baseline: str, subject: str) -> dict[int, Estimate]:
    gains = case.ratios(baseline, subject, times_in(case.cell.at["way"])[0], least=2)
    return {at["batch"]: gain for at, gain in zip(case.cell.places, gains, strict=True)}


def by_batch(values: dict[int, Estimate]) -> str:
    texts = (f"{batch}: {significant(e.value, 3)}" for batch, e in values.items())
    return f"by batch {', '.join(texts)}"


@rule("on average the {of} rises from each model to the next larger one, beyond the intervals")
def rises_with_size(case: Case, *, of: str, baseline: str, subject: str) -> Verdict:
    """`of`: the speed-up, or dequantization's share with the baseline."""
    whole, _ = times_in(case.cell.at["way"])
    means = {}
    for model, places in places_of_models(case).items():
        if of == SPEED_UP:
            values = case.at(*places).ratios(baseline, subject, whole)
        else:
            values = [share_of(case, baseline, at) for at in places]
        means[model] = stats.mean(values)
    steps = [b.over(a) for a, b in pairwise(means.values())]
    note = ", ".join(f"{m} {significant(e.value, 3)} {case.cell.unit}" for m, e in means.items())
    return replace(ordered(case, steps, note, steps[0]), ours=None, interval=None)


def share_of(case: Case, kernel: str, at: dict) -> Estimate:
    """The share of dequantization in percent."""
    log = log_share(*dequantization_rows(case, kernel, at))
    return replace(log, value=log.value + math.log(100)).ratio


def log_share(part: Row, whole: Row) -> LogMean:
    """With the spread of runs and, eager, of hosts."""
    return uncertainty.log_time(part).over(uncertainty.log_baseline(whole))


def places_of_models(case: Case) -> dict[str, list[dict]]:
    """The batches of each model, in the order of their sizes; of two models with one name in the
    source, the cell's is taken.
    """
    own, places = case.cell.at["model"], {}
    for names in case.source.models.values():
        model = own if own in names else names[0]
        places[model] = [at | {"model": model} for at in case.cell.places]
    return places


@rule(
    "dequantization's share at the largest batch is less than at the smallest, beyond the intervals"
)
def share_falls(case: Case, *, kernel: str) -> Verdict:
    """The smallest and the largest batch decide; the note has all shares."""
    shares = {at["batch"]: share_of(case, kernel, at) for at in case.cell.places}
    first, last = shares[min(shares)], shares[max(shares)]
    return ordered(case, [first.over(last)], by_batch(shares), last)


@rule("products take at least half of the growth of the GPU's time over the batches")
def products_account(case: Case, *, kernel: str) -> Verdict:
    """The GPU's time without dequantization: products, and all else. In whole generations, which
    the source's shares are of, or in decoding steps alone.
    """
    suffix = "" if case.cell.at["way"] == EAGER else ".step"
    names = [f"{name}{suffix}" for name in ("product_time", "busy_time", KERNEL_TIME)]
    ends = [pick(case.cell.places, key=lambda at: at["batch"]) for pick in (min, max)]
    product, busy, own, product_later, busy_later, own_later = (
        case.measured(kernel, name, at).median / 1e3 for at in ends for name in names
    )
    products, others = product_later - product, busy_later - own_later - busy + own
    others -= products
    if not products + others:
        raise NotTestable("the GPU takes as long with the most sequences as with the fewest")
    share = 100 * products / (products + others)
    note = f"products grow by {products:.1f} ms, all else by {others:.1f} ms"
    return Verdict(rules.all_above([share], 50), note, share)


@rule(f"the smallest gain of all models, {WITHIN}")
def min_gain(case: Case, *, baseline: str, subject: str) -> Verdict:
    """Over the batches that ran. Some of the models are enough to refute it, and not to show it."""
    gains, models = {}, set()
    for at in case.cell.places:
        with suppress(NotTested):
            (gain,) = case.at(at).ratios(baseline, subject, WALL_TIME)
            gains[f"{at['model']} at batch {at['batch']}"] = gain
            models.add(at["model"])
    if not gains:
        raise NotTested(f"{subject} did not run")
    where = min(gains, key=lambda name: gains[name].value)
    found = judge(case, gains[where], where)
    missing = [model for model, ours in case.source.models.items() if not models & {*ours}]
    if missing and found.kind != rules.NOT_REPRODUCED:
        raise NotTested(f"{subject} did not run on {' and '.join(missing)}")
    return found


@rule(
    "at every batch the speed-up is that of Amdahl's law for the dequantization's share and "
    "speed-up, {tolerance_percent:g} % either way"
)
def translates(case: Case, *, baseline: str, subject: str) -> Verdict:
    """Nothing but the kernel was exchanged."""
    predicted = {}
    for at in case.cell.places:
        rows = (*dequantization_rows(case, baseline, at), dequantization_rows(case, subject, at)[0])
        part, whole, faster = (row.log.geometric_mean for row in rows)
        predicted[at["batch"]] = amdahl(part / whole, part / faster)
    gains, found = gains_by_batch(case, baseline, subject), []
    for batch, value in predicted.items():
        expected = replace(case, cell=replace(case.cell, value=value, direction=rules.EXACTLY))
        found.append(judge(expected, gains[batch]))
    worst = min(found, key=lambda verdict: rules.VERDICTS.index(verdict.kind))
    ours = stats.mean(list(gains.values()))
    pairs = (f"{b}: {value:.2f} and {gains[b].value:.2f}" for b, value in predicted.items())
    note = "; ".join(filter(None, [f"predicted and measured {', '.join(pairs)}", worst.note]))
    return Verdict(worst.kind, note, ours.value, ours.interval)


@rule(
    "its speed-up is at most that of Amdahl's law for its own Tables I and II, "
    "{tolerance_percent:g} % more allowed"
)
def tables_allow(case: Case, *, shares: str) -> Verdict:
    """Compares two numbers of the source."""
    theirs = papers_predictions(case.source, shares, case.cell.model)
    most = theirs.get(case.cell.at["batch"], fmean(theirs.values()))
    holds = stats.is_at_least(most, case.cell.value, case.cell.tolerance_percent)
    kind = rules.DOCUMENTED if holds else rules.CONTRADICTED
    return Verdict(kind, f"its tables allow {most:.2f} x")


def papers_predictions(source: Source, shares: str, model: str) -> dict[int, float]:
    """By batch, the speed-up by Amdahl's law from the source's Table I (`shares`) and Table II."""
    return {
        batch: amdahl(
            source.numbers[f"{shares}/{batch}/overhead_percent"] / 100,
            source.numbers[f"{KERNEL_SPEEDUP}/{model}/{batch}"],
        )
        for batch in source.every("batch")
    }


@rule(WITHIN)
def size_in_memory(case: Case, *, kernel: str, of: str = "all") -> Verdict:
    """Size of the model as bitsandbytes holds it, or with two bytes per parameter, in GB; or how
    many times smaller the one is than the other. `of`: all, or the codes of the quantized weights
    alone, two to a byte, without scales and the weights in 16 bits.
    """
    at = {"model": case.cell.at["model"], "batch": min(case.source.every("batch"))}
    problem = case.verified(kernel, at).problem
    fp16, nf4 = 2 * problem["parameters"], problem["memory_bytes"]
    if of == "codes":
        fp16, nf4 = 2 * problem["weights"], problem["weights"] / 2
    ours = {"fp16": fp16 / 1e9, "nf4": nf4 / 1e9, "ratio": fp16 / nf4}[case.cell.at["format"]]
    note = f"{fp16 / 1e9:.1f} GB in fp16 and {nf4 / 1e9:.1f} GB in NF4"
    return judge(case, Estimate(ours, ours, ours), note, spread_percent=0)


@rule("the layers that bitsandbytes quantized were dequantized by {kernel}, and no token changed")
def ran_unconverted(case: Case, *, kernel: str) -> Verdict:
    """On the models that ran, only the kernel was exchanged under transformers."""
    batches, results = case.source.every("batch"), case.results()
    of_kernel = [r for r in results.by_kernel.get(kernel, ()) if r.problem["batch"] in batches]
    if not of_kernel:
        raise NotTested(f"{kernel} did not run")
    left_out = (Outcome.UNSUPPORTED, Outcome.NOT_MEASURED)
    rows = [r for r in of_kernel if r.outcome not in left_out]
    for row in rows or of_kernel[:1]:
        case.used[row.file, row.key] = row
        require_verified(row)
    models = dict.fromkeys(row.problem["model"] for row in rows)
    made_with = results.provenance["build"]["compiler"]
    found = rules.all_equal(rows)
    return replace(found, note=f"{', '.join(models)}; {made_with}; {found.note}")


@rule(
    "on the GPU with the slower memory it takes longer by the ratio of the bandwidths, "
    "{tolerance_percent:g} % less allowed"
)
def slower_with_slower_memory(case: Case, *, metric: str, kernel: str) -> Verdict:
    """Compares two recorded GPUs with equally many multiprocessors of one kind."""
    here = case.results()
    for other in recorded_beside(case.evidence.folder, here.experiment):
        there = other.results.get((here.experiment, here.pass_name))
        if there and is_comparable(here.provenance["gpu"], there.provenance["gpu"]):
            break
    else:
        raise NotTested("no run is recorded of such a GPU with another bandwidth")
    bandwidths = [results.peak_gb_s for results in (here, there)]
    rows = [replace(case, evidence=e).measured(kernel, metric) for e in (other, case.evidence)]
    slower, faster = rows if bandwidths[0] > bandwidths[1] else rows[::-1]
    ours = uncertainty.log_ratio(slower, faster).ratio
    wanted = max(bandwidths) / min(bandwidths)
    bound = wanted * (1 - case.cell.tolerance_percent / 100)
    note = f"the time with 1/{significant(wanted, 3)} the bandwidth, of "
    note += " and ".join(sorted((here.gpu, there.gpu)))
    kind = rules.side_above(ours, bound, case.cell.family_size)
    return Verdict(kind, note, ours.value, ours.interval)


def is_comparable(a: dict, b: dict) -> bool:
    bandwidths = [gpu["theoretical_bandwidth_gb_s"] for gpu in (a, b)]
    if None in bandwidths or any(a[name] != b[name] for name in ALIKE):
        return False
    return max(bandwidths) >= (1 + APART_PERCENT / 100) * min(bandwidths)

"""Rules of one claim alone, for the claims that experiment end_to_end decides; Amdahl's law."""

import re
from contextlib import suppress
from itertools import pairwise
from statistics import fmean

from claims import rules
from claims.evidence import Case, NotTested
from claims.occupancy import issue_ns_per_weight
from claims.published import Cell, Source
from claims.rules import WITHIN, Finding, Ours, reproduced_if, rule
from records import stats
from records.results import KERNEL_TIME, Record
from records.stats import Estimate, Summary

WALL_TIME = "wall_time"  # of a whole generation
COUNTERS = "counters/nf4_counters"
TIMING, PROFILE = "timing", "profile"  # the passes: with latencies, and with kernels' times
EAGER, GRAPH = "eager", "graph"  # the decode modes: `way` in result files
NOTHING = "nothing was dequantized"  # why the pass profile has no time of a dequantization
INSTALLED = "as installed"  # the lineage of bitsandbytes' own row
VERSIONS = {"torch": "pytorch", "bitsandbytes": "bitsandbytes"}  # and the source's facts of them
KERNEL_SPEEDUP = "table2"  # the source's table of the kernel's speed-ups


def amdahl(share: float, speed_up: float) -> float:
    """How much faster the whole gets where a part of it, `share` from 0 to 1, gets faster."""
    return 1 / (1 - share + share / speed_up)


def percent_of(part: Summary, whole: Summary) -> Estimate:
    """What one time is of another that was taken in other runs."""
    return stats.ratio(part, whole).scaled(100)


def generated(row: Record) -> int:
    """New tokens for each prompt that were generated and compared; the others follow from them."""
    return row.problem.get("generated", row.problem["tokens"])


def latency(case: Case, kernel: str) -> Summary:
    return case.measured(kernel, WALL_TIME).summary_of(WALL_TIME)


def dequantization(case: Case, kernel: str) -> Summary:
    """Dequantization in one generation, in us; with the prompts and tokens of its latency."""
    timed = case.measured(kernel, WALL_TIME).problem
    same = case.place | {name: timed[name] for name in ("tokens", "prompts")}
    return case.measured(kernel, KERNEL_TIME, same, PROFILE).summary_of(KERNEL_TIME)


@rule(WITHIN)
def share_of_latency(case: Case, *, kernel: str) -> Ours:
    part, whole = dequantization(case, kernel), latency(case, kernel)
    of_all = f"{part.median / 1e6:.2f} of {whole.median / 1e6:.2f} s"
    return Ours(percent_of(part, whole), of_all)


@rule(WITHIN)
def total_latency(case: Case, *, kernel: str) -> Ours:
    """The latency of all dequantizations of a generation, in ms; the tokens' number decides it."""
    ms = dequantization(case, kernel).estimate.scaled(1e-3)
    tokens = case.measured(kernel, WALL_TIME).problem["tokens"]
    return Ours(ms, f"of {tokens} tokens, where it does not say how many")


@rule(
    "all numbers of the source's table lie within {least:g} to {most:g} %, "
    "{tolerance_percent:g} % off allowed"
)
def as_its_table(case: Case, *, least: float, most: float, shares: str) -> Finding:
    """What the source sums up, against its own numbers."""
    rows = case.source.tables[shares]
    found = {int(batch): row["overhead_percent"] for batch, row in rows.items()}
    off = case.tolerance_percent / 100
    low, high = least * (1 - off), most * (1 + off)
    outside = [f"{v:g} % at batch {b}" for b, v in found.items() if not low <= v <= high]
    if not outside:
        return Finding(rules.REPRODUCED, f"its table has {stats.span(list(found.values()))} %")
    return Finding(rules.PREMISE_FALSE, f"its own table has {' and '.join(outside)}")


@rule("the smallest batch gains more than the largest, beyond the intervals")
def falls_with_batch(case: Case, *, metric: str, baseline: str, subject: str) -> Finding:
    """Over the batches that the cell stands for, in their order."""
    gains = gains_by_batch(case, metric, baseline, subject)
    (smallest, first), *_, (largest, last) = gains.items()
    reason = in_words(gains)
    holds, fails = first.low > last.high, last.low > first.high
    if not holds and not fails:
        reason += f"; no difference seen between {smallest} and {largest}"
    short = f"{first.value:.2f} x at batch {smallest}, {last.value:.2f} x at {largest}"
    return Finding(reproduced_if(holds, fails), reason, first.value, first.interval, short)


@rule("every other batch gains less, beyond the intervals")
def peaks_at(case: Case, *, metric: str, baseline: str, subject: str, peak: float) -> Finding:
    """Over the batches that the cell stands for; `peak`: where the source has the greatest gain."""
    gains = gains_by_batch(case, metric, baseline, subject)
    ours, best = gains[int(peak)], max(gains, key=lambda b: gains[b].value)
    others = [e for b, e in gains.items() if b != int(peak)]
    holds, fails = all(e.high < ours.low for e in others), any(e.low > ours.high for e in others)
    short = f"{ours.value:.2f} x at batch {peak:g}, and {gains[best].value:.2f} x at {best}"
    return Finding(reproduced_if(holds, fails), in_words(gains), ours.value, ours.interval, short)


def gains_by_batch(case: Case, metric: str, baseline: str, subject: str) -> dict[int, Estimate]:
    found = case.comparisons(baseline, subject, metric)
    return {at["batch"]: gain for at, gain in zip(case.cell.places, found, strict=True)}


def in_words(gains: dict[int, Estimate]) -> str:
    return "speed-up by batch: " + ", ".join(f"{b}: {e.value:.2f}" for b, e in gains.items())


@rule("the average speed-up rises from each model to the next larger one, beyond the intervals")
def rises_with_size(case: Case, *, baseline: str, subject: str) -> Finding:
    """The models in the order of their sizes; of two that the source gives one name, any one."""
    found: list[tuple[str, Estimate]] = []
    for names in case.source.models.values():
        ran = []
        for model in names:
            places = ({"model": model, "batch": b} for b in case.source.every("batch"))
            with suppress(NotTested):
                gains = case.at(*places).ratios(baseline, subject, WALL_TIME)
                ran.append((model, stats.mean(gains)))
        if not ran:
            raise NotTested(f"no average of {' or '.join(names)}")
        found.append(ran[0])
    reason = ", ".join(f"{model} {e.value:.2f} x" for model, e in found)
    pairs = [(a, b) for (_, a), (_, b) in pairwise(found)]
    rises, falls = all(b.low > a.high for a, b in pairs), any(b.high < a.low for a, b in pairs)
    return Finding(reproduced_if(rises, falls), reason)


@rule(WITHIN)
def min_gain(case: Case, *, baseline: str, subject: str) -> Ours:
    """The smallest speed-up of all models and batches that ran."""
    gains = {}
    for at in case.cell.places:
        with suppress(NotTested):
            (gain,) = case.at(at).ratios(baseline, subject, WALL_TIME)
            gains[f"{at['model']} at batch {at['batch']}"] = gain
    if not gains:
        raise NotTested(f"{subject} did not run")
    where = min(gains, key=lambda name: gains[name].value)
    said = f"the smallest of {len(gains)} is {gains[where].value:.2f} x, {where}"
    return Ours(gains[where], said, said)


@rule(
    "the speed-up is at most what Amdahl's law makes of the dequantization's share and its own "
    "speed-up, {tolerance_percent:g} % more allowed"
)
def translates(case: Case, *, shares: str, baseline: str, subject: str) -> Finding:
    """Nothing but the kernel was exchanged: all that is not dequantization takes its time still.

    Decided by our own times; the source's share and end-to-end gain may be of different runs.
    """
    predicted, measured = [], []
    for at in case.cell.places:
        place = case.at(at)
        before, after = (dequantization(place, kernel).median for kernel in (baseline, subject))
        whole, shorter = (latency(place, kernel) for kernel in (baseline, subject))
        predicted.append(amdahl(before / whole.median, before / after))
        measured.append(stats.ratio(whole, shorter))
    most, ours = fmean(predicted), stats.mean(measured)
    theirs = papers_predictions(case.source, shares, case.cell.model)
    mean = fmean(theirs.values())
    its = theirs.get(case.cell.at["batch"], mean)
    listed = ", ".join(f"{b}: {p:.2f}" for b, p in theirs.items())
    short = (
        f"here {most:.2f} x is possible and {ours.value:.2f} x was measured, by its own tables "
        f"{its:.2f} x is and {case.value:g} x was"
    )
    reason = f"{short}; its Tables I and II predict, by batch, {listed} (mean {mean:.2f})"
    verdict = reproduced_if(stats.is_at_least(most, ours.low, case.tolerance_percent))
    return Finding(verdict, reason, ours.value, ours.interval, short)


def papers_predictions(source: Source, shares: str, model: str) -> dict[int, float]:
    """By batch: what Amdahl's law makes of the source's Table I (`shares`) and Table II."""
    found = {}
    for batch in source.every("batch"):
        share = source.number(f"{shares}/{batch}/overhead_percent")
        found[batch] = amdahl(share / 100, source.number(f"{KERNEL_SPEEDUP}/{model}/{batch}"))
    return found


def implied(source: Source, cell: Cell, shares: str, tokens_per_s: str) -> tuple[float, float]:
    """Forward passes of a generation and ms of dequantization in each, if Table I (`shares`) and
    Figure 4 (`tokens_per_s`) are of the same runs and tokens/s counts new tokens alone.
    """
    batch = cell.at["batch"]
    share = source.number(f"{shares}/{batch}/overhead_percent")
    total_ms = source.number(f"{shares}/{batch}/kernel_latency_ms")
    passes = total_ms / (share / 100) / 1e3 * source.number(tokens_per_s) / batch
    return passes, total_ms / passes


@rule("the passes that Table I and Figure 4 imply are no more than its seconds have room for")
def tables_agree(case: Case, *, shares: str, tokens_per_s: str, kernel: str) -> Finding:
    """By arithmetic: no pass takes less than its instructions take to issue on the source's GPU."""
    passes, ms = implied(case.source, case.cell, shares, tokens_per_s)
    weights = case.measured(kernel, WALL_TIME).problem["weights"]
    layer = case.source.every("layer")[0]
    counted = case.measured(kernel, "warp_instructions", layer, COUNTERS)
    min_ms = weights * issue_ns_per_weight(case.source, counted) / 1e6
    room = passes * ms / min_ms
    short = (
        f"its tokens/s make {passes:.0f} passes of its Table I's seconds, in which an "
        f"{case.source.gpu} can issue at most {room:.0f}"
    )
    reason = (
        f"{short}: {ms:.1f} ms of dequantization for each, where issuing the instructions of one "
        f"pass takes at least {min_ms:.0f} ms at {case.source.fact('sm_clock_mhz')} MHz; so the "
        "two are not of the same runs, or its tokens/s counts the tokens of prompts as well"
    )
    verdict = rules.REPRODUCED if passes <= room else rules.PREMISE_FALSE
    return Finding(verdict, reason, ms, short=short)


@rule(WITHIN)
def size_in_memory(case: Case, *, kernel: str) -> Ours:
    """Size of the model as bitsandbytes holds it, or with two bytes per parameter, in GB; or how
    many times smaller the one is than the other.
    """
    problems, at = case.results().problems(), {"model": case.cell.at["model"]}
    batches = [problem["batch"] for problem in problems if at.items() <= problem.items()]
    problem = case.verified(kernel, at | ({"batch": min(batches)} if batches else {})).problem
    fp16, nf4 = 2 * problem["parameters"], problem["memory_bytes"]
    ours = {"fp16": fp16 / 1e9, "nf4": nf4 / 1e9, "ratio": fp16 / nf4}[case.cell.at["format"]]
    sizes = f"{fp16 / 1e9:.1f} GB in fp16 and {nf4 / 1e9:.1f} GB in NF4"
    reason = f"{sizes}, {problem['quantized_bytes'] / 1e9:.2f} GB of that in its quantized layers"
    return Ours(Estimate(ours, ours, ours), reason, sizes, spread_percent=0)


@rule("every token of {kernel} equals the baseline's")
def tokens_equal(case: Case, *, kernel: str) -> Finding:
    """In every generation that was compared, at all batches that the cell stands for."""
    rows = [case.verified(kernel, at) for at in case.cell.places]
    wrong = [row for row in rows if row.outcome != "bit_exact"]
    if wrong:
        return Finding(rules.NOT_REPRODUCED, f"{wrong[0].place}: {wrong[0].reason}")
    tokens = sum(row.problem["batch"] * generated(row) for row in rows)
    return Finding(rules.REPRODUCED, f"{tokens} tokens, in each generation of {len(rows)} batches")


@rule("the layers that bitsandbytes quantized were dequantized by {kernel}, and no token changed")
def ran_unconverted(case: Case, *, kernel: str) -> Finding:
    """That every model ran: nothing but the kernel was exchanged under transformers."""
    rows = [r for r in case.results().records if r.kernel == kernel]
    if not rows:
        raise NotTested(f"{kernel} did not run")
    for row in rows:
        case.used[case.results().file, row.key] = row
    wrong = [row for row in rows if row.outcome != "bit_exact"]
    if wrong:
        return Finding(rules.NOT_REPRODUCED, f"{wrong[0].place}: {wrong[0].reason}")
    models = dict.fromkeys(row.problem["model"] for row in rows)
    made_with = case.results().provenance["build"]["compiler"]
    short = f"{kernel} ran under quantized layers of {len(models)} models, with the same tokens"
    return Finding(rules.REPRODUCED, f"{short} ({', '.join(models)}; {made_with})", short=short)


@rule("the source's two versions ran here, or its bitsandbytes takes PyTorch from {least} on")
def versions_fit(case: Case, *, least: str) -> Finding:
    """A matter of what that bitsandbytes asks for, beside what the text here was generated with."""
    results = case.results()
    case.used[results.file, ""] = None  # its provenance, no row
    theirs = {name: case.source.fact(of) for name, of in VERSIONS.items()}
    ours = results.provenance["build"].get("versions", {})
    wanted = {name: numbers_of(version) for name, version in theirs.items()}
    here = "its file lists no versions of what ran here"
    if theirs.keys() <= ours.keys():
        here = f"here {' and '.join(f'{name} {ours[name]}' for name in theirs)} ran"
        if all(numbers_of(ours[name])[: len(wanted[name])] == wanted[name] for name in wanted):
            return Finding(rules.REPRODUCED, here)
    asks = f"bitsandbytes {theirs['bitsandbytes']} asks for PyTorch {least} or newer"
    if wanted["torch"] < numbers_of(least):
        return Finding(rules.PREMISE_FALSE, f"{asks}, which {theirs['torch']} is not; {here}")
    return Finding(rules.NOT_TESTABLE, f"{asks}, and {theirs['torch']} was not tried; {here}")


def numbers_of(version: str) -> list[int]:
    """'2.11.0+cu130' is [2, 11, 0]."""
    return [int(number) for number in re.match(r"[\d.]*\d", version)[0].split(".")]

"""Rules of one claim alone, for the claims that experiment end_to_end decides; Amdahl's law."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from claims import rules
from claims.arithmetic import issue_ns_per_weight
from claims.evidence import NotTested
from claims.published import Cell, Source, look_up
from claims.rules import Case, Finding, rule
from records import stats
from records.results import KERNEL_TIME, Record
from records.stats import Estimate, Summary

WALL_TIME = "wall_time"  # of a whole generation
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
    found = stats.ratio(part, whole)
    return Estimate(100 * found.value, 100 * found.low, 100 * found.high)


def generated(row: Record) -> int:
    """New tokens for each prompt that were generated and compared; the others follow from them."""
    return row.problem.get("generated", row.problem["tokens"])


def dequantization(case: Case, kernel: str) -> Summary:
    """Dequantization in one generation, in us; with the prompts and tokens of its latency."""
    (at,) = case.cell.places
    timed = case.rows.measured(kernel, at, WALL_TIME).problem
    same = dict(at) | {name: timed[name] for name in ("tokens", "prompts")}
    return case.rows_of(PROFILE).measured(kernel, same, KERNEL_TIME).summary_of(KERNEL_TIME)


def latency(case: Case, kernel: str) -> Summary:
    (at,) = case.cell.places
    return case.rows.measured(kernel, at, WALL_TIME).summary_of(WALL_TIME)


@rule(rules.WITHIN)
def share_of_latency(case: Case, *, value: float, tolerance_percent: float, kernel: str) -> Finding:
    """Dequantization's share of a generation's time."""
    part, whole = dequantization(case, kernel), latency(case, kernel)
    found = rules.judge(case, percent_of(part, whole), value, tolerance_percent)
    of_all = f"{part.median / 1e6:.2f} of {whole.median / 1e6:.2f} s"
    return replace(found, reason=f"{of_all}; {found.reason}")


@rule(rules.WITHIN)
def total_latency(case: Case, *, value: float, tolerance_percent: float, kernel: str) -> Finding:
    """The latency of all dequantizations of a generation, in ms; the tokens' number decides it."""
    (at,) = case.cell.places
    ms = dequantization(case, kernel).estimate.scaled(1e-3)
    found = rules.judge(case, ms, value, tolerance_percent)
    tokens = case.rows.measured(kernel, at, WALL_TIME).problem["tokens"]
    return replace(
        found, reason=f"of {tokens} tokens, where it does not say how many; {found.reason}"
    )


@rule(
    "all numbers of the source's table lie within {least:g} to {most:g} %, "
    "{tolerance_percent:g} % off allowed"
)
def as_its_table(
    case: Case, *, least: float, most: float, tolerance_percent: float, shares: str
) -> Finding:
    """What the source sums up, against its own numbers."""
    rows = case.source.tables[shares]
    found = {int(batch): row["overhead_percent"] for batch, row in rows.items()}
    low, high = least * (1 - tolerance_percent / 100), most * (1 + tolerance_percent / 100)
    outside = [f"{v:g} % at batch {b}" for b, v in found.items() if not low <= v <= high]
    if not outside:
        return Finding(rules.REPRODUCED, f"its table has {stats.span(list(found.values()))} %")
    return Finding(rules.PREMISE_FALSE, f"its own table has {' and '.join(outside)}")


@rule("the smallest batch gains more than the largest, beyond the intervals")
def falls_with_batch(case: Case, *, metric: str, baseline: str, subject: str) -> Finding:
    """Over the batches that the cell stands for, in their order."""
    found = case.comparisons(baseline, subject, metric)
    batches = [at["batch"] for at in case.cell.places]
    gains = ", ".join(f"{b}: {e.value:.2f}" for b, e in zip(batches, found, strict=True))
    reason, first, last = f"speed-up by batch: {gains}", found[0], found[-1]
    short = f"{first.value:.2f} x at batch {batches[0]}, {last.value:.2f} x at {batches[-1]}"
    verdict = rules.reproduced_if(first.low > last.high)
    if first.low <= last.high and last.low <= first.high:
        reason += f"; no difference seen between {batches[0]} and {batches[-1]}"
        verdict = rules.UNDECIDED
    return Finding(verdict, reason, first.value, first.interval, short)


@rule("every other batch gains less, beyond the intervals")
def peaks_at(case: Case, *, metric: str, baseline: str, subject: str, peak: float) -> Finding:
    """Over the batches that the cell stands for; `peak`: where the source has the greatest gain."""
    found = case.comparisons(baseline, subject, metric)
    gains = {at["batch"]: e for at, e in zip(case.cell.places, found, strict=True)}
    ours, best = gains[int(peak)], max(gains, key=lambda b: gains[b].value)
    reason = ", ".join(f"{b}: {e.value:.2f}" for b, e in gains.items())
    above = [b for b, e in gains.items() if e.low > ours.high]
    short = f"{ours.value:.2f} x at batch {peak:g}, and {gains[best].value:.2f} x at {best}"
    below = all(e.high < ours.low for b, e in gains.items() if b != int(peak))
    verdict = rules.NOT_REPRODUCED if above else rules.UNDECIDED
    verdict = rules.REPRODUCED if below else verdict
    return Finding(verdict, f"speed-up by batch: {reason}", ours.value, ours.interval, short)


def average_gain(case: Case, model: str, baseline: str, subject: str) -> Estimate:
    """Over every batch of the source's."""
    batches = case.source.every("batch")
    both = [
        [
            case.rows.measured(k, {"model": model, "batch": b}, WALL_TIME).summary_of(WALL_TIME)
            for b in batches
        ]
        for k in (baseline, subject)
    ]
    return stats.mean([stats.ratio(*pair) for pair in zip(*both, strict=True)])


@rule("the average speed-up rises from each model to the next larger one, beyond the intervals")
def rises_with_size(case: Case, *, baseline: str, subject: str) -> Finding:
    """The models in the order of their sizes; of two that the source gives one name, any one."""
    found: list[tuple[str, Estimate]] = []
    for names in case.source.models.values():
        ran = []
        for model in names:
            with suppress(NotTested):
                ran.append((model, average_gain(case, model, baseline, subject)))
        if not ran:
            raise NotTested(f"no average of {' or '.join(names)}")
        found.append(ran[0])
    reason = ", ".join(f"{model} {e.value:.2f} x" for model, e in found)
    pairs = [(a, b) for (_, a), (_, b) in pairwise(found)]
    if any(b.high < a.low for a, b in pairs):
        return Finding(rules.NOT_REPRODUCED, reason)
    rises = all(b.low > a.high for a, b in pairs)
    return Finding(rules.REPRODUCED if rises else rules.UNDECIDED, reason)


@rule(rules.WITHIN)
def least_gain(
    case: Case, *, value: float, tolerance_percent: float, baseline: str, subject: str
) -> Finding:
    """The smallest speed-up of all models and batches that ran."""
    gains = {}
    for at in case.cell.places:
        with suppress(NotTested):
            both = (case.rows.measured(k, at, WALL_TIME) for k in (baseline, subject))
            ratio = stats.ratio(*(row.summary_of(WALL_TIME) for row in both))
            gains[f"{at['model']} at batch {at['batch']}"] = ratio
    if not gains:
        raise NotTested(f"{subject} did not run")
    where = min(gains, key=lambda name: gains[name].value)
    found = rules.judge(case, gains[where], value, tolerance_percent)
    short = f"the smallest of {len(gains)} is {gains[where].value:.2f} x, {where}"
    return replace(found, reason=f"{short}; {found.reason}", short=short)


@rule(
    "the speed-up is at most what Amdahl's law makes of the dequantization's share and its own "
    "speed-up, {tolerance_percent:g} % more allowed"
)
def translates(
    case: Case, *, value: float, tolerance_percent: float, shares: str, baseline: str, subject: str
) -> Finding:
    """Nothing but the kernel was exchanged: all that is not dequantization takes its time still.

    Decided by our own times; the source's share and end-to-end gain may be of different runs.
    """
    predicted, measured = [], []
    for at in case.cell.places:
        place = replace(case, cell=replace(case.cell, places=(at,)))
        before, after = (dequantization(place, kernel) for kernel in (baseline, subject))
        whole, shorter = (latency(place, kernel) for kernel in (baseline, subject))
        share, speed_up = before.median / whole.median, before.median / after.median
        predicted.append(amdahl(share, speed_up))
        measured.append(stats.ratio(whole, shorter))
    most, ours = sum(predicted) / len(predicted), stats.mean(measured)
    theirs = papers_predictions(case.source, case.claim.id, shares, case.cell.model)
    batch = case.cell.at["batch"]
    its = theirs.get(batch, sum(theirs.values()) / len(theirs))
    listed = ", ".join(f"{b}: {p:.2f}" for b, p in theirs.items())
    short = (
        f"here {most:.2f} x is possible and {ours.value:.2f} x was measured, by its own tables "
        f"{its:.2f} x is and {value:g} x was"
    )
    reason = (
        f"{short}; its Tables I and II predict, by batch, {listed} (mean {mean_of(theirs):.2f})"
    )
    verdict = rules.reproduced_if(stats.is_at_least(most, ours.low, tolerance_percent))
    return Finding(verdict, reason, ours.value, ours.interval, short)


def mean_of(found: Mapping[int, float]) -> float:
    return sum(found.values()) / len(found)


def papers_predictions(source: Source, claim: str, shares: str, model: str) -> dict[int, float]:
    """By batch: what Amdahl's law makes of the source's Table I (`shares`) and Table II."""
    where = f"{source.file}: claim '{claim}'"
    found = {}
    for batch in source.every("batch"):
        share = look_up(source.tables, f"{shares}/{batch}/overhead_percent", where)
        speed_up = look_up(source.tables, f"{KERNEL_SPEEDUP}/{model}/{batch}", where)
        found[batch] = amdahl(share / 100, speed_up)
    return found


def implied(source: Source, cell: Cell, shares: str, tokens_per_s: str) -> tuple[float, float]:
    """Forward passes of a generation and ms of dequantization in each, if Table I (`shares`) and
    Figure 4 (`tokens_per_s`) are of the same runs and tokens/s counts new tokens alone.
    """
    where, batch = str(source.file), cell.at["batch"]
    row = f"{shares}/{batch}"
    share = look_up(source.tables, f"{row}/overhead_percent", where)
    total_ms = look_up(source.tables, f"{row}/kernel_latency_ms", where)
    speed = look_up(source.tables, tokens_per_s, where)
    passes = total_ms / (share / 100) / 1e3 * speed / batch
    return passes, total_ms / passes


@rule("the passes that Table I and Figure 4 imply are no more than its seconds have room for")
def tables_agree(
    case: Case, *, shares: str, tokens_per_s: str, kernel: str, counters: str
) -> Finding:
    """By arithmetic: no pass takes less than its instructions take to issue on the source's GPU."""
    at = case.cell.places[0]
    passes, ms = implied(case.source, case.cell, shares, tokens_per_s)
    weights = case.rows.measured(kernel, at, WALL_TIME).problem["weights"]
    counted = case.rows_of(counters)
    layer = case.source.every("layer")[0]
    per_weight = issue_ns_per_weight(case, counted.measured(kernel, layer, "warp_instructions"))
    least_ms = weights * per_weight / 1e6
    room = passes * ms / least_ms
    short = (
        f"its tokens/s make {passes:.0f} passes of its Table I's seconds, in which an "
        f"{case.source.gpu} can issue at most {room:.0f}"
    )
    reason = (
        f"{short}: {ms:.1f} ms of dequantization for each, where issuing the instructions of one "
        f"pass takes at least {least_ms:.0f} ms at {case.source.fact('sm_clock_mhz')} MHz; so the "
        "two are not of the same runs, or its tokens/s counts the tokens of prompts as well"
    )
    verdict = rules.REPRODUCED if passes <= room else rules.PREMISE_FALSE
    return Finding(verdict, reason, ms, short=short)


@rule(rules.WITHIN)
def size_in_memory(case: Case, *, value: float, tolerance_percent: float, kernel: str) -> Finding:
    """Size of the model as bitsandbytes holds it, or with two bytes per parameter, in GB; or how
    many times smaller the one is than the other.
    """
    rows, at = case.rows, {"model": case.cell.at["model"]}
    batches = [r.problem["batch"] for r in rows.results.records if at.items() <= r.problem.items()]
    row = rows.verified(kernel, at | ({"batch": min(batches)} if batches else {}))
    found = {"fp16": 2 * row.problem["parameters"], "nf4": row.problem["memory_bytes"]}
    asked = str(case.cell.at["format"])
    ours = found["fp16"] / found["nf4"] if asked == "ratio" else found[asked] / 1e9
    finding = rules.judge(case, Estimate(ours, ours, ours), value, tolerance_percent, 0)
    sizes = f"{found['fp16'] / 1e9:.1f} GB in fp16 and {found['nf4'] / 1e9:.1f} GB in NF4"
    quantized = row.problem["quantized_bytes"] / 1e9
    reason = f"{sizes}, {quantized:.2f} GB of that in its quantized layers; {finding.reason}"
    return replace(finding, reason=reason, short=sizes)


@rule("every token of {kernel} equals the baseline's")
def tokens_equal(case: Case, *, kernel: str) -> Finding:
    """In every generation that was compared, at all batches that the cell stands for."""
    rows = [case.rows.verified(kernel, at) for at in case.cell.places]
    wrong = [row for row in rows if row.outcome != "bit_exact"]
    if wrong:
        return Finding(rules.NOT_REPRODUCED, f"{wrong[0].place}: {wrong[0].reason}")
    tokens = sum(row.problem["batch"] * generated(row) for row in rows)
    return Finding(rules.REPRODUCED, f"{tokens} tokens, in each generation of {len(rows)} batches")


@rule("the layers that bitsandbytes quantized were dequantized by {kernel}, and no token changed")
def ran_unconverted(case: Case, *, kernel: str) -> Finding:
    """That every model ran: nothing but the kernel was exchanged under transformers."""
    rows = [r for r in case.rows.results.records if r.kernel == kernel]
    if not rows:
        raise NotTested(f"{kernel} did not run")
    for row in rows:
        case.used[case.rows.results.file, row.key] = None
    wrong = [row for row in rows if row.outcome != "bit_exact"]
    if wrong:
        return Finding(rules.NOT_REPRODUCED, f"{wrong[0].place}: {wrong[0].reason}")
    models = dict.fromkeys(row.problem["model"] for row in rows)
    made_with = case.rows.results.provenance["build"]["compiler"]
    short = f"{kernel} ran under quantized layers of {len(models)} models, with the same tokens"
    return Finding(rules.REPRODUCED, f"{short} ({', '.join(models)}; {made_with})", short=short)


@rule("the source's two versions ran here, or its bitsandbytes takes PyTorch from {least} on")
def versions_fit(case: Case, *, least: str) -> Finding:
    """A matter of what that bitsandbytes asks for, beside what the text here was generated with."""
    results = case.rows.results
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
    """Of '2.11.0+cu130': [2, 11, 0]."""
    return [int(number) for number in re.match(r"[\d.]*\d", version)[0].split(".")]

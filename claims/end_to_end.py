"""Rules of one claim alone, for the claims that experiment end_to_end decides; Amdahl's law."""

import re

from claims import rules, stats
from claims.evidence import NotTestable
from claims.published import Cell, Source, look_up
from claims.results import KERNEL_TIME
from claims.rules import Case, Finding, rule
from claims.stats import Estimate, Summary

WALL_TIME = "wall_time"  # of a whole generation
TIMING, PROFILE = "timing", "profile"  # the passes: with latencies, and with kernels' times
EAGER, GRAPH = "eager", "graph"  # the ways of decoding
NOTHING = "nothing was dequantized"  # why the pass profile has no time of a dequantization
INSTALLED = "as installed"  # the lineage of bitsandbytes' own row
KERNEL_SPEEDUP = "kernel-speedup"  # the claim with the source's Table II


def amdahl(share: float, speed_up: float) -> float:
    """How much faster the whole gets where a part of it, `share` from 0 to 1, gets faster."""
    return 1 / (1 - share + share / speed_up)


def percent_of(part: Summary, whole: Summary) -> Estimate:
    """What one time is of another that was taken in other runs."""
    found = stats.ratio(part, whole)
    return Estimate(100 * found.value, 100 * found.low, 100 * found.high)


def dequantization(case: Case, kernel: str) -> Summary:
    """Of one generation, in us; of the same prompts and as many tokens as its latency."""
    (at,) = case.cell.places
    timed = case.rows.measured(kernel, at, WALL_TIME).problem
    same = dict(at) | {name: timed[name] for name in ("tokens", "prompts")}
    return case.rows_of(PROFILE).measured(kernel, same, KERNEL_TIME).summary_of(KERNEL_TIME)


def latency(case: Case, kernel: str) -> Summary:
    (at,) = case.cell.places
    return case.rows.measured(kernel, at, WALL_TIME).summary_of(WALL_TIME)


@rule("ours within {tolerance_percent:g} % of the source's value")
def share_of_latency(case: Case, *, value: float, tolerance_percent: float, kernel: str) -> Finding:
    """Dequantization's share of a generation's time."""
    part, whole = dequantization(case, kernel), latency(case, kernel)
    found = rules.judge(percent_of(part, whole), value, tolerance_percent)
    reason = f"{found.reason}; {part.median / 1e6:.2f} of {whole.median / 1e6:.2f} s"
    return Finding(found.verdict, reason, found.ours, found.interval)


@rule("the smallest batch gains more than the largest, beyond the intervals")
def falls_with_batch(case: Case, *, metric: str, baseline: str, subject: str) -> Finding:
    """Over the batches that the cell stands for, in their order."""
    found = case.comparisons(baseline, subject, metric)
    batches = [at["batch"] for at in case.cell.places]
    gains = ", ".join(f"{b}: {e.value:.2f}" for b, e in zip(batches, found, strict=True))
    reason, first, last = f"speed-up by batch: {gains}", found[0], found[-1]
    if first.low <= last.high and last.low <= first.high:
        reason += f"; no difference seen between {batches[0]} and {batches[-1]}"
        return Finding(rules.NOT_TESTABLE, reason, first.value, first.interval)
    verdict = rules.reproduced_if(first.low > last.high)
    return Finding(verdict, reason, first.value, first.interval)


@rule(
    "the speed-up is at most what Amdahl's law makes of share and kernel speed-up, in the source's "
    "tables and here, {tolerance_percent:g} % more allowed"
)
def translates(
    case: Case, *, value: float, tolerance_percent: float, shares: str, baseline: str, subject: str
) -> Finding:
    """Nothing but the kernel was exchanged: all that is not dequantization takes its time still."""
    (at,) = case.cell.places
    where = f"{case.source.file}: claim '{case.claim.id}'"
    their_share = look_up(case.source.tables, f"{shares}/{at['batch']}/overhead_percent", where)
    claim = next(c for c in case.source.claims if c.id == KERNEL_SPEEDUP)
    their_speed_up = next(c.value for c in claim.cells if c.at == case.cell.at)
    theirs = amdahl(their_share / 100, their_speed_up)

    before, after = (dequantization(case, kernel) for kernel in (baseline, subject))
    whole, shorter = (latency(case, kernel) for kernel in (baseline, subject))
    share, speed_up = before.median / whole.median, before.median / after.median
    predicted, ours = amdahl(share, speed_up), stats.ratio(whole, shorter)
    reason = (
        f"its {their_share:g} % and {their_speed_up:g} x predict {theirs:.2f} x, it reports "
        f"{value:g}; here {100 * share:.1f} % and {speed_up:.2f} x predict {predicted:.2f} x, "
        f"measured {ours.value:.2f}"
    )
    verdict = rules.reproduced_if(stats.is_at_least(predicted, ours.low, tolerance_percent))
    if not stats.is_at_least(theirs, value, tolerance_percent):
        verdict = rules.PREMISE_FALSE
        reason += (
            f"; with the share and the speed-up by which it explains the gain, {theirs:.2f} x is "
            "the most that is possible"
        )
    return Finding(verdict, reason, ours.value, ours.interval)


@rule("latency and throughput of one pair of runs give one ratio, {tolerance_percent:g} % allowed")
def one_ratio(
    case: Case, *, value: float, tolerance_percent: float, points: str, baseline: str, subject: str
) -> Finding:
    """Both runs make as many tokens, so one ratio is the other, as ours are by definition. Averages
    over several lengths of prompts need not agree.
    """
    (at,) = case.cell.places
    where = f"{case.source.file}: claim '{case.claim.id}'"
    point = f"{points}/{case.cell.model}/{at['batch']}"
    seconds, speeds = (
        [look_up(case.source.tables, f"{point}/{run}_{unit}", where) for run in RUNS]
        for unit in ("s", "tokens_per_s")
    )
    ours = stats.ratio(latency(case, baseline), latency(case, subject))
    tokens = [s * speed / at["batch"] for s, speed in zip(seconds, speeds, strict=True)]
    reason = (
        f"its seconds give {seconds[0] / seconds[1]:.2f} x, its tokens/s "
        f"{speeds[1] / speeds[0]:.2f} x: {tokens[0]:.0f} tokens per sequence before and "
        f"{tokens[1]:.0f} after"
    )
    if stats.is_within(tokens[1], tokens[0], tolerance_percent):
        return Finding(rules.REPRODUCED, reason, ours.value, ours.interval)
    reason += (
        ", where the outputs are the same, token by token: not both can be of the same two runs, "
        "but averages over prompts of several lengths may differ so"
    )
    return Finding(rules.NOT_TESTABLE, reason, ours.value, ours.interval)


RUNS = ("baseline", "optimized")


def implied(source: Source, cell: Cell, shares: str, points: str) -> tuple[float, float]:
    """Forward passes of a generation and ms of dequantization in each, if Table I (`shares`) and
    Figure 4 (`points`) are of the same runs and tokens/s counts new tokens alone.
    """
    where, batch = str(source.file), cell.at["batch"]
    row = f"{shares}/{batch}"
    share = look_up(source.tables, f"{row}/overhead_percent", where)
    total_ms = look_up(source.tables, f"{row}/kernel_latency_ms", where)
    point = f"{points}/{cell.model}/{batch}"
    speed = look_up(source.tables, f"{point}/{RUNS[0]}_tokens_per_s", where)
    passes = total_ms / (share / 100) / 1e3 * speed / batch
    return passes, total_ms / passes


@rule("the time of a forward pass that they imply is one that the source's memory allows")
def tables_agree(case: Case, *, shares: str, points: str, peak_gb_s: float, kernel: str) -> Finding:
    """Table I's seconds and Figure 4's tokens/s."""
    (at,) = case.cell.places
    passes, ms = implied(case.source, case.cell, shares, points)
    own = case.rows_of(PROFILE).measured(kernel, at, KERNEL_TIME)
    ours = own.summary_of(KERNEL_TIME).median / own.problem["tokens"] / 1e3
    least = own.bytes_moved / own.problem["tokens"] / peak_gb_s / 1e6
    reason = (
        f"if tokens/s counts new tokens alone, {passes:.0f} forward passes of {ms:.1f} ms of "
        f"dequantization; its bytes alone take {least:.1f} ms at {peak_gb_s:g} GB/s, where none "
        f"stay in the L2 cache; here {ours:.1f} ms"
    )
    if ms >= least:
        return Finding(rules.REPRODUCED, reason, ours)
    reason += "; they may be of the same runs if prompts are counted too, which it does not say"
    return Finding(rules.NOT_TESTABLE, reason, ours)


@rule("ours within {tolerance_percent:g} % of the source's value")
def size_in_memory(case: Case, *, value: float, tolerance_percent: float, kernel: str) -> Finding:
    """Of the model as bitsandbytes holds it, or with two bytes for each parameter."""
    rows, at = case.rows, {"model": case.cell.at["model"]}
    batches = [r.problem["batch"] for r in rows.results.records if at.items() <= r.problem.items()]
    row = rows.verified(kernel, at | ({"batch": min(batches)} if batches else {}))
    found = {"fp16": 2 * row.problem["parameters"], "nf4": row.problem["memory_bytes"]}
    size = found[str(case.cell.at["format"])] / 1e9
    finding = rules.judge(Estimate(size, size, size), value, tolerance_percent)
    quantized = row.problem["quantized_bytes"] / 1e9
    reason = f"{finding.reason}; its quantized layers take {quantized:.2f} GB of the NF4 model's"
    return Finding(finding.verdict, reason, size)


@rule("every token of {kernel} equals the baseline's")
def tokens_equal(case: Case, *, kernel: str) -> Finding:
    """In every generation that was compared, at all batches that the cell stands for."""
    rows = [case.rows.verified(kernel, at) for at in case.cell.places]
    wrong = [row for row in rows if row.outcome != "bit_exact"]
    if wrong:
        return Finding(rules.NOT_REPRODUCED, f"{wrong[0].place}: {wrong[0].reason}")
    tokens = sum(row.problem["batch"] * row.problem["tokens"] for row in rows)
    return Finding(rules.REPRODUCED, f"{tokens} tokens, in each generation of {len(rows)} batches")


@rule("the source's two versions ran here, or its bitsandbytes takes PyTorch from {least} on")
def versions_fit(case: Case, *, least: str) -> Finding:
    """A matter of what that bitsandbytes asks for, beside what the text here was generated with."""
    results = case.rows.results
    case.used[results.file, results.records[0].key] = None
    made_with = results.provenance["build"]["compiler"]
    theirs = {"torch": case.source.fact("pytorch")}
    theirs |= {"bitsandbytes": case.source.fact("bitsandbytes")}
    found = {name: re.search(rf"\b{name} (\d+(?:\.\d+)*)", made_with) for name in theirs}
    for name in [name for name in found if not found[name]]:
        raise NotTestable(f"the run does not say its {name}: {made_with}")
    here = f"here {' and '.join(match[0] for match in found.values())} ran"
    ours = {name: numbers_of(match[1]) for name, match in found.items()}
    wanted = {name: numbers_of(version) for name, version in theirs.items()}
    if all(ours[name][: len(wanted[name])] == wanted[name] for name in wanted):
        return Finding(rules.REPRODUCED, here)
    asks = f"bitsandbytes {theirs['bitsandbytes']} asks for PyTorch {least} or newer"
    if wanted["torch"] < numbers_of(least):
        return Finding(rules.PREMISE_FALSE, f"{asks}, which {theirs['torch']} is not; {here}")
    return Finding(rules.NOT_TESTABLE, f"{asks}, and {theirs['torch']} was not tried; {here}")


def numbers_of(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]

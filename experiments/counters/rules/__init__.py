"""Rules of single claims, for the claims that experiment counters decides."""

from collections.abc import Sequence
from contextlib import suppress

from experiments.counters.rules.machine_code import index_computation
from experiments.counters.rules.occupancy import (
    LAUNCHES,
    instructions_per_weight,
    issue_ns_per_weight,
)
from reprolab import stats
from reprolab.claims import rules
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.rules import (
    COUNTS,
    WITHIN,
    Finding,
    Ours,
    over_places,
    percent_above,
    percent_below,
    quotients,
    reproduced_if,
    rule,
    side_below,
    side_of_margins,
)
from reprolab.counter_table import NO_WAIT, WARP
from reprolab.results import Record
from reprolab.stats import Summary, significant, span

ENTRIES = 16  # of the table
STALL = "stall_"  # begins the counters of warps by what they wait for, at each issue
FOR_MEMORY, FOR_CODE = "stall_long_scoreboard", "stall_no_instruction"
FOR_LOADS = (FOR_MEMORY, "stall_short_scoreboard")
WAITS_PERCENT = 15  # that of waits for global memory, in the same runs
TRAFFIC = {"bytes of device memory": ("dram_bytes_read", "dram_bytes_written")}
TRAFFIC |= {"sectors to L2": ("l2_written_sectors", "l2_read_sectors")}
FOR_LAST = "stall_wait"  # for their own last instruction, whose latency is fixed


def spans(pairs: Sequence[Sequence[float]], digits: int = 3) -> str:
    """'52.1 to 58.7 and 12.0', of two kernels."""
    return " and ".join(span(values, digits) for values in pairs)


def percent_fewer(ratios: Sequence[float]) -> list[float]:
    return [100 * (1 - ratio) for ratio in ratios]


def waits(case: Case, kernel: str, *needed: str) -> list[dict[str, float]]:
    """The stalls of its warps on each layer, and their number at each issue."""
    stalls_of_places = []
    for at in case.cell.places:
        row, *_ = [case.measured(kernel, name, at) for name in needed]
        stalls = [n for n, m in row.metrics.items() if n.startswith(STALL) and m.samples]
        stalls_of_places.append({name: row.summary_of(name).median for name in stalls})
    return stalls_of_places


@rule(f"of a load over a load, {WITHIN}; a store has no latency")
def latency_ratio(case: Case, *, beside: str) -> Finding | Ours:
    """`slow` over `fast`, which the cell names, in cycles. A store returns nothing to wait for, so
    its number is not a latency that a load's could be divided by.

    `beside`: another latency that is shown for comparison: a table that every thread reads is in L1
    after its first access.
    """

    def cycles(kernel: str) -> Summary:
        return case.measured(kernel, "latency", {}).summary_of("latency")

    def shown(kernel: str) -> str:
        return significant(cycles(kernel).median, 3)

    slow, fast = (case.cell.at[name] for name in ("slow", "fast"))
    ours = stats.ratio(cycles(slow), cycles(fast))
    short = f"{slow} {shown(slow)} and {fast} {shown(fast)} cycles"
    here = f"{short} on this {case.results().gpu}"
    if fast == "shared_store":
        reason = (
            "divides a load by a store, which nothing waits for: here a thread can store again "
            f"after {shown('shared_store')} cycles, and what it stored can be read after "
            f"{shown('shared_store_to_load')}, where a load alone takes {shown('shared_load')}"
        )
        short = "a store is nothing that a load waits for"
        return Finding(rules.PREMISE_FALSE, reason, short=short)
    reason = f"{here}, the source's figures are of its {case.source.gpu}"
    with suppress(NotTested, NotTestable):
        reason += f"; {beside} {shown(beside)} cycles"
    return Ours(ours, reason, short)


@rule("at least {value:g} % fewer than in {baseline}, less {tolerance_percent:g} % of that")
def fewer_instructions(case: Case, *, baseline: str, subject: str) -> Finding:
    """Executed instructions on layers; for an architecture, instructions of the index
    computation."""
    if "arch" in case.cell.at:
        before, after, reason = index_computation(case, baseline, subject)
        short = f"{case.cell.text}: {span(before)} -> {span(after)} instructions per weight"
    else:
        before, after = (case.medians(k, "warp_instructions") for k in (baseline, subject))
        ends = " against ".join(f"{span([n / 1e6 for n in both])} M" for both in (before, after))
        reason = f"instructions that warps executed, per layer: {ends}"
        short = f"{span(percent_fewer(quotients(after, before)))} % fewer in all"
    percents = percent_fewer(quotients(after, before))
    bound = case.value * (1 - case.tolerance_percent / 100)
    verdict = side_of_margins([percent_above(ours, bound) for ours in percents], COUNTS)
    return over_places(verdict, f"{span(percents)} % fewer; {reason}", percents, short)


@rule("{fast} takes fewer {counted} than {slow}, by {tolerance_percent:g} % at the least")
def fewer_transactions(case: Case, *, slow: str, fast: str, counted: str) -> Finding:
    """Bytes of device memory, or sectors of 32 bytes that reach L2."""
    names = TRAFFIC[counted]
    before, after = (
        [sum(parts) for parts in zip(*(case.medians(k, n) for n in names), strict=True)]
        for k in (slow, fast)
    )
    stores = [span([n / 1e6 for n in case.medians(k, "global_stores")]) for k in (slow, fast)]
    times_fewer, least = quotients(before, after), 1 + case.tolerance_percent / 100
    of_each = [quotients(*(case.medians(k, n) for k in (slow, fast))) for n in names]
    parts = ", ".join(f"{n} {span(times)}" for n, times in zip(names, of_each, strict=True))
    short = f"{span(times_fewer)} times fewer {counted}"
    reason = f"{short} ({parts}), with {stores[0]} M store instructions in {slow} and "
    reason += f"{stores[1]} M in {fast}"
    return over_places(
        side_of_margins([percent_above(n, least) for n in times_fewer]), reason, times_fewer, short
    )


@rule("a call of {kernel} launches one kernel, and allocates nothing between launches")
def one_launch(case: Case, *, kernel: str) -> Finding:
    """The harness passes a kernel codes, scales and output, and no other memory."""
    counts = []
    for at in case.cell.places:
        row = case.verified(kernel, at)
        if not row.launch:
            raise NotTested(f"{row.place}: its launch was not recorded")
        counts.append(len(row.launch))
    short = f"{span(counts, 1)} kernel launched for each matrix"
    return over_places(reproduced_if(set(counts) == {1}), short, counts, short)


@rule(
    "{library}, or {baseline} where that did not run, reads a table in global memory at all, and "
    "{value:g} entries of it for each that {subject} reads, {tolerance_percent:g} % less allowed"
)
def table_traffic(
    case: Case, *, library: str, baseline: str, subject: str, reader: str
) -> Finding | Ours:
    """Loads of the table: a kernel's loads beyond those of `subject`'s codes and scales.

    Counted as the source does, in entries and threads: one thread of `subject` loads each once.
    """
    blocks = case.medians(subject, "blocks_launched")

    def per_block(kernel: str, metric: str = "global_loads") -> list[float]:
        return quotients(case.medians(kernel, metric), blocks, metric != "global_loads")

    def tables(kernel: str) -> list[float]:
        both = zip(per_block(kernel), per_block(subject), strict=True)
        return [(loads - others) * WARP / ENTRIES for loads, others in both]

    with suppress(NotTested):
        per_block(library)
        baseline = library
    entries, times = tables(baseline), tables(reader)
    if max(entries) >= 1:
        return Ours(stats.summarize(entries).estimate)
    kernels = (baseline, subject, reader)
    loads = ", ".join(f"{k} {span(per_block(k))}" for k in kernels)
    read = ", ".join(span(per_block(k, "dram_bytes_read")) for k in kernels)
    reason = (
        f"{baseline} reads no table: global loads a block: {loads}; {reader}, which does read "
        f"one, loads {span(times)} entries for each that {subject} loads, but from caches: bytes "
        f"that device memory is read for a block: {read}"
    )
    short = f"{baseline} reads no table"
    return Finding(rules.PREMISE_FALSE, reason, short=short)


@rule(
    "no branch in the loop of {subject} may diverge, at most one divergent branch is left for each "
    "block, and more threads are active in an instruction"
)
def no_divergence(case: Case, *, baseline: str, subject: str) -> Finding:
    """The remaining branch is the fill, by one thread of a block before the loop."""
    kernels = (baseline, subject)
    in_loop, of_tree = (case.fact(k, "branches_may_diverge") for k in (subject, baseline))
    before, after = (case.medians(kernel, "divergent_targets") for kernel in kernels)
    threads = [case.medians(kernel, "threads_per_instruction") for kernel in kernels]
    per_block = quotients(after, case.medians(subject, "blocks_launched"), may_be_zero=True)
    left = round(max(per_block), 3)  # one warp of a hundred thousand blocks is no other divergence
    holds = in_loop == 0 and left <= 1
    holds = holds and all(b < a for b, a in zip(*threads, strict=True))
    reason = (
        f"branches in the loop that may diverge: {of_tree:g} and {in_loop:g}; divergent branches "
        f"that warps took, per layer: {span([n / 1e6 for n in before])} M and "
        f"{span([n / 1e6 for n in after])} M, which are {span(per_block)} a block, where one "
        f"thread fills the table; threads per instruction, of {WARP}: {spans(threads)}"
    )
    percents = percent_fewer(quotients(after, before, may_be_zero=True))
    short = (
        f"{of_tree:g} branches in the loop become {in_loop:g}, {span(threads[0])} of {WARP} active "
    )
    short += f"threads {span(threads[1])}, and divergent branches {span(percents)} % fewer"
    return over_places(reproduced_if(holds), reason, percents, short)


@rule(
    "the memory is busier than the schedulers and at least {least:g} % busy, or global memory is "
    "what most of the waiting warps wait for; on the source's GPU, by arithmetic: the bytes take "
    "longer than issuing the instructions"
)
def memory_bound(case: Case, *, least: float, baseline: str) -> Finding:
    """Bound by bandwidth or by latency: either is enough."""
    if "by" in case.cell.at:
        return bound_by_arithmetic(case, baseline)
    memory, issue = (case.medians(baseline, f"{of}_utilisation") for of in ("dram", "issue"))
    busy = [
        min(percent_above(m, i), percent_above(m, least))
        for m, i in zip(memory, issue, strict=True)
    ]
    reasons = [
        {k: v for k, v in w.items() if k not in NO_WAIT} for w in waits(case, baseline, FOR_MEMORY)
    ]
    if min(sum(w.values()) for w in reasons) <= 0:
        raise NotTestable(f"no warps of {baseline} wait for anything")
    for_it = [w[FOR_MEMORY] for w in reasons]
    waiting = [
        percent_above(w[FOR_MEMORY], max(n for name, n in w.items() if name != FOR_MEMORY))
        for w in reasons
    ]
    first = sorted(reasons[0], key=reasons[0].__getitem__, reverse=True)[:3]
    most = ", ".join(f"{n.removeprefix(STALL)} {span([r[n] for r in reasons])}" for n in first)
    short = (
        f"{baseline} keeps device memory {span(memory)} % busy and the schedulers {span(issue)} %"
    )
    reason = (
        f"{short}; at each issue {span(for_it)} warps wait for global memory; the most common "
        f"waits: {most}"
    )
    either = {side_of_margins(busy), side_of_margins(waiting, WAITS_PERCENT)}
    verdict = next(
        v for v in (rules.REPRODUCED, rules.UNDECIDED, rules.NOT_REPRODUCED) if v in either
    )
    return over_places(verdict, reason, memory, short)


def bound_by_arithmetic(case: Case, baseline: str) -> Finding:
    """On the source's GPU, which need not be available: the time to issue compared with the time to
    move."""
    at = {name: value for name, value in case.place.items() if name != "by"}
    row, source = case.measured(baseline, "warp_instructions", at), case.source
    bandwidth = source.fact("peak_gb_s")
    issue_ms = row.problem["n"] * issue_ns_per_weight(source, row) / 1e6
    bytes_ms = row.bytes_moved / bandwidth / 1e6
    short = (
        f"on the source's {source.gpu}, issuing the instructions of {row.problem['rows']} x "
        f"{row.problem['columns']} takes {significant(issue_ms, 3)} ms, its bytes "
        f"{significant(bytes_ms, 3)} ms"
    )
    reason = (
        f"{short}: {instructions_per_weight(row):.3f} warp instructions per weight, counted on "
        f"this {case.results().gpu}, one per cycle and scheduler at "
        f"{source.fact('sm_clock_mhz')} MHz, and {bandwidth} GB/s"
    )
    share = 100 * bytes_ms / issue_ms
    verdict = side_of_margins([percent_above(share, 100)])
    return Finding(verdict, reason, share, short=short)


@rule(
    "warps wait for instructions longer than with the table, and for at least {least:g} % of their "
    "time"
)
def code_pressure(case: Case, *, least: float, literals: str, table: str) -> Finding:
    """Pressure on the instruction caches appears in the warps' stalls."""
    kernels, shares = (literals, table), []
    for kernel in kernels:
        stalls = waits(case, kernel, FOR_CODE)
        for_code, all_waits = [100 * w[FOR_CODE] for w in stalls], [sum(w.values()) for w in stalls]
        shares.append(quotients(for_code, all_waits, may_be_zero=True))
    caches = ""
    with suppress(NotTested, NotTestable):  # for comparison alone: not every GPU counts it
        asked, missed = (
            spans([[n / 1e6 for n in case.medians(k, f"icc_{what}")] for k in kernels])
            for what in ("requests", "misses")
        )
        caches = f"; the instruction caches are asked {asked} million times, and miss {missed}"
        caches += f", by a counter that is not 0 in {rows_that_miss(case)}"
    short = f"waits for code {span(shares[0], 2)} % against {span(shares[1], 2)} %"
    reason = f"warps wait for instructions {span(shares[0])} % of their time, "
    reason += f"{span(shares[1])} % with the table{caches}"
    margins = [
        min(percent_above(s, t), percent_above(s, least)) for s, t in zip(*shares, strict=True)
    ]
    verdict = side_of_margins(margins)
    return over_places(verdict, reason, quotients(*shares, may_be_zero=True), short)


def rows_that_miss(case: Case) -> str:
    """'11 of 193 rows' of all passes of this GPU: a counter that never counts shows nothing."""
    rows = (row for results in case.evidence.results.values() for row in results.records)
    counted = [m.summary.median for row in rows if (m := row.metric("icc_misses")) and m.summary]
    return f"{sum(misses > 0 for misses in counted)} of {len(counted)} rows"


@rule(
    "warps wait out their own last instruction at least {tolerance_percent:g} % less per issue, "
    "and a scheduler has more warps to choose from"
)
def less_dependent(case: Case, *, baseline: str, subject: str) -> Finding:
    """Warps wait out a fixed latency if the next instruction needs the last one's result; with more
    parallelism, more warps could also issue. Critical paths in the machine code would decide.
    """
    kernels = (baseline, subject)
    both = [waits(case, kernel, FOR_LAST, *FOR_LOADS) for kernel in kernels]
    for_last = [[w[FOR_LAST] for w in stalls] for stalls in both]
    for_loads = [[sum(w[name] for name in FOR_LOADS) for w in stalls] for stalls in both]
    eligible, busy = (
        [case.medians(kernel, name) for kernel in kernels]
        for name in ("eligible_warps", "issue_utilisation")
    )
    reason = (
        "at each issue, warps that wait out the fixed latency of their last instruction: "
        f"{spans(for_last)}; those that wait for loads: {spans(for_loads)}, so that a scheduler "
        f"has {spans(eligible)} warps to choose from and is busy {spans(busy)} % of the time"
    )
    before, after = for_last
    short = (
        f"{span(before)} warps wait out their last instruction at each issue, then {span(after)}"
    )
    ratios, bound = quotients(after, before), 1 - case.tolerance_percent / 100
    verdict = side_of_margins([percent_below(ratio, bound) for ratio in ratios])
    fewer = [percent_above(*pair) for pair in zip(eligible[1], eligible[0], strict=True)]
    if verdict == rules.REPRODUCED and side_of_margins(fewer) != rules.REPRODUCED:
        verdict = rules.UNDECIDED
        short = f"fewer waits, but also fewer eligible warps: {spans(eligible)}"
    return over_places(verdict, reason, ratios, short)


@rule(
    "at most {tolerance_percent:g} % slower than {other}, where 16 threads fill the table: by so "
    "much the source's own Table II varies over the batches, where nothing should vary"
)
def fill_is_amortised(case: Case, *, subject: str, other: str) -> Finding:
    """The common cost of both fills cancels, so this is the minimum cost of the fill."""
    ratios = [r.value for r in case.ratios(subject, other, "kernel_time", LAUNCHES)]
    instructions = quotients(*(case.medians(k, "warp_instructions") for k in (subject, other)))
    barrier = [case.medians(kernel, "stall_barrier") for kernel in (subject, other)]
    reason = (
        f"time of {subject} over {other}: {span(ratios, 4)}; "
        f"instructions: {span(instructions, 4)}; "
        f"warps that wait at a barrier, at each issue: {spans(barrier)}"
    )
    slower = [100 * (ratio - 1) for ratio in ratios]
    mean = stats.mean(case.ratios(subject, other, "kernel_time", LAUNCHES))
    ends = " to ".join(dict.fromkeys(f"{end:+.1f}" for end in (min(slower), max(slower))))
    short = f"the time differs by {ends} % from that of {other}"
    verdict = side_below(mean, 1 + case.tolerance_percent / 100, case.family_size)
    return over_places(verdict, reason, slower, short)


@rule("no look-up of {kernel} is repeated where all codes are equal")
def constant_broadcast(case: Case, *, kernel: str) -> Finding:
    """Compared with the same layer with the codes of normal weights."""

    def per_look_up(row: Record) -> float:
        return row.summary_of("idc_replays").median / (row.problem["n"] / WARP)

    equal = case.measured(kernel, "idc_replays")
    layer = {name: equal.problem[name] for name in ("rows", "columns")}
    weights = case.measured(kernel, "idc_replays", layer, "nf4_counters")
    repeats, control = per_look_up(equal), per_look_up(weights)
    if control <= 0:  # a counter that never counts shows nothing by its zero
        raise NotTestable("no look-up is repeated on the codes of weights either")
    reason = (
        "where all threads of a warp want one entry, a look-up is repeated "
        f"{significant(repeats, 3)} times; on the codes of weights "
        f"{significant(control, 3)} times, once for each further entry that its threads want"
    )
    short = f"a look-up is repeated {significant(repeats, 3)} times where all codes are equal, and "
    short += f"{significant(control, 3)} times on the codes of weights"
    return over_places(reproduced_if(repeats == 0), reason, [repeats], short)

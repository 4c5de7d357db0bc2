"""Rules of one claim alone, for the claims that experiment counters decides."""

from collections.abc import Sequence
from contextlib import suppress

from claims import rules
from claims.evidence import Case, NotTestable, NotTested
from claims.rules import WITHIN, Finding, Ours, over_places, quotients, reproduced_if, rule
from experiments.counters.rules.occupancy import (
    LAUNCHES,
    instructions_per_weight,
    issue_ns_per_weight,
)
from records import stats
from records.counter_table import NO_WAIT, WARP
from records.results import Record
from records.stats import Summary, significant, span

ENTRIES = 16  # of the table
WEIGHT_BYTES = 2  # of fp16
STALL = "stall_"  # begins the counters of warps by what they wait for, at each issue
FOR_MEMORY, FOR_CODE = "stall_long_scoreboard", "stall_no_instruction"
FOR_LOADS = (FOR_MEMORY, "stall_short_scoreboard")
FOR_LAST = "stall_wait"  # for their own last instruction, whose latency is fixed


def spans(found: Sequence[Sequence[float]], digits: int = 3) -> str:
    """'52.1 to 58.7 and 12.0', of two kernels."""
    return " and ".join(span(values, digits) for values in found)


def percent_fewer(ratios: Sequence[float]) -> list[float]:
    return [100 * (1 - ratio) for ratio in ratios]


def waits(case: Case, kernel: str, *needed: str) -> list[dict[str, float]]:
    """The stalls of its warps, on each layer, and how many at each issue."""
    found = []
    for at in case.cell.places:
        row, *_ = [case.measured(kernel, name, at) for name in needed]
        stalls = [n for n, m in row.metrics.items() if n.startswith(STALL) and m.samples]
        found.append({name: row.summary_of(name).median for name in stalls})
    return found


@rule(f"of a load over a load, {WITHIN}; a store has no latency")
def latency_ratio(case: Case, *, beside: str) -> Finding | Ours:
    """`slow` over `fast`, which the cell names, in cycles.

    A store returns nothing to wait for: whatever its number, it is no latency that a load's could
    be divided by. `beside`: another latency that is shown, and decides nothing: a table that every
    thread reads lies in L1 after its first touch.
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
        short = "15x divides a load by a store, which nothing waits for"
        return Finding(rules.PREMISE_FALSE, reason, short=short)
    reason = f"{here}, the source's figures are of its {case.source.gpu}"
    with suppress(NotTested, NotTestable):
        reason += f"; {beside} {shown(beside)} cycles"
    return Ours(ours, reason, short)


@rule("at least {value:g} % fewer than in {baseline}, less {tolerance_percent:g} % of that")
def fewer_instructions(case: Case, *, baseline: str, subject: str) -> Finding:
    """On layers, those that were executed; of an architecture, those of the index computation."""
    if "arch" in case.cell.at:
        before, after, reason = index_computation(case, baseline, subject)
        short = f"{case.cell.text}: {span(before)} -> {span(after)} instructions per weight"
    else:
        before, after = (case.medians(k, "warp_instructions") for k in (baseline, subject))
        ends = " against ".join(f"{span([n / 1e6 for n in both])} M" for both in (before, after))
        reason = f"instructions that warps executed, per layer: {ends}"
        short = f"{span(percent_fewer(quotients(after, before)))} % fewer in all"
    found = percent_fewer(quotients(after, before))
    holds = all(stats.is_at_least(ours, case.value, case.tolerance_percent) for ours in found)
    return over_places(holds, f"{span(found)} % fewer; {reason}", found, short)


def index_computation(
    case: Case, baseline: str, subject: str
) -> tuple[list[float], list[float], str]:
    """Instructions per weight of an architecture's code, before and after, in numbers and words.

    Of the tree's many ways through an index computation, the shortest counts.
    """
    before, after = ([case.fact(k, "index_per_weight.least")] for k in (baseline, subject))
    longest = significant(case.fact(baseline, "index_per_weight.all"), 3)
    reason = (
        f"index computation per weight: {span(before)} instructions on the shortest way "
        f"through {baseline}, {longest} on all of its ways together, {span(after)} in {subject}"
    )
    return before, after, reason


@rule(f"of the instructions of the index computation, before over after, {WITHIN}")
def shorter_index(case: Case, *, baseline: str, subject: str) -> Ours:
    """As many times fewer; the two counts are in the reason."""
    before, after, reason = index_computation(case, baseline, subject)
    times = stats.summarize(quotients(before, after)).estimate
    short = f"{case.cell.text}: {span(before)} -> {span(after)} instructions per weight"
    return Ours(times, reason, short, spread_percent=0)


@rule(f"of global stores that warps executed, {WITHIN}")
def fewer_stores(case: Case, *, slow: str, fast: str) -> Ours:
    both = [case.medians(kernel, "global_stores") for kernel in (slow, fast)]
    ours = stats.summarize(quotients(*both)).estimate
    millions = spans([[n / 1e6 for n in of] for of in both])
    return Ours(ours, f"{millions} M stores of {slow} and {fast}", spread_percent=0)


@rule("{table} has less code than {literals}, and fewer instructions per weight")
def more_compact(case: Case, *, literals: str, table: str) -> Finding:
    facts = ("code_bytes", "instructions_per_weight.least")
    sizes, counts = ([case.fact(k, fact) for k in (literals, table)] for fact in facts)
    reason = (
        f"{case.cell.text}: {sizes[0]:g} -> {sizes[1]:g} bytes of code, "
        f"{significant(counts[0], 3)} -> {significant(counts[1], 3)} instructions per weight"
    )
    holds = sizes[1] < sizes[0] and counts[1] < counts[0]
    return over_places(holds, reason, quotients(sizes[:1], sizes[1:]))


@rule("{table} takes fewer registers a thread than {literals}")
def fewer_registers(case: Case, *, literals: str, table: str) -> Finding:
    before, after = (case.fact(kernel, "registers") for kernel in (literals, table))
    said = f"{case.cell.text}: {after:g} registers a thread, {before:g} with literals"
    return over_places(after < before, said, [after])


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
    found, times = tables(baseline), tables(reader)
    if max(found) >= 1:
        return Ours(stats.summarize(found).estimate)
    kernels = (baseline, subject, reader)
    loads = ", ".join(f"{k} {span(per_block(k))}" for k in kernels)
    read = ", ".join(span(per_block(k, "dram_bytes_read")) for k in kernels)
    reason = (
        f"{baseline} reads no table: global loads a block: {loads}; {reader}, which does read "
        f"one, loads {span(times)} entries for each that {subject} loads, but from caches: bytes "
        f"that device memory is read for a block: {read}"
    )
    short = (
        f"{baseline} reads no table at all, so there is nothing to reduce; {reader}, ours, does, "
        f"and reads {span(times)} entries of it for each that {subject} reads"
    )
    return Finding(rules.PREMISE_FALSE, reason, short=short)


@rule(
    "no branch in the loop of {subject} may diverge, at most one divergent branch is left for each "
    "block, and more threads are active in an instruction"
)
def no_divergence(case: Case, *, baseline: str, subject: str) -> Finding:
    """The one that is left: the fill, which one thread of a block does before the loop."""
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
    found = percent_fewer(quotients(after, before, may_be_zero=True))
    short = (
        f"{of_tree:g} branches in the loop become {in_loop:g}, {span(threads[0])} of {WARP} active "
    )
    short += f"threads {span(threads[1])}, and divergent branches {span(found)} % fewer"
    return over_places(holds, reason, found, short)


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
    busy = all(m > i and m >= least for m, i in zip(memory, issue, strict=True))
    reasons = [
        {k: v for k, v in w.items() if k not in NO_WAIT} for w in waits(case, baseline, FOR_MEMORY)
    ]
    if min(sum(found.values()) for found in reasons) <= 0:
        raise NotTestable(f"no warps of {baseline} wait for anything")
    for_it = [found[FOR_MEMORY] for found in reasons]
    waits_for_it = all(
        all(found[FOR_MEMORY] > n for name, n in found.items() if name != FOR_MEMORY)
        for found in reasons
    )
    first = sorted(reasons[0], key=reasons[0].__getitem__, reverse=True)[:3]
    most = ", ".join(f"{n.removeprefix(STALL)} {span([r[n] for r in reasons])}" for n in first)
    short = (
        f"{baseline} keeps device memory {span(memory)} % busy and the schedulers {span(issue)} %"
    )
    reason = (
        f"{short}; at each issue {span(for_it)} warps wait for global memory; the most common "
        f"waits: {most}"
    )
    return over_places(busy or waits_for_it, reason, memory, short)


def bound_by_arithmetic(case: Case, baseline: str) -> Finding:
    """On the source's GPU, which need not be at hand: the time to issue against that to move."""
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
    return Finding(reproduced_if(bytes_ms > issue_ms), reason, share, short=short)


@rule(
    "warps wait for instructions longer than with the table, and for at least {least:g} % of their "
    "time"
)
def code_pressure(case: Case, *, least: float, literals: str, table: str) -> Finding:
    """Pressure on the instruction caches shows in the warps' stalls."""
    kernels, shares = (literals, table), []
    for kernel in kernels:
        found = waits(case, kernel, FOR_CODE)
        for_code, all_waits = [100 * w[FOR_CODE] for w in found], [sum(w.values()) for w in found]
        shares.append(quotients(for_code, all_waits, may_be_zero=True))
    caches = ""
    with suppress(NotTested, NotTestable):  # for comparison alone: not every GPU counts it
        asked, missed = (
            spans([[n / 1e6 for n in case.medians(k, f"icc_{what}")] for k in kernels])
            for what in ("requests", "misses")
        )
        caches = f"; the instruction caches are asked {asked} million times, and miss {missed}"
    short = f"waits for code {span(shares[0], 2)} % against {span(shares[1], 2)} %"
    reason = f"warps wait for instructions {span(shares[0])} % of their time, "
    reason += f"{span(shares[1])} % with the table{caches}"
    holds = all(s > t and s >= least for s, t in zip(*shares, strict=True))
    return over_places(holds, reason, quotients(*shares, may_be_zero=True), short)


@rule("warps wait out their own last instruction at least {tolerance_percent:g} % less per issue")
def less_dependent(case: Case, *, baseline: str, subject: str) -> Finding:
    """A fixed latency is waited out where the next instruction needs the last one's result."""
    kernels = (baseline, subject)
    both = [waits(case, kernel, FOR_LAST, *FOR_LOADS) for kernel in kernels]
    for_last = [[w[FOR_LAST] for w in found] for found in both]
    for_loads = [[sum(w[name] for name in FOR_LOADS) for w in found] for found in both]
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
    found = quotients(after, before)
    holds = all(ratio <= 1 - case.tolerance_percent / 100 for ratio in found)
    return over_places(holds, reason, found, short)


@rule(
    "at most {tolerance_percent:g} % slower than {other}, where 16 threads fill the table: by so "
    "much the source's own Table II varies over the batches, where nothing should vary"
)
def fill_is_amortised(case: Case, *, subject: str, other: str) -> Finding:
    """The cost of both fills is left out, so that this is the least that the fill can cost."""
    found = [r.value for r in case.ratios(subject, other, "kernel_time", LAUNCHES)]
    instructions = quotients(*(case.medians(k, "warp_instructions") for k in (subject, other)))
    barrier = [case.medians(kernel, "stall_barrier") for kernel in (subject, other)]
    reason = (
        f"time of {subject} over {other}: {span(found, 4)}; instructions: {span(instructions, 4)}; "
        f"warps that wait at a barrier, at each issue: {spans(barrier)}"
    )
    slower = [100 * (ratio - 1) for ratio in found]
    median = stats.summarize(slower).median
    ends = " to ".join(dict.fromkeys(f"{end:+.1f}" for end in (min(slower), max(slower))))
    short = f"the time differs by {ends} % from that of {other}"
    return over_places(median <= case.tolerance_percent, reason, slower, short)


@rule("no look-up of {kernel} is repeated where all codes are equal")
def constant_broadcast(case: Case, *, kernel: str) -> Finding:
    """Beside the same layer with codes as weights have them."""

    def per_look_up(row: Record) -> float:
        return row.summary_of("idc_replays").median / (row.problem["n"] / WARP)

    equal = case.measured(kernel, "idc_replays")
    layer = {name: equal.problem[name] for name in ("rows", "columns")}
    weights = case.measured(kernel, "idc_replays", layer, "nf4_counters")
    found, control = per_look_up(equal), per_look_up(weights)
    if control <= 0:  # a counter that never counts shows nothing by its zero
        raise NotTestable("no look-up is repeated on the codes of weights either")
    reason = (
        "where all threads of a warp want one entry, a look-up is repeated "
        f"{significant(found, 3)} times; on the codes of weights "
        f"{significant(control, 3)} times, once for each further entry that its threads want"
    )
    short = f"a look-up is repeated {significant(found, 3)} times where all codes are equal, and "
    short += f"{significant(control, 3)} times on the codes of weights"
    return over_places(found == 0, reason, [found], short)


@rule("nothing: it is a judgement, beside which stands what a compiler makes of {kernel}")
def judgement_of_a_compiler(case: Case, *, kernel: str) -> Finding:
    """The compiler's code of a kernel without widths and without a loop unrolled by hand."""
    is_store = case.cell.at["what"] == "packed stores"
    fact = "widest_global_store_bytes" if is_store else "weights_per_trip"
    try:
        row = case.compiled(kernel, fact)
    except NotTested as nothing:
        raise NotTested(f"{nothing} (make triton compiles it)") from None
    found = row.summary_of(f"sass_{fact}").median
    weights = found / WEIGHT_BYTES if is_store else found
    if weights < 1:
        raise NotTestable(f"{row.place}: {fact} is less than one weight")
    does = f"gives a thread {weights:g} weights to decode without a jump"
    if is_store:
        does = f"stores up to {found:g} bytes at once from a thread, {weights:g} weights"
    short = f"{row.maker} {does}, unasked"
    reason = f"of the tiles of {kernel}, {short}"
    return Finding(rules.NOT_TESTABLE, reason, weights, short=short)

"""Rules of one claim alone, for the claims that experiment counters decides."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from claims.arithmetic import bound_by_arithmetic
from claims.evidence import NotTestable, NotTested
from claims.occupancy import LAUNCHES, WARP
from claims.rules import (
    NOT_TESTABLE,
    PREMISE_FALSE,
    REPRODUCED,
    THIS_GPU,
    Case,
    Finding,
    judge,
    over_places,
    quotients,
    rule,
)
from records import stats
from records.results import Record
from records.stats import Summary, significant, span

ENTRIES = 16  # of the table
STALL = "stall_"  # begins the counters of warps by what they wait for, at each issue
NO_WAIT = ("stall_selected", "stall_not_selected")  # of these: warps that could have issued


def percent_fewer(ratios: Sequence[float]) -> list[float]:
    return [100 * (1 - ratio) for ratio in ratios]


def waits(case: Case, kernel: str, *needed: str) -> list[dict[str, float]]:
    """What its warps wait for, on each layer, and how many at each issue."""
    found = []
    for at in case.cell.places:
        row, *_ = [case.rows.measured(kernel, at, name) for name in needed]
        stalls = [n for n, m in row.metrics.items() if n.startswith(STALL) and m.samples]
        found.append({name: row.summary_of(name).median for name in stalls})
    return found


def shown(case: Case, kernels: Sequence[str], metric: str) -> str:
    """For comparison alone: not every GPU counts it."""
    try:
        return " and ".join(span(case.medians(kernel, metric), 1) for kernel in kernels)
    except (NotTested, NotTestable):
        return "an unknown number of"


@rule(
    "at least the source's ratio, less {tolerance_percent:g} %; where it has none, for an L1 hit "
    "over shared memory, at least {least:g} less the same tolerance"
)
def latency_ratio(
    case: Case,
    *,
    tolerance_percent: float,
    metric: str,
    least: float,
    load: str,
    store: str,
    stored_and_loaded: str,
    value: float | None = None,
) -> Finding:
    """`slow` over `fast`, which the cell names, in cycles.

    A table that every thread reads lies in L1 after its first touch: a cell without a value asks
    whether shared memory has the source's advantage there too. A store returns nothing to wait for:
    whatever its number, it is no latency that a load's could be divided by.
    """

    def cycles(kernel: str) -> Summary:
        return case.rows.measured(kernel, {}, metric).summary_of(metric)

    slow, fast = (case.cell.at[name] for name in ("slow", "fast"))
    ours = stats.ratio(cycles(slow), cycles(fast))
    both = " and ".join(f"{k} {significant(cycles(k).median, 3)}" for k in (slow, fast))
    here = f"{both} cycles on this {case.rows.results.gpu}"
    if value is None:
        holds = stats.is_at_least(ours.value, least, tolerance_percent)
        reason = f"{here}: a table of 64 bytes that every thread reads is in L1 after its first use"
        short = f"{both} cycles"
        verdict = REPRODUCED if holds else PREMISE_FALSE
        return Finding(verdict, reason, ours.value, ours.interval, short)
    if fast == store:
        reason = (
            "divides a load by a store, which nothing waits for: here a thread can store again "
            f"after {significant(cycles(store).median, 3)} cycles, and what it stored can be read "
            f"after {significant(cycles(stored_and_loaded).median, 3)}, where a load alone takes "
            f"{significant(cycles(load).median, 3)}"
        )
        short = "15x divides a load by a store, which nothing waits for"
        return Finding(PREMISE_FALSE, reason, short=short)
    found = judge(case, ours, value, tolerance_percent)
    reason = f"{here}, the source's figures are of its {case.source.gpu}; {found.reason}"
    return replace(found, reason=reason, short=f"{both} cycles")


@rule("at least {value:g} % fewer than in {baseline}, less {tolerance_percent:g} % of that")
def fewer_instructions(
    case: Case,
    *,
    value: float,
    tolerance_percent: float,
    metric: str,
    index: str,
    baseline: str,
    subject: str,
) -> Finding:
    """On layers, those that were executed; of an architecture, those of the index computation."""
    if "arch" in case.cell.at:
        before, after, reason = index_computation(case, index, baseline, subject)
        short = f"{span(before)} to {span(after)} instructions per weight"
    else:
        before, after = (case.medians(kernel, metric) for kernel in (baseline, subject))
        ends = " against ".join(f"{span([n / 1e6 for n in both])} M" for both in (before, after))
        reason = f"instructions that warps executed, per layer: {ends}"
        short = f"{span(percent_fewer(quotients(after, before)))} % fewer in all"
    found = percent_fewer(quotients(after, before))
    holds = all(stats.is_at_least(ours, value, tolerance_percent) for ours in found)
    return over_places(holds, f"{span(found)} % fewer; {reason}", found, short)


def index_computation(
    case: Case, index: str, baseline: str, subject: str
) -> tuple[list[float], list[float], str]:
    """Instructions per weight of an architecture's code, before and after, in numbers and words.

    Of the tree's many ways through an index computation, the shortest counts.
    """
    arch = case.cell.at["arch"]
    before, after = ([case.compiled(k, arch, f"{index}.least")] for k in (baseline, subject))
    longest = significant(case.compiled(baseline, arch, f"{index}.all"), 3)
    reason = (
        f"index computation per weight: {span(before)} instructions on the shortest way "
        f"through {baseline}, {longest} on all of its ways together, {span(after)} in {subject}"
    )
    return before, after, reason


@rule("index computation takes at least {value:g} times fewer instructions, as from 7 to 2")
def shorter_index(
    case: Case, *, value: float, tolerance_percent: float, index: str, baseline: str, subject: str
) -> Finding:
    """As many times fewer; the two counts are in the reason."""
    before, after, reason = index_computation(case, index, baseline, subject)
    (ours,) = quotients(before, after)
    found = judge(case, stats.summarize([ours]).estimate, value, tolerance_percent, 0)
    short = f"{span(before)} to {span(after)} instructions per weight, where it says 7 to 2"
    return replace(found, reason=f"{reason}; {found.reason}", short=short)


@rule("{subject} has less code than {baseline}, and fewer instructions per weight")
def more_compact(case: Case, *, baseline: str, subject: str) -> Finding:
    arch = case.cell.at["arch"]
    facts = ("code_bytes", "instructions_per_weight.least")
    sizes, counts = ([case.compiled(k, arch, f) for k in (baseline, subject)] for f in facts)
    reason = (
        f"{sizes[0]:g} bytes of code become {sizes[1]:g}, and {significant(counts[0], 3)} "
        f"instructions per weight {significant(counts[1], 3)}"
    )
    holds = sizes[1] < sizes[0] and counts[1] < counts[0]
    return over_places(holds, reason, quotients(sizes[:1], sizes[1:]))


@rule(
    "{library}, or {baseline} where that did not run, reads a table in global memory as often for "
    "{subject}'s once as the source says, or as {reader} does, within {tolerance_percent:g} %"
)
def table_traffic(
    case: Case,
    *,
    tolerance_percent: float,
    library: str,
    baseline: str,
    subject: str,
    reader: str,
    value: float | None = None,
) -> Finding:
    """What a kernel loads beyond `subject`'s codes and scales are its loads of the table.

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
    if max(found) < 1:
        kernels = (baseline, subject, reader)
        loads = ", ".join(f"{k} {span(per_block(k))}" for k in kernels)
        read = ", ".join(span(per_block(k, "dram_bytes_read")) for k in kernels)
        reason = (
            f"{baseline} reads no table: global loads a block: {loads}; {reader}, which does read "
            f"one, loads it {span(times)} times for {subject}'s once, but from caches: bytes that "
            f"device memory is read for a block: {read}"
        )
        short = (
            f"{baseline} reads no table at all, so there is nothing to reduce; a kernel that does "
            f"read one, {reader}, reads it {span(times)} times as often"
        )
        return Finding(PREMISE_FALSE, reason, short=short)
    wanted = stats.summarize(times).median if value is None else value
    return judge(case, stats.summarize(found).estimate, wanted, tolerance_percent)


@rule(
    "no branch in the loop of {subject} may diverge, at most one divergent branch is left for each "
    "block, and more threads are active in an instruction"
)
def no_divergence(case: Case, *, baseline: str, subject: str) -> Finding:
    """The one that is left: the fill, which one thread of a block does before the loop."""
    in_loop = case.compiled(subject, THIS_GPU, "branches_may_diverge")
    of_tree = case.compiled(baseline, THIS_GPU, "branches_may_diverge")
    before, after = (case.medians(k, "divergent_targets") for k in (baseline, subject))
    threads = [case.medians(k, "threads_per_instruction") for k in (baseline, subject)]
    per_block = quotients(after, case.medians(subject, "blocks_launched"), may_be_zero=True)
    left = round(max(per_block), 3)  # one warp of a hundred thousand blocks is no other divergence
    holds = in_loop == 0 and left <= 1
    holds = holds and all(b < a for b, a in zip(*threads, strict=True))
    reason = (
        f"branches in the loop that may diverge: {of_tree:g} and {in_loop:g}; divergent branches "
        f"that warps took, per layer: {span([n / 1e6 for n in before])} M and "
        f"{span([n / 1e6 for n in after])} M, which are {span(per_block)} a block, where one "
        f"thread fills the table; threads per instruction, of {WARP}: {span(threads[0])} and "
        f"{span(threads[1])}"
    )
    found = percent_fewer(quotients(after, before, may_be_zero=True))
    short = f"{of_tree:g} branches in the loop become {in_loop:g}, and {span(threads[0])} active "
    short += f"threads {span(threads[1])} of {WARP}"
    return over_places(holds, reason, found, short)


@rule(
    "the memory is busier than the schedulers and at least {least:g} % busy, or global memory is "
    "what most of the waiting warps wait for; on the source's GPU, by arithmetic: the bytes take "
    "longer than issuing the instructions"
)
def memory_bound(case: Case, *, least: float, baseline: str, waiting: str) -> Finding:
    """Bound by bandwidth or by latency: either is enough."""
    if "by" in case.cell.at:
        return bound_by_arithmetic(case, baseline)
    memory, issue = (case.medians(baseline, f"{of}_utilisation") for of in ("dram", "issue"))
    reasons = [
        {k: v for k, v in w.items() if k not in NO_WAIT} for w in waits(case, baseline, waiting)
    ]
    busy = all(m > i and m >= least for m, i in zip(memory, issue, strict=True))
    if min(sum(found.values()) for found in reasons) <= 0:
        raise NotTestable(f"no warps of {baseline} wait for anything")
    waits_for_it = all(
        all(found[waiting] > n for name, n in found.items() if name != waiting) for found in reasons
    )
    first = sorted(reasons[0], key=reasons[0].__getitem__, reverse=True)[:3]
    most = ", ".join(f"{n.removeprefix(STALL)} {span([r[n] for r in reasons])}" for n in first)
    short = (
        f"{baseline} keeps device memory {span(memory)} % busy and the schedulers {span(issue)} %"
    )
    reason = (
        f"{short}; at each issue {span([r[waiting] for r in reasons])} warps wait for global "
        f"memory; the most common waits: {most}"
    )
    return over_places(busy or waits_for_it, reason, memory, short)


@rule(
    "code: larger with literals; run: warps wait for instructions longer than with the table, "
    "and for at least {least:g} % of their time"
)
def code_pressure(
    case: Case, *, least: float, waiting: str, misses: str, literals: str, table: str
) -> Finding:
    """The size is of compiled code; whether the caches feel it shows in what warps wait for."""
    kernels = (literals, table)
    if "arch" in case.cell.at:
        arch = case.cell.at["arch"]
        sizes = [case.compiled(kernel, arch, "code_bytes") for kernel in kernels]
        reason = f"{sizes[0]:g} bytes of code in {literals}, {sizes[1]:g} in {table}"
        short = f"{sizes[0]:g} bytes against {sizes[1]:g}"
        return over_places(sizes[0] > sizes[1], reason, quotients(sizes[:1], sizes[1:]), short)
    all_waits = [waits(case, kernel, waiting) for kernel in kernels]
    parts = [
        ([100 * w[waiting] for w in found], [sum(w.values()) for w in found]) for found in all_waits
    ]
    shares = [quotients(*part, may_be_zero=True) for part in parts]
    missed = shown(case, kernels, misses)
    short = f"waits for code {span(shares[0], 2)} % against {span(shares[1], 2)} %"
    reason = f"warps wait for instructions {span(shares[0])} % of their time, "
    reason += f"{span(shares[1])} % with the table; "
    reason += f"the instruction caches of the multiprocessors miss {missed} times"
    holds = all(s > t and s >= least for s, t in zip(*shares, strict=True))
    return over_places(holds, reason, quotients(*shares, may_be_zero=True), short)


@rule("warps wait out their own last instruction at least {tolerance_percent:g} % less per issue")
def less_dependent(
    case: Case, *, tolerance_percent: float, waiting: str, baseline: str, subject: str
) -> Finding:
    """A fixed latency is waited out where the next instruction needs the last one's result."""
    loads = ("stall_long_scoreboard", "stall_short_scoreboard")
    both = [waits(case, kernel, waiting, *loads) for kernel in (baseline, subject)]
    before, after = ([w[waiting] for w in found] for found in both)
    found = quotients(after, before)
    for_loads = " and ".join(span([sum(w[n] for n in loads) for w in found]) for found in both)
    eligible = [case.medians(kernel, "eligible_warps") for kernel in (baseline, subject)]
    reason = (
        "at each issue, warps that wait out the fixed latency of their last instruction: "
        f"{span(before)} and {span(after)}; those that wait for loads: {for_loads}, so that a "
        f"scheduler has {span(eligible[0])} and {span(eligible[1])} warps to choose from"
    )
    short = (
        f"{span(before)} warps wait out their last instruction at each issue, then {span(after)}"
    )
    holds = all(r <= 1 - tolerance_percent / 100 for r in found)
    return over_places(holds, reason, found, short)


@rule(
    "at most {tolerance_percent:g} % slower than {other}, where 16 threads fill the table: by so "
    "much the source's own Table II varies over the batches, where nothing should vary"
)
def fill_is_amortised(case: Case, *, tolerance_percent: float, subject: str, other: str) -> Finding:
    """What the other fill costs is left out, so that this is the least that the fill can cost."""
    found = [r.value for r in case.ratios(subject, other, "kernel_time", LAUNCHES)]
    instructions = quotients(*(case.medians(k, "warp_instructions") for k in (subject, other)))
    barrier = [case.medians(kernel, "stall_barrier") for kernel in (subject, other)]
    reason = (
        f"time of {subject} over {other}: {span(found, 4)}; instructions: {span(instructions, 4)}; "
        f"warps that wait at a barrier, at each issue: {span(barrier[0])} and {span(barrier[1])}"
    )
    slower = [100 * (ratio - 1) for ratio in found]
    median = stats.summarize(slower).median
    ends = " to ".join(dict.fromkeys(f"{end:+.1f}" for end in (min(slower), max(slower))))
    short = f"the time differs by {ends} % from that of {other}"
    return over_places(median <= tolerance_percent, reason, slower, short)


@rule("no look-up of {kernel} is repeated where all codes are equal")
def constant_broadcast(case: Case, *, kernel: str, metric: str, mixed: str) -> Finding:
    """`mixed`: a pass with the same layer and codes as weights have them, for comparison."""
    (at,) = case.cell.places

    def per_look_up(row: Record) -> float:
        return row.summary_of(metric).median / (row.problem["n"] / WARP)

    equal = case.rows.measured(kernel, at, metric)
    layer = {name: equal.problem[name] for name in ("rows", "columns")}
    weights = case.rows_of(mixed).measured(kernel, layer, metric)
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


@rule("a judgement, beside which stands what the compiler of {kernel} makes of ten plain lines")
def judgement_of_a_compiler(case: Case, *, kernel: str, weight_bytes: float) -> Finding:
    """What a compiler made of a kernel that names no widths and has no loop to unroll by hand."""
    arch, what = case.cell.at["arch"], case.cell.at["what"]
    fact = PATHS[what]
    try:
        row = case.compiled_row(kernel, arch, fact)
    except NotTested as nothing:
        raise NotTested(f"{nothing} (make triton compiles it)") from None
    found = row.summary_of(f"sass_{fact}").median
    if fact.endswith("_bytes"):
        does = f"stores up to {found:g} bytes at once from a thread"
        found /= weight_bytes
        does += f", {found:g} weights"
    else:
        does = f"gives a thread {found:g} weights to decode without a jump"
    if found < 1:
        raise NotTestable(f"{row.place}: {fact} is less than one weight")
    short = f"{row.maker} {does}, unasked"
    return Finding(NOT_TESTABLE, f"of the tiles of {kernel}, {short}", found, short=short)


# By what the cell asks for: the fact of the code that shows it.
PATHS = {"packed stores": "widest_global_store_bytes", "unrolling": "weights_per_trip"}

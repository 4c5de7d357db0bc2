"""Rules of single claims, for the claims that experiment counters decides: of counters, compiled
code, occupancy and issue rates, also for GPUs that are not available.

Sources: for limits the CUDA C++ Programming Guide, technical specifications per compute capability;
for allocation units of registers and shared memory the toolkit's cuda_occupancy.h.
"""

from contextlib import suppress
from dataclasses import dataclass

from reprolab import stats
from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.published import Source
from reprolab.claims.rules import (
    COUNTS,
    WITHIN,
    Verdict,
    all_above,
    all_below,
    judge,
    over_places,
    part_of_saving,
    quotients,
    reproduced_if,
    rule,
    side_below,
)
from reprolab.results import KERNEL_TIME, NO_WAIT, WARP, Row
from reprolab.stats import significant, span

LAUNCHES = "counters/nf4_launches"  # the pass with times and launch facts
WEIGHT_BYTES = 2  # of fp16
ENTRIES = 16  # of the table
STALL = "stall_"  # begins the counters of warps by what they wait for, at each issue
FOR_MEMORY, FOR_CODE = "stall_long_scoreboard", "stall_no_instruction"
FOR_LAST = "stall_wait"  # for their own last instruction, whose latency is fixed
WAITS_PERCENT = 15  # guard band of waits for global memory: so far apart in repeated runs
TRAFFIC = {"bytes of device memory": ("dram_bytes_read", "dram_bytes_written")}
TRAFFIC |= {"sectors to L2": ("l2_written_sectors", "l2_read_sectors")}


@dataclass(frozen=True)
class Multiprocessor:
    """A multiprocessor of 65536 registers and 4 schedulers."""

    gpu: str  # one that has it, with its article
    warps: int
    blocks: int
    shared_bytes: int
    shared_unit: int
    reserved_bytes: int  # of shared memory in each block, for CUDA itself

    def blocks_that_fit(self, threads: int, registers: int, shared_bytes: int) -> int:
        warps = -(-threads // WARP)
        shared = in_units(shared_bytes + self.reserved_bytes, self.shared_unit)
        by_registers = 4 * (65536 // 4 // in_units(WARP * registers, 256))  # warps
        by_shared_memory = self.shared_bytes // shared if shared else self.blocks
        return min(self.blocks, self.warps // warps, by_registers // warps, by_shared_memory)


def in_units(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


MULTIPROCESSORS = {
    "sm_75": Multiprocessor("a T4", 32, 16, 64 << 10, 256, 0),
    "sm_80": Multiprocessor("an A100", 64, 32, 164 << 10, 128, 1 << 10),
    "sm_89": Multiprocessor("an L4", 48, 24, 100 << 10, 128, 1 << 10),
    "sm_90": Multiprocessor("an H100", 64, 32, 228 << 10, 128, 1 << 10),
}


def issue_ns_per_weight(source: Source, row: Row) -> float:
    """The minimum time on the source's GPU, if all schedulers issue in every cycle. `row`: of its
    warp instructions."""
    schedulers = 4 * source.setup["multiprocessors"]  # of Ampere and Hopper alike
    per_weight = quotients([row.median], [row.problem["n"]])[0]
    return per_weight / (schedulers * source.setup["sm_clock_mhz"] / 1e3)


def launches_of(row: Row) -> list[dict]:
    if not row.launch:
        raise NotTested(f"{row.place}: its launch was not recorded")
    return row.launch


def launch_of(row: Row) -> dict:
    first, *others = launches_of(row)
    if others:
        raise NotTestable(f"{row.place}: launches {len(row.launch)} kernels")
    return first


@rule("a block of {subject} takes {value:g} bytes; or so many more than one of the baseline named")
def shared_memory(case: Case, *, subject: str, baseline: str = "") -> Verdict:
    """The exact number of bytes. `baseline`: a kernel whose bytes are subtracted."""

    def shared_bytes(kernel: str) -> list[int]:
        launches = [launch_of(case.verified(kernel, at)) for at in case.cell.places]
        return [x["static_shared_bytes"] + x["dynamic_shared_bytes"] for x in launches]

    after = shared_bytes(subject)
    before = shared_bytes(baseline) if baseline else [0] * len(after)
    added = [a - b for a, b in zip(after, before, strict=True)]
    return over_places(
        reproduced_if(set(added) == {case.cell.value}), f"{span(after, 1)} in all", added
    )


@rule("from {least:g} to {most:g} blocks fit on a multiprocessor of the cell's architecture")
def blocks_resident(
    case: Case, *, least: float, most: float, warps: float = 0, threads: float = 0
) -> Verdict:
    """By the limits of an architecture and the compiled code, independent of the GPU.

    `warps`: the source's number of warps on a multiprocessor; 0 if it gives none. `threads` of a
    block, if they differ from the source's kernel.
    """
    kernel, arch = case.cell.at["kernel"], case.cell.at["arch"]
    names = ("registers", "static_shared_bytes")
    registers, shared = (int(case.compiled(kernel, name).median) for name in names)
    threads = int(threads) or case.source.setup["kernel"]["threads_per_block"]
    sm = MULTIPROCESSORS[arch]
    fit = sm.blocks_that_fit(threads, registers, shared)
    if warps and warps != sm.warps:
        return Verdict(rules.CONTRADICTED, f"{sm.gpu} holds {sm.warps} warps, not {warps:g}", fit)
    note = f"{threads} threads, {registers} registers a thread, {shared} bytes of shared memory"
    return Verdict(reproduced_if(least <= fit <= most), note, fit)


def index_computation(case: Case, baseline: str, subject: str) -> tuple[float, float, str]:
    """Instructions per weight of an architecture's code, before and after. The tree's index
    computation has many paths, of which the shortest counts.
    """
    before, after = (case.compiled(k, "index_per_weight.least").median for k in (baseline, subject))
    return before, after, f"{significant(before, 3)} -> {significant(after, 3)} per weight"


@rule(f"of the instructions of the index computation, before over after, {WITHIN}")
def shorter_index(case: Case, *, baseline: str, subject: str) -> Verdict:
    before, after, note = index_computation(case, baseline, subject)
    times = stats.summarize(quotients([before], [after])).estimate
    return judge(case, times, note, spread_percent=0)


@rule("at most {value:g} instructions per weight, on the shortest path through {kernel}")
def index_count(case: Case, *, kernel: str) -> Verdict:
    """The index computation in an architecture's code."""
    count = case.compiled(kernel, "index_per_weight.least").median
    return Verdict(all_below([count], case.cell.value, COUNTS), kernel, count)


@rule("{table} has less code than {literals}, and fewer instructions per weight")
def more_compact(case: Case, *, literals: str, table: str) -> Verdict:
    facts = ("code_bytes", "instructions_per_weight.least")
    sizes, counts = ([case.compiled(k, fact).median for k in (literals, table)] for fact in facts)
    note = f"{sizes[0]:g} -> {sizes[1]:g} bytes, "
    note += f"{significant(counts[0], 3)} -> {significant(counts[1], 3)} instructions per weight"
    holds = sizes[1] < sizes[0] and counts[1] < counts[0]
    return over_places(reproduced_if(holds), note, quotients(sizes[:1], sizes[1:]))


@rule("{table} takes fewer registers a thread than {literals}")
def fewer_registers(case: Case, *, literals: str, table: str) -> Verdict:
    before, after = (case.compiled(kernel, "registers").median for kernel in (literals, table))
    return over_places(reproduced_if(after < before), f"{before:g} with literals", [after])


@rule("nothing: it is a judgement, shown with what a compiler makes of {kernel}")
def judgement_of_a_compiler(case: Case, *, kernel: str) -> Verdict:
    """The compiled code of a kernel that names no widths and has no manually unrolled loop."""
    is_store = case.cell.at["what"] == "packed stores"
    fact = "widest_global_store_bytes" if is_store else "weights_per_trip"
    try:
        row = case.compiled(kernel, fact)
    except NotTested as nothing:
        raise NotTested(f"{nothing} (make triton compiles it)") from None
    weights = row.median / WEIGHT_BYTES if is_store else row.median
    if weights < 1:
        raise NotTestable(f"{row.place}: {fact} is less than one weight")
    does = f"stores {weights:g} weights at once" if is_store else f"decodes {weights:g} in a row"
    return Verdict(rules.NOT_TESTABLE, f"{row.maker} {does}, unasked", weights)


def waits(case: Case, kernel: str, needed: str) -> list[dict[str, float]]:
    """The stalls of its warps on each layer, and their number at each issue."""
    stalls_of_places = []
    for at in case.cell.places:
        row = case.measured(kernel, needed, at)
        stalls = {n: m for n, m in row.metrics.items() if n.startswith(STALL) and m.samples}
        stalls_of_places.append({name: metric.median for name, metric in stalls.items()})
    return stalls_of_places


@rule(f"of a load over a load, {WITHIN}; a store has no latency")
def latency_ratio(case: Case) -> Verdict:
    """`slow` over `fast`, which the cell names, in cycles. A store returns nothing to wait for, so
    its number is not a latency that a load's could be divided by.
    """
    slow, fast = (case.cell.at[name] for name in ("slow", "fast"))
    rows = [case.measured(kernel, "latency", {}) for kernel in (slow, fast)]
    medians = (f"{r.kernel} {significant(r.median, 3)}" for r in rows)
    note = f"{', '.join(medians)} cycles"
    if fast == "shared_store":
        return Verdict(rules.PREMISE_FALSE, f"{note}, for which nothing waits")
    return judge(case, uncertainty.log_ratio(*rows).ratio, note)


@rule("at least {value:g} % fewer than in {baseline}, less {tolerance_percent:g} % of that")
def fewer_instructions(case: Case, *, baseline: str, subject: str) -> Verdict:
    """Executed instructions on layers; for an architecture, instructions of the index
    computation."""
    if "arch" in case.cell.at:
        *both, note = index_computation(case, baseline, subject)
        before, after = ([count] for count in both)
    else:
        before, after = (case.medians(k, "warp_instructions") for k in (baseline, subject))
        ends = " -> ".join(span([n / 1e6 for n in both]) for both in (before, after))
        note = f"{ends} million executed by warps, per layer"
    percents = [100 * (1 - ratio) for ratio in quotients(after, before)]
    bound = case.cell.value * (1 - case.cell.tolerance_percent / 100)
    return over_places(all_above(percents, bound, COUNTS), note, percents)


@rule("{fast} takes fewer {counted} than {slow}, by {tolerance_percent:g} % at the least")
def fewer_transactions(case: Case, *, slow: str, fast: str, counted: str) -> Verdict:
    """Bytes of device memory, or sectors of 32 bytes that reach L2."""
    before, after = (
        [sum(parts) for parts in zip(*(case.medians(k, n) for n in TRAFFIC[counted]), strict=True)]
        for k in (slow, fast)
    )
    stores = " -> ".join(
        span([n / 1e6 for n in case.medians(k, "global_stores")]) for k in (slow, fast)
    )
    times_fewer, least = quotients(before, after), 1 + case.cell.tolerance_percent / 100
    kind = all_above(times_fewer, least)
    return over_places(kind, f"{counted}; store instructions {stores} million", times_fewer)


@rule("a call of {kernel} launches one kernel, and allocates nothing between launches")
def one_launch(case: Case, *, kernel: str) -> Verdict:
    """The harness passes a kernel codes, scales and output, and no other memory."""
    counts = [len(launches_of(case.verified(kernel, at))) for at in case.cell.places]
    return over_places(reproduced_if(set(counts) == {1}), "launches of a call", counts)


@rule(
    "{library}, or {baseline} where that did not run, reads a table in global memory at all, and "
    "{value:g} entries of it for each that {subject} reads, {tolerance_percent:g} % less allowed"
)
def table_traffic(case: Case, *, library: str, baseline: str, subject: str) -> Verdict:
    """Loads of the table: a kernel's loads beyond those of `subject`'s codes and scales.

    Counted as the source does, in entries and threads: one thread of `subject` loads each once.
    """
    blocks = case.medians(subject, "blocks_launched")
    with suppress(NotTested):
        case.medians(library, "global_loads")
        baseline = library
    loads, others = (
        quotients(case.medians(k, "global_loads"), blocks) for k in (baseline, subject)
    )
    entries = [(n - m) * WARP / ENTRIES for n, m in zip(loads, others, strict=True)]
    if max(entries) >= 1:
        return judge(case, stats.summarize(entries).estimate)
    note = f"{baseline} reads no table: {span(loads)} loads a block, {subject} {span(others)}"
    return Verdict(rules.PREMISE_FALSE, note)


@rule(
    "no branch in the loop of {subject} may diverge, at most one divergent branch is left for each "
    "block, and more threads are active in an instruction"
)
def no_divergence(case: Case, *, baseline: str, subject: str) -> Verdict:
    """The remaining branch is the fill, by one thread of a block before the loop."""
    kernels = (baseline, subject)
    of_tree, in_loop = (case.compiled(k, "branches_may_diverge").median for k in kernels)
    before, after = (case.medians(kernel, "divergent_targets") for kernel in kernels)
    threads = [case.medians(kernel, "threads_per_instruction") for kernel in kernels]
    per_block = quotients(after, case.medians(subject, "blocks_launched"), may_be_zero=True)
    left = round(max(per_block), 3)  # one warp of a hundred thousand blocks is no other divergence
    holds = in_loop == 0 and left <= 1
    holds = holds and all(b < a for b, a in zip(*threads, strict=True))
    note = f"branches in the loop {of_tree:g} -> {in_loop:g}; active threads of {WARP}: "
    note += " -> ".join(map(span, threads))
    ratios = quotients(after, before, may_be_zero=True)
    return over_places(reproduced_if(holds), note, [100 * (1 - ratio) for ratio in ratios])


@rule(
    "the memory is busier than the schedulers and at least {least:g} % busy, or global memory is "
    "what most of the waiting warps wait for; on the source's GPU, by arithmetic: the bytes take "
    "longer than issuing the instructions"
)
def memory_bound(case: Case, *, least: float, baseline: str) -> Verdict:
    """Bound by bandwidth or by latency: either is enough."""
    if "by" in case.cell.at:
        return bound_by_arithmetic(case, baseline)
    memory, issue = (case.medians(baseline, f"{of}_utilisation") for of in ("dram", "issue"))
    reasons = [
        {k: v for k, v in w.items() if k not in NO_WAIT} for w in waits(case, baseline, FOR_MEMORY)
    ]
    if min(sum(w.values()) for w in reasons) <= 0:
        raise NotTestable(f"no warps of {baseline} wait for anything")
    longest = [max(n for name, n in w.items() if name != FOR_MEMORY) for w in reasons]
    first = sorted(reasons[0], key=reasons[0].__getitem__, reverse=True)[:3]
    most = ", ".join(f"{n.removeprefix(STALL)} {span([r[n] for r in reasons])}" for n in first)
    busy = all_above(memory, [max(i, least) for i in issue])
    waiting = all_above([w[FOR_MEMORY] for w in reasons], longest, WAITS_PERCENT)
    note = f"device memory, schedulers {span(issue)} % busy; warps wait at an issue for {most}"
    return over_places(max(busy, waiting, key=rules.VERDICTS.index), note, memory)


def bound_by_arithmetic(case: Case, baseline: str) -> Verdict:
    """On the source's GPU, which need not be available: the time to issue compared with the time to
    move."""
    at = {name: value for name, value in case.place.items() if name != "by"}
    row, source = case.measured(baseline, "warp_instructions", at), case.source
    issue_ms = row.problem["n"] * issue_ns_per_weight(source, row) / 1e6
    bytes_ms = row.bytes_moved / source.setup["peak_gb_s"] / 1e6
    share = 100 * bytes_ms / issue_ms
    note = f"{significant(bytes_ms, 3)} ms for its bytes, {significant(issue_ms, 3)} ms to issue "
    note += f"its instructions, on an {source.gpu}"
    return Verdict(all_above([share], 100), note, share)


@rule(
    "warps wait for instructions longer than with the table, and for at least {least:g} % of their "
    "time"
)
def code_pressure(case: Case, *, least: float, literals: str, table: str) -> Verdict:
    """Pressure on the instruction caches appears in the warps' stalls; a counter of misses does
    not count the refills of a scheduler's own cache.
    """
    shares = []
    for kernel in (literals, table):
        stalls = waits(case, kernel, FOR_CODE)
        for_code, all_waits = [100 * w[FOR_CODE] for w in stalls], [sum(w.values()) for w in stalls]
        shares.append(quotients(for_code, all_waits, may_be_zero=True))
    kind = all_above(shares[0], [max(share, least) for share in shares[1]])
    note = f"{span(shares[0])} % of their time, {span(shares[1])} % with the table"
    return over_places(kind, note, quotients(*shares, may_be_zero=True))


@rule(
    "warps wait out their own last instruction at least {tolerance_percent:g} % less per issue, "
    "and a scheduler has more warps to choose from"
)
def less_dependent(case: Case, *, baseline: str, subject: str) -> Verdict:
    """Warps wait out a fixed latency if the next instruction needs the last one's result; with more
    parallelism, more warps could also issue. Critical paths in the machine code would decide.
    """
    kernels = (baseline, subject)
    before, after = ([w[FOR_LAST] for w in waits(case, kernel, FOR_LAST)] for kernel in kernels)
    eligible = [case.medians(kernel, "eligible_warps") for kernel in kernels]
    ratios, bound = quotients(after, before), 1 - case.cell.tolerance_percent / 100
    kind = all_below(ratios, bound)
    if kind == rules.REPRODUCED and all_above(*eligible[::-1]) != rules.REPRODUCED:
        kind = rules.UNDECIDED
    note = f"warps that wait {span(before)} -> {span(after)}, eligible "
    return over_places(kind, note + " -> ".join(map(span, eligible)), ratios)


@rule(
    "at most {tolerance_percent:g} % slower than {other}, where 16 threads fill the table: by so "
    "much the source's own Table II varies over the batches, where nothing should vary"
)
def fill_is_amortised(case: Case, *, subject: str, other: str) -> Verdict:
    """The common cost of both fills cancels, so this is the minimum cost of the fill."""
    ratios = case.ratios(subject, other, KERNEL_TIME)
    slower = [100 * (r.value - 1) for r in ratios]
    bound = 1 + case.cell.tolerance_percent / 100
    kind = side_below(stats.mean(ratios), bound, case.cell.family_size)
    return over_places(kind, f"% slower than {other}", slower)


@rule("of the time that {subject} saves, {baseline} saves at least {least:g} % on equal codes")
def saved_without_divergence(
    case: Case, *, baseline: str, subject: str, normal: str, least: float
) -> Verdict:
    """On equal codes no branch diverges. `normal`: the problem with the codes of weights."""
    usual = {"name": normal}
    diverging, fast = (case.measured(k, KERNEL_TIME, usual) for k in (baseline, subject))
    equal = case.measured(baseline, KERNEL_TIME)
    left, whole = (uncertainty.log_ratio(row, fast).ratio for row in (equal, diverging))
    return part_of_saving(left, whole, least, rest=True)


@rule("no look-up of {kernel} is repeated where all codes are equal")
def constant_broadcast(case: Case, *, kernel: str) -> Verdict:
    """Compared with the same layer with the codes of normal weights."""

    def per_look_up(row: Row) -> float:
        return row.median / (row.problem["n"] / WARP)

    equal = case.measured(kernel, "idc_replays")
    layer = {name: equal.problem[name] for name in ("rows", "columns")}
    control = per_look_up(case.measured(kernel, "idc_replays", layer, "nf4_counters"))
    if control <= 0:  # a counter that never counts shows nothing by its zero
        raise NotTestable("no look-up is repeated on the codes of weights either")
    note = f"repeats of a look-up; {significant(control, 3)} on the codes of weights"
    return over_places(reproduced_if(per_look_up(equal) == 0), note, [per_look_up(equal)])

"""Rules of experiment counters about compiled code, occupancy and issue rates, also for GPUs that
are not available.

Sources: for limits the CUDA C++ Programming Guide, technical specifications per compute capability;
for allocation units of registers and shared memory the toolkit's cuda_occupancy.h.
"""

from dataclasses import dataclass

from reprolab import stats
from reprolab.claims import rules
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.published import Source
from reprolab.claims.rules import (
    COUNTS,
    WITHIN,
    Verdict,
    judge,
    over_places,
    percent_below,
    quotients,
    reproduced_if,
    rule,
    side_of_margins,
)
from reprolab.counter_table import WARP
from reprolab.results import Row
from reprolab.stats import significant, span

LAUNCHES = "counters/nf4_launches"  # the pass with times and launch facts
WEIGHT_BYTES = 2  # of fp16


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


def launch_of(row: Row) -> dict:
    if not row.launch:
        raise NotTested(f"{row.place}: its launch was not recorded")
    if len(row.launch) > 1:
        raise NotTestable(f"{row.place}: launches {len(row.launch)} kernels")
    return row.launch[0]


@rule("a block of {subject} takes {value:g} bytes; or so many more than one of the baseline named")
def shared_memory(case: Case, *, subject: str, baseline: str = "") -> Verdict:
    """The exact number of bytes. `baseline`: a kernel whose bytes are subtracted."""

    def shared_bytes(kernel: str) -> list[int]:
        launches = [launch_of(case.verified(kernel, at)) for at in case.cell.places]
        return [x["static_shared_bytes"] + x["dynamic_shared_bytes"] for x in launches]

    after = shared_bytes(subject)
    before = shared_bytes(baseline) if baseline else [0] * len(after)
    added = [a - b for a, b in zip(after, before, strict=True)]
    return over_places(reproduced_if(set(added) == {case.value}), f"{span(after, 1)} in all", added)


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
    registers, shared = (int(case.fact(kernel, name)) for name in names)
    if min(registers, shared + 1) <= 0:
        raise NotTestable(f"{kernel} on {arch}: {registers} registers, {shared} bytes")
    if arch not in MULTIPROCESSORS:
        raise NotTestable(f"no limits are known here of a multiprocessor of {arch}")
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
    before, after = (case.fact(k, "index_per_weight.least") for k in (baseline, subject))
    return before, after, f"{significant(before, 3)} -> {significant(after, 3)} per weight"


@rule(f"of the instructions of the index computation, before over after, {WITHIN}")
def shorter_index(case: Case, *, baseline: str, subject: str) -> Verdict:
    before, after, note = index_computation(case, baseline, subject)
    times = stats.summarize(quotients([before], [after])).estimate
    return judge(case, times, note, spread_percent=0)


@rule("at most {value:g} instructions per weight, on the shortest path through {kernel}")
def index_count(case: Case, *, kernel: str) -> Verdict:
    """The index computation in an architecture's code."""
    count = case.fact(kernel, "index_per_weight.least")
    return Verdict(side_of_margins([percent_below(count, case.value)], COUNTS), kernel, count)


@rule("{table} has less code than {literals}, and fewer instructions per weight")
def more_compact(case: Case, *, literals: str, table: str) -> Verdict:
    facts = ("code_bytes", "instructions_per_weight.least")
    sizes, counts = ([case.fact(k, fact) for k in (literals, table)] for fact in facts)
    note = f"{sizes[0]:g} -> {sizes[1]:g} bytes, "
    note += f"{significant(counts[0], 3)} -> {significant(counts[1], 3)} instructions per weight"
    holds = sizes[1] < sizes[0] and counts[1] < counts[0]
    return over_places(reproduced_if(holds), note, quotients(sizes[:1], sizes[1:]))


@rule("{table} takes fewer registers a thread than {literals}")
def fewer_registers(case: Case, *, literals: str, table: str) -> Verdict:
    before, after = (case.fact(kernel, "registers") for kernel in (literals, table))
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

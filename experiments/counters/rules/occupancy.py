"""Rules of experiment counters about occupancy, a block's resources and issue rates, also for GPUs
that are not available.

Sources: for limits the CUDA C++ Programming Guide, technical specifications per compute capability;
for allocation units of registers and shared memory the toolkit's cuda_occupancy.h.
"""

from dataclasses import dataclass

from reprolab.claims import rules
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.published import Source
from reprolab.claims.rules import Finding, over_places, quotients, reproduced_if, rule
from reprolab.counter_table import WARP
from reprolab.results import Record
from reprolab.stats import span

LAUNCHES = "counters/nf4_launches"  # the pass with times and launch facts


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


def instructions_per_weight(row: Record) -> float:
    """Instructions that a warp executes."""
    return quotients([row.summary_of("warp_instructions").median], [row.problem["n"]])[0]


def issue_ns_per_weight(source: Source, row: Record) -> float:
    """The minimum time on the source's GPU, if all schedulers issue in every cycle."""
    schedulers = 4 * source.fact("multiprocessors")  # of Ampere and Hopper alike
    return instructions_per_weight(row) / (schedulers * source.fact("sm_clock_mhz") / 1e3)


def launch_of(row: Record) -> dict:
    if not row.launch:
        raise NotTested(f"{row.place}: its launch was not recorded")
    if len(row.launch) > 1:
        raise NotTestable(f"{row.place}: launches {len(row.launch)} kernels")
    return row.launch[0]


@rule("a block of {subject} takes {value:g} bytes; or so many more than one of the baseline named")
def shared_memory(case: Case, *, subject: str, baseline: str = "") -> Finding:
    """The exact number of bytes. `baseline`: a kernel whose bytes are subtracted."""

    def shared_bytes(kernel: str) -> list[int]:
        launches = [launch_of(case.verified(kernel, at)) for at in case.cell.places]
        return [
            launch["static_shared_bytes"] + launch["dynamic_shared_bytes"] for launch in launches
        ]

    after = shared_bytes(subject)
    if not baseline:
        short = f"a block of {subject} takes {span(after, 1)} bytes"
        return over_places(reproduced_if(set(after) == {case.value}), short, after)
    before = shared_bytes(baseline)
    added = [a - b for a, b in zip(after, before, strict=True)]
    reason = (
        f"the table adds {span(added, 1)} bytes a block; the whole of {subject} takes "
        f"{span(after, 1)}, of which {span(before, 1)} are {baseline}'s already"
    )
    short = f"the table adds {span(added, 1)} bytes to the block's {span(before, 1)}"
    return over_places(reproduced_if(set(added) == {case.value}), reason, added, short)


@rule("from {least:g} to {most:g} blocks fit on a multiprocessor of the cell's architecture")
def blocks_resident(
    case: Case, *, least: float, most: float, warps: float = 0, threads: float = 0
) -> Finding:
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
    threads = int(threads) or case.source.fact("kernel")["threads_per_block"]
    sm = MULTIPROCESSORS[arch]
    fit = sm.blocks_that_fit(threads, registers, shared)
    short = f"{fit} block{'s' * (fit > 1)} of {kernel} fit on a multiprocessor of {sm.gpu}"
    reason = (
        f"{short}, with {threads} threads, {registers} registers a thread and {shared} bytes of "
        "shared memory"
    )
    if warps and warps != sm.warps:
        holds = f"it holds {sm.warps} warps, not {warps:g}"
        said = f"{sm.gpu} holds {sm.warps} warps, not {warps:g}"
        return Finding(rules.PREMISE_FALSE, f"{reason}; {holds}", fit, short=said)
    return Finding(reproduced_if(least <= fit <= most), reason, fit, short=short)


@rule("the document named has the source's number")
def as_documented(case: Case, *, documented: float, document: str) -> Finding:
    """A number that no program can measure, but a document has."""
    number = f"{documented:g} {case.comparison.unit}".rstrip()
    verdict = rules.REPRODUCED if case.value == documented else rules.PREMISE_FALSE
    return Finding(verdict, f"{number} by the {document}", documented=documented)

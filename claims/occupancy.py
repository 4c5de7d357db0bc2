"""How many blocks of a kernel a multiprocessor holds, and what a block takes of it: rules of
experiment counters, also for GPUs that are not at hand.

Limits: CUDA C++ Programming Guide, technical specifications per compute capability; units in which
registers and shared memory are given out: the toolkit's cuda_occupancy.h.
"""

from dataclasses import dataclass

from claims import stats
from claims.evidence import NotTestable, NotTested
from claims.results import Record
from claims.rules import (
    NOT_TESTABLE,
    PREMISE_FALSE,
    Case,
    Finding,
    over_places,
    quotients,
    reproduced_if,
    rule,
)
from claims.stats import span

LAUNCHES = "counters/nf4_launches"  # the pass with times and launch facts
WARP = 32  # threads


@dataclass(frozen=True)
class Multiprocessor:
    """Of 65536 registers and 4 schedulers."""

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
}


def launch_of(row: Record) -> dict:
    if not row.launch:
        raise NotTested(f"{row.place}: its launch was not recorded")
    if len(row.launch) > 1:
        raise NotTestable(f"{row.place}: launches {len(row.launch)} kernels")
    return row.launch[0]


@rule("{subject} has {value:g} bytes more than {baseline}")
def shared_memory(case: Case, *, value: float, baseline: str, subject: str) -> Finding:
    """Exactly; what the kernel has besides, for CUB's exchange of bytes, is the baseline's too."""

    def shared_bytes(kernel: str) -> list[int]:
        launches = [launch_of(case.rows.verified(kernel, at)) for at in case.cell.places]
        return [found["static_shared_bytes"] + found["dynamic_shared_bytes"] for found in launches]

    before, after = shared_bytes(baseline), shared_bytes(subject)
    added = [a - b for a, b in zip(after, before, strict=True)]
    reason = (
        f"the table adds {span(added, 1)} bytes a block; the whole of {subject} takes "
        f"{span(after, 1)}, of which {span(before, 1)} are {baseline}'s already"
    )
    return over_places(set(added) == {value}, reason, added)


@rule("from {least:g} to {most:g} blocks fit on a multiprocessor of the source's GPU")
def blocks_resident(
    case: Case, *, least: float, most: float, subject: str = "", warps: float | None = None
) -> Finding:
    """Of an architecture, by its limits and the compiled code; else by the run's GPU, an Ampere.

    `warps`: that the source says a multiprocessor holds.
    """
    if "arch" in case.cell.at:
        kernel, arch = case.cell.at["kernel"], case.cell.at["arch"]
        registers, shared = (
            int(case.compiled(kernel, arch, name)) for name in ("registers", "static_shared_bytes")
        )
        if min(registers, shared + 1) <= 0:
            raise NotTestable(f"{kernel} on {arch}: {registers} registers, {shared} bytes")
        if arch not in MULTIPROCESSORS:
            raise NotTestable(f"no limits are known here of a multiprocessor of {arch}")
        threads, sm = case.source.fact("kernel")["threads_per_block"], MULTIPROCESSORS[arch]
        fit = sm.blocks_that_fit(threads, registers, shared)
        reason = (
            f"{fit} blocks of {kernel} fit on a multiprocessor of {sm.gpu}, with {threads} "
            f"threads, {registers} registers a thread and {shared} bytes of shared memory"
        )
        if warps not in (None, sm.warps):
            reason += f"; it holds {sm.warps} warps, not {warps:g}"
            return Finding(PREMISE_FALSE, reason, fit)
        return Finding(reproduced_if(least <= fit <= most), reason, fit)
    rows = case.rows_of(LAUNCHES)
    found = [launch_of(rows.verified(subject, at)) for at in case.cell.places]
    fit = [launch["blocks_per_multiprocessor"] for launch in found]
    if None in fit:
        raise NotTestable("the occupancy calculator does not know this GPU")
    size = quotients(*(case.medians(subject, f"{w}_launched") for w in ("warps", "blocks")))
    active = quotients(case.medians(subject, "active_warps"), size)
    gpu = rows.results.provenance["gpu"]
    reason = (
        f"{span(fit, 1)} blocks of {subject} fit on a multiprocessor of this {gpu['name']}, and "
        f"{span(active)} are there on average"
    )
    if not gpu["compute_capability"].startswith("8."):
        return Finding(NOT_TESTABLE, f"{reason}; it is no Ampere", stats.summarize(fit).median)
    return over_places(all(least <= n <= most for n in fit), reason, fit)

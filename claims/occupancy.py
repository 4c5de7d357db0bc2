"""How many blocks of a kernel a multiprocessor holds, of GPUs that are not at hand.

Limits: CUDA C++ Programming Guide, technical specifications per compute capability; units in which
registers and shared memory are given out: the toolkit's cuda_occupancy.h.
"""

from dataclasses import dataclass

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

"""The instructions of an NF4 kernel that turn a code into an entry of the table. A product is an
fp32 multiplication whose result is not multiplied again: a weight is a table entry times a scale.
The scale is the factor that all products of the region share. Decoding is every instruction that
works on loaded data and that the other factor depends on, back to the loads of the codes:
extracting a code from its byte, making an address of it and reading the table, or the tests and
jumps of a tree. Look-ups read memory, or another lane's register. All other instructions are the
index computation.
"""

import re

from sass.dataflow import Dataflow
from sass.flow import Flow, Region, is_jump
from sass.parse import Instruction

LOOK_UPS = ("LDS", "LDG", "LD", "LDL", "LDC", "SHFL")
CONVERGENCE = ("BSSY", "BSYNC", "BMOV")  # around a branch whose threads may part
PRODUCTS = ("FMUL", "FMUL2")


def decoding_of(flow: Flow, region: Region) -> frozenset[int]:
    """By address; empty if no two products share a scale."""
    dataflow, code = Dataflow(flow, region), list(flow.instructions(region.blocks))
    multiplications = {i.address for i in code if i.name in PRODUCTS}
    products = multiplications - dataflow.leading_to(multiplications)
    if not products:
        return frozenset()
    shared = frozenset.intersection(*(dataflow.sources[p] for p in products))
    loads = {i.address for i in code if is_load(i)}
    entries = {source for p in products for source in dataflow.sources[p] - shared}
    decoding = (entries | dataflow.leading_to(entries)) & dataflow.following_from(loads)
    return frozenset(decoding | jumps_of(dataflow, decoding))


def jumps_of(dataflow: Dataflow, decoding: set[int]) -> set[int]:
    """The rest of a tree: jumps from its leaves, and barriers where its branches reconverge."""
    addresses = set()
    branches = {b.number for b in dataflow.blocks if b.last.address in decoding}
    for block in dataflow.blocks:
        within = bool(dataflow.deciders[block.number] & branches)
        if within and is_jump(block.last):
            addresses.add(block.last.address)
        before = dataflow.flow.predecessors[block.number]
        met = any(dataflow.deciders.get(p, frozenset()) & branches for p in before)
        for instruction in block.instructions:
            parts = met if instruction.name == "BSYNC" else block.number in branches
            if instruction.name in CONVERGENCE and (within or parts):
                addresses.add(instruction.address)
    return addresses


def is_load(instruction: Instruction) -> bool:
    """Whether it loads data: a constant at a fixed address counts as an immediate."""
    if instruction.name in ("LDC", "ULDC", "LDCU"):
        return bool(re.search(r"\]\[U?R\d", instruction.operands))
    return instruction.name in ("LDG", "LD", "LDS", "LDL")

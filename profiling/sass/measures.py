"""The facts as named numbers, each with its unit and meaning: what is shown, and what is written
into result files under the same names, behind "sass_"."""

from collections.abc import Iterator
from dataclasses import dataclass

from sass.facts import (
    CONSTANT_LOADS,
    GLOBAL_LOADS,
    GLOBAL_STORES,
    LOCAL_LOADS,
    LOCAL_STORES,
    SHARED_LOADS,
    SHARED_STORES,
    Facts,
    Ways,
    is_uniform,
    of,
)

WAYS = ("least", "most", "all")  # profiling/sass/facts.py says what they are


@dataclass(frozen=True)
class Measure:
    name: str
    unit: str
    meaning: str
    value: float | None
    missing: str = ""  # why there is no value


def measures(facts: Facts) -> Iterator[Measure]:
    """All that is counted of one kernel for one architecture."""
    has, inside, everywhere = facts.code.resources, facts.inside, facts.everywhere
    element = facts.code.kernel.family.element
    trip = "a trip of the loop" if facts.region.is_loop else "one run of the kernel"
    elements = facts.elements

    yield Measure("registers", "registers", "per thread", has.registers)
    yield Measure("stack_bytes", "bytes", "per thread", has.stack_bytes)
    spills = len(of(everywhere, LOCAL_LOADS)), len(of(everywhere, LOCAL_STORES))
    yield Measure("local_loads", "instructions", "of spilled registers or a stack", spills[0])
    yield Measure("local_stores", "instructions", "of spilled registers or a stack", spills[1])
    yield Measure("static_shared_bytes", "bytes", "per block", has.static_shared_bytes)
    yield Measure("code_bytes", "bytes", "that can be reached", facts.code_bytes)

    yield Measure(f"{element}s_per_trip", f"{element}s", f"by one thread in {trip}", elements)
    yield from per_way("trip_instructions", "instructions", f"of {trip}", facts.ways())
    none = "" if elements else f"the kernel stores nothing on {facts.code.arch}"
    per = f"per_{element}"
    text = f"of {trip}"
    yield from per_way(f"instructions_{per}", "instructions", text, facts.ways(), elements, none)
    if facts.code.kernel.family.name == "nf4":
        if not facts.decoding:
            none = none or "no two products of an entry and a common scale"
        text = "that make an address in the table, or a choice, of a code"
        ways = facts.ways(facts.is_index)
        yield from per_way(f"index_{per}", "instructions", text, ways, elements, none)
        text, ways = "that read the table", facts.ways(facts.is_look_up)
        yield from per_way(f"look_ups_{per}", "instructions", text, ways, elements, none)

    within = f"within {trip}"
    yield Measure("branches", "instructions", f"conditional, {within}", len(facts.branches))
    diverging = sum(not is_uniform(block) for block in facts.branches)
    text = "of these, not seen to be uniform"
    yield Measure("branches_may_diverge", "instructions", text, diverging)
    elsewhere = len(facts.conditional(facts.code.flow.blocks)) - len(facts.branches)
    text = "conditional, that end or repeat the loop, or outside of it"
    yield Measure("branches_elsewhere", "instructions", text, elsewhere)
    barriers = len(of(inside, ("BSSY",)))
    text = f"where threads that parted meet again (BSSY), {within}"
    yield Measure("convergence_barriers", "instructions", text, barriers)

    for name, names in (
        ("global_loads", GLOBAL_LOADS),
        ("global_stores", GLOBAL_STORES),
        ("shared_loads", SHARED_LOADS),
        ("shared_stores", SHARED_STORES),
        ("constant_loads", CONSTANT_LOADS),
    ):
        found = of(inside, names)
        yield Measure(name, "instructions", within, len(found))
        if names in (GLOBAL_LOADS, GLOBAL_STORES):
            text = "by one thread with the widest of them"
            widest = max((i.width_bytes for i in found), default=0)
            yield Measure(f"widest_{name[:-1]}_bytes", "bytes", text, widest)
    wide = sum(found.width_bytes >= 16 for found in of(inside, GLOBAL_STORES))
    yield Measure("wide_global_stores", "instructions", "of 16 bytes or more", wide)


def per_way(
    name: str, unit: str, text: str, ways: Ways, elements: int = 1, missing: str = ""
) -> Iterator[Measure]:
    for way in WAYS:
        value = None if missing else getattr(ways, way) / elements
        yield Measure(f"{name}.{way}", unit, text, value, missing)

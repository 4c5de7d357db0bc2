"""The facts as named numbers, each with its unit and meaning, for tables and, with the prefix
"sass_", for result files."""

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


@dataclass(frozen=True)
class Measure:
    name: str
    unit: str
    meaning: str
    value: float | None
    missing: str = ""  # why there is no value


def measures(facts: Facts) -> Iterator[Measure]:
    """All counts of one kernel for one architecture."""
    has, inside, everywhere = facts.code.resources, facts.inside, facts.everywhere
    element, elements = facts.code.kernel.family.element, facts.elements
    trip = "a trip of the loop" if facts.region.is_loop else "one run of the kernel"

    def instructions(name: str, text: str, count: int) -> Measure:
        return Measure(name, "instructions", text, count)

    yield Measure("registers", "registers", "per thread", has.registers)
    yield Measure("stack_bytes", "bytes", "per thread", has.stack_bytes)
    spilled = "of spilled registers or a stack"
    yield instructions("local_loads", spilled, len(of(everywhere, LOCAL_LOADS)))
    yield instructions("local_stores", spilled, len(of(everywhere, LOCAL_STORES)))
    yield Measure("static_shared_bytes", "bytes", "per block", has.static_shared_bytes)
    yield Measure("code_bytes", "bytes", "that can be reached", facts.code_bytes)

    yield Measure(f"{element}s_per_trip", f"{element}s", f"by one thread in {trip}", elements)
    yield from per_way("trip_instructions", f"of {trip}", facts.ways())
    none = "" if elements else f"the kernel stores nothing on {facts.code.arch}"
    per = f"per_{element}"
    yield from per_way(f"instructions_{per}", f"of {trip}", facts.ways(), elements, none)
    if facts.code.kernel.family.name == "nf4":
        if not facts.decoding:
            none = none or "no two products of an entry and a common scale"
        text = "that make an address in the table, or a choice, of a code"
        yield from per_way(f"index_{per}", text, facts.ways(facts.is_index), elements, none)
        ways = facts.ways(facts.is_look_up)
        yield from per_way(f"look_ups_{per}", "that read the table", ways, elements, none)

    within, branches = f"within {trip}", facts.branches
    yield instructions("branches", f"conditional, {within}", len(branches))
    diverging = sum(not is_uniform(block) for block in branches)
    yield instructions("branches_may_diverge", "of these, not seen to be uniform", diverging)
    elsewhere = len(facts.conditional(facts.code.flow.blocks)) - len(branches)
    text = "conditional, that end or repeat the loop, or outside of it"
    yield instructions("branches_elsewhere", text, elsewhere)
    text = f"where threads that parted meet again (BSSY), {within}"
    yield instructions("convergence_barriers", text, len(of(inside, ("BSSY",))))

    for name, names in (
        ("global_loads", GLOBAL_LOADS),
        ("global_stores", GLOBAL_STORES),
        ("shared_loads", SHARED_LOADS),
        ("shared_stores", SHARED_STORES),
        ("constant_loads", CONSTANT_LOADS),
    ):
        matching = of(inside, names)
        yield instructions(name, within, len(matching))
        if names in (GLOBAL_LOADS, GLOBAL_STORES):
            text = "by one thread with the widest of them"
            widest = max((i.width_bytes for i in matching), default=0)
            yield Measure(f"widest_{name[:-1]}_bytes", "bytes", text, widest)
    wide = sum(matching.width_bytes >= 16 for matching in of(inside, GLOBAL_STORES))
    yield instructions("wide_global_stores", "of 16 bytes or more", wide)


def per_way(
    name: str, text: str, ways: Ways, elements: int = 1, missing: str = ""
) -> Iterator[Measure]:
    for way, count in ways._asdict().items():
        value = None if missing else count / elements
        yield Measure(f"{name}.{way}", "instructions", text, value, missing)

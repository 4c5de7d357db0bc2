"""Counts: the hot region, elements, paths, branches, index computation and look-ups."""

import pytest
import written
from sass.dataflow import uses_and_results
from sass.facts import Ways
from sass.measures import measures
from sass.parse import Instruction

# Two weights per iteration: codes from a byte, a table in shared memory, one scale.
TABLE = """
     LDG.E.CONSTANT R9, [R8.64]
top: LDG.E.U8 R2, [R20.64]
     IMAD.WIDE R6, R1, 0x4, R10
     SHF.R.U32.HI R3, RZ, 0x4, R2
     LOP3.LUT R5, R2, 0xf, RZ, 0xc0, !PT
     LDS R3, [R3.X4+0x10]
     LDS R5, [R5.X4+0x10]
     FMUL.FTZ R3, R3, R9
     FMUL.FTZ R5, R9, R5
     F2FP.PACK_AB R3, R5, R3
     STG.E [R6.64], R3
     IADD3 R1, R1, 0x1, RZ
     ISETP.GE.AND P0, PT, R1, c[0x0][0x180], PT
     @!P0 BRA top
     EXIT
"""
# The same with a branch on one bit of each code instead of a table.
TREE = """
     LDG.E.CONSTANT R9, [R8.64]
top: LDG.E.U8 R2, [R20.64]
     LOP3.LUT P0, RZ, R2, 0x10, RZ, 0xc0, !PT
     BSSY B0, met1
     @P0 BRA one1
     IMAD.MOV.U32 R3, RZ, RZ, 0x3f800000
     BRA join1
one1: IMAD.MOV.U32 R3, RZ, RZ, 0x0
join1: BSYNC B0
met1: FMUL.FTZ R3, R3, R9
     LOP3.LUT P0, RZ, R2, 0x1, RZ, 0xc0, !PT
     BSSY B0, met2
     @P0 BRA one2
     IMAD.MOV.U32 R5, RZ, RZ, 0x3f800000
     BRA join2
one2: IMAD.MOV.U32 R5, RZ, RZ, 0x0
join2: BSYNC B0
met2: FMUL.FTZ R5, R9, R5
     F2FP.PACK_AB R3, R5, R3
     STG.E [R6.64], R3
     ISETP.GE.AND P1, PT, R1, c[0x0][0x180], PT
     @!P1 BRA top
     EXIT
"""


def values(facts):
    return {m.name: m.value for m in measures(facts)}


def decoding(facts):
    """The paths of the index computation and of the look-ups."""
    return facts.ways(facts.is_index), facts.ways(facts.is_look_up)


def test_a_table_kernel():
    facts = written.facts(TABLE)
    assert facts.region.is_loop
    assert facts.elements == 2
    assert facts.ways() == Ways(13, 13, 13)
    assert [i.name for i in facts.inside if facts.is_index(i)] == ["SHF", "LOP3"]
    assert [i.name for i in facts.inside if facts.is_look_up(i)] == ["LDS", "LDS"]
    counts = values(facts)
    assert (counts["branches"], counts["branches_elsewhere"]) == (0, 1)
    assert counts["weights_per_trip"] == 2
    assert counts["instructions_per_weight.all"] == 6.5
    assert counts["index_per_weight.least"] == counts["look_ups_per_weight.most"] == 1
    assert counts["code_bytes"] == 15 * 16
    assert counts["global_loads"] == 1  # the scale is read before the loop


def test_a_tree_kernel():
    facts = written.facts(TREE)
    # For each code: test, barrier and branch; an entry and a jump, or an entry; the reconvergence
    # point.
    assert decoding(facts) == (Ways(2 * 5, 2 * 6, 2 * 7), Ways(0, 0, 0))
    assert facts.ways() == Ways(17, 19, 21)
    counts = values(facts)
    assert (
        counts["branches"] == counts["branches_may_diverge"] == counts["convergence_barriers"] == 2
    )


def test_what_cannot_be_counted_has_a_reason():
    reasons = {m.name: m.missing for m in measures(written.facts("LDS R1, [R2]\nEXIT"))}
    assert reasons["instructions_per_weight.all"] == "the kernel stores nothing on sm_80"
    assert reasons["index_per_weight.all"] == "the kernel stores nothing on sm_80"
    one_product = "FMUL R1, R2, R3\nSTG.E [R4.64], R1\nEXIT"
    reasons = {m.name: m.missing for m in measures(written.facts(one_product))}
    assert reasons["index_per_weight.all"] == "no two products of an entry and a common scale"
    assert reasons["instructions_per_weight.all"] == ""


def stores(count, width="128"):
    return f"STG.E.{width} [R2.64], R4\n" * count


def test_the_hot_region_is_where_most_is_stored():
    loop = f"top: {stores(2)}@P0 BRA top\n"
    tail = f"rest: {stores(1, 'U16')}@P1 BRA rest\nEXIT"
    assert written.facts(loop + tail).elements == 16  # the main loop, not the rest
    waiting = f"wait: SYNCS R1, [R2]\n@P0 BRA wait\n{stores(1)}EXIT"
    assert not written.facts(waiting).region.is_loop
    assert written.facts(waiting).elements == 8
    nested = f"outer: NOP\ninner: {stores(1)}@P0 BRA inner\n@P1 BRA outer\nEXIT"
    assert len(written.facts(nested).inside) == 2  # the inner loop
    straight = f"{stores(3)}rest: {stores(1, 'U16')}@P1 BRA rest\nEXIT"
    assert not written.facts(straight).region.is_loop


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("@P0 STG.E.U16 [R2.64], R4\n@!P0 STG.E [R2.64], R4\nEXIT", 2),
        ("@P0 STG.E.U16 [R2.64], R4\n@P0 STG.E [R2.64], R4\nEXIT", 3),
        (  # the predicate is another one by then
            "@P0 STG.E.U16 [R2.64], R4\nISETP.NE.AND P0, PT, R1, RZ, PT\n"
            "@!P0 STG.E [R2.64], R4\nEXIT",
            3,
        ),
        ("@P0 STG.E.U16 [R2.64], R4\n@P0 EXIT\nSTG.E [R2.64], R4\nEXIT", 2),
        ("@!P0 STG.E.U16 [R2.64], R4\n@P0 EXIT\nSTG.E [R2.64], R4\nEXIT", 3),
        ("@P0 BRA one\nSTG.E [R2.64], R4\nEXIT\none: STG.E.U16 [R2.64], R4\nEXIT", 2),
    ],
)
def test_elements_are_those_of_the_way_that_stores_most(text, elements):
    assert written.facts(text).elements == elements


def test_the_accelerators_elements_are_counted_where_threads_write_the_tile():
    tile = "STS [R2], R4\nSTS [R2+0x80], R5\n@P1 EXIT\nUTMASTG.2D [UR8], [UR12]\nEXIT"
    assert written.facts(tile, "transpose").elements == 2
    shared_alone = "STS [R2], R4\nEXIT"
    assert written.facts(shared_alone, "transpose").elements == 0


@pytest.mark.parametrize(
    ("before", "branch", "diverges"),
    [
        ("ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 BRA end", 1),
        ("PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0", "@!P0 BRA end", 0),
        ("PLOP3.LUT P0, PT, P1, PT, UP0, 0x80, 0x0", "@!P0 BRA end", 1),
        ("ISETP.NE.AND P0, PT, RZ, UR4, PT", "@P0 BRA end", 0),
        ("ISETP.NE.AND P0, PT, R1, UR4, PT", "@P0 BRA end", 1),
        ("NOP", "@P0 BRA end", 1),  # written in another block: not seen
        ("NOP", "@UP0 BRA end", 0),
        ("NOP", "BRA.U !UP0, end", 0),
    ],
)
def test_a_branch_may_diverge_unless_it_is_seen_to_be_uniform(before, branch, diverges):
    text = f"{before}\n{branch}\nSTG.E [R2.64], R4\nend: STG.E [R2.64], R4\nEXIT"
    counts = values(written.facts(text))
    assert (counts["branches"], counts["branches_may_diverge"]) == (1, diverges)


@pytest.mark.parametrize(
    ("opcode", "operands", "uses", "results"),
    [
        ("IADD3", "R2, P4, P5, R6, c[0x0][0x160], R3", "R6 R3", "R2 P4 P5"),
        ("IADD3.X", "R3, R28, c[0x0][0x164], RZ, P4, P5", "R28 P4 P5", "R3"),
        ("ISETP.GE.AND.EX", "P1, PT, R5, R3, PT, P2", "R5 R3 P2", "P1"),
        ("LOP3.LUT", "P0, RZ, R30.reuse, 0x8, RZ, 0xc0, !PT", "R30", "P0"),
        ("LDG.E.128", "R4, desc[UR6][R2.64+0x20]", "UR6 R2 R3", "R4 R5 R6 R7"),
        ("STG.E.64", "[R2.64], R4", "R2 R3 R4", ""),
        ("IMAD.WIDE.U32", "R4, R4, R5, c[0x0][0x168]", "R4 R5", "R4 R5"),
        ("IMAD.WIDE", "R4, R6, 0x4, R8", "R6 R8 R8 R9", "R4 R5"),
        ("PLOP3.LUT", "P0, PT, P1, PT, UP0, 0x80, 0x0", "P1 UP0", "P0"),
        ("SHFL.IDX", "PT, R5, R4, R3, 0x1f", "R4 R3", "R5"),
        ("FSEL", "R39, R30, 0.5, P0", "R30 P0", "R39"),
        ("R2UR", "UR5, R2", "R2", "UR5"),
        ("BRA.U", "!UP0, `(.L)", "UP0", ""),
    ],
)
def test_uses_and_results(opcode, operands, uses, results):
    registers = uses_and_results(Instruction(0, opcode, operands, "P6"))
    assert [" ".join(names) for names in registers] == [f"P6 {uses}", results]


AHEAD = TABLE.replace("top: LDG.E.U8 R2, [R20.64]", "top: NOP")
SCALE = "LDG.E R12, [R14.64]\nFMUL.FTZ R9, R12, R13\n"
TWO = "LEA R12, P3, R5, UR4, 0x2\nLEA.HI.X R13, R5, UR5, RZ, 0x2, P3\nLDG.E R5, [R12.64]"


@pytest.mark.parametrize(
    ("text", "old", "new", "index"),
    [
        # A code is loaded ahead of its use: its register is read before it is written again.
        (AHEAD, "IADD3 R1, R1, 0x1, RZ", "LDG.E.U8 R2, [R20.64]", 2),
        # A scale is itself a product: it is a factor of the products, and not one of them.
        (TABLE, "FMUL.FTZ R3, R3", f"{SCALE}FMUL.FTZ R3, R3", 2),
        # An address that needs two registers is two instructions.
        (TABLE, "LDS R5, [R5.X4+0x10]", TWO, 4),
    ],
)
def test_decoding_is_found_in_other_forms(text, old, new, index):
    assert old in text
    facts = written.facts(text.replace(old, new))
    assert decoding(facts) == (Ways(*[index] * 3), Ways(2, 2, 2))

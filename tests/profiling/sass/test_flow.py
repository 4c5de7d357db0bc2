"""Blocks, loops, and ways through them, on every kind of loop that compilers write."""

import pytest
import written
from sass.flow import flow_of

from records.errors import InputError

STRAIGHT = "MOV R1, R2\nSTG.E [R2.64], R1\nEXIT"
TESTED_BELOW = """
     MOV R1, RZ
top: IADD3 R1, R1, 0x1, RZ
     ISETP.GE.AND P0, PT, R1, R2, PT
     @!P0 BRA top
     EXIT
"""
# As ptxas writes the loops of sm_80: the way out is a call that never returns.
LEFT_BY_A_CALL = """
     MOV R1, RZ
top: IADD3 R1, R1, 0x1, RZ
     @P1 CALL.REL.NOINC out
     BRA top
out: EXIT
pad: BRA pad
     NOP
     NOP
"""
LEFT_BY_AN_EXIT = "top: IADD3 R1, R1, 0x1, RZ\n@P0 EXIT\nBRA top\npad: BRA pad"
NESTED = """
       MOV R1, RZ
outer: MOV R2, RZ
inner: IADD3 R2, R2, 0x1, RZ
       @P0 BRA inner
       IADD3 R1, R1, 0x1, RZ
       @P1 BRA outer
       EXIT
"""
BRANCH_WITHIN = """
top:  LOP3.LUT P0, RZ, R1, 0x8, RZ, 0xc0, !PT
      @P0 BRA high
      MOV R2, 0x1
      BRA both
high: MOV R2, 0x2
both: @P1 BRA top
      EXIT
"""


def flow(text):
    return flow_of(written.function(text))


def loops(text):
    """By the addresses of their instructions."""
    found = flow(text)
    return [[i.address // 16 for i in found.instructions(loop.blocks)] for loop in found.loops]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (STRAIGHT, []),
        (TESTED_BELOW, [[1, 2, 3]]),
        (LEFT_BY_A_CALL, [[1, 2, 3]]),
        (LEFT_BY_AN_EXIT, [[0, 1, 2]]),
        (NESTED, [[2, 3], [1, 2, 3, 4, 5]]),
        (BRANCH_WITHIN, [[0, 1, 2, 3, 4, 5]]),
        ("top: NOP\nBRA.U !UP0, top\nEXIT", [[0, 1]]),  # of the uniform data path
        ("top: NOP\n@P2 BRA.U.ANY top\nEXIT", [[0, 1]]),
        ("@P0 BRA end\nNOP\nend: EXIT", []),  # a jump forward
    ],
)
def test_loops_are_found_inner_ones_first(text, wanted):
    assert loops(text) == wanted


def test_what_is_never_reached_is_left_out():
    kept = [i.address // 16 for i in flow(LEFT_BY_A_CALL).instructions(flow(LEFT_BY_A_CALL).blocks)]
    assert kept == [0, 1, 2, 3, 4]


def test_a_label_that_nothing_jumps_to_makes_no_block():
    assert len(flow("NOP\nlabel: NOP\nEXIT").blocks) == 1


def test_a_guarded_exit_goes_on():
    assert [b.successors for b in flow("@P0 EXIT\nNOP\nEXIT").blocks.values()] == [(1,), ()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BRX R2 -0x10\nEXIT", "sass: kernel, 0x0000: BRX leads where this cannot follow"),
        ("CALL.ABS R2\nEXIT", "sass: kernel, 0x0000: CALL.ABS leads where this cannot follow"),
        ("BRA nowhere\nEXIT", "sass: kernel: there is no label '.nowhere'"),
    ],
)
def test_a_jump_that_cannot_be_followed_is_one_line(text, message):
    with pytest.raises(InputError) as error:
        flow(text)
    assert str(error.value) == message


def test_a_loop_with_two_entries_is_one_line():
    text = "@P0 BRA b\na: NOP\nb: NOP\n@P1 BRA a\nEXIT"
    with pytest.raises(InputError) as error:
        flow(text).loops  # noqa: B018
    assert str(error.value) == "sass: the loop at 0x0020 is entered at several places"


def shortest_and_longest(text, region_of):
    found = flow(text)

    def length(block, _):
        return (len(block.instructions),)

    def negative(block, _):
        return (-len(block.instructions),)

    region = region_of(found)
    return -found.best_way(region, negative)[0], found.best_way(region, length)[0]


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        (TESTED_BELOW, (3, 3)),
        (LEFT_BY_A_CALL, (3, 3)),  # the way that repeats it, not the one that leaves
        (LEFT_BY_AN_EXIT, (3, 3)),
        (BRANCH_WITHIN, (4, 5)),
    ],
)
def test_a_way_through_a_loop_ends_where_it_repeats(text, ways):
    assert shortest_and_longest(text, lambda found: found.loops[0]) == ways


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        (STRAIGHT, (3, 3)),
        (NESTED, (7, 7)),  # each loop once
        ("@P0 EXIT\nNOP\nNOP\nEXIT", (1, 4)),
        ("@P0 BRA end\nNOP\nend: EXIT", (2, 3)),
    ],
)
def test_a_way_through_a_kernel_ends_at_an_exit(text, ways):
    assert shortest_and_longest(text, lambda found: found.everything) == ways


def test_an_outer_loops_way_goes_through_the_inner_one_once():
    assert shortest_and_longest(NESTED, lambda found: found.loops[1]) == (5, 5)


def test_a_kernel_without_end_is_one_line():
    with pytest.raises(InputError, match="sass: the kernel never ends"):
        shortest_and_longest("top: NOP\nBRA top", lambda found: found.everything)

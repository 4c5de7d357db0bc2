"""Blocks, loops and paths, on every kind of loop that compilers emit."""

import pytest
import written
from sass.flow import flow_of

STRAIGHT = "MOV R1, R2\nSTG.E [R2.64], R1\nEXIT"
TESTED_BELOW = """
     MOV R1, RZ
top: IADD3 R1, R1, 0x1, RZ
     ISETP.GE.AND P0, PT, R1, R2, PT
     @!P0 BRA top
     EXIT
"""
# As in ptxas' loops for sm_80: the exit is a call that never returns.
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
    graph = flow(text)
    return [[i.address // 16 for i in graph.instructions(loop.blocks)] for loop in graph.loops]


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


def test_blocks():
    graph = flow(LEFT_BY_A_CALL)
    kept = [i.address // 16 for i in graph.instructions(graph.blocks)]
    assert kept == [0, 1, 2, 3, 4]  # without what is never reached
    assert len(flow("NOP\nlabel: NOP\nEXIT").blocks) == 1  # nothing jumps to the label
    # A guarded exit goes on.
    assert [b.successors for b in flow("@P0 EXIT\nNOP\nEXIT").blocks.values()] == [(1,), ()]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("BRX R2 -0x10\nEXIT", "sass: kernel, 0x0000: BRX jumps to an unknown address"),
        ("CALL.ABS R2\nEXIT", "sass: kernel, 0x0000: CALL.ABS jumps to an unknown address"),
        ("BRA nowhere\nEXIT", "sass: kernel: there is no label '.nowhere'"),
        (
            "@P0 BRA b\na: NOP\nb: NOP\n@P1 BRA a\nEXIT",
            "sass: the loop at 0x0020 is entered at several places",
        ),
        ("top: NOP\nBRA top", "sass: the kernel never ends"),
    ],
)
def test_what_cannot_be_followed_is_one_line(text, line, refused):
    assert refused(lambda: longest(flow(text), flow(text).everything)) == line


def longest(graph, region, sign=1):
    """The instructions of the longest path through a region; with -1, of the shortest."""
    return sign * graph.best_way(region, lambda block, _: (sign * len(block.instructions),))[0]


@pytest.mark.parametrize(
    ("text", "loop", "shortest", "most"),
    [
        (TESTED_BELOW, 0, 3, 3),  # a way through a loop ends where it repeats
        (LEFT_BY_A_CALL, 0, 3, 3),  # the one that repeats it, not the one that leaves
        (LEFT_BY_AN_EXIT, 0, 3, 3),
        (BRANCH_WITHIN, 0, 4, 5),
        (NESTED, 1, 5, 5),  # the outer loop's goes through the inner one once
        (STRAIGHT, None, 3, 3),  # one through a kernel ends at an exit
        (NESTED, None, 7, 7),
        ("@P0 EXIT\nNOP\nNOP\nEXIT", None, 1, 4),
        ("@P0 BRA end\nNOP\nend: EXIT", None, 2, 3),
    ],
)
def test_ways(text, loop, shortest, most):
    graph = flow(text)
    region = graph.everything if loop is None else graph.loops[loop]
    assert (longest(graph, region, -1), longest(graph, region)) == (shortest, most)

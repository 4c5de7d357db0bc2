"""From nvdisasm's text to instructions."""

import pytest
import written
from sass.parse import Frame, parse


def test_instructions_labels_and_source_lines():
    """Lines hold until the next and name the calls inlined there."""
    function = written.function(
        """
             MOV R1, c[0x0][0x28]
        top: @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64+0x10]  # /k/a.hpp:62 < /k/./walk.cuh:77
             @UP1 UIADD3 UR4, UR4, 0x1, URZ
             BRA top  # /k/walk.cuh:83
        end: EXIT
        """
    )
    code = function.instructions
    assert [i.address for i in code] == [0, 16, 32, 48, 64]
    assert [i.guard for i in code] == ["", "!P0", "UP1", "", ""]
    assert [i.name for i in code] == ["MOV", "LDG", "UIADD3", "BRA", "EXIT"]
    assert code[1].modifiers == {"E", "128", "CONSTANT"}
    assert str(code[1]) == "@!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64+0x10]"
    assert function.labels == {".top": 16, ".end": 64, ".text.kernel": 0}
    assert code[3].targets == [".top"]
    inlined, last = (Frame("/k/a.hpp", 62), Frame("/k/walk.cuh", 77)), (Frame("/k/walk.cuh", 83),)
    assert [i.frames for i in code] == [(), inlined, inlined, last, last]


@pytest.mark.parametrize(
    ("opcode", "width"),
    [
        ("STG.E", 4),
        ("STG.E.U8", 1),
        ("LDS.S16", 2),
        ("LDG.E.64", 8),
        ("STG.E.EF.128", 16),
        ("LDG.E.LTC128B.CONSTANT", 4),
        ("LDG.E.ENL2.256", 32),
    ],
)
def test_a_width_is_a_modifier_of_its_own(opcode, width):
    assert written.function(f"{opcode} R1, R2").instructions[0].width_bytes == width


def test_the_named_kernel_is_found_among_others():
    text = written.printed("NOP\nNOP\nEXIT", "one") + written.printed("EXIT", "two")
    assert len(parse(text, "one").instructions) == 3
    assert [i.name for i in parse(text, "two").instructions] == ["EXIT"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "sass: nvdisasm printed no instruction of kernel"),
        ("NOP\nEXIT", "sass: kernel, 0x0020: an instruction is missing before this one"),
        ("?!", "sass: nvdisasm printed an invalid instruction: /*0000*/                   ?! ;"),
    ],
)
def test_what_is_not_understood_is_one_line(text, line, refused):
    listing = written.printed(text).replace("/*0010*/", "/*0020*/")
    assert refused(parse, listing, "kernel") == line

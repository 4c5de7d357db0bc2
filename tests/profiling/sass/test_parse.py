"""From nvdisasm's text to instructions."""

import pytest
import written
from sass.parse import Frame, parse

from records.errors import InputError


def test_instructions_have_guard_opcode_operands_and_address():
    code = written.function(
        """
        MOV R1, c[0x0][0x28]
        @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64+0x10]
        @UP1 UIADD3 UR4, UR4, 0x1, URZ
        EXIT
        """
    ).instructions
    assert [i.address for i in code] == [0, 16, 32, 48]
    assert [i.guard for i in code] == ["", "!P0", "UP1", ""]
    assert [i.name for i in code] == ["MOV", "LDG", "UIADD3", "EXIT"]
    assert code[1].modifiers == {"E", "128", "CONSTANT"}
    assert code[1].operands == "R4, desc[UR4][R2.64+0x10]"
    assert str(code[1]) == "@!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64+0x10]"


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
        ("STG.E.U16.SYS", 2),
    ],
)
def test_a_width_is_a_modifier_of_its_own(opcode, width):
    assert written.function(f"{opcode} R1, R2").instructions[0].width_bytes == width


def test_labels_are_addresses_of_what_follows():
    found = written.function("NOP\ntop: NOP\nBRA top\nend: EXIT")
    assert found.labels == {".top": 16, ".end": 48, ".text.kernel": 0}
    assert found.instructions[2].targets == [".top"]


def test_source_lines_hold_until_the_next_and_name_the_calls_inlined_there():
    first, second, third, last = written.function(
        """
        NOP
        FMUL R1, R2, R3   # /k/format.hpp:62 < /k/./walk.cuh:77
        FMUL R2, R2, R3
        EXIT              # /k/walk.cuh:83
        """
    ).instructions
    assert first.frames == ()
    assert second.frames == (Frame("/k/format.hpp", 62), Frame("/k/walk.cuh", 77))
    assert third.frames == second.frames
    assert last.frames == (Frame("/k/walk.cuh", 83),)


def test_the_named_kernel_is_found_among_others():
    text = written.printed("NOP\nNOP\nEXIT", "one") + written.printed("EXIT", "two")
    assert len(parse(text, "one").instructions) == 3
    assert [i.name for i in parse(text, "two").instructions] == ["EXIT"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "sass: nvdisasm printed no instruction of kernel"),
        ("NOP\nEXIT", "sass: kernel, 0x0020: an instruction is missing before this one"),
        ("?!", "sass: nvdisasm printed what is no instruction: /*0000*/                   ?! ;"),
    ],
)
def test_what_is_not_understood_is_one_line(text, message):
    listing = written.printed(text).replace("/*0010*/", "/*0020*/")
    with pytest.raises(InputError) as error:
        parse(listing, "kernel")
    assert str(error.value) == message

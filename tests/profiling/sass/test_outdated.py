"""Which recorded rows are of older code: a kernel's file edited by a constant, or in a comment."""

from dataclasses import replace
from pathlib import Path

import made
import pytest
from sass import cubin, digests, outdated, tools

from records.errors import InputError
from records.json_files import ROOT
from records.results import SCHEMA, Results, parse

SOURCE = "kernels/nf4/shared_lut_algorithm1.cu"
FILE = ROOT / "data/recorded/made/table2/replay.json"
NVCC = "13.0.88"
CODE = {SOURCE: "1" * 64}
CONSTANT = ("block_scale(blockIdx.x)", "block_scale(blockIdx.x + 1)")


def recorded(**codes) -> Results:
    """Rows of these kernels with these codes, two of each."""
    records = []
    for batch in (2, 4):
        problem = made.forward_pass("qwen3-32b", batch)
        for kernel, code in codes.items():
            found = code and {"target": "sm_90", "sha256": code}
            records.append(made.record(problem, kernel, [1.0, 2.0], code=found))
    root = made.results("table2", "replay", records)
    SCHEMA.check(FILE, root)
    return parse(FILE, root)


def compared(results: Results, now: dict[str, str], nvcc: str = NVCC) -> outdated.Compared:
    return outdated.compare([results], nvcc, lambda part, arch: now.get(part, ""))


def test_rows_of_the_same_code_are_not_named():
    assert compared(recorded(shared_lut=CODE), CODE) == outdated.Compared()


def test_each_kernel_of_other_code_is_named_once_with_its_file():
    other = CODE | {"kernels/nf4/streaming.cu": "2" * 64}
    found = compared(recorded(a=CODE, b=other, c=other), CODE | {"kernels/nf4/streaming.cu": "3"})
    what = "the code of kernels/nf4/streaming.cu for sm_90 differs from this checkout's"
    place = "data/recorded/made/table2/replay.json"
    assert found.outdated == [f"{place}: b: {what}", f"{place}: c: {what}"]
    assert not found.not_compared


def test_rows_that_cannot_be_compared_say_why():
    rows = recorded(
        of_old=None,
        of_library={"libbitsandbytes_cuda130.so": "4" * 64},
        of_mojo={"mojo_tiled_2d.fp16.ptx": "5" * 64},
        of_gone={"kernels/nf4/gone.cu": "6" * 64},
    )
    found = compared(rows, {})
    assert not found.outdated
    assert list(found.not_compared.values()) == [2, 2, 2, 2]
    told = " ".join(found.not_compared)
    for part in ("recorded before", "a library's", "make mojo triton", "gone.cu is no longer"):
        assert part in told


def test_another_compiler_is_no_other_kernel():
    found = compared(recorded(shared_lut=CODE), {SOURCE: "7"}, nvcc="12.9.41")
    assert found.outdated == []
    assert found.not_compared == {f"compiled by nvcc {NVCC}, and here is 12.9.41": 2}


def test_only_what_recorded_rows_are_of_is_compiled():
    rows = recorded(a=CODE, b=None, c={"lib.so": "4" * 64})
    assert outdated.wanted([rows], NVCC) == [(SOURCE, "sm_90")]
    assert outdated.wanted([rows], "12.9.41") == []


def test_without_a_compiler_one_line_says_so(monkeypatch):
    def none():
        raise InputError("there is no nvcc")

    monkeypatch.setattr(tools, "nvcc", none)
    lines = outdated.report([recorded(shared_lut=CODE)])
    assert lines == [
        "recorded rows are not compared with this checkout's kernels: there is no nvcc"
    ]


@pytest.fixture(scope="module")
def digest_of_edited(tmp_path_factory):
    """What compiles the file with one part of its text exchanged, and gives the code's digest."""
    try:
        cubin.build_commands(), digests.program()
    except InputError as error:
        pytest.skip(str(error))
    arch = cubin.architectures()[-1]
    folder, command = cubin.command_for(ROOT / SOURCE, arch)
    text = (ROOT / SOURCE).read_text()

    def digest(old: str = "", new: str = "") -> tuple[str, str]:
        assert old in text
        edited: Path = tmp_path_factory.mktemp("edited") / "another_name.cu"
        edited.write_text(text.replace(old, new, 1) if old else text)
        words = [str(edited) if word == str(ROOT / SOURCE) else word for word in command]
        assert words != command
        return arch, digests.of(cubin.made_by(words, folder, edited.parent, "edited", [edited]))

    return digest


def outdated_after(digest_of_edited, old: str, new: str) -> list[str]:
    arch, before = digest_of_edited()
    rows = recorded(shared_lut_algorithm1={SOURCE: before})
    code = replace(rows.records[0].code, target=arch)
    rows = replace(rows, records=tuple(replace(r, code=code) for r in rows.records))
    after = digest_of_edited(old, new)[1]
    return outdated.compare([rows], NVCC, lambda part, _: {SOURCE: after}[part]).outdated


def test_a_constant_makes_recorded_rows_old(digest_of_edited):
    found = outdated_after(digest_of_edited, *CONSTANT)
    assert len(found) == 1
    assert "shared_lut_algorithm1: the code of" in found[0]


def test_a_comment_and_moved_lines_make_none_old(digest_of_edited):
    assert outdated_after(digest_of_edited, "//", "// Edited.\n\n\n//") == []

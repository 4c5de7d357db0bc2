"""Recorded rows of older code: a kernel's file edited in a constant, or in a comment."""

import json
from dataclasses import replace
from pathlib import Path

import made
import pytest
from sass import __main__ as command
from sass import cubin, identity, outdated, tools

from reprolab import code
from reprolab.command_line import run
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.results import SCHEMA, Results, parse

SOURCE, OTHER = "kernels/nf4/scalar_store.cu", "kernels/nf4/streaming.cu"
FILE = ROOT / "data/recorded/made/table2/replay.json"
NVCC = "13.0.88"
CODE = {SOURCE: "1" * 64}


def recorded(**codes) -> Results:
    """Rows of these kernels with these codes, two of each."""
    records = []
    for batch in (2, 4):
        problem = made.forward_pass("qwen3-32b", batch)
        for kernel, digests in codes.items():
            found = digests and {"target": "sm_90", "sha256": digests}
            records.append(made.record(problem, kernel, [1.0, 2.0], code=found))
            if kernel == "of_package":
                records[-1]["origin"] = {"kind": "peer", "maker": "made up 1.0"}
    root = made.results("table2", "replay", records)
    SCHEMA.check(FILE, root)
    return parse(FILE, root)


def compared(results: Results, now: dict[str, str], nvcc: str = NVCC) -> outdated.Compared:
    return outdated.compare([results], nvcc, lambda part, arch: now.get(part, ""))


def test_each_kernel_of_other_code_is_named_once_with_its_file():
    other = CODE | {OTHER: "2" * 64}
    same = compared(recorded(a=CODE, b=other), other)
    assert not (same.outdated or same.not_compared or same.older)
    found = compared(recorded(a=CODE, b=other, c=other), CODE | {OTHER: "3"})
    what = f"the code of {OTHER} for sm_90 differs from this checkout's"
    place = "data/recorded/made/table2/replay.json"
    assert found.outdated == [f"{place}: b: {what}", f"{place}: c: {what}"]
    assert not found.not_compared


def test_rows_that_cannot_be_compared_say_why():
    rows = recorded(
        of_old=None,
        of_package=None,
        of_library={"libbitsandbytes_cuda130.so": "4" * 64},
        of_mojo={"mojo_tiled_2d.fp16.ptx": "5" * 64},
        of_gone={"kernels/nf4/gone.cu": "6" * 64},
        not_yet=CODE,
    )
    found = compared(rows, {})
    assert not found.outdated
    assert list(found.not_compared.values()) == [2, 4, 2, 2, 2]
    told = " ".join(found.not_compared)
    for part in ("recorded before", "a library's", "make mojo triton", "gone.cu is no longer"):
        assert part in told
    assert f"not all was compiled within {outdated.SECONDS} s" in told
    # A different compiler does not make a kernel older.
    found = compared(recorded(a=CODE), {SOURCE: "7"}, nvcc="12.9.41")
    assert found.outdated == []
    assert found.not_compared == {f"compiled by nvcc {NVCC}, and here is 12.9.41": 2}


def test_only_what_recorded_rows_are_of_is_compiled():
    rows = recorded(a=CODE, b=None, c={"lib.so": "4" * 64})
    assert outdated.wanted([rows], NVCC) == [(SOURCE, "sm_90")]
    assert outdated.wanted([rows], "12.9.41") == []


def test_without_a_compiler_one_line_says_so(monkeypatch):
    def none():
        raise InputError("there is no nvcc")

    monkeypatch.setattr(tools, "nvcc_version", none)
    found, (line,) = outdated.look([recorded(a=CODE)], {})
    assert "there is no nvcc" in line and not found.compared


def test_code_with_a_known_digest_is_not_compiled(monkeypatch):
    """Known is code of the same sources, command and compiler."""
    try:
        name = str(cubin.place_of(ROOT / SOURCE, "sm_90").relative_to(cubin.FOLDER))
    except InputError as error:
        pytest.skip(str(error))
    compiled = []
    monkeypatch.setattr(cubin, "compiled", lambda *part: compiled.append(part))
    monkeypatch.setattr(identity, "of_cubin", lambda file: "8" * 64)
    for known, digest in (({name: "9" * 64}, "9" * 64), ({f"{name}2": "9" * 64}, "8" * 64)):
        codes: dict[str, str] = {}
        now = outdated.digests([(SOURCE, "sm_90")], known, codes)
        assert now(SOURCE, "sm_90") == digest and codes == {name: digest}
        assert bool(compiled) is (known != codes)


def test_a_cubins_name_follows_its_sources_and_command(monkeypatch, tmp_path):
    (tmp_path / "kernels").mkdir()
    source, through, other = (tmp_path / f"kernels/{n}" for n in ("a.cu", "b.cuh", "c.cuh"))
    source.write_text('#include <array>\n# include "b.cuh"\n#include "missing.cuh"\n')
    through.write_text('#include "kernels/c.cuh"\n')
    other.write_text("constexpr int threads = 64;\n")
    monkeypatch.setattr(cubin, "ROOT", tmp_path)
    monkeypatch.setattr(cubin.tools, "nvcc_version", lambda: NVCC)  # also where there is none
    assert cubin.with_headers.__wrapped__(source) == [source, through, other]

    def name(*words: str) -> str:
        return cubin.file_name("a", ["nvcc", *words], [source, through, other])

    first, lines = name(f"{tmp_path}/kernels/a.cu"), name("-lineinfo")
    assert first == name("/kernels/a.cu") != name("/kernels/a.cu", "-DX")
    other.write_text("// So many.\n\nconstexpr int threads = 64;  // of a block\n")
    assert first == name("/kernels/a.cu") and name("-lineinfo") != lines
    for changed in (
        "threads = 32;",
        'threads = 64; auto x = "//1";',
        "threads = 64; /* // */ int i;",
    ):
        other.write_text(f"constexpr int {changed}\n")
        assert first != name("/kernels/a.cu")


@pytest.mark.parametrize("source", ["kernels/nf4/streaming.cu", "kernels/transpose/column_walk.cu"])
def test_the_headers_of_a_file_are_those_that_the_compiler_reads(source):
    try:
        folder, command = cubin.command_for(ROOT / source, "sm_90")
    except InputError as error:
        pytest.skip(str(error))
    rule = tools.output_of([*(word for word in command if word != "-cubin"), "-MM"], folder)
    read = {Path(folder, word).resolve() for word in rule.replace("\\\n", " ").split()[2:]}
    assert read | {ROOT / source} == set(cubin.with_headers(ROOT / source))


def listed(content: bytes) -> dict[str, dict[str, list[str]]]:
    """By digest, the kernels of each file."""
    return {one["sha256"]: one["rows"] for one in json.loads(content)["older"]}


def test_the_list_of_older_code_follows_what_was_compared(monkeypatch, tmp_path):
    rows, place = recorded(a=CODE, b=CODE | {OTHER: "2" * 64}), str(FILE.relative_to(ROOT))
    monkeypatch.setattr(code, "OLDER", list_of_older_code(tmp_path / "older_code.json"))
    found = compared(rows, {SOURCE: "1" * 64, OTHER: "3" * 64})
    content = found.older_of([rows])
    assert listed(content) == {"2" * 64: {place: ["b"]}}
    code.SCHEMA.check(FILE, json.loads(content))
    # Without a compiler nothing new is known, and entries of existing rows are kept.
    monkeypatch.setattr(code, "OLDER", list_of_older_code(tmp_path / "kept.json", content))
    nothing = outdated.Compared()
    assert nothing.older_of([rows]) == content
    assert listed(nothing.older_of([recorded(a=CODE)])) == {}
    # Entries whose code is again this checkout's are removed.
    assert listed(compared(rows, CODE | {OTHER: "2" * 64}).older_of([rows])) == {}


def list_of_older_code(file: Path, content: bytes = b'{"older": [], "codes": {}}') -> Path:
    file.write_bytes(content)
    return file


def test_a_stale_list_of_older_code_fails_until_it_is_written(monkeypatch, tmp_path, capsys):
    rows = recorded(b={OTHER: "2" * 64})
    file = list_of_older_code(tmp_path / "older_code.json")
    monkeypatch.setattr(code, "OLDER", file)
    monkeypatch.setattr(command, "OLDER", file)
    monkeypatch.setattr(command, "result_files", lambda folder: [rows])
    monkeypatch.setattr(outdated, "look", lambda *_: (compared(rows, {OTHER: "3"}), ["line"]))
    assert status("recorded") == 1
    assert "is stale" in capsys.readouterr().out
    assert status("recorded", "--write") == 0
    assert listed(file.read_bytes()) == {"2" * 64: {str(FILE.relative_to(ROOT)): ["b"]}}
    code.older_digests.cache_clear()
    assert status("recorded") == 0
    assert status("recorded", str(tmp_path), "--write") == 2  # of other folders there is no list
    # Code that is known, and compiled to be compared with that.
    for digest, known in (("a", {}), ("a", {"b": "b" * 64}), ("b", {"a": "a" * 64})):
        found = replace(compared(rows, {OTHER: "3"}), codes={"a": digest * 64})
        monkeypatch.setattr(command, "known_codes", lambda file, known=known: known)
        monkeypatch.setattr(outdated, "look", lambda *_, found=found: (found, []))
        assert status("recorded", "--compile") == (digest == "b")
        assert ("another digest of a" in capsys.readouterr().out) is (digest == "b")


def status(*words: str) -> int:
    return run(command.parser(), words)


def test_a_constant_makes_recorded_rows_old_and_a_comment_does_not(tmp_path):
    try:
        now = outdated.digests([(SOURCE, "sm_90")], {}, {})(SOURCE, "sm_90")
    except InputError as error:
        pytest.skip(str(error))
    folder, command = cubin.command_for(ROOT / SOURCE, "sm_90")
    text, rows = (ROOT / SOURCE).read_text(), recorded(scalar_store={SOURCE: now})
    for old, new, is_old in (
        ("//", "// Edited.\n\n\n//", False),
        ("2 * byte + 1", "2 * byte + 3", True),
    ):
        assert old in text
        edited = tmp_path / f"another_name_{is_old}.cu"
        edited.write_text(text.replace(old, new, 1))
        words = [str(edited) if word == str(ROOT / SOURCE) else word for word in command]
        assert words != command
        digest = identity.of_cubin(
            cubin.made_by(words, folder, tmp_path / f"{edited.stem}-1.cubin")
        )
        found = outdated.compare([rows], NVCC, lambda *_, digest=digest: digest).outdated
        assert [": the code of" in line for line in found] == [True] * is_old

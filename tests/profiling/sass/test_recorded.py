"""Recorded rows of older code, and the names of cubins."""

import json
from pathlib import Path

import made
import pytest
from sass import __main__ as command
from sass import cubin

from reprolab.command_line import run
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.results import Results, parse

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
    return parse(FILE, made.results("table2", "replay", records))


def test_each_kernel_of_other_code_is_named_once_with_its_file():
    other = CODE | {OTHER: "2" * 64}
    files = [recorded(a=CODE, b=other, c=other, old=None, mojo={"m.ptx": "5"}, gone={"g.cu": "6"})]
    now = {(SOURCE, "sm_90"): "1" * 64, (OTHER, "sm_90"): "2" * 64, ("g.cu", "sm_90"): ""}
    lines, older = command.compare(files, now)
    assert (len(lines), older) == (1, set())
    assert lines[0].startswith("6 of 12 recorded rows compared")
    lines, older = command.compare(files, now | {(OTHER, "sm_90"): "3" * 64})
    what = f"the code of {OTHER} for sm_90 differs from this checkout's"
    place = "data/recorded/made/table2/replay.json"
    assert lines[:-1] == [f"{place}: b: {what}", f"{place}: c: {what}"]
    assert older == {"2" * 64}
    assert command.compare(files, {})[1] == set()


def test_only_what_recorded_rows_of_this_compiler_are_of_is_compiled():
    files = [recorded(a=CODE, b=None, c={"lib.so": "4" * 64})]
    assert command.parts_of(files, NVCC) == [(SOURCE, "sm_90")]
    assert command.parts_of(files, "12.9.41") == []


def test_a_cubins_name_follows_its_sources_and_command(monkeypatch, tmp_path):
    (tmp_path / "kernels").mkdir()
    source, through, other = (tmp_path / f"kernels/{n}" for n in ("a.cu", "b.cuh", "c.cuh"))
    source.write_text('#include <array>\n# include "b.cuh"\n#include "missing.cuh"\n')
    through.write_text('#include "kernels/c.cuh"\n')
    other.write_text("constexpr int threads = 64;\n")
    monkeypatch.setattr(cubin, "ROOT", tmp_path)
    monkeypatch.setattr(cubin, "nvcc_version", lambda: NVCC)  # also where there is none
    assert cubin.with_headers.__wrapped__(source) == [source, through, other]

    def name(*words: str) -> str:
        return cubin.file_name("a", ["nvcc", *words], [source, through, other])

    first = name(f"{tmp_path}/kernels/a.cu")
    assert first == name("/kernels/a.cu") != name("/kernels/a.cu", "-DX")
    other.write_text("// So many.\n\nconstexpr int threads = 64;  // of a block\n")
    assert first == name("/kernels/a.cu")
    names = []
    for changed in (
        "threads = 32;",
        'threads = 64; auto x = "//1";',
        "threads = 64; /* // */ int i;",
        "threads = 64; /* // */ int j;",
    ):
        other.write_text(f"constexpr int {changed}\n")
        names.append(name("/kernels/a.cu"))
    assert len({first, *names}) == 1 + len(names)


def test_no_cubins_name_depends_on_the_toolkits_folder():
    try:
        files = [file for file in cubin.build_commands() if file.suffix == ".cu"]
    except InputError as error:
        pytest.skip(str(error))
    toolkit = str(cubin.program("nvcc").parents[1])
    words = [word for file in files for word in cubin.command_for(file, "sm_90")[1][1:]]
    assert words and not [word for word in words if toolkit in word]


@pytest.mark.parametrize("source", ["kernels/nf4/streaming.cu", "kernels/transpose/column_walk.cu"])
def test_the_headers_of_a_file_are_those_that_the_compiler_reads(source):
    try:
        folder, command = cubin.command_for(ROOT / source, "sm_90")
    except InputError as error:
        pytest.skip(str(error))
    rule = cubin.output_of([*(word for word in command if word != "-cubin"), "-MM"], folder)
    read = {Path(folder, word).resolve() for word in rule.replace("\\\n", " ").split()[2:]}
    assert read | {ROOT / source} == set(cubin.with_headers(ROOT / source))


def test_a_stale_list_of_older_code_fails_until_it_is_written(monkeypatch, tmp_path, capsys):
    file, known = tmp_path / "older_code.json", []
    file.write_bytes(command.list_of(set(), {}))
    monkeypatch.setattr(command, "OLDER", file)
    monkeypatch.setattr(command, "result_files", lambda folder: [recorded(b={OTHER: "2" * 64})])
    monkeypatch.setattr(cubin, "nvcc_version", lambda: NVCC)
    name = "sm_90/nf4-streaming-0123456789abcdef.cubin"

    def now(parts, digests):
        known.append(digests)
        return dict.fromkeys(parts, (name, "3" * 64))

    monkeypatch.setattr(command, "codes_now", now)
    assert status("recorded") == 1
    assert "is stale" in capsys.readouterr().out
    assert status("recorded", "--write") == 0
    written = json.loads(file.read_bytes())
    assert written == {"older": ["2" * 64], "codes": {name: "3" * 64}}
    assert status("recorded") == 0
    assert status("recorded", "--compile") == 0
    assert known[-2:] == [written["codes"], {}]


def status(*words: str) -> int:
    return run(command.parser(), words)


def test_without_a_compiler_one_line_says_so(monkeypatch, capsys):
    def none():
        raise InputError("there is no nvcc")

    monkeypatch.setattr(cubin, "nvcc_version", none)
    assert status("recorded") == 0
    assert "there is no nvcc" in capsys.readouterr().out

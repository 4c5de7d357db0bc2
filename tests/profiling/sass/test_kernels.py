"""The kernels, the function of a file that is shown, and errors for missing ones."""

import pytest
import written
from sass import kernels, tools, view
from sass.__main__ import parser
from sass.code import choose, plain, resources_of

from reprolab import declared
from reprolab.errors import InputError
from reprolab.json_files import ROOT

TILES = {"a": "vector_tile<DownColumns<1u>, X>", "b": "vector_tile<DownColumns<2u>, X>"}


def test_a_kernel_is_a_file_that_registers_its_own_name():
    registered = kernels.registered()
    files = {file.stem for file in (ROOT / "kernels").glob("*/*.cu")}
    assert files - set(registered) == {"bitsandbytes_peer"}  # registers what a user names
    assert all(kernel.lineage for kernel in registered.values())
    assert registered["tiled"].source_file == "kernels/transpose/tiled.cu"
    assert [
        k.name for k in registered.values() if k.deviation and k.family.name == "transpose"
    ] == ["tma_batched_as_published"]


def test_a_kernel_that_is_not_described_yet_is_shown_by_its_file(monkeypatch):
    monkeypatch.setattr(kernels, "registered", dict)
    tiled = kernels.named("tiled")
    assert (tiled.source_file, tiled.family.name) == ("kernels/transpose/tiled.cu", "transpose")


@pytest.fixture
def two_kernels(monkeypatch):
    """Refusals name all kernels, of which a checkout may have more."""
    two = {name: kernels.registered()[name] for name in ("shared_lut", "tiled")}
    monkeypatch.setattr(kernels, "known", lambda: two)


@pytest.mark.usefixtures("two_kernels")
def test_a_misspelt_kernel_is_answered_with_the_nearest(refused):
    assert "did you mean shared_lut?" in refused(kernels.named, "shard_lut")
    assert "did you mean" not in refused(kernels.named, "x")


def test_two_kernels_are_compared_by_facts_and_instructions():
    text = "MOV R2, {}\ntop: LDS R3, [R2]\n{}STG.E [R{}], R3\n@P0 BRA top\nEXIT"
    one, two = (
        written.facts(text.format("R1", more, number), name=name)
        for name, more, number in (("one", "", 4), ("two", "FMUL R3, R3, R5\n", 8))
    )
    table = view.differing_facts(one, two)
    assert {(row["fact"], row["a"], row["b"]) for row in table.rows} >= {
        ("trip instructions", "3", "4")
    }
    changed = [line for line in view.difference(one, two) if line[:1] in "+-"]
    assert changed == ["--- one", "+++ two", "+FMUL R, R, R"]
    assert not list(view.difference(one, one))


def test_names_are_shown_without_namespaces_and_parameters():
    long = "void reprolab::a::(anonymous namespace)::f<reprolab::a::T<1u>, (E)2>(reprolab::a::P)"
    assert plain(long) == "f<T<1u>, (E)2>"
    assert plain("g(CUtensorMap_st, unsigned int)") == "g"


def test_the_measured_function_is_chosen():
    shared_lut, column_walk = kernels.named("shared_lut"), kernels.named("column_walk")
    names = {
        f"{index}{scale}{out}": f"tile_walk<SharedLut, {index}, {scale}ScaleReader, {out}>"
        for index in ("unsigned int", "unsigned long")
        for scale in ("Plain", "Nested")
        for out in ("__half", "__nv_bfloat16")
    }
    assert choose(shared_lut, names, "") == "unsigned intPlain__half"
    wanted = "long, NestedScaleReader, __half"
    assert choose(shared_lut, names, wanted) == "unsigned longNested__half"
    assert choose(column_walk, TILES, "") == "b"
    assert choose(column_walk, {"only": "tma_naive"}, "") == "only"


@pytest.mark.parametrize(("content", "shared"), [(b"", 3744), (b"\0.nv.shared.reserved.0\0", 2720)])
def test_what_the_system_keeps_of_shared_memory_is_not_counted(
    tmp_path, monkeypatch, content, shared
):
    usage = "Resource usage:\n Common:\n  GLOBAL:28\n Function _Zf:\n"
    usage += "  REG:48 STACK:16 SHARED:3744 LOCAL:8 CONSTANT[0]:392 TEXTURE:0\n"
    monkeypatch.setattr(tools, "program", lambda name: name)
    monkeypatch.setattr(tools, "output_of", lambda command: usage)
    (tmp_path / "x.cubin").write_bytes(content)
    assert list(resources_of(tmp_path / "x.cubin").items()) == [("_Zf", (48, 16, shared))]


@pytest.mark.parametrize(
    ("call", "start"),
    [
        (lambda: kernels.named("x"), "KERNEL: "),
        (lambda: choose(kernels.named("tiled"), TILES, "Nothing"), "FUNCTION: "),
        (lambda: choose(kernels.named("tiled"), TILES, "vector"), "FUNCTION: "),
        (
            lambda: tools.output_of(
                ["sh", "-c", "echo note; echo 'x.cu: error: no such thing' >&2; exit 1"]
            ),
            "sass: sh failed: ",
        ),
    ],
    ids=["kernel", "no function", "two functions", "failed tool"],
)
@pytest.mark.usefixtures("two_kernels")
def test_an_impossible_request_is_one_line(call, start, refused):
    assert refused(call).startswith(start)


@pytest.mark.parametrize("name", ["nvcc", "nvdisasm", "cuobjdump"])
def test_a_missing_tool_is_one_line(monkeypatch, name):
    monkeypatch.setattr(tools.shutil, "which", lambda wanted: None if wanted == name else "x")
    monkeypatch.setattr(tools, "packaged", lambda name: "")
    with pytest.raises(InputError, match=f"sass: there is no {name} on this machine: "):
        tools.require_all()


def test_the_listing_has_lines_marks_and_addresses():
    facts = written.facts(
        f"""
        top: LDG.E.U8 R2, [R20.64]  # {ROOT}/kernels/nf4/shared_lut.cu:1 < /none/walk.cuh:9
             LOP3.LUT R3, R2, 0xf, RZ, 0xc0, !PT
             SHF.R.U32.HI R4, RZ, 0x4, R2
             LDS R3, [R3.X4+0x10]
             LDS R4, [R4.X4+0x10]
             FMUL.FTZ R3, R3, R9
             FMUL.FTZ R4, R4, R9
             STG.E.U16 [R6.64], R3
             STG.E.U16 [R6.64+0x2], R4
             @!P0 BRA top
             EXIT
        """
    )
    lines = list(view.listing(facts))
    assert lines[0] == "The loop: 10 instructions for 2 weights"
    assert lines[2] == "0000:  goes on to 0000, 00a0"
    assert " ".join(lines[3].split()) == ("0000 LDG.E.U8 R2, [R20.64] walk.cuh:9 < shared_lut.cu:1")
    assert [line[7] for line in lines[3:]] == [" ", "i", "i", "t", "t", *" " * 5]
    assert lines[-1].endswith("@!P0 BRA 0000")
    (by_line,) = view.tables(facts)[1].rows
    assert list(by_line.values()) == ["walk.cuh:9", 10, 2, 2, ""]


def test_a_pass_of_compiled_code_asks_for_the_families_that_it_may_have():
    steps = [s for name in declared.names() for s in declared.experiment(name).passes.values()]
    compiled = [step for step in steps if step.compiled]
    assert compiled
    for step in compiled:
        args = parser().parse_args([*step.arguments, "--output", "x"])
        selected = kernels.of_families(args.family)
        assert {kernel.family.name for kernel in selected} == set(step.families)


def test_a_family_without_compiled_kernels_is_one_line():
    assert len(kernels.of_families([])) == len(kernels.known())
    with pytest.raises(InputError, match=r"--family: .* of 'nf5'"):
        kernels.of_families(["nf4", "nf5"])

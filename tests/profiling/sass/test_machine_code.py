"""Machine code: what `make sass` shows, and the digests that identify recorded rows."""

import pytest
from sass import __main__ as command
from sass import cubin, identity
from sass.code import LOADS, STORES, Function, file_of, functions_in, without_padding

from reprolab.claims.evidence import CODE
from reprolab.command_line import run
from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_json
from reprolab.results import load

try:
    cubin.program("cuobjdump")
    cubin.build_commands()
except InputError as error:
    pytest.skip(str(error), allow_module_level=True)

# Each of another kind: a constant table, a tree, a kernel of 9.0a, and one with tensor maps.
KERNELS = ("constant_lut", "branch_tree", "many_rows", "tma_naive")


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_code_has_the_digest_and_the_facts_that_are_recorded(name):
    file = file_of(name, "sm_90")
    digest = identity.of_cubin(file)
    assert digest in read_json(command.OLDER)["codes"].values()
    recorded = load(ROOT / f"data/recorded/h100/{CODE}.json", *CODE.split("/"))
    rows = [r for r in recorded.records if r.key == f"sm_90/{name}"]
    assert len(rows) == (name != "many_rows")
    for row in rows:
        assert set(row.code["sha256"].values()) == {digest}
        (function,) = [f for f in functions_in(file) if f.name == row.problem["function"]]
        for fact in ("registers", "stack_bytes", "static_shared_bytes", "code_bytes"):
            assert getattr(function, fact) == row.metrics[f"sass_{fact}"].median


CODE_IN_CUDA = """
__constant__ float table[4] = {1, 2, 3, 4};
__global__ void doubled(const float* in, float* out) {
  __shared__ float kept[32];
  kept[threadIdx.x] = 2.0f * in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = kept[31 - threadIdx.x] + table[threadIdx.x % 4];
  atomicAdd(out + 64, 1.0f);
}
"""


@pytest.mark.parametrize(
    ("old", "new", "is_other"),
    [
        ("__global__", "// A comment.\n\n__global__", False),
        ("doubled", "twice", False),
        ("table", "values", False),
        ("3, 4}", "3, 5}", True),
        ("2.0f", "4.0f", True),
        ("31 -", "30 -", True),
        ("kept[32]", "kept[33]", True),
        ("void doubled", "void __launch_bounds__(1024, 2) doubled", False),
    ],
)
def test_a_digest_is_of_what_the_gpu_runs_and_reads(old, new, is_other, tmp_path):
    digests = []
    for name, text in (("a", CODE_IN_CUDA), ("b", CODE_IN_CUDA.replace(old, new))):
        (tmp_path / f"{name}.cu").write_text(text)
        nvcc = [cubin.program("nvcc"), "-cubin", "-arch=sm_90", tmp_path / f"{name}.cu", "-o"]
        cubin.output_of([*nvcc, tmp_path / f"{name}.cubin"])
        digests.append(identity.of_cubin(tmp_path / f"{name}.cubin"))
    assert (digests[0] != digests[1]) == is_other
    (function,) = functions_in(tmp_path / "a.cubin")
    assert (function.count(LOADS), function.count(STORES)) == (1, 2)  # with the atomic one
    assert function.static_shared_bytes == 128


def test_places_and_comments_of_ptx_do_not_count():
    ptx = ".target sm_90\n.loc 1 12 3 // a block\nadd.u32 %r1, %r2, 64;\n$L__tmp0:\nret;\n"
    same = (
        ptx.replace("12 3", "13 3"),
        ptx.replace("a block", "b"),
        ptx + ".section x\n{\n.b8 1\n}\n",
    )
    assert {identity.of_ptx(text) for text in same} == {identity.of_ptx(ptx)}
    for old, new in (("64", "65"), ("sm_90", "sm_80"), ("ret;", "")):
        assert identity.of_ptx(ptx.replace(old, new)) != identity.of_ptx(ptx)


def test_opcodes_are_counted_under_guards_and_without_padding():
    lines = ["@!P0 RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2.64], R5", "{ FADD R1, R2, R3", "EXIT"]
    lines += ["@UP1 UTMASTG.2D [UR4], [UR6]", "ATOMG.E.ADD PT, R1, [R2.64], R3", "BRA 0x50", "NOP"]
    function = Function("a", 1, 0, 0, without_padding(lines))
    assert function.code_bytes == 5 * 16
    assert function.count(STORES) == 3 and function.opcodes["FADD"] == 1


def test_two_kernels_are_compared(capsys):
    assert run(command.parser(), ["show", "--kernel", "constant_lut", "--arch", "90"]) == 0
    shown = capsys.readouterr().out
    assert "bytes of shared memory a block" in shown and "STG " in shown
    sides = ["--a", "constant_lut", "--b", "branch_tree", "--arch", "90"]
    part = ["--function", "unsigned int, PlainScaleReader, __half"]
    assert run(command.parser(), ["diff", *sides, *part]) == 0
    shown = capsys.readouterr().out
    assert "--- constant_lut\n+++ branch_tree\n" in shown and "\n+@P BRA" in shown.replace("!", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kernel", "constant_lot", "--arch", "90"], "did you mean constant_lut?"),
        (["--kernel", "constant_lut", "--arch", "91"], "Unsupported gpu architecture"),
        (
            ["--kernel", "constant_lut", "--arch", "90", "--function", "x y"],
            "is in none of the names",
        ),
    ],
)
def test_an_impossible_request_is_one_line(words, said, capsys):
    assert run(command.parser(), ["show", *words]) == 2
    text = capsys.readouterr().err
    assert said in text and text.count("\n") == 1

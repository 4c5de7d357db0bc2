"""Kernels compiled from other languages: their list, and facts about their code."""

import json

import pytest
import written
from sass import __main__ as sass
from sass import cubin, kernels, tools
from sass.code import measured_code
from sass.facts import Facts
from sass.measures import measures
from sass.result_file import record

from compile.compiled import fingerprints
from reprolab.errors import InputError

SOURCE, MADE_BY = "kernels/nf4/triton_lut.py", "Triton (triton 3.9.0)"
# Two bytes' weights for each thread, in one store of 16 bytes.
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry nf4(.param .u64 output)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [output];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 16;
    add.s64 %rd2, %rd1, %rd2;
    st.global.v4.b32 [%rd2], {%r1, %r1, %r1, %r1};
    ret;
}
"""


@pytest.fixture
def put(tmp_path):
    """Writes the kernel `toy` with these changes to its manifest: the folder of all, and itself."""

    def write(arch="sm_80", ptx=PTX, source=SOURCE, variant="fp16", **changes):
        facts = {"family": "nf4", "language": "triton", "compiler": MADE_BY}
        facts |= {"lineage": "ours, in Triton", "source_file": source}
        facts |= {"variants": {variant: {"file": f"toy.{variant}.ptx"}}}
        facts |= {"sources": fingerprints([source])} | changes
        place = tmp_path / arch
        place.mkdir(exist_ok=True)
        (place / "toy.json").write_text(json.dumps(facts))
        (place / f"toy.{variant}.ptx").write_text(ptx)
        return kernels.in_other_languages(tmp_path)["toy"]

    return write


def test_a_kernel_has_what_was_compiled_for_each_architecture(put, tmp_path):
    put(arch="sm_90")
    toy = put(arch="sm_80")
    assert (toy.maker, toy.lineage, toy.deviation) == (MADE_BY, "ours, in Triton", None)
    assert toy.source_file == SOURCE
    places = {arch: tmp_path / arch / "toy.fp16.ptx" for arch in ("sm_80", "sm_90")}
    assert toy.ptx == places
    assert kernels.in_other_languages(tmp_path / "no such folder") == {}


def test_a_counterparts_deviation_is_the_kernels(put):
    source, counterpart = "kernels/transpose/mojo_tma_naive.mojo", "tma_batched_as_published"
    toy = put(source=source, variant="fp32", family="transpose", counterpart=counterpart)
    assert toy.deviation == kernels.registered()[counterpart].deviation
    assert toy.deviation


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sources": {SOURCE: "0"}}, f"{SOURCE} has changed"),
        ({"sources": {"kernels/nf4/gone.py": "0"}}, "is damaged"),
        ({"family": "another"}, "is damaged"),
        ({"variants": {}}, "is damaged"),
        ({"sources": 3}, "is damaged"),
    ],
)
def test_what_is_outdated_or_damaged_is_one_line(put, tmp_path, change, why, refused):
    again = "make mojo or make triton writes it again"
    assert refused(put, **change) == f"{tmp_path}/sm_80/toy.json: {why}; {again}"


def test_a_row_says_who_compiled_it(put):
    code = written.facts("STG.E.128 [R2.64], R4\nEXIT").code
    assert record(Facts(code))["origin"] == {"kind": "project", "maker": ""}
    row = record(Facts(type(code)(put(), "sm_80", "nf4", code.function, code.resources, {})))
    assert row["origin"] == {"kind": "compiler", "maker": MADE_BY}
    assert (row["key"], row["source_file"]) == ("sm_80/toy", SOURCE)


def test_for_an_architecture_that_was_left_out_there_is_no_code(put, monkeypatch, refused):
    toy = put()
    assert measured_code(toy, "sm_90") is None
    monkeypatch.setattr(tools, "require_all", lambda: None)
    monkeypatch.setattr(cubin, "architecture", lambda text: text)
    monkeypatch.setattr(kernels, "known", lambda: {"toy": toy})
    given = sass.parser().parse_args(["show", "--kernel=toy", "--arch=sm_90"])
    assert refused(given.run, given) == "toy is not compiled for sm_90; make triton ARCH=sm_90"


def test_its_ptx_is_assembled_and_counted(put, tmp_path, monkeypatch):
    try:
        tools.require_all(), tools.program("ptxas")
    except InputError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(cubin, "FOLDER", tmp_path / "cubins")
    toy = put()
    code = measured_code(toy, "sm_80")
    counts = {m.name: m.value for m in measures(Facts(code))}
    assert (counts["weights_per_trip"], counts["widest_global_store_bytes"]) == (8, 16)
    assert (counts["global_stores"], code.name) == (1, "nf4")
    (file,) = (tmp_path / "cubins/sm_80").iterdir()
    assert cubin.assembled(toy.ptx["sm_80"], "sm_80") == file
    put(ptx=PTX.replace(".target sm_80", ".target"))
    with pytest.raises(InputError, match=r"toy\.fp16\.ptx: names no \.target"):
        measured_code(toy, "sm_80")

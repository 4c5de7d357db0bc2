"""Kernels that other languages' compilers have made: which there are, and facts of their code."""

import json

import pytest
import written
from sass import __main__ as sass
from sass import cubin, kernels, tools
from sass.code import measured_code
from sass.facts import Facts
from sass.measures import measures
from sass.result_file import record

from languages.compiled import fingerprints
from records.errors import InputError
from records.json_files import ROOT

MADE_BY = "Triton (triton 3.9.0)"
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


def manifest(source="kernels/nf4/triton_lut.py", variant="fp16", **changes):
    facts = {
        "family": "nf4",
        "language": "triton",
        "compiler": MADE_BY,
        "lineage": "ours, in Triton",
    }
    facts |= {"source_file": source, "sources": fingerprints([source])}
    return facts | {"variants": {variant: {"file": f"toy.{variant}.ptx"}}} | changes


@pytest.fixture
def put(tmp_path):
    def write(facts, name="toy", arch="sm_80", ptx=PTX):
        place = tmp_path / arch
        place.mkdir(exist_ok=True)
        (place / f"{name}.json").write_text(json.dumps(facts))
        for variant in facts.get("variants", {}).values():
            (place / variant["file"]).write_text(ptx)
        return tmp_path

    return write


def test_a_kernel_has_what_was_compiled_for_each_architecture(put):
    put(manifest(), arch="sm_80")
    found = kernels.in_other_languages(put(manifest(), arch="sm_90"))
    assert list(found) == ["toy"]
    toy = found["toy"]
    assert (toy.maker, toy.lineage, toy.deviation) == (MADE_BY, "ours, in Triton", None)
    assert toy.source_file == "kernels/nf4/triton_lut.py"
    assert {arch: file.parent.name for arch, file in toy.ptx.items()} == {
        **{"sm_80": "sm_80", "sm_90": "sm_90"}
    }
    assert kernels.in_other_languages(ROOT / "no such folder") == {}


def test_a_counterparts_deviation_is_the_kernels(put):
    source, counterpart = "kernels/transpose/mojo_tma_naive.mojo", "tma_batched_as_published"
    facts = manifest(source, "fp32", family="transpose", counterpart=counterpart)
    toy = kernels.in_other_languages(put(facts))["toy"]
    assert toy.deviation == kernels.registered()[counterpart].deviation
    assert toy.deviation


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sources": {"kernels/nf4/triton_lut.py": "0"}}, "kernels/nf4/triton_lut.py has changed"),
        ({"sources": {"kernels/nf4/gone.py": "0"}}, "is not as it was written"),
        ({"family": "another"}, "is not as it was written"),
        ({"variants": {}}, "is not as it was written"),
        ({"sources": 3}, "is not as it was written"),
    ],
)
def test_what_is_outdated_or_damaged_is_one_line(put, change, why):
    folder = put(manifest() | change)
    with pytest.raises(InputError) as error:
        kernels.in_other_languages(folder)
    again = "make mojo or make triton writes it anew"
    assert str(error.value) == f"{folder}/sm_80/toy.json: {why}; {again}"


def test_a_row_says_who_compiled_it(put):
    code = written.facts("STG.E.128 [R2.64], R4\nEXIT").code
    assert record(Facts(code))["origin"] == {"kind": "project", "maker": ""}
    toy = kernels.in_other_languages(put(manifest()))["toy"]
    row = record(Facts(type(code)(toy, "sm_80", "nf4", code.function, code.resources, {})))
    assert row["origin"] == {"kind": "compiler", "maker": MADE_BY}
    assert (row["key"], row["source_file"]) == ("sm_80/toy", "kernels/nf4/triton_lut.py")


def test_for_an_architecture_that_was_left_out_there_is_no_code(put, monkeypatch, capsys):
    folder = put(manifest(), name="toy")
    toy = kernels.in_other_languages(folder)["toy"]
    assert measured_code(toy, "sm_90") is None
    monkeypatch.setattr(kernels, "OTHER_LANGUAGES", folder)
    monkeypatch.setattr(tools, "require_all", lambda: None)
    monkeypatch.setattr(cubin, "architecture", lambda text: text)
    monkeypatch.setattr(kernels, "known", lambda: {"toy": toy})
    given = sass.parser().parse_args(["show", "--kernel=toy", "--arch=sm_90"])
    with pytest.raises(InputError) as error:
        given.run(given)
    assert str(error.value) == "toy is not compiled for sm_90; make triton ARCH=sm_90"


def tools_are_there():
    try:
        tools.require_all()
        return bool(tools.ptxas())
    except InputError:
        return False


@pytest.mark.skipif(not tools_are_there(), reason="needs the CUDA toolkit")
def test_its_ptx_is_assembled_and_counted(put, tmp_path, monkeypatch):
    monkeypatch.setattr(cubin, "FOLDER", tmp_path / "cubins")
    toy = kernels.in_other_languages(put(manifest()))["toy"]
    code = measured_code(toy, "sm_80")
    found = {m.name: m.value for m in measures(Facts(code))}
    assert (found["weights_per_trip"], found["widest_global_store_bytes"]) == (8, 16)
    assert (found["global_stores"], code.name) == (1, "nf4")
    (file,) = (tmp_path / "cubins/sm_80").iterdir()
    assert cubin.assembled(toy.ptx["sm_80"], "sm_80") == file
    put(manifest(), ptx=PTX.replace(".target sm_80", ".target"))
    with pytest.raises(InputError, match=r"toy\.fp16\.ptx: names no \.target"):
        measured_code(toy, "sm_80")

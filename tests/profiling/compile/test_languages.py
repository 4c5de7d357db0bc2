"""Kernels in other languages: the facts read from their PTX, and the built PTX, if any."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compile import __main__ as languages
from compile import mojo
from compile.compiled import FAMILIES, ROOT, LanguageError, Ptx, kernel_file, variant_facts
from make_targets import program
from sass import cubin

from reprolab.errors import InputError

HEAD = "# Idea.\n#\n# Source: a post; more.\nthreads = 128\nweights_per_block = 2048\n"
NF4, TRANSPOSE = FAMILIES["nf4"], FAMILIES["transpose"]
TYPES = [*["u64 .ptr .global .align 1"] * 6, *["u32"] * 3, "f32", "u64", "u64"]
PARAMETERS = ",\n".join(f"\t.param .{kind} nf4_param_{i}" for i, kind in enumerate(TYPES))
TEXT = f""".version 8.7
.target sm_90a
.visible .entry nf4(
{PARAMETERS}
)
.reqntid 128
{{
\tld.param.b64 \t%rd1, [nf4_param_0];
\tst.shared.v4.b32 \t[%r1], {{%r1, %r2, %r3, %r4}};
\tst.global.b16 \t[%rd1], %rs1;
\tst.global.L1::evict_first.v4.b32 [%rd1], {{%r1, %r2, %r3, %r4}};
\tret;
}}
"""


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(HEAD)
    return replace(kernel_file(path, NF4), path=ROOT / "kernels/nf4/toy.py")


def test_a_kernel_declares_its_launch(kernel, tmp_path, refused):
    assert kernel.facts == {"threads": 128, "weights_per_block": 2048, "counterpart": ""}
    assert (kernel.name, kernel.lineage) == ("toy", "a post")
    for gone in ("Source", "threads", "weights_per_block", "128", "2048"):
        (tmp_path / "bad.py").write_text(HEAD.replace(gone, "8 * 16"))
        assert "threads, weights_per_block" in refused(kernel_file, tmp_path / "bad.py", NF4)


def test_facts_are_read_from_the_ptx(kernel):
    assert variant_facts(kernel, "fp16", Ptx(TEXT, 4096)) == {
        "file": "toy.fp16.ptx",
        "entry": "nf4",
        "shared_bytes": 4096,
        "null_pointers": 2,
    }


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (".reqntid 128", ".maxntid 256", "is compiled for 256 threads, and declares threads = 128"),
        (".reqntid 128", "", "is compiled for 0 threads"),
        (PARAMETERS, "\t.param .u64 nf4_param_0", "takes parameters of 8 bytes, not of 8, 8, "),
        (".entry nf4(", ".func nf4(", "the PTX has 0 kernels"),
    ],
)
def test_unsafe_compiled_code_is_refused(kernel, old, new, why):
    with pytest.raises(LanguageError, match=why):
        variant_facts(kernel, "fp16", Ptx(TEXT.replace(old, new), 0))


def test_the_architecture_is_one_that_is_asked_for():
    assert languages.architecture("90") == languages.architecture("sm_90") == 90
    for wrong in ("9", "80;90", "native", "$(x)", "90a", "90\n"):
        with pytest.raises(LanguageError, match="ARCH: expected one architecture"):
            languages.architecture(wrong)


@pytest.fixture
def compiler(monkeypatch):
    """A compiler whose output fits the kernel's constants, but for these names of kernels."""

    def install(*refused):
        def compile_variant(kernel, variant, arch):
            if kernel.name in refused:
                raise LanguageError("no")
            return made(kernel)

        monkeypatch.setattr(mojo, "compile_variant", compile_variant)
        monkeypatch.setattr(languages, "version", lambda package: "1.0")

    return install


def test_a_build_replaces_all_that_was_made_before(tmp_path, compiler):
    compiler()
    languages.build("mojo", 90, tmp_path)
    made = {path.stem for path in (tmp_path / "sm_90").glob("*.json")}
    sources = [p.stem for f in mojo.FAMILIES for p in (ROOT / f"kernels/{f}").glob("*.mojo")]
    assert made == {name for name in sources if name.startswith("mojo_")}
    (tmp_path / "sm_90/triton_lut.json").write_text("{")
    compiler("mojo_tiled_2d")
    with pytest.raises(LanguageError):
        languages.build("mojo", 80, tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")}
    assert {name for name in left if "sm_90" in name} == {"sm_90/triton_lut.json"}
    assert "sm_80/mojo_tiled_2d.json" not in left  # the others are whole, or were not begun


MAPS = ",\n".join(
    [*(f"\t.param .align 64 .b8 transpose_param_{i}[128]" for i in (0, 1))]
    + ["\t.param .b32 transpose_param_2"]
)
SUM = ",\n".join(f"\t.param .{kind} reduction_param" for kind in (*TYPES[:2], "b64"))


def made(kernel):
    parameters = {"nf4": PARAMETERS, "transpose": MAPS, "reduction": SUM}[kernel.family.name]
    text = TEXT.replace(".reqntid 128", f".maxntid {kernel.facts['threads']}")
    return Ptx(text.replace(PARAMETERS, parameters), 0)


def test_tensor_maps_are_parameters_of_128_bytes(tmp_path):
    path = tmp_path / "toy.mojo"
    constants = "comptime threads = 128\ncomptime swizzle_bytes = 0\n"
    path.write_text("# Source: a post\n# Counterpart: toy\n" + constants)
    kernel = replace(kernel_file(path, TRANSPOSE), path=ROOT / "kernels/transpose/toy.mojo")
    assert (kernel.facts["swizzle_bytes"], kernel.facts["counterpart"]) == (0, "toy")
    assert made(kernel).parameters == (128, 128, 4)
    for wrong in ("[127]", ""):
        text = made(kernel).text.replace("[128]", wrong, 1)
        with pytest.raises(LanguageError, match=r"not of 128, 128, 4$"):
            variant_facts(kernel, "fp32", Ptx(text, 0))


def says(tmp_path, script):
    """A stand-in for the compiler."""
    program(tmp_path / "compiler", f"#!/bin/sh\n{script}\n")
    return lambda *_: [str(tmp_path / "compiler")]


def test_a_compiler_that_refuses_is_one_line(kernel, tmp_path, monkeypatch, refused):
    for printed, why in [
        ("x.mojo:1:2: error: no such name", "x.mojo:1:2: error: no such name"),
        ("LLVM ERROR: PTX version 8.1 is too old", "LLVM ERROR: PTX version 8.1 is too old"),
        ("what", "no reason"),
    ]:
        script = f"echo note >&2; echo '{printed}' >&2; exit 1"
        monkeypatch.setattr(mojo, "command", says(tmp_path, script))
        refusal = refused(mojo.compile_variant, kernel, "fp16", 90)
        assert refusal.startswith("kernels/nf4/toy.py") and refusal.endswith(f": {why}")


def built(language: str, family: str) -> list[tuple[dict[str, Any], Path]]:
    """(manifest of the kernel, PTX) of every variant and architecture that `make` has built."""
    manifests = sorted((ROOT / "build/ptx").glob(f"sm_*/{language}_*.json"))
    read = [(json.loads(path.read_text()), path.parent) for path in manifests]
    pairs = [
        (facts, place / variant["file"])
        for facts, place in read
        if facts["family"] == family
        for variant in facts["variants"].values()
    ]
    if not pairs:
        pytest.skip(f"{language}, {family}: not built; make {language}")
    return pairs


def assembled(ptx: Path, file: Path) -> str:
    """ptxas' output when it compiles the PTX."""
    target = ptx.read_text().split(".target ")[1].split()[0]
    try:
        command = [cubin.program("ptxas"), "-v", f"-arch={target}", ptx, "-o", file]
    except InputError as missing:
        pytest.skip(f"NOT TESTED, {missing}")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


WIDTHS = {"mojo": ([16, 32],), "triton": ([128],)}  # Mojo's 16 bits: the end of an odd length


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_built_code_stores_and_rounds_like_its_source(language, tmp_path):
    for facts, ptx in built(language, "nf4"):
        text = ptx.read_text()
        assert set(facts["variants"]) == set(NF4.variants)
        stores = re.findall(r"\bst\.global(?:\.[\w:]+)*?(?:\.v(\d))?\.[bfsu](\d+)\b", text)
        widths = sorted({int(lanes or 1) * int(bits) for lanes, bits in stores})
        assert widths in WIDTHS[language], facts["kernel"]
        assert "0 bytes spill stores" in assembled(ptx, tmp_path / "a.cubin")
        assert "mul.rn.ftz.f32" in text
        # This instruction converts every NaN to 0x7fff (PTX ISA, cvt).
        assert f"cvt.rn.{'bf16' if '.bf16' in ptx.name else 'f16'}x2.f32" in text
        assert ".local" not in text and "fma." not in text


def test_only_one_form_that_was_built_stores_before_everything_is_loaded():
    forms = {"mojo_packed_512": False, "mojo_packed_512_store_each": True}
    for facts, ptx in built("mojo", "nf4"):
        if facts["kernel"] in forms:
            text = ptx.read_text()
            is_after = text.rfind("ld.global") > text.find("st.global")
            assert is_after == forms[facts["kernel"]], ptx.name

"""Kernels in other languages: what is read of their PTX, and what was built, where it was built."""

import json
import shutil
import subprocess
from dataclasses import replace

import pytest

from languages import __main__ as languages
from languages import mojo, triton
from languages.compiled import ROOT, VARIANTS, LanguageError, Ptx, kernel_file, variant_facts

HEAD = "# Idea.\n#\n# Source: a post; more.\n# Launch: 128 threads for 2048 weights.\nx = 1\n"
PARAMETERS = ",\n".join(f"\t.param .u64 nf4_param_{i}" for i in range(12))
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
    return replace(kernel_file(path), path=ROOT / "kernels/nf4/toy.py")


def test_a_kernels_first_comment_says_how_it_is_launched(kernel, tmp_path):
    assert (kernel.threads, kernel.weights_per_block) == (128, 2048)
    assert (kernel.name, kernel.lineage) == ("toy", "a post")
    for line in ("# Source: a post; more.\n", "# Launch: 128 threads for 2048 weights.\n"):
        (tmp_path / "bad.py").write_text(HEAD.replace(line, ""))
        with pytest.raises(LanguageError, match=r"bad\.py: its first comment needs"):
            kernel_file(tmp_path / "bad.py")


def test_facts_are_read_from_the_ptx(kernel):
    assert variant_facts(kernel, "fp16", Ptx(TEXT, 4096)) == {
        "file": "toy.fp16.ptx",
        "entry": "nf4",
        "shared_bytes": 4096,
        "null_pointers": 2,
        "store_bits": [16, 128],
    }


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (".reqntid 128", ".maxntid 256", "is compiled for 256 threads, and its comment says 128"),
        (".reqntid 128", "", "is compiled for 0 threads"),
        ("\tret;", "\tfma.rn.f32 %f1, %f2, %f3, %f4;", "contracted"),
        (PARAMETERS, "\t.param .u64 nf4_param_0", "takes 1 parameters, not 10"),
        (".entry nf4(", ".func nf4(", "the PTX has 0 kernels"),
    ],
)
def test_what_must_not_be_run_is_refused(kernel, old, new, why):
    with pytest.raises(LanguageError, match=why):
        variant_facts(kernel, "fp16", Ptx(TEXT.replace(old, new), 0))


def test_the_architecture_is_one_that_is_asked_for():
    assert languages.architecture("90") == languages.architecture("sm_90") == 90
    for wrong in ("9", "80;90", "native", "$(x)", "90a", "90\n"):
        with pytest.raises(LanguageError, match="ARCH: expected one architecture"):
            languages.architecture(wrong)


def test_a_build_replaces_what_another_version_made(tmp_path, monkeypatch):
    monkeypatch.setattr(mojo, "compile_variant", lambda kernel, *_: made(kernel))
    monkeypatch.setattr(languages, "version", lambda package: "1.0")
    languages.build("mojo", 80, tmp_path)
    names = {path.stem for path in (tmp_path / "sm_80").glob("*.json")}
    assert names == {path.stem for path in (ROOT / "kernels/nf4").glob("mojo_*.mojo")}
    (tmp_path / "sm_80/mojo_gone.json").write_text('{"compiler": "Mojo (max-core 1.0)"}')
    (tmp_path / "sm_80/triton_lut.json").write_text("{")
    languages.build("mojo", 90, tmp_path)
    assert len(list(tmp_path.glob("sm_*/mojo_*.json"))) == 2 * len(names)
    monkeypatch.setattr(languages, "version", lambda package: "2.0")
    languages.build("mojo", 90, tmp_path)
    assert {path.stem for path in tmp_path.glob("sm_*/*.json")} == names | {"triton_lut"}
    assert [path.name for path in (tmp_path / "sm_80").glob("*.json")] == ["triton_lut.json"]


def made(kernel):
    return Ptx(TEXT.replace(".reqntid 128", f".maxntid {kernel.threads}"), 0)


def test_a_kernel_that_does_not_compile_leaves_no_description(tmp_path, monkeypatch):
    def fails(kernel, variant, arch):
        if variant == "bf16":
            raise LanguageError("no")
        return made(kernel)

    monkeypatch.setattr(mojo, "compile_variant", lambda kernel, *_: made(kernel))
    monkeypatch.setattr(languages, "version", lambda package: "1.0")
    languages.build("mojo", 90, tmp_path)
    monkeypatch.setattr(mojo, "compile_variant", fails)
    with pytest.raises(LanguageError):
        languages.build("mojo", 90, tmp_path)
    assert not (tmp_path / "sm_90/mojo_packed_512.json").exists()


def test_every_kernel_opens_with_its_idea_and_the_commands_that_measure_it():
    files = [
        path
        for module in (mojo, triton)
        for path in sorted((ROOT / "kernels/nf4").glob(module.FILES))
    ]
    assert files
    for path in files:
        kernel = kernel_file(path)
        text = path.read_text()
        assert text.startswith("# ") and len(text.splitlines()) <= 150
        assert "\n# Bound:  " in text
        assert f"\n# Alone:  make bench KERNEL={kernel.name}\n" in text


def built(language):
    found = sorted((ROOT / "build/ptx").glob(f"sm_*/{language}_*.json"))
    if not found:
        pytest.skip(f"{language}: not built; make {language}")
    return [(path, json.loads(path.read_text())) for path in found]


WIDTHS = {"mojo": ([16, 32],), "triton": ([128],)}  # Mojo's 16 bits: the end of an odd length


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_what_was_built_stores_as_wide_as_its_source_says(language):
    for path, facts in built(language):
        assert set(facts["variants"]) == set(VARIANTS)
        for variant in facts["variants"].values():
            assert variant["store_bits"] in WIDTHS[language], path


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_what_was_built_rounds_as_the_format_asks(language):
    for path, facts in built(language):
        for name, variant in facts["variants"].items():
            text = (path.parent / variant["file"]).read_text()
            assert "mul.rn.ftz.f32" in text
            # This instruction turns every NaN into 0x7fff (PTX ISA, cvt).
            assert f"cvt.rn.{'f16' if name.startswith('fp16') else 'bf16'}x2.f32" in text
            assert ".local" not in text and "fma." not in text


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_what_was_built_is_accepted_by_ptxas_without_spills(language):
    ptxas = shutil.which("ptxas", path="/usr/local/cuda/bin") or shutil.which("ptxas")
    if not ptxas:
        pytest.skip("there is no ptxas")
    for path, facts in built(language):
        for variant in facts["variants"].values():
            file = path.parent / variant["file"]
            target = file.read_text().split(".target ")[1].split()[0]
            done = subprocess.run(
                [ptxas, "-v", f"-arch={target}", str(file), "-o", "/dev/null"],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            assert "0 bytes spill stores" in done.stderr

"""`make verify`: planted faults, damaged checkpoints, and what it says was not proved."""

import json
import struct
import subprocess
from unittest import mock

import numpy as np
import pytest

from reprolab import reference, verify
from reprolab.command_line import run
from reprolab.json_files import ROOT

GOLDEN = ROOT / "tests/golden/golden_seed1.safetensors"
WEIGHTS = verify.read([GOLDEN]).weights
PLAIN = next(w for w in WEIGHTS if not w.nested and w.elements > 200)
NESTED = next(w for w in WEIGHTS if w.nested and w.elements > 200)
STATE = "a.weight.quant_state.bitsandbytes__nf4"
TEXT = '{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [3, 67]}'
NESTED_TEXT = TEXT.replace("}", ', "nested_blocksize": 2, "nested_offset": 0.25}')


def floats(*values):
    return "F32", np.array(values, "<f4").tobytes()


# A checkpoint of one weight, and the tensors of one with nested scales in place of its own.
SOUND = {
    "a.weight": ("U8", bytes(101)),
    "a.weight.absmax": floats(0.5, 0, 2, 1),
    "a.weight.quant_map": ("F32", PLAIN.parts["table"].read(np.uint8).tobytes()),
    STATE: ("U8", TEXT.encode()),
    "norm.weight": ("BF16", bytes(6)),
}
NESTED_PARTS = {
    "a.weight.absmax": ("U8", bytes(4)),
    "a.weight.nested_absmax": floats(0.5, 0),
    "a.weight.nested_quant_map": floats(*np.linspace(-1, 1, 256)),
    STATE: ("U8", NESTED_TEXT.encode()),
}


def verified(capsys, *arguments, gpus=""):
    """The exit status, and what it printed; without kernels where no GPU is named."""
    with mock.patch.dict("os.environ", CUDA_VISIBLE_DEVICES=gpus):
        status = run(verify.parser(), [*map(str, arguments)])
    out, err = capsys.readouterr()
    assert err.count("\n") == (status == 2)  # one line where it refuses
    return status, out + err


def safetensors(tensors):
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, content) in tensors.items():
        ends = [len(body), len(body) + len(content)]
        header[name] = {"dtype": dtype, "shape": [len(content)], "data_offsets": ends}
        body += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def without(name):
    return safetensors({n: t for n, t in SOUND.items() if n != name})


def with_state(old, new):
    return safetensors(SOUND | {STATE: ("U8", TEXT.replace(old, new).encode())})


def as_file(header):
    return struct.pack("<Q", len(header)) + header


DAMAGED = {
    "empty": b"",
    "cut in the header": safetensors(SOUND)[:100],
    "cut by a byte": safetensors(SOUND)[:-1],
    "a byte more": safetensors(SOUND) + b"x",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    "an HTML page": b"<html>404</html>",
    "no tensors": as_file(b"{}"),
    "a header that is a list": as_file(b"[]"),
    "a tensor without a place": as_file(b'{"t":{"dtype":"U8","shape":[4]}}'),
    "no weight in NF4": safetensors({"norm.weight": ("BF16", bytes(6))}),
    "FP4 alone": safetensors({STATE.replace("nf4", "fp4"): ("U8", b"{}")}),
    "no codes": without("a.weight"),
    "no scales": without("a.weight.absmax"),
    "no table": without("a.weight.quant_map"),
    "a code too many": safetensors(SOUND | {"a.weight": ("U8", bytes(102))}),
    "scales in half precision": safetensors(SOUND | {"a.weight.absmax": ("F16", bytes(8))}),
    "nested scales without their state": safetensors(SOUND | {"a.weight.absmax": ("U8", bytes(4))}),
    "no nested map": safetensors(SOUND | {STATE: NESTED_PARTS[STATE]}),
    "a nested map of 255": safetensors(
        SOUND | NESTED_PARTS | {"a.weight.nested_quant_map": floats(*range(255))}
    ),
    "another table": safetensors(SOUND | {"a.weight.quant_map": floats(*range(16))}),
    "a state that is no JSON": with_state("{", "["),
    "a state that is a list": with_state(TEXT, "[]"),
    "a state of another type": with_state('"nf4"', '"fp4"'),
    "no block size": with_state("blocksize", "kind"),
    "a block size of 0": with_state("64", "0"),
    "a block size of 48": with_state("64", "48"),
    "another block size": with_state("64", "32"),
    "another shape": with_state("67", "68"),
    "outputs in fp32 alone": with_state("bfloat16", "float32"),
    "stored outputs of another size": safetensors(SOUND | {"a.dequantized": ("BF16", bytes(404))}),
    "outputs in fp64": with_state("bfloat16", "float64"),
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_checkpoint_gets_one_line(fault, tmp_path, capsys):
    (tmp_path / "model.safetensors").write_bytes(DAMAGED[fault])
    status, text = verified(capsys, tmp_path)
    assert status == 2, text
    assert text.startswith(f"error: {tmp_path}")


@pytest.mark.parametrize(
    "index",
    [
        "",
        "[]",
        '{"weight_map": {',
        '{"weight_map": 3}',
        '{"weight_map": {"a.weight": "missing.safetensors"}}',
        '{"weight_map": {"a.weight": "a.safetensors", "head.weight": "a.safetensors"}}',
        '{"weight_map": {"a.weight": "a.safetensors", "norm.weight": "b.safetensors"}}',
    ],
)
def test_a_damaged_index_gets_one_line(index, tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(SOUND))
    (tmp_path / verify.INDEX).write_text(index)
    assert verified(capsys, tmp_path)[0] == 2


@pytest.mark.parametrize("dtype", ["I8", "BF16", "F32"])
def test_codes_stored_as_another_type_are_read(dtype, tmp_path, capsys):
    """As bnb_4bit_quant_storage has them."""
    codes = {"a.weight": (dtype, bytes(128))}
    state = {STATE: ("U8", TEXT.replace("3, 67", "4, 64").encode())}
    (tmp_path / "a.safetensors").write_bytes(safetensors(SOUND | codes | state))
    assert verified(capsys, tmp_path)[0] == 3


def flipped(stored, at=0, bit=1):
    return {stored.begin + at: lambda byte: byte ^ bit}


def swapped(stored):
    """The two codes of each byte in the other order."""
    places = range(stored.begin, stored.begin + stored.size)
    return dict.fromkeys(places, lambda byte: (byte >> 4) | (byte & 15) << 4)


def digit(weight, key, at):
    """Another digit of a number in the state."""
    number = f'"{key}": '.encode()
    place = weight.stored.read(np.uint8).tobytes().index(number) + len(number) + at
    return flipped(weight.stored, place)


CODES, OUT, SCALES = PLAIN.parts["codes"], PLAIN.dequantized, PLAIN.parts["absmax"]
FAULTS = {
    "the first code": (flipped(CODES, 0, 0x10), 1, PLAIN),
    "the last code": (flipped(CODES, (PLAIN.elements - 1) // 2, 0x10), 1, PLAIN),
    "a code before a block ends": (flipped(CODES, PLAIN.block_size // 2 - 1), 1, PLAIN),
    "a code where a block begins": (flipped(CODES, PLAIN.block_size // 2, 0x10), 1, PLAIN),
    "the order of codes": (swapped(CODES), 1, PLAIN),
    "the lowest bit of a scale": (flipped(SCALES, 1, 0x80), 1, PLAIN),
    "the sign of the last scale": (flipped(SCALES, SCALES.size - 1, 0x80), 1, PLAIN),
    "a nested scale's code": (flipped(NESTED.parts["absmax"], 0, 0x40), 1, NESTED),
    "a second-level scale": (flipped(NESTED.parts["absmax2"], 2), 1, NESTED),
    "the offset": (digit(NESTED, "nested_offset", 5), 1, NESTED),
    "an entry of the nested map": (flipped(NESTED.parts["map"], 4 * 255 + 2), 1, NESTED),
    "the table": (flipped(PLAIN.parts["table"], 4), 2, PLAIN),
    "the block size": (digit(PLAIN, "blocksize", 1), 2, PLAIN),
    "the first output": (flipped(OUT), 1, PLAIN),
    "the last output": (flipped(OUT, 2 * PLAIN.elements - 1, 0x80), 1, PLAIN),
    "an output where a block ends": (flipped(OUT, 2 * PLAIN.block_size - 1, 0x80), 1, PLAIN),
    "an output of nested scales": (flipped(NESTED.dequantized, 100), 1, NESTED),
    "the quantizer's input": (flipped(PLAIN.source, 1, 0x40), 1, PLAIN),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, tmp_path, capsys):
    changes, expected, weight = FAULTS[fault]
    content = bytearray(GOLDEN.read_bytes())
    for place, change in changes.items():
        content[place] = change(content[place])
    file = tmp_path / "a.safetensors"
    file.write_bytes(content)
    status, text = verified(capsys, file, "--brief")
    assert status == expected
    assert weight.name in text
    assert status == 2 or text.count(": mismatch: ") in (1, 2)


def test_the_golden_file_is_proved(capsys):
    status, text = verified(capsys, GOLDEN)
    lines = text.splitlines()
    assert status == 0
    assert lines[0] == f"{GOLDEN}: 86 quantized tensors"
    assert "  reference  bit_exact 86" in lines
    assert "  quantizer  bit_exact 86" in lines
    assert lines[-1] == "not checked: 30 tensors of F32"
    assert "to check: 86 tensors" in verified(capsys, GOLDEN, "--dry-run")[1]
    listed = json.loads(verified(capsys, GOLDEN, "--list")[1])
    assert [w["name"] for w in listed] == [w.name for w in WEIGHTS]


def test_without_outputs_nothing_is_proved(tmp_path, capsys):
    (tmp_path / "a.safetensors").write_bytes(safetensors(SOUND))
    status, text = verified(capsys, tmp_path)
    assert status == 3
    assert "nothing could be proved here" in text
    assert "checked: 0 of 2 tensors\n" in text


def test_a_file_that_is_not_read_is_named(tmp_path, capsys):
    for name in ("a", "stray"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(SOUND))
    index = tmp_path / verify.INDEX
    index.write_text(json.dumps({"weight_map": dict.fromkeys(SOUND, "a.safetensors")}))
    assert "not read, though beside it: stray.safetensors\n" in verified(capsys, tmp_path)[1]
    (tmp_path / "a.safetensors").rename(tmp_path / verify.SINGLE)
    said = "not read, though beside it: stray.safetensors, model.safetensors.index.json\n"
    assert said in verified(capsys, tmp_path)[1]


KERNELS = """
#include <cstring>
#include "reference/c_weight.hpp"
static const reprolab::reference::SharedWeight* shared;
extern "C" const char* reprolab_kernels_open(
    const char*, const reprolab::reference::SharedWeight* memory) {
  shared = memory;
  return R"({"names": ["good", "bad"], "unavailable": ""})";
}
extern "C" const char* reprolab_kernels_verify(const char*, int, const char* kernel) {
  if (!std::strcmp(kernel, "good")) {
    return R"({"outcome": "bit_exact", "reason": "", "differs": false})";
  }
  const auto expected = shared->expected.of<std::uint16_t>();
  const auto actual = shared->actual.of<std::uint16_t>();
  std::ranges::copy(expected, actual.begin());
  actual.back() ^= 1;
  return R"({"outcome": "mismatch", "reason": "the last one", "differs": true})";
}
"""


def test_kernels_get_the_weight_and_wrong_outputs_are_written(tmp_path, monkeypatch, capsys):
    """The library of kernels itself needs a GPU: this one has its functions."""
    (tmp_path / "kernels.cpp").write_text(KERNELS)
    library = tmp_path / "libreprolab_kernels.so"
    gcc = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT}", "-o", library]
    subprocess.run([*gcc, tmp_path / "kernels.cpp"], check=True)
    monkeypatch.setattr(reference, "BIN", tmp_path)
    status, text = verified(capsys, GOLDEN, "--dump", tmp_path)
    assert status == 1
    assert "  good       bit_exact 86\n" in text
    assert "  bad: mismatch: the last one\n" in text
    for weight in (PLAIN, NESTED):
        sides = [np.load(tmp_path / f"{weight.name}.bad.{s}.npy") for s in ("expected", "actual")]
        bits = [side.view(np.uint16).ravel() for side in sides]
        assert np.array_equal(bits[0], weight.dequantized.read(np.uint16))
        assert list(np.flatnonzero(bits[0] != bits[1])) == [weight.elements - 1]


def test_kernels_are_refused_where_there_are_none(capsys):
    if not (reference.BIN / "libreprolab_kernels.so").exists():
        assert verified(capsys, GOLDEN, "--kernel", "shared_lut")[0] == 2


@pytest.mark.skipif(
    not (reference.BIN / "libreprolab_kernels.so").exists(), reason="NOT TESTED: no CUDA half"
)
def test_every_kernel_is_as_promised_on_outputs_of_bitsandbytes(capsys):
    status, text = verified(capsys, GOLDEN, gpus="0")
    if "kernels: none run" in text:
        pytest.skip("NOT TESTED: no GPU")
    assert status == 0
    for kernel in ("branch_tree", "shared_lut", "packed_store", "streaming"):
        assert f"\n  {kernel} " in text

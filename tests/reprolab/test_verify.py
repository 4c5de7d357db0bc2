"""`make verify`: planted faults, damaged checkpoints, and what it says was not proved."""

import json
import struct
import subprocess

import numpy as np
import pytest

from reprolab import checkpoint, reference, verify
from reprolab.command_line import run
from reprolab.json_files import ROOT

GOLDEN = ROOT / "tests/golden/golden_seed1.safetensors"
TABLE = json.loads((ROOT / "tests/golden/damaged_checkpoints.json").read_text())
STATE = "layer.weight.quant_state.bitsandbytes__nf4"
TENSORS = {tensor.name: tensor for tensor in checkpoint.stored_in(GOLDEN)}
WEIGHTS = checkpoint.read([GOLDEN]).weights
PLAIN = next(w for w in WEIGHTS if not w.nested and w.elements > 200)
NESTED = next(w for w in WEIGHTS if w.nested and w.elements > 200)


def verified(capsys, *arguments):
    """The exit status, and what it printed."""
    status = run(verify.parser(), [*map(str, arguments)])
    out, err = capsys.readouterr()
    assert err.count("\n") == (status == 2)  # one line where it refuses
    return status, out + err


def content_of(data):
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, int):
        return bytes(data)
    if isinstance(data, dict):
        data = [float(data["from"]) + i * data["step"] for i in range(data["count"])]
    return np.array([*map(float, data)], "<f4").tobytes()


def safetensors(tensors, replaced=("", "")):
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, data) in tensors.items():
        content = content_of(data)
        ends = [len(body), len(body) + len(content)]
        shape = [len(content)] if shape is None else shape
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": ends}
        body += content
    text = json.dumps(header, separators=(",", ":")).replace(*replaced, 1).encode()
    return struct.pack("<Q", len(text)) + text + body


def write(folder, case):
    if "file" in case:
        length, text, size = case["file"]
        length = len(text.encode()) if length is None else length
        content = struct.pack("<Q", length) + text.encode() + bytes(size)
    else:
        tensors = TABLE["bases"][case.get("base", "plain")] | case.get("put", {})
        if "state" in case:
            dtype, shape, text = tensors[STATE]
            tensors[STATE] = (dtype, shape, text.replace(*case["state"], 1))
        tensors = {n: t for n, t in tensors.items() if n not in case.get("remove", ())}
        content = safetensors(tensors, case.get("header", ("", "")))
        content = content[: max(0, len(content) - case.get("cut", 0))]
    name = "model-1" if "index" in case else "model"
    (folder / f"{name}.safetensors").write_bytes(content)
    for name, tensors in case.get("others", {}).items():
        (folder / name).write_bytes(safetensors(tensors))
    if "index" in case:
        (folder / checkpoint.INDEX).write_text(case["index"])


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_a_damaged_checkpoint_gets_one_line(case, tmp_path, capsys):
    write(tmp_path, case)
    status, text = verified(capsys, tmp_path)
    assert status == (3 if "accepts" in case else 2), text
    assert "accepts" in case or text.startswith(f"error: {tmp_path}")


def flipped(tensor, at=0, bit=1):
    return {TENSORS[tensor].begin + at: lambda byte: byte ^ bit}


def swapped(tensor):
    """The two codes of each byte in the other order."""
    stored = TENSORS[tensor]
    places = range(stored.begin, stored.begin + stored.size)
    return dict.fromkeys(places, lambda byte: (byte >> 4) | (byte & 15) << 4)


def digit(weight, key, at):
    """Another digit of a number in the state."""
    stored = TENSORS[f"{weight.name}{checkpoint.STATE}nf4"]
    number = f'"{key}": '.encode()
    place = stored.read().tobytes().index(number) + len(number) + at
    return {stored.begin + place: lambda byte: byte ^ 1}


OUT, NESTED_OUT = PLAIN.dequantized.name, NESTED.dequantized.name
FAULTS = {
    "the first code": (flipped(PLAIN.name, 0, 0x10), 1, PLAIN),
    "the last code": (flipped(PLAIN.name, (PLAIN.elements - 1) // 2, 0x10), 1, PLAIN),
    "a code before a block ends": (flipped(PLAIN.name, PLAIN.block_size // 2 - 1), 1, PLAIN),
    "a code where a block begins": (flipped(PLAIN.name, PLAIN.block_size // 2, 0x10), 1, PLAIN),
    "the order of codes": (swapped(PLAIN.name), 1, PLAIN),
    "the lowest bit of a scale": (flipped(PLAIN.absmax.name, 1, 0x80), 1, PLAIN),
    "the sign of the last scale": (
        flipped(PLAIN.absmax.name, PLAIN.absmax.size - 1, 0x80),
        1,
        PLAIN,
    ),
    "a nested scale's code": (flipped(NESTED.absmax.name, 0, 0x40), 1, NESTED),
    "a second-level scale": (flipped(NESTED.nested_absmax.name, 2), 1, NESTED),
    "the offset": (digit(NESTED, "nested_offset", 5), 1, NESTED),
    "an entry of the nested map": (flipped(NESTED.nested_map.name, 4 * 255 + 2), 1, NESTED),
    "the table": (flipped(PLAIN.table.name, 4), 2, PLAIN),
    "the block size": (digit(PLAIN, "blocksize", 1), 2, PLAIN),
    "the first output": (flipped(OUT), 1, PLAIN),
    "the last output": (flipped(OUT, 2 * PLAIN.elements - 1, 0x80), 1, PLAIN),
    "an output where a block ends": (flipped(OUT, 2 * PLAIN.block_size - 1, 0x80), 1, PLAIN),
    "an output of nested scales": (flipped(NESTED_OUT, 100), 1, NESTED),
    "the quantizer's input": (flipped(PLAIN.source.name, 1, 0x40), 1, PLAIN),
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
    (tmp_path / "a.safetensors").write_bytes(safetensors(TABLE["bases"]["plain"]))
    status, text = verified(capsys, tmp_path)
    assert status == 3
    assert "nothing could be proved here" in text
    assert "checked: 0 of 2 tensors\n" in text


def test_a_file_that_is_not_read_is_named(tmp_path, capsys):
    plain = TABLE["bases"]["plain"]
    for name in ("a", "stray"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(plain))
    index = tmp_path / checkpoint.INDEX
    index.write_text(json.dumps({"weight_map": dict.fromkeys(plain, "a.safetensors")}))
    assert "not read, though beside it: stray.safetensors\n" in verified(capsys, tmp_path)[1]
    (tmp_path / "a.safetensors").rename(tmp_path / checkpoint.SINGLE)
    said = "not read, though beside it: stray.safetensors, model.safetensors.index.json\n"
    assert said in verified(capsys, tmp_path)[1]


KERNELS = """
#include <cstdio>
#include <cstdint>
#include <cstring>
struct Memory { char* values; std::int64_t bytes; };
static Memory shared;
extern "C" const char* reprolab_kernels_open(const char*, Memory memory) {
  shared = memory;
  return R"({"names": ["good", "bad"], "unavailable": ""})";
}
extern "C" const char* reprolab_kernels_verify(const char* request, const char* kernel) {
  if (!std::strcmp(kernel, "good")) {
    return R"({"outcome": "bit_exact", "reason": "", "differs": false})";
  }
  long from = 0, to = 0, count = 0;
  std::sscanf(std::strstr(request, "\\"expected\\": [") + 13, "%ld, %ld", &from, &count);
  std::sscanf(std::strstr(request, "\\"actual\\": [") + 11, "%ld", &to);
  std::memcpy(shared.values + to, shared.values + from, 2 * count);
  shared.values[to + 2 * count - 2] ^= 1;
  return R"({"outcome": "mismatch", "reason": "the last one", "differs": true})";
}
"""


def test_kernels_get_the_weight_and_wrong_outputs_are_written(tmp_path, monkeypatch, capsys):
    """The library of kernels itself needs a GPU: this one has its functions."""
    (tmp_path / "kernels.cpp").write_text(KERNELS)
    library = tmp_path / "libreprolab_kernels.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, tmp_path / "kernels.cpp"], check=True)
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
    status, text = verified(capsys, GOLDEN)
    if "kernels: none run" in text:
        pytest.skip("NOT TESTED: no GPU")
    assert status == 0
    for kernel in ("branch_tree", "shared_lut", "packed_store", "streaming"):
        assert f"\n  {kernel} " in text

"""Checkpoints read without torch: what they hold, and one line for each fault."""

import json
import struct

import pytest

from claims.errors import InputError
from experiments.end_to_end import checkpoint
from experiments.end_to_end.checkpoint import Layer

CONFIG = {
    "model_type": "llama",
    "quantization_config": {
        "quant_method": "bitsandbytes",
        "_load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
    },
}
STATE = {"quant_type": "nf4", "blocksize": 64, "dtype": "float16", "shape": [256, 128]}


def safetensors(tensors):
    """(dtype, shape, bytes) by name, one behind the other."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, content) in tensors.items():
        ends = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": ends}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def quantized(name, state):
    text = json.dumps(state).encode()
    return {
        f"{name}.weight": ("U8", [16384, 1], bytes(16384)),
        f"{name}.weight.absmax": ("F32", [512], bytes(2048)),
        f"{name}.weight.quant_state.bitsandbytes__nf4": ("U8", [len(text)], text),
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    nested = STATE | {"shape": [128, 256], "nested_offset": 0.5, "dtype": "bfloat16"}
    tensors = quantized("a", STATE) | {"norm": ("F16", [3], bytes(6))} | quantized("b", nested)
    (tmp_path / "model.safetensors").write_bytes(safetensors(tensors))
    return tmp_path


def fault(folder):
    with pytest.raises(InputError) as error:
        checkpoint.read(folder)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(str(folder)).lstrip("/: ")


def test_layers(folder):
    assert checkpoint.read(folder) == [
        Layer("a.weight", 256, 128, 64, False, "float16"),
        Layer("b.weight", 128, 256, 64, True, "bfloat16"),
    ]


def test_shards_are_those_of_the_index(folder):
    shard = folder / "model-00001-of-00002.safetensors"
    (folder / "model.safetensors").rename(shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a.weight": shard.name, "b.weight": shard.name}}))
    assert len(checkpoint.read(folder)) == 2
    index.write_text(json.dumps({"weight_map": {"c.weight": "model-00002-of-00002.safetensors"}}))
    assert fault(folder) == "lacks model-00002-of-00002.safetensors; was it downloaded whole?"
    index.write_text("[]")
    assert fault(folder).endswith("has no weight_map")


def test_what_is_no_nf4_checkpoint(folder, tmp_path):
    config = folder / "config.json"
    for change, line in [
        ({"bnb_4bit_quant_type": "fp4"}, "is quantized to fp4, not to nf4"),
        ({"_load_in_4bit": False}, "is quantized to 8 bits; 4-bit NF4 is needed"),
        ({"quant_method": "gptq"}, "is not quantized by bitsandbytes; quantize it to NF4 first"),
    ]:
        how = CONFIG["quantization_config"] | change
        config.write_text(json.dumps(CONFIG | {"quantization_config": how}))
        assert fault(folder) == line
    config.write_text(json.dumps({"model_type": "llama"}))
    assert fault(folder).startswith("is not quantized by bitsandbytes")
    config.write_text("{")
    assert fault(folder).startswith("config.json: is not whole JSON")
    config.unlink()
    assert fault(folder) == "is no checkpoint: it has no config.json"


def test_a_folder_without_weights(folder):
    (folder / "model.safetensors").write_bytes(safetensors({"norm": ("F16", [3], bytes(6))}))
    assert fault(folder) == "its safetensors files hold no NF4 layer"
    (folder / "model.safetensors").unlink()
    assert fault(folder) == "lacks model.safetensors; was it downloaded whole?"


def damage(content, what):
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    if what == "truncated":
        return content[:-1]
    if what == "overlapping":
        header["norm"]["data_offsets"] = [0, 6]
    elif what == "too_short":
        header["norm"]["shape"] = [4]
    elif what == "no_offsets":
        del header["norm"]["data_offsets"]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("truncated", "bytes are needed, "),
        ("overlapping", "its tensors do not lie one behind the other"),
        ("too_short", "its tensors do not lie one behind the other"),
        ("no_offsets", "its header cannot be read"),
    ],
)
def test_damaged_files(folder, what, line):
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes(), what))
    said = fault(folder)
    assert said.startswith("model.safetensors: is no whole safetensors file: ")
    assert line in said


@pytest.mark.parametrize("content", [b"", b"1234567", struct.pack("<Q", 1 << 40) + b"{}"])
def test_a_file_that_is_none(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    assert fault(folder).endswith("its header's length cannot be")


def test_another_output_type(folder):
    tensors = quantized("a", STATE | {"dtype": "float32"})
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert fault(folder).endswith("a.weight: is dequantized to float32; fp16 or bf16 is needed")


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"shape": [1, 2]}', b'{"shape": 3}'])
def test_a_damaged_quant_state(folder, text):
    tensors = {"a.weight.quant_state.bitsandbytes__nf4": ("U8", [len(text)], text)}
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert fault(folder) == "model.safetensors: a.weight: its quant_state is damaged"

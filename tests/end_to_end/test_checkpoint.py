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


NESTED = STATE | {"nested_blocksize": 256, "nested_offset": 0.5, "nested_dtype": "float32"}


def quantized(name, state):
    """32768 weights."""
    text = json.dumps(state).encode()
    tensors = {
        "": ("U8", [16384, 1], bytes(16384)),
        ".absmax": ("F32", [512], bytes(2048)),
        ".quant_map": ("F32", [16], bytes(64)),
        ".quant_state.bitsandbytes__nf4": ("U8", [len(text)], text),
    }
    if "nested_offset" in state:
        tensors[".absmax"] = ("U8", [512], bytes(512))
        tensors[".nested_absmax"] = ("F32", [2], bytes(8))
        tensors[".nested_quant_map"] = ("F32", [256], bytes(1024))
    return {f"{name}.weight{part}": tensor for part, tensor in tensors.items()}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    nested = NESTED | {"shape": [128, 256], "dtype": "bfloat16"}
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
    for text in ("[]", '{"weight_map": {"a.weight": ["x"]}}'):
        index.write_text(text)
        assert fault(folder).endswith("has no weight_map with files' names")


def test_codes_may_lie_in_another_shard_than_their_state(folder):
    a = quantized("a", STATE)
    state = {name: a.pop(name) for name in list(a) if name.endswith("__nf4")}
    (folder / "model.safetensors").write_bytes(safetensors(state))
    (folder / "more.safetensors").write_bytes(safetensors(a))
    assert checkpoint.read(folder) == [Layer("a.weight", 256, 128, 64, False, "float16")]


def test_every_type_of_a_tensor_has_its_size(folder):
    # Of 8 elements each.
    sizes = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8}
    sizes |= {"F8_E4M3": 8, "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16}
    sizes |= {"U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64}
    others = {f"of {kind}": (kind, [2, 4], bytes(size)) for kind, size in sizes.items()}
    file = folder / "model.safetensors"
    file.write_bytes(safetensors(quantized("a", STATE) | others))
    assert len(checkpoint.read(folder)) == 1
    file.write_bytes(safetensors({"x": ("U16", [3], bytes(3))}))
    assert fault(folder).endswith("its tensors do not lie one behind the other")


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


OFFSETS = {
    "three_offsets": lambda begin, end: [begin, end, end],
    "float_offset": lambda begin, end: [begin, float(end)],
    "text_offset": lambda begin, end: [str(begin), end],
}


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
    elif what in OFFSETS:
        header["norm"]["data_offsets"] = OFFSETS[what](*header["norm"]["data_offsets"])
    elif what == "negative_shape":
        header["norm"]["shape"] = [-1, -3]
    elif what == "another_type":
        header["norm"]["dtype"] = "F17"
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("truncated", "bytes are needed, "),
        ("overlapping", "its tensors do not lie one behind the other"),
        ("too_short", "its tensors do not lie one behind the other"),
        ("no_offsets", "its header cannot be read"),
        ("three_offsets", "its header cannot be read"),
        ("float_offset", "its header cannot be read"),
        ("text_offset", "its header cannot be read"),
        ("negative_shape", "its header cannot be read"),
        ("another_type", "its header cannot be read"),
    ],
)
def test_damaged_files(folder, what, line):
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes(), what))
    said = fault(folder)
    assert said.startswith("model.safetensors: is no whole safetensors file: ")
    assert line in said


def test_a_header_that_is_nested_too_deeply(folder):
    text = b'{"a":' + b"[" * 100_000
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    assert fault(folder).endswith("its header cannot be read")


@pytest.mark.parametrize("content", [b"", b"1234567", struct.pack("<Q", 1 << 40) + b"{}"])
def test_a_file_that_is_none(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    assert fault(folder).endswith("its header's length cannot be")


def test_another_output_type(folder):
    tensors = quantized("a", STATE | {"dtype": "float32"})
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert fault(folder).endswith("a.weight: is dequantized to float32; fp16 or bf16 is needed")


DAMAGED = [{"shape": [-256, -128]}, {"shape": [0, 128]}, {"shape": [256.0, 128]}]
DAMAGED += [{"blocksize": size} for size in (0, -64, float("inf"), 64.5, True)]
DAMAGED += [{"quant_type": "fp4"}, {"nested_blocksize": 256}, {"nested_offset": 0.5}]
DAMAGED += [NESTED | {"nested_offset": offset} for offset in (float("nan"), "x", None, [])]
DAMAGED += [NESTED | {"nested_blocksize": size} for size in (0, 48, 1 << 40, None)]


@pytest.mark.parametrize(
    "text",
    [
        *(b"{", b"[]", b'{"shape": [1, 2]}', b'{"shape": 3}', b"[" * 100_000),
        *(json.dumps(STATE | change).encode() for change in DAMAGED),
    ],
    ids=lambda text: text[:80].decode(),
)
def test_a_damaged_quant_state(folder, text):
    tensors = {"a.weight.quant_state.bitsandbytes__nf4": ("U8", [len(text)], text)}
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert fault(folder) == "model.safetensors: a.weight: its quant_state is damaged"


@pytest.mark.parametrize("shape", [[256, 127], [512, 128], [1 << 40, 1 << 40]])
def test_a_shape_that_the_codes_cannot_fill(folder, shape):
    tensors = quantized("a", STATE | {"shape": shape})
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    rows, columns = shape
    assert fault(folder) == (
        f"model.safetensors: a.weight: its codes are not those of {rows} x {columns}"
    )
    del tensors["a.weight"]
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert fault(folder).endswith(f"its codes are not those of {rows} x {columns}")


@pytest.mark.parametrize("size", [1, 7, 48, 8192, 1 << 40])
def test_a_block_size_that_bitsandbytes_lacks(folder, size):
    tensors = quantized("a", STATE | {"blocksize": size})
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert fault(folder) == (
        f"model.safetensors: a.weight: has blocks of {size} weights, which are no power of two "
        "from 32 to 4096"
    )


PARTS = {
    "absmax": [STATE, "512 numbers of F32"],
    "quant_map": [STATE, "16 numbers of F32"],
    "nested_absmax": [NESTED, "2 numbers of F32"],
    "nested_quant_map": [NESTED, "256 numbers of F32"],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "there", [None, ("F32", [0], b""), ("F32", [1], bytes(4)), ("F64", [16], bytes(128))]
)
def test_scales_and_maps_that_do_not_fit_the_codes(folder, part, there):
    state, wanted = PARTS[part]
    tensors = quantized("a", state)
    del tensors[f"a.weight.{part}"]
    if there:
        tensors[f"a.weight.{part}"] = there
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert fault(folder) == f"model.safetensors: a.weight: its {part} is not {wanted}"


def test_scales_of_another_block_size_or_kind(folder):
    for state, change, wanted in [
        (STATE, {"blocksize": 128}, "256 numbers of F32"),
        (STATE, {k: v for k, v in NESTED.items() if k not in STATE}, "512 numbers of U8"),
    ]:
        tensors = quantized("a", state)
        tensors |= {k: v for k, v in quantized("a", state | change).items() if "state" in k}
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        assert fault(folder) == f"model.safetensors: a.weight: its absmax is not {wanted}"

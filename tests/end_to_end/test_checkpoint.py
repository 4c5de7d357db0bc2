"""Checkpoints read without torch: what they hold, and one line for each fault."""

import itertools
import json
import os
import struct

import numpy as np
import pytest

from experiments.end_to_end import checkpoint
from experiments.end_to_end.checkpoint import Layer
from records.errors import InputError
from records.json_files import ROOT

CONFIG = {
    "model_type": "llama",
    "quantization_config": {
        "quant_method": "bitsandbytes",
        "_load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
    },
}
STATE = "layer.weight.quant_state.bitsandbytes__nf4"
TABLE = json.loads((ROOT / "tests/golden/damaged_checkpoints.json").read_text())
PLAIN = TABLE["bases"]["plain"]


def content_of(data):
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, int):
        return bytes(data)
    if isinstance(data, dict):
        data = [float(data["from"]) + i * data["step"] for i in range(data["count"])]
    with np.errstate(over="ignore"):
        return np.array(data, dtype="<f4").tobytes()


def safetensors(tensors):
    """[dtype, shape, data] by name, as the table has them, one behind the other."""
    header, behind = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, data) in tensors.items():
        content = content_of(data)
        ends = [len(behind), len(behind) + len(content)]
        shape = [len(content)] if shape is None else shape
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": ends}
        behind += content
    return whole_file(None, json.dumps(header, separators=(",", ":")), behind)


def whole_file(length, header, data):
    text = header.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def replaced(text, old_and_new):
    old, new = old_and_new
    assert old in text
    return text.replace(old, new, 1)


def write(folder, case):
    """The files of one case of the table, or of one of a sweep."""
    tensors = TABLE["bases"][case.get("base", "plain")] | case.get("put", {})
    if "state" in case:
        tensors[STATE] = ["U8", None, replaced(tensors[STATE][2], case["state"])]
    for name in case.get("remove", []):
        del tensors[name]
    content = safetensors(tensors)
    if "header" in case:
        end = 8 + struct.unpack("<Q", content[:8])[0]
        header = replaced(content[8:end].decode(), case["header"])
        content = whole_file(None, header, content[end:])
    if "file" in case:
        length, header, data_bytes = case["file"]
        content = whole_file(length, header, bytes(data_bytes))
    content = content[: max(0, len(content) - case.get("cut", 0))]
    (folder / "model.safetensors").unlink(missing_ok=True)
    main = "model-1.safetensors" if "index" in case else "model.safetensors"
    (folder / main).write_bytes(content)
    for name, beside in case.get("beside", {}).items():
        (folder / name).write_bytes(safetensors(beside))
    if "index" in case:
        (folder / "model.safetensors.index.json").write_text(case["index"])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    write(tmp_path, {})
    return tmp_path


def fault(folder):
    with pytest.raises(InputError) as error:
        checkpoint.read(folder)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(folder))
    return str(error.value).removeprefix(str(folder)).lstrip("/: ")


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_damaged_checkpoints(folder, case):
    write(folder, case)
    if isinstance(case["python"], str):
        said = fault(folder)
        assert case["python"] in said
        assert "; " in said or "is not whole JSON" in said, "what to do"
    else:
        assert case["python"]["accepts"]
        assert [layer.name for layer in checkpoint.read(folder)] == ["layer.weight"]


@pytest.mark.parametrize("sweep", TABLE["sweeps"], ids=lambda sweep: sweep["name"])
def test_sweeps(folder, sweep):
    taken = []
    values = TABLE["values"] if sweep["by"] == "values" else sweep["by"]
    for change in itertools.product(sweep["replace"], values):
        new = replaced(sweep["text"], change) if "text" in sweep else change
        write(folder, {"base": sweep["base"], sweep["of"]: new})
        try:
            checkpoint.read(folder)
        except InputError:
            continue
        taken.append(list(change))
    assert taken == sweep["accepts"]


def test_layers(folder):
    nested = TABLE["bases"]["nested"].items()
    more = {name.replace("layer", "b"): part for name, part in nested if "layer" in name}
    index = json.dumps({"weight_map": {"layer.weight": "model-1.safetensors", "b.weight": "b.st"}})
    write(folder, {"index": index, "beside": {"b.st": more}})
    assert checkpoint.read(folder) == [
        Layer("layer.weight", 3, 67, 64, False, "bfloat16"),
        Layer("b.weight", 3, 67, 64, True, "bfloat16"),
    ]


def test_shards_are_those_of_the_index(folder):
    write(folder, {"index": '{"weight_map": {"norm.weight": "model-1.safetensors"}}'})
    (folder / "consolidated.safetensors").write_bytes(safetensors(PLAIN))
    assert len(checkpoint.read(folder)) == 1
    (folder / "model.safetensors.index.json").unlink()
    assert fault(folder) == "lacks model.safetensors; was it downloaded whole?"


def test_an_index_longer_than_any_is_refused_unread(folder):
    write(folder, {"index": "{}"})
    os.truncate(folder / "model.safetensors.index.json", 100_000_001)
    assert fault(folder).endswith("is no index: it has more than 100000000 bytes")


def test_beside_model_safetensors_nothing_is_read(folder):
    write(folder, {"beside": {"model.fp16.safetensors": PLAIN}})
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"t": "gone"}}')
    (folder / "consolidated.safetensors").write_text("version https://git-lfs.github.com")
    assert len(checkpoint.read(folder)) == 1


def test_numbers_beyond_64_bits(folder):
    huge = "9" * 300
    header = f'{{"t":{{"dtype":"U8","shape":[{huge}],"data_offsets":[0,{huge}]}}}}'
    (folder / "model.safetensors").write_bytes(whole_file(None, header, b""))
    assert "t: its shape is not whole numbers" in fault(folder)
    write(folder, {"state": ["[3, 67]", f"[{huge}, 1]"]})
    assert len(fault(folder)) < 300


def test_a_shape_of_very_many_dimensions(folder):
    """Their product would have millions of digits."""
    shape = ",".join(["9223372036854775807"] * 100_000)
    header = f'{{"t":{{"dtype":"U8","shape":[{shape}],"data_offsets":[0,0]}}}}'
    (folder / "model.safetensors").write_bytes(whole_file(None, header, b""))
    assert "t: its shape's product exceeds 64 bits" in fault(folder)


def test_every_type_of_a_tensor_has_its_size(folder):
    # Of 8 elements each.
    sizes = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8}
    sizes |= {"F8_E4M3": 8, "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16}
    sizes |= {"U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64}
    others = {f"of {kind}": (kind, [2, 4], size) for kind, size in sizes.items()}
    (folder / "model.safetensors").write_bytes(safetensors(PLAIN | others))
    assert len(checkpoint.read(folder)) == 1


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
    (folder / "model.safetensors").unlink()
    assert fault(folder) == "lacks model.safetensors; was it downloaded whole?"


def test_a_file_cut_anywhere_is_refused(folder):
    content = (folder / "model.safetensors").read_bytes()
    for size in range(len(content)):
        (folder / "model.safetensors").write_bytes(content[:size])
        assert fault(folder).startswith("model.safetensors: is no whole safetensors file: ")


@pytest.mark.parametrize("brackets", [900, 20_000])
def test_texts_that_are_nested_deeply(folder, brackets):
    """As deeply as Python bears, and more deeply."""
    deep = "[" * brackets + "]" * brackets
    write(folder, {"state": ["[3, 67]", deep]})
    assert fault(folder).startswith("model.safetensors: layer.weight: its quant_state ")
    write(folder, {"file": [None, f'{{"a": {deep}}}', 0]})
    assert fault(folder).startswith("model.safetensors: is no whole safetensors file: ")


def test_no_name_reaches_the_terminal_raw(folder):
    name = "a\n\x1b.weight"
    tensors = {key.replace("layer.weight", name): tensor for key, tensor in PLAIN.items()}
    del tensors[f"{name}.absmax"]
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    assert (
        fault(folder)
        == "model.safetensors: a\\n\\x1b.weight: lacks its absmax; save the checkpoint again"
    )

"""Checkpoints: errors in a folder, and the layers, which the program `verify` reads."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

from reprolab.json_files import ROOT
from reprolab_nf4 import DropinError, checkpoint
from reprolab_nf4.advice import Shape

HOW = {"quant_method": "bitsandbytes", "_load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
HOW |= {"bnb_4bit_compute_dtype": "bfloat16"}
PLAIN = Shape(3, 67, 64, False, "bfloat16")
BASES = json.loads((ROOT / "tests/golden/damaged_checkpoints.json").read_text())["bases"]


def content_of(data):
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, int):
        return bytes(data)
    if isinstance(data, dict):
        data = [data["from"] + i * data["step"] for i in range(data["count"])]
    return np.array(data, dtype="<f4").tobytes()


def safetensors(tensors):
    """[dtype, shape, data] by name, as in the header, one after the other."""
    header, behind = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        content = content_of(data)
        ends = [len(behind), len(behind) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape or [len(content)], "data_offsets": ends}
        behind += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + behind


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": HOW}))
    (tmp_path / "model.safetensors").write_bytes(safetensors(BASES["plain"]))
    return tmp_path


def fault(folder):
    with pytest.raises(DropinError) as error:
        checkpoint.read(folder)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(folder))
    return str(error.value).removeprefix(str(folder)).lstrip("/: ")


needs_verify = pytest.mark.skipif(
    not checkpoint.VERIFY.is_file(),
    reason=f"NOT TESTED, {checkpoint.VERIFY} is not built: make build",
)


@needs_verify
@pytest.mark.parametrize(("given", "compute"), [("float16", "float16"), (None, "float32")])
def test_the_type_that_layers_compute_in(given, compute, folder):
    how = HOW | {"bnb_4bit_compute_dtype": given}
    (folder / "config.json").write_text(json.dumps({"quantization_config": how}))
    assert checkpoint.read(folder) == [replace(PLAIN, compute=compute)]


@needs_verify
def test_layers(folder):
    assert checkpoint.read(folder) == [PLAIN]
    # transformers reads model.safetensors, or, if there is none, the files of the index.
    (folder / "consolidated.safetensors").write_text("version https://git-lfs.github.com")
    index = folder / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"t": "gone"}}')
    assert len(checkpoint.read(folder)) == 1
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    nested = {name.replace("layer", "b"): x for name, x in BASES["nested"].items() if "y" in name}
    (folder / "b.safetensors").write_bytes(safetensors(nested))
    places = {"layer.weight": "a.safetensors", "b.weight": "b.safetensors"}
    index.write_text(json.dumps({"weight_map": places}))
    assert checkpoint.read(folder) == [replace(PLAIN, nested=True), PLAIN]


@needs_verify
def test_damaged_files(folder, monkeypatch):
    state = "layer.weight.quant_state.bitsandbytes__nf4"
    dtype, shape, text = BASES["plain"][state]
    flat = BASES["plain"] | {state: [dtype, shape, text.replace("[3, 67]", "[201]")]}
    (folder / "model.safetensors").write_bytes(safetensors(flat))
    assert fault(folder).startswith("model.safetensors: layer.weight: ")
    (folder / "model.safetensors").write_bytes(safetensors(flat)[:-1])
    assert fault(folder).startswith("model.safetensors: the tensors end at byte ")
    monkeypatch.setattr(checkpoint, "VERIFY", folder / "verify")
    assert "make build" in fault(folder)
    (folder / "verify").write_text("#!/bin/sh\nkill -KILL $$\n")
    (folder / "verify").chmod(0o755)
    assert fault(folder) == "verify: ended with status -9"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"quantization_config": HOW | {"bnb_4bit_quant_type": "fp4"}}, "is quantized to fp4, not"),
        (
            {"quantization_config": HOW | {"_load_in_4bit": False}},
            "is quantized to 8 bits; 4-bit NF4 is needed",
        ),
        *(
            (
                {"quantization_config": HOW | {"bnb_4bit_compute_dtype": compute}},
                "config.json: bnb_4bit_compute_dtype: give float16, bfloat16, float32, not ",
            )
            for compute in ("torch.bfloat16", "float64", 5, ["bfloat16"])
        ),
        ({"quantization_config": {"quant_method": "gptq"}}, "is not quantized by bitsandbytes; "),
        ({"model_type": "llama"}, "is not quantized by bitsandbytes; quantize it to NF4 first"),
        ([], "is not quantized by bitsandbytes"),
    ],
)
def test_a_folder_that_is_not_an_nf4_checkpoint(folder, config, line):
    (folder / "config.json").write_text(json.dumps(config))
    assert fault(folder).startswith(line)


def test_a_folder_that_lacks_a_file(folder):
    (folder / "model.safetensors").unlink()
    assert "model.safetensors" in fault(folder)
    (folder / "config.json").write_text("{")
    assert fault(folder).startswith("config.json: ")
    (folder / "config.json").unlink()
    assert "config.json" in fault(folder)

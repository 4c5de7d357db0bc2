"""Reads the layers of a folder with a 4-bit checkpoint, without torch."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from reprolab_nf4.advice import Shape
from reprolab_nf4.c_functions import DropinError, shown

ROOT = Path(__file__).resolve().parents[1]
VERIFY = ROOT / os.environ.get("BIN", "build/cpu/bin") / "verify"
OUTPUTS = {"float16": "fp16", "bfloat16": "bf16"}  # torch's names, and those of result files
COMPUTE = (*OUTPUTS, "float32")


def read(folder: Path) -> list[Shape]:
    """The shape of every quantized layer, as the program `verify` reads it. A DropinError names the
    file and its fault. Codes and scales are not read.
    """
    if not (folder / "config.json").is_file():
        raise DropinError(f"{folder}: is not a checkpoint: it has no config.json")
    config = read_json(folder / "config.json")
    how = config.get("quantization_config") if isinstance(config, dict) else None
    if not isinstance(how, dict) or how.get("quant_method") != "bitsandbytes":
        raise DropinError(f"{folder}: is not quantized by bitsandbytes; quantize it to NF4 first")
    if not (how.get("load_in_4bit") or how.get("_load_in_4bit")):
        raise DropinError(f"{folder}: is quantized to 8 bits; 4-bit NF4 is needed")
    if how.get("bnb_4bit_quant_type") != "nf4":
        raise DropinError(f"{folder}: is quantized to {how.get('bnb_4bit_quant_type')}, not to nf4")
    compute = how.get("bnb_4bit_compute_dtype") or "float32"  # as transformers takes it
    if compute not in COMPUTE:
        what = f"give {', '.join(COMPUTE)}, not {shown(compute)}"
        raise DropinError(f"{folder}/config.json: bnb_4bit_compute_dtype: {what}")
    # transformers loads the single file if it exists, otherwise the files of the index.
    names = ("model.safetensors", "model.safetensors.index.json")
    given = next((folder / name for name in names if (folder / name).is_file()), None)
    if given is None:
        raise DropinError(f"{folder}: lacks {names[0]}; was it downloaded whole?")
    try:
        process = subprocess.run([VERIFY, "--list", "--", given], capture_output=True, text=True)
    except OSError as error:
        what = "run make build in a checkout of the project"
        raise DropinError(f"{VERIFY}: {error.strerror}; {what}") from None
    if process.returncode != 0:
        why = process.stderr.strip().removeprefix("error: ")
        raise DropinError(why or f"{VERIFY}: ended with status {process.returncode}")
    layers = []
    for layer in json.loads(process.stdout):
        name, shape = layer.pop("name"), layer.pop("shape")
        if len(shape) != 2:
            raise DropinError(f"{given}: {name}: is not a matrix, so not a layer of a model")
        other = "" if compute == layer["output"] else compute
        layers.append(Shape(*shape, **layer, compute=other))
    return layers


def read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise DropinError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DropinError(f"{file}: is not whole JSON: {error}") from None

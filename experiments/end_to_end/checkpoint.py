"""What a folder with a 4-bit checkpoint holds, read without torch; one line where it is faulty."""

import json
import os
import subprocess
from pathlib import Path

from records.errors import InputError
from records.json_files import ROOT, read_json
from reprolab_nf4.advice import Shape

VERIFY = ROOT / os.environ.get("BIN", "build/cpu/bin") / "verify"
OUTPUTS = {"float16": "fp16", "bfloat16": "bf16"}  # torch's names, and those of result files


def read(folder: Path) -> list[Shape]:
    """Of every quantized layer, as the program `verify` reads them; InputError says file and fault.

    Neither codes nor scales are read: with wrong ones the model computes no numbers.
    """
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: is no checkpoint: it has no config.json")
    config = read_json(folder / "config.json")
    how = config.get("quantization_config") if isinstance(config, dict) else None
    if not isinstance(how, dict) or how.get("quant_method") != "bitsandbytes":
        raise InputError(f"{folder}: is not quantized by bitsandbytes; quantize it to NF4 first")
    if not (how.get("load_in_4bit") or how.get("_load_in_4bit")):
        raise InputError(f"{folder}: is quantized to 8 bits; 4-bit NF4 is needed")
    if how.get("bnb_4bit_quant_type") != "nf4":
        raise InputError(f"{folder}: is quantized to {how.get('bnb_4bit_quant_type')}, not to nf4")
    # The file that transformers loads alone, or else those of the index.
    names = ("model.safetensors", "model.safetensors.index.json")
    given = next((folder / name for name in names if (folder / name).is_file()), None)
    if given is None:
        raise InputError(f"{folder}: lacks {names[0]}; was it downloaded whole?")
    try:
        done = subprocess.run([VERIFY, "--list", "--", given], capture_output=True, text=True)
    except OSError as error:
        raise InputError(f"{VERIFY}: {error.strerror}; run make build") from None
    if done.returncode != 0:
        raise InputError(done.stderr.strip().removeprefix("verify: "))
    layers = []
    for found in json.loads(done.stdout):
        name, shape = found.pop("name"), found.pop("shape")
        if len(shape) != 2:
            raise InputError(f"{given}: {name}: is no matrix, and no layer of a model")
        compute = how.get("bnb_4bit_compute_dtype") or "float32"  # as transformers takes it
        compute = "" if compute == found["output"] else compute
        layers.append(Shape(*shape, **found, compute=compute))
    return layers

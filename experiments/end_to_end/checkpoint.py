"""What a folder with a 4-bit checkpoint holds, read without torch; one line where it is faulty."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from claims.errors import InputError
from claims.json_files import read_json

LONGEST_HEADER = 100_000_000  # bytes, as the format says
BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2}
OUTPUTS = {"float16": "fp16", "bfloat16": "bf16"}  # torch's names, and those of result files
STATE = ".quant_state.bitsandbytes__"


@dataclass(frozen=True)
class Layer:
    """One quantized matrix; `output`: of torch's types, what it was quantized from."""

    name: str
    rows: int
    columns: int
    block_size: int
    nested: bool
    output: str


def read(folder: Path) -> list[Layer]:
    """Every quantized layer; InputError naming the file and the fault."""
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
    found = [layer for file in shards(folder) for layer in layers_of(file)]
    if not found:
        raise InputError(f"{folder}: its safetensors files hold no NF4 layer")
    return found


def shards(folder: Path) -> list[Path]:
    """The files that the index names, or the only one."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        root = read_json(index)
        names = root.get("weight_map") if isinstance(root, dict) else None
        if not isinstance(names, dict):
            raise InputError(f"{index}: has no weight_map")
        files = [folder / str(name) for name in dict.fromkeys(names.values())]
    else:
        files = sorted(folder.glob("*.safetensors"))
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        name = missing[0].name if missing else "model.safetensors"
        raise InputError(f"{folder}: lacks {name}; was it downloaded whole?")
    return files


def layers_of(file: Path) -> Iterator[Layer]:
    with file.open("rb") as stream:
        tensors, begin = header(file, stream)
        for name, tensor in tensors.items():
            weight, is_state, quant_type = name.partition(STATE)
            if not is_state or quant_type != "nf4":
                continue
            start, end = tensor["data_offsets"]
            stream.seek(begin + start)
            yield layer(file, weight, stream.read(end - start))


def layer(file: Path, name: str, text: bytes) -> Layer:
    try:
        state = json.loads(text)
        rows, columns = state["shape"]
        block_size, output = int(state["blocksize"]), str(state["dtype"])
        found = Layer(name, int(rows), int(columns), block_size, "nested_offset" in state, output)
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{file}: {name}: its quant_state is damaged") from None
    if output not in OUTPUTS:
        raise InputError(f"{file}: {name}: is dequantized to {output}; fp16 or bf16 is needed")
    return found


def header(file: Path, stream: Any) -> tuple[dict[str, Any], int]:
    """The tensors by name, and where the data begins; the file's size must be just theirs."""

    def damaged(why: str) -> InputError:
        return InputError(f"{file}: is no whole safetensors file: {why}")

    size = file.stat().st_size
    first = stream.read(8)
    length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
    if not 0 < length <= min(LONGEST_HEADER, size - 8):
        raise damaged("its header's length cannot be")
    try:
        tensors = json.loads(stream.read(length))
        tensors.pop("__metadata__", None)
        spans = sorted((*t["data_offsets"], prod(t["shape"]), t["dtype"]) for t in tensors.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged("its header cannot be read") from None
    reached = 0
    for begin, end, count, kind in spans:
        if begin != reached or end - begin != count * BYTES.get(kind, 1):
            raise damaged("its tensors do not lie one behind the other")
        reached = end
    if 8 + length + reached != size:
        raise damaged(f"{8 + length + reached} bytes are needed, {size} are there")
    return tensors, 8 + length

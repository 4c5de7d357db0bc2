"""What a folder with a 4-bit checkpoint holds, read without torch; one line where it is faulty."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Any

from claims.errors import InputError
from claims.json_files import read_json

LONGEST_HEADER = 100_000_000  # bytes, as the format says
# Of one element; what safetensors has.
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "I8": 8, "U8": 8, "F8_E4M3": 8}
BITS |= {"F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16}
BITS |= {"F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64}
BITS |= {"C64": 64}
BLOCK_SIZES = [2**k for k in range(5, 13)]  # that bitsandbytes has
OUTPUTS = {"float16": "fp16", "bfloat16": "bf16"}  # torch's names, and those of result files
STATE = ".quant_state.bitsandbytes__"


@dataclass(frozen=True)
class Tensor:
    """Where its bytes lie, and of what type they are (safetensors' name)."""

    file: Path
    begin: int
    size: int
    dtype: str

    def read(self) -> bytes:
        with self.file.open("rb") as stream:
            stream.seek(self.begin)
            return stream.read(self.size)


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
    # Of all files: a matrix's codes and its quant_state may lie in two of them.
    tensors = {name: found for file in shards(folder) for name, found in tensors_of(file)}
    states = [name for name in tensors if name.endswith(f"{STATE}nf4")]
    found = [layer(name.removesuffix(f"{STATE}nf4"), tensors) for name in states]
    if not found:
        raise InputError(f"{folder}: its safetensors files hold no NF4 layer")
    return found


def shards(folder: Path) -> list[Path]:
    """The files that the index names, or the only one."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        root = read_json(index)
        names = root.get("weight_map") if isinstance(root, dict) else None
        if not isinstance(names, dict) or not all(isinstance(n, str) for n in names.values()):
            raise InputError(f"{index}: has no weight_map with files' names")
        files = [folder / name for name in dict.fromkeys(names.values())]
    else:
        files = sorted(folder.glob("*.safetensors"))
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        name = missing[0].name if missing else "model.safetensors"
        raise InputError(f"{folder}: lacks {name}; was it downloaded whole?")
    return files


def layer(name: str, tensors: dict[str, Tensor]) -> Layer:
    stored = tensors[f"{name}{STATE}nf4"]
    try:
        state = json.loads(stored.read())
        rows, columns = whole(state["shape"], count=2, least=1)
        (block_size,) = whole([state["blocksize"]], least=1)
        nested = "nested_offset" in state or "nested_blocksize" in state
        (outer,) = whole([state["nested_blocksize"] if nested else 1], least=1)
        offset = float(state["nested_offset"]) if nested else 0
        fits = outer <= BLOCK_SIZES[-1] and outer & (outer - 1) == 0 and isfinite(offset)
        if state["quant_type"] != "nf4" or not fits:
            raise ValueError
        found = Layer(name, rows, columns, block_size, nested, str(state["dtype"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{stored.file}: {name}: its quant_state is damaged") from None
    if found.output not in OUTPUTS:
        raise InputError(
            f"{stored.file}: {name}: is dequantized to {found.output}; fp16 or bf16 is needed"
        )
    if block_size not in BLOCK_SIZES:
        raise InputError(
            f"{stored.file}: {name}: has blocks of {block_size} weights, which are no power of two "
            f"from {BLOCK_SIZES[0]} to {BLOCK_SIZES[-1]}"
        )
    if name not in tensors or tensors[name].size != (rows * columns + 1) // 2:
        raise InputError(f"{stored.file}: {name}: its codes are not those of {rows} x {columns}")
    blocks = -(-rows * columns // block_size)
    needed = {"quant_map": ("F32", 16), "absmax": ("U8" if nested else "F32", blocks)}
    if nested:
        needed |= {"nested_absmax": ("F32", -(-blocks // outer)), "nested_quant_map": ("F32", 256)}
    for part, (dtype, count) in needed.items():
        there = tensors.get(f"{name}.{part}")
        if there is None or (there.dtype, 8 * there.size) != (dtype, count * BITS[dtype]):
            file = (there or stored).file
            raise InputError(f"{file}: {name}: its {part} is not {count} numbers of {dtype}")
    return found


def tensors_of(file: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors with their names; the file's size must be just theirs."""

    def damaged(why: str) -> InputError:
        return InputError(f"{file}: is no whole safetensors file: {why}")

    size = file.stat().st_size
    with file.open("rb") as stream:
        first = stream.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        if not 0 < length <= min(LONGEST_HEADER, size - 8):
            raise damaged("its header's length cannot be")
        text = stream.read(length)
    try:
        tensors = json.loads(text)
        tensors.pop("__metadata__", None)
        spans = sorted(
            (*whole(t["data_offsets"], count=2), prod(whole(t["shape"])) * BITS[t["dtype"]], name)
            for name, t in tensors.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged("its header cannot be read") from None
    reached = 0
    for begin, end, bits, name in spans:
        if begin != reached or 8 * (end - begin) != bits:
            raise damaged("its tensors do not lie one behind the other")
        reached = end
        yield name, Tensor(file, 8 + length + begin, end - begin, tensors[name]["dtype"])
    if 8 + length + reached != size:
        raise damaged(f"{8 + length + reached} bytes are needed, {size} are there")


def whole(values: Any, count: int | None = None, least: int = 0) -> list[int]:
    """The list, if it is one of `count` whole numbers from `least` on; ValueError where not."""
    fits = isinstance(values, list) and count in (None, len(values))
    if not fits or not all(type(value) is int and value >= least for value in values):
        raise ValueError
    return values

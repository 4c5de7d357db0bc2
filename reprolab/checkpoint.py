"""Reads the NF4 weights of a checkpoint that bitsandbytes wrote: .safetensors files, which are 8
bytes with the length of the header, the header in JSON, and the tensors' bytes.

Whatever is wrong with a checkpoint is an InputError: one line with the file, fault and remedy.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import fastjsonschema
import numpy as np

from reprolab.errors import InputError
from reprolab.printable import shortened

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
MOST_HEADER_BYTES = 100_000_000  # the format's own limit
DAMAGED = "the file is damaged or was cut short; download it again"
SAVE_AGAIN = "save the checkpoint again with bitsandbytes"
STATE = ".quant_state.bitsandbytes__"
BITS = dict.fromkeys(("F64", "I64", "U64", "C64"), 64) | dict.fromkeys(("F32", "I32", "U32"), 32)
BITS |= dict.fromkeys(("F16", "BF16", "I16", "U16"), 16) | dict.fromkeys(("I8", "U8", "BOOL"), 8)
BITS |= dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8)
BITS |= {"F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}
STORED_AS = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}  # by PyTorch's name
SIZES = {"type": "array", "items": {"type": "integer", "minimum": 0}}
is_header = fastjsonschema.compile(
    {
        "type": "object",
        "properties": {
            "__metadata__": {"type": "object", "additionalProperties": {"type": "string"}}
        },
        "additionalProperties": {
            "type": "object",
            "required": ["dtype", "shape", "data_offsets"],
            "properties": {
                "dtype": {"enum": [*BITS]},
                "shape": SIZES,
                "data_offsets": SIZES | {"minItems": 2, "maxItems": 2},
            },
        },
    }
)
is_index = fastjsonschema.compile(
    {
        "type": "object",
        "required": ["weight_map"],
        "properties": {
            "weight_map": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {
                    "type": "string",
                    "pattern": r"^(?!/|(.*/)?\.\.(/|\Z))[^\0]+\Z",
                },
            }
        },
    }
)
NESTED = ["nested_blocksize", "nested_offset", "nested_dtype"]
is_state = fastjsonschema.compile(
    {
        "type": "object",
        "required": ["quant_type", "blocksize", "dtype", "shape"],
        "properties": {
            "quant_type": {"const": "nf4"},
            "blocksize": {"enum": [1 << i for i in range(5, 13)]},
            "dtype": {"enum": [*STORED_AS]},
            "shape": SIZES,
            "nested_blocksize": {"type": "integer", "enum": [1 << i for i in range(13)]},
            "nested_offset": {"type": "number"},
            "nested_dtype": {"const": "float32"},
        },
        "dependencies": dict.fromkeys(NESTED[:2], NESTED),
    }
)


@dataclass(frozen=True)
class Stored:
    """A tensor in a file."""

    file: Path
    name: str
    dtype: str
    elements: int
    begin: int
    size: int  # in bytes

    def read(self, dtype: Any = np.uint8) -> np.ndarray:
        data = np.fromfile(self.file, np.uint8, self.size, offset=self.begin)
        if data.size != self.size:
            raise InputError(f"{self.file}: {DAMAGED}")
        return data.view(dtype)


@dataclass(frozen=True, kw_only=True)
class Weight:
    """An NF4 weight with 16-bit outputs, and what the file has to compare them with."""

    name: str
    shape: list[int]
    block_size: int
    output: str  # float16 or bfloat16
    nested: bool  # whether the scales are quantized, too: then with the next two
    nested_block_size: int
    offset: float
    codes: Stored
    table: Stored
    absmax: Stored
    nested_map: Stored | None
    nested_absmax: Stored | None
    dequantized: Stored | None
    source: Stored | None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Checkpoint:
    files: list[Path]
    not_read: list[str]  # further files beside them
    weights: list[Weight]
    others: Counter[str]  # tensors of other kinds, in the order in which they are reported


def described(given: Sequence[Path]) -> str:
    return str(given[0]) + f" and {len(given) - 1} more" * (len(given) > 1)


def quoted(name: str) -> str:
    return f"'{shortened(name, 120)}'"


def parsed(text: bytes, is_valid: Any) -> Any:
    """ValueError with the fault."""
    try:
        content = json.loads(text)
        is_valid(content)
    except fastjsonschema.JsonSchemaException as error:
        raise ValueError(shortened(error.message.removeprefix("data"), 160).lstrip(". ")) from None
    except (ValueError, RecursionError, OverflowError):
        raise ValueError("is not valid JSON") from None
    return content


def stored_in(file: Path) -> list[Stored]:
    def refuse(fault: object) -> NoReturn:
        raise InputError(f"{file}: {fault}; {DAMAGED}") from None

    try:
        with file.open("rb") as content:
            size, length = file.stat().st_size, int.from_bytes(content.read(8), "little")
            if size < 8 or length > min(size - 8, MOST_HEADER_BYTES):
                refuse(f"the header of {length} bytes is not in the {size} bytes of the file")
            text = content.read(length)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        header = parsed(text, is_header) if text.startswith(b"{") else refuse("has no header")
    except ValueError as fault:
        refuse(f"the header {fault}")
    header.pop("__metadata__", None)
    tensors, end = [], 0
    for name, entry in sorted(header.items(), key=lambda each: each[1]["data_offsets"]):
        begin, after = entry["data_offsets"]
        elements = math.prod(entry["shape"])
        if begin != end or 8 * (after - begin) != elements * BITS[entry["dtype"]]:
            refuse(f"tensor {quoted(name)} does not have the bytes of its shape and place")
        place = 8 + length + int(begin)
        tensors.append(Stored(file, name, entry["dtype"], int(elements), place, int(after - begin)))
        end = after
    if 8 + length + end != size:
        refuse(f"the tensors end at byte {8 + length + end} of {size}")
    return tensors


def in_folder(folder: Path) -> list[Path]:
    """The .safetensors files by name, without leftovers of other systems."""
    return sorted(file for file in folder.glob("*.safetensors") if not file.name.startswith("."))


def mapped(index: Path) -> dict[str, Path]:
    """The file of each tensor in an index."""
    try:
        names = parsed(index.read_bytes(), is_index)["weight_map"]
    except OSError as error:
        raise InputError(f"{index}: cannot be read: {error.strerror}") from None
    except ValueError as fault:
        raise InputError(f"{index}: the index {fault}; download the index again") from None
    files = {tensor: index.parent / name for tensor, name in names.items()}
    for file in dict.fromkeys(files.values()):
        if not file.exists():
            what = f"the index names {quoted(file.name)}, which is missing"
            raise InputError(f"{index}: {what}; download it into the same folder")
    return files


def collected(given: Sequence[Path]) -> tuple[list[Path], dict[Path, dict[str, Path]], list[str]]:
    """The files to read, each once, the indexes, and the names of files beside them that are not
    read. Of a folder with a single file and an index, transformers loads the single file.
    """
    files: dict[Path, Path] = {}
    indexes: dict[Path, dict[str, Path]] = {}
    beside: list[Path] = []
    for path in given:
        index = path / INDEX if path.is_dir() else path
        if path.is_dir() and (path / SINGLE).exists() and index.exists():
            here = [path / SINGLE]
        elif index.suffix == ".json" and (index.exists() or not path.is_dir()):
            indexes[index] = mapped(index)
            here = [*dict.fromkeys(indexes[index].values())]
        elif path.is_dir():
            if not (here := in_folder(path)):
                what = "holds no .safetensors file; give the folder of a checkpoint"
                raise InputError(f"{path}: {what}")
        else:
            here = [path]
        files |= {file.resolve(): file for file in reversed(here) if file.resolve() not in files}
        if index.suffix == ".json":
            beside += [
                *in_folder(index.parent),
                *[index] * (index.exists() and index not in indexes),
            ]
    read = list(files.values())
    not_read = [f.name for f in dict.fromkeys(beside) if f.resolve() not in files]
    return sorted(read), indexes, not_read


class Reader:
    """Sorts a checkpoint's tensors by what they are of."""

    def __init__(self, given: Sequence[Path]):
        self.given, self.claimed = given, set[str]()
        self.files, indexes, self.not_read = collected(given)
        self.tensors: dict[str, Stored] = {}
        for tensor in (tensor for file in self.files for tensor in stored_in(file)):
            if there := self.tensors.get(tensor.name):
                what = f"is also in {there.file}; give the files of one checkpoint alone"
                self.refuse(tensor, tensor.name, what)
            self.tensors[tensor.name] = tensor
        for index, places in indexes.items():
            for name, file in places.items():
                if name not in self.tensors or self.tensors[name].file.resolve() != file.resolve():
                    what = f"is not in {quoted(file.name)}, where the index puts it"
                    raise InputError(f"{index}: tensor {quoted(name)} {what}; download it again")

    def refuse(self, tensor: Stored, name: str, fault: str) -> NoReturn:
        raise InputError(f"{tensor.file}: tensor {quoted(name)} {fault}")

    def advice(self, otherwise: str) -> str:
        """What helps where something is missing: the folder, if only some of its files are read."""
        known = {file.resolve() for file in self.files}
        for path in (path for path in self.given if path.is_file()):
            folder = path.parent
            if "-of-" in path.name or any(f.resolve() not in known for f in in_folder(folder)):
                return (
                    f"if the rest is in other files of the checkpoint, give their folder: {folder}"
                )
        return otherwise

    def checkpoint(self) -> Checkpoint:
        weights, others = [], Counter[str]()
        for name, tensor in self.tensors.items():
            weight, is_state, kind = name.rpartition(STATE)
            if is_state and kind == "nf4":
                found = self.weight(weight, tensor)
                weights += [found] if found.output != "float32" else []
                others["NF4 with fp32 outputs"] += found.output == "float32"
            elif is_state and kind == "fp4":
                others["FP4"] += 1
                self.claimed |= {name, weight, *(f"{weight}.{part}" for part in MAPS)}
            elif is_state:
                what = f"has a quant_state of the unknown type {quoted(kind)}; {SAVE_AGAIN}"
                self.refuse(tensor, weight, what)
        for name, tensor in self.tensors.items():
            if name not in self.claimed:
                self.refuse_if_orphan(tensor)
            stem = name.removesuffix(".SCB")
            int8 = self.tensors.get(f"{stem}.weight")
            if stem != name and int8 and int8.dtype == "I8" and int8.name not in self.claimed:
                others["LLM.int8()"] += 1
                self.claimed |= {name, int8.name, f"{stem}.weight_format"}
        kinds = ("NF4 with fp32 outputs", "FP4", "LLM.int8()")
        plain = Counter(t.dtype for t in self.tensors.values() if t.name not in self.claimed)
        counts = {kind: others[kind] for kind in kinds} | dict(sorted(plain.items()))
        others = Counter({kind: count for kind, count in counts.items() if count})
        if not weights:
            what = "holds no NF4 weight of bitsandbytes with fp16 or bf16 outputs, but "
            what = what + counted(others) if others else "holds no tensor at all"
            advice = self.advice("give a bnb-4bit checkpoint")
            raise InputError(f"{described(self.given)}: {what}; {advice}")
        weights.sort(key=lambda weight: weight.name.encode())
        return Checkpoint(self.files, self.not_read, weights, others)

    def weight(self, name: str, tensor: Stored) -> Weight:
        if f"{name}{STATE}fp4" in self.tensors:
            self.refuse(tensor, name, f"has two quant_states, nf4 and fp4; {SAVE_AGAIN}")
        try:
            state = parsed(tensor.read().tobytes(), is_state)
            offset = state.get("nested_offset", 0.0)
            if not (math.isinf(offset) or abs(offset) <= float(np.finfo(np.float32).max)):
                raise ValueError("has a nested_offset that is not of fp32")
        except (ValueError, OverflowError) as fault:
            remedy = "give a checkpoint quantized by bitsandbytes to NF4"
            self.refuse(tensor, name, f"has a quant_state that is wrong: {fault}; {remedy}")
        self.claimed.add(tensor.name)
        elements, nested = math.prod(map(int, state["shape"])), "nested_blocksize" in state
        blocks = -(-elements // int(state["blocksize"]))
        codes = self.tensors.get(name)
        if not codes or codes.size != -(-elements // 2):  # whatever type they are stored as
            codes = self.required(tensor, name, "", "U8", -(-elements // 2))
        self.claimed.add(name)
        table = self.required(tensor, name, ".quant_map", "F32", 16)
        absmax = self.required(tensor, name, ".absmax", "U8" if nested else "F32", blocks)
        nested_map = nested_absmax = None
        if nested:
            groups = -(-blocks // int(state["nested_blocksize"]))
            nested_absmax = self.required(tensor, name, ".nested_absmax", "F32", groups)
            nested_map = self.required(tensor, name, ".nested_quant_map", "F32", 256)
            values = nested_map.read(np.float32)
            if not np.isfinite(values).all() or (values[1:] <= values[:-1]).any():
                what = "has a 'nested_quant_map' that is not finite numbers that ascend"
                self.refuse(nested_map, name, f"{what}; {SAVE_AGAIN}")
        return Weight(
            name=name,
            shape=[*map(int, state["shape"])],
            block_size=int(state["blocksize"]),
            output=state["dtype"],
            nested=nested,
            nested_block_size=int(state.get("nested_blocksize", 0)),
            offset=float(offset),
            codes=codes,
            table=table,
            absmax=absmax,
            nested_map=nested_map,
            nested_absmax=nested_absmax,
            dequantized=self.companion(name, ".dequantized", STORED_AS[state["dtype"]], elements),
            source=self.companion(name, ".source", STORED_AS[state["dtype"]], elements),
        )

    def required(self, state: Stored, name: str, part: str, dtype: str, elements: int) -> Stored:
        what = quoted(part[1:]) if part else "its codes"
        tensor = self.tensors.get(name + part)
        if tensor is None:
            advice = self.advice(SAVE_AGAIN)
            self.refuse(state, name, f"has a quant_state but lacks {what}; {advice}")
        if (tensor.dtype, tensor.elements) != (dtype, elements):
            has = f"has {what} of {tensor.elements} {tensor.dtype}"
            self.refuse(
                tensor,
                name,
                f"{has}, but its quant_state calls for {elements} {dtype}; {SAVE_AGAIN}",
            )
        self.claimed.add(tensor.name)
        return tensor

    def companion(self, name: str, part: str, dtype: str, elements: int) -> Stored | None:
        names = (name + part, name.removesuffix(".weight") + part)
        tensor = next((self.tensors[name] for name in names if name in self.tensors), None)
        if tensor and (tensor.dtype, tensor.elements) != (dtype, elements):
            what = f"has {tensor.elements} {tensor.dtype}, but {quoted(name)} is {elements} {dtype}"
            self.refuse(tensor, tensor.name, f"{what}; {SAVE_AGAIN}")
        self.claimed |= {tensor.name} if tensor else set()
        return tensor

    def refuse_if_orphan(self, tensor: Stored) -> None:
        """Scales and maps whose weight has no quant_state."""
        for part in (".absmax", ".quant_map"):
            weight = tensor.name.removesuffix(part)
            if weight == tensor.name:
                continue
            codes = self.tensors.get(weight)
            has_all = all(f"{weight}{other}" in self.tensors for other in (".absmax", ".quant_map"))
            if codes is None or codes.dtype == "U8" or has_all:  # else of another format
                lacks = "its codes and " * (codes is None) + f"'{STATE[1:]}nf4'"
                advice = self.advice(SAVE_AGAIN)
                self.refuse(tensor, weight, f"has {quoted(part[1:])} but lacks {lacks}; {advice}")


MAPS = ("absmax", "quant_map", "nested_absmax", "nested_quant_map")


def counted(kinds: Counter[str]) -> str:
    """'2 tensors of FP4, 5 of BF16'"""
    (first, count), *rest = kinds.items()
    head = f"{count} tensor{'s' * (count != 1)} of {first}"
    return ", ".join([head, *(f"{n} of {kind}" for kind, n in rest)])


def read(given: Sequence[Path]) -> Checkpoint:
    return Reader(given).checkpoint()

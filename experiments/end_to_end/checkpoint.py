"""What a folder with a 4-bit checkpoint holds, read without torch; one line where it is faulty.

reference/checkpoint/bnb_checkpoint.hpp says what belongs to a quantized weight, and reads it for
`verify`; tests/golden/damaged_checkpoints.json says where one of the two accepts what the other
refuses.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.end_to_end.strict_json import strict_json
from records.errors import InputError
from records.json_files import read_json, shown
from records.printable import printable

LONGEST_HEADER = 100_000_000  # bytes, as the format says
LONGEST_STATE = 65536  # bytes
HEADER_DEPTH, STATE_DEPTH, INDEX_DEPTH = 4, 3, 16  # objects and lists inside each other
# Of one element; what safetensors has.
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "I8": 8, "U8": 8, "F8_E4M3": 8}
BITS |= {"F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16}
BITS |= {"F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64}
BITS |= {"C64": 64}
OUTPUTS = {"float16": "fp16", "bfloat16": "bf16"}  # torch's names, and those of result files
STORED = ("U8", "F16", "BF16", "F32")  # what codes come as: bnb_4bit_quant_storage
STATE = ".quant_state.bitsandbytes__"
FP32_MAX = float(np.finfo(np.float32).max)
# bitsandbytes dequantizes with these whatever a quant_map says, but multiplies vectors with that.
NF4 = np.float32(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453]
    + [-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0]
    + [0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224]
    + [0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
)


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
    """Every quantized layer; InputError naming the file and the fault.

    Scales and maps are read too, since with wrong ones a text shows nothing; codes are not.
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
    tensors = gathered(folder)
    found = [layer(weight, tensors) for weight in weights(tensors)]
    if not found:
        raise InputError(f"{folder}: its safetensors files hold no NF4 layer; give a bnb-4bit one")
    return found


def gathered(folder: Path) -> dict[str, Tensor]:
    """The tensors of all files: a matrix's codes and its quant_state may lie in two of them."""
    tensors: dict[str, Tensor] = {}
    files, placed = shards(folder)
    for file in files:
        for name, tensor in tensors_of(file):
            if name in tensors:
                also = f"{printable(name)}: is also in {printable(tensors[name].file.name)}"
                where = printable(str(file))
                raise InputError(f"{where}: {also}; keep the files of one checkpoint alone")
            tensors[name] = tensor
    for name, file in placed.items():
        if name not in tensors or tensors[name].file != file:
            lacks = f"{printable(name)}: is not in {printable(file.name)}, where the index puts it"
            raise InputError(f"{folder}: {lacks}; download the checkpoint again")
    return tensors


def shards(folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """The files that transformers loads, model.safetensors alone or else those of the index; and
    where the index puts each tensor.
    """
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    placed: dict[str, Path] = {}
    files = [single]
    if index.is_file() and not single.is_file():
        if index.stat().st_size > LONGEST_HEADER:
            raise InputError(f"{index}: is no index: it has more than {LONGEST_HEADER} bytes")
        try:
            root = strict_json(index.read_bytes(), INDEX_DEPTH)
        except ValueError as error:
            raise InputError(f"{index}: {error}; download it again") from None
        names = root.get("weight_map")
        files = list(names.values()) if isinstance(names, dict) else []
        if not files or not all(isinstance(name, str) for name in files):
            raise InputError(f"{index}: has no weight_map with files' names; download it again")
        for name in files:
            if not name or Path(name).is_absolute() or ".." in Path(name).parts:
                outside = f"names '{printable(name)}', which is no file in its folder"
                raise InputError(f"{index}: {outside}; download it again")
        placed = {tensor: folder / name for tensor, name in names.items()}
        files = list(dict.fromkeys(placed.values()))
    for file in files:
        if not is_file(file):
            raise InputError(f"{folder}: lacks {printable(file.name)}; was it downloaded whole?")
    return files, placed


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is too long for any
        return False


def faulty(tensor: Tensor, weight: str, fault: str) -> InputError:
    """`tensor`: one that shows the fault."""
    where = f"{printable(str(tensor.file))}: {printable(weight)}"
    return InputError(f"{where}: {fault}; save the checkpoint again")


def weights(tensors: dict[str, Tensor]) -> list[str]:
    """The names of the weights in NF4; InputError where one has no state, or two."""
    kinds: dict[str, str] = {}
    for name, tensor in tensors.items():
        weight, is_state, kind = name.rpartition(STATE)
        if is_state and kind not in ("nf4", "fp4"):
            unknown = f"has a quant_state of the unknown type '{printable(kind)}'"
            raise faulty(tensor, weight, unknown)
        if is_state and weight in kinds:
            raise faulty(tensor, weight, "has two quant_states, nf4 and fp4")
        if is_state:
            kinds[weight] = kind
    for name, tensor in tensors.items():
        weight, _, part = name.rpartition(".")
        codes = tensors.get(weight)
        of_nf4 = part in ("absmax", "quant_map") and (codes is None or codes.dtype == "U8")
        if weight and of_nf4 and weight not in kinds:
            raise faulty(tensor, weight, f"has {part}, but no quant_state")
    return [weight for weight, kind in kinds.items() if kind == "nf4"]


def layer(name: str, tensors: dict[str, Tensor]) -> Layer:
    stored = tensors[f"{name}{STATE}nf4"]
    try:
        state = state_of(stored)
    except ValueError as error:
        raise faulty(stored, name, f"its quant_state {error}") from None
    rows, columns = state["shape"]
    nested = "nested_blocksize" in state
    codes = tensors.get(name)
    if not codes or codes.dtype not in STORED or codes.size != (rows * columns + 1) // 2:
        needed = f"{(rows * columns + 1) // 2} bytes for {rows} x {columns}"
        raise faulty(stored, name, f"its codes are not {needed}, in {', '.join(STORED)}")
    blocks = -(-rows * columns // state["blocksize"])
    needed = {"quant_map": ("F32", 16), "absmax": ("U8" if nested else "F32", blocks)}
    if nested:
        groups = -(-blocks // state["nested_blocksize"])
        needed |= {"nested_absmax": ("F32", groups), "nested_quant_map": ("F32", 256)}
    for part, (dtype, count) in needed.items():
        there = tensors.get(f"{name}.{part}")
        if there is None:
            raise faulty(stored, name, f"lacks its {part}")
        if (there.dtype, 8 * there.size) != (dtype, count * BITS[dtype]):
            raise faulty(there, name, f"its {part} is not {count} numbers of {dtype}")
        if dtype == "F32" and (fault := fault_of(part, np.frombuffer(there.read(), "<f4"))):
            raise faulty(there, name, f"its {part} {fault}")
    return Layer(printable(name), rows, columns, state["blocksize"], nested, state["dtype"])


def fault_of(part: str, values: np.ndarray) -> str:
    """What is wrong with the numbers of a map, or else with scales; empty where nothing is."""
    if part == "quant_map":
        return "" if values.tobytes() == NF4.tobytes() else "is not that of NF4"
    if part == "nested_quant_map":
        ascend = np.isfinite(values).all() and (values[1:] > values[:-1]).all()
        return "" if ascend else "is not of finite numbers that ascend"
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    return f"has the scale {values[wrong[0]]}, which is not finite from 0 on" if len(wrong) else ""


def power_of_two(least: int) -> Callable[[Any], bool]:
    """Whether a value is one, from `least` to bitsandbytes' greatest block."""
    return lambda value: value in [2**k for k in range(13) if 2**k >= least] and whole([value])


def fits_fp32(value: Any) -> bool:
    return type(value) in (int, float) and abs(float(value)) <= FP32_MAX


# Of each key that is needed: whether its value is sound, and what it should be.
KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "quant_type": (lambda kind: kind == "nf4", "nf4"),
    "shape": (lambda shape: whole(shape, count=2, least=1), "two whole numbers from 1"),
    "blocksize": (power_of_two(32), "a power of two from 32 to 4096"),
    "dtype": (lambda dtype: dtype in list(OUTPUTS), " or ".join(OUTPUTS)),
}
NESTED = {
    "nested_blocksize": (power_of_two(1), "a power of two to 4096"),
    "nested_offset": (fits_fp32, "a finite number of fp32"),
    "nested_dtype": (lambda dtype: dtype == "float32", "float32"),
}


def state_of(stored: Tensor) -> dict[str, Any]:
    """What a quant_state says; ValueError with what is wrong with it, to follow its name."""
    if stored.dtype != "U8" or stored.size > LONGEST_STATE:
        raise ValueError(f"is no text in U8 of at most {LONGEST_STATE} bytes")
    state = strict_json(stored.read(), STATE_DEPTH, constant=float)
    nested = "nested_offset" in state or "nested_blocksize" in state
    for key, (sound, wanted) in (KEYS | NESTED if nested else KEYS).items():
        if key not in state:
            raise ValueError(f"lacks {key}")
        if not sound(state[key]):
            raise ValueError(f"has a {key} ({printable(shown(state[key]))}) that is not {wanted}")
    return state


def tensors_of(file: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors with their names; the file's size must be just theirs."""

    def damaged(why: str) -> InputError:
        where = printable(str(file))
        return InputError(f"{where}: is no whole safetensors file: {why}; download it again")

    size = file.stat().st_size
    with file.open("rb") as stream:
        first = stream.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        if not 0 < length <= min(LONGEST_HEADER, size - 8):
            raise damaged("its header's length cannot be")
        text = stream.read(length)
    try:
        if not text.startswith(b"{"):
            raise ValueError("does not begin with '{'")
        header = strict_json(text, HEADER_DEPTH)
    except ValueError as error:
        raise damaged(f"its header {error}") from None
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise damaged("its __metadata__ are not texts by name")
    spans = []
    for name, entry in header.items():
        try:
            spans.append((*span_of(entry), name, entry["dtype"]))
        except ValueError as error:
            raise damaged(f"{printable(name)}: {error}") from None
    reached = 0
    for begin, end, name, dtype in sorted(spans):
        if begin != reached:
            raise damaged(f"{printable(name)}: does not begin where the tensor before it ends")
        reached = end
        yield name, Tensor(file, 8 + length + begin, end - begin, dtype)
    if 8 + length + reached != size:
        raise damaged(f"{8 + length + reached} bytes are needed, {size} are there")


def span_of(entry: Any) -> tuple[int, int]:
    """Where a tensor's bytes begin and end; ValueError where its entry in the header is wrong."""
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, span = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError("its dtype is none of safetensors")
    if not whole(shape):
        raise ValueError("its shape is not whole numbers")
    if not whole(span, count=2):
        raise ValueError("its data_offsets are not two whole numbers")
    product = 1
    for size in shape:
        product *= size
        if product >= 2**63:  # all of it would take quadratic time
            raise ValueError("its shape's product exceeds 64 bits")
    if 8 * (span[1] - span[0]) != product * BITS[dtype]:
        raise ValueError("its data_offsets are not as far apart as its shape and dtype need")
    return span[0], span[1]


def whole(values: Any, count: int | None = None, least: int = 0) -> bool:
    """Whether it is a list of `count` whole numbers from `least` on, of 64 bits."""
    fits = isinstance(values, list) and count in (None, len(values))
    return fits and all(type(value) is int and least <= value < 2**63 for value in values)

"""Reads the layers of a folder with a 4-bit checkpoint, without torch. Needs safetensors."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprolab_nf4.c_functions import DropinError

OUTPUTS = {"float16": "fp16", "bfloat16": "bf16"}  # torch's names, and those of result files
STATE = ".quant_state.bitsandbytes__nf4"  # the end of the name of a weight's quantization state


@dataclass(frozen=True)
class Shape:
    """The shape and format of layers that are alike."""

    rows: int
    columns: int
    block_size: int
    nested: bool
    output: str  # of dequantization
    compute: str = ""  # the type of activations and outputs, if it differs

    @property
    def text(self) -> str:
        return f"{self.rows} x {self.columns}"


def read(folder: Path) -> list[Shape]:
    """The shape of every quantized layer. A DropinError names the file and its fault. Codes and
    scales are not read.
    """
    config = read_json(folder / "config.json")
    how = config.get("quantization_config")
    names = ("quant_method", "bnb_4bit_quant_type")
    if not isinstance(how, dict) or [*map(how.get, names)] != ["bitsandbytes", "nf4"]:
        raise DropinError(f"{folder}: is not quantized to NF4 by bitsandbytes")
    compute = how.get("bnb_4bit_compute_dtype") or "float32"  # as transformers takes it
    layers = [shape for file in files(folder) for shape in shapes_in(file, compute)]
    if not layers:
        raise DropinError(f"{folder}: has no layers in NF4")
    return layers


def files(folder: Path) -> list[Path]:
    """As transformers loads them: the single file if it exists, otherwise those of the index."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise DropinError(f"{folder}: lacks model.safetensors; was it downloaded whole?")
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise DropinError(f"{index}: has no weight_map")
    return [folder / name for name in sorted(set(names.values()))]


def shapes_in(file: Path, compute: str) -> list[Shape]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise DropinError("a checkpoint needs the package safetensors: pip install it") from None
    shapes = []
    try:
        with safe_open(file, framework="numpy") as tensors:
            for name in sorted(tensors.keys()):
                if name.endswith(STATE):
                    state = json.loads(tensors.get_tensor(name).tobytes())
                    n, k = state["shape"]
                    output, nested = state["dtype"], "nested_blocksize" in state
                    other = "" if compute == output else compute
                    shapes.append(Shape(n, k, state["blocksize"], nested, output, other))
    except (OSError, SafetensorError) as error:
        raise DropinError(f"{file}: cannot be read: {error}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise DropinError(f"{file}: {name}: is not a state of NF4: {error!r}") from None
    return shapes


def read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise DropinError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DropinError(f"{file}: is not whole JSON: {error}") from None
    if not isinstance(content, dict):
        raise DropinError(f"{file}: is not a JSON object")
    return content

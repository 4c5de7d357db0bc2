"""The models: their sizes, and about the memory and time that a run of one takes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_json
from reprolab_nf4 import DropinError, checkpoint
from reprolab_nf4.checkpoint import Shape

CONTENT = read_json(ROOT / "data/models.json")
PROTOCOL = CONTENT["protocol"]  # how the paper ran its models
BLOCK_SIZE = 64  # of random weights
NF4_BYTES = 0.5 + 4 / BLOCK_SIZE  # of one weight, with its part of a scale
SPARE_BYTES = 3e9  # CUDA, cuBLAS, the programs' code, and the allocator's fragments

# Our names of the sizes, and those of transformers' configurations.
CONFIG_NAMES = {
    "hidden": "hidden_size",
    "intermediate": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab": "vocab_size",
}


@dataclass(frozen=True)
class Model:
    """A decoder as data/models.json gives it. `classes`: of transformers, model and
    configuration; `extras`: the configuration's other arguments.
    """

    id: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    classes: tuple[str, str] = ("", "")
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """Arguments of transformers' configuration class.

        The head is never the embedding: with random weights, the last token would then repeat,
        whatever the layers compute.
        """
        sizes = {theirs: getattr(self, ours) for ours, theirs in CONFIG_NAMES.items()}
        return sizes | {"tie_word_embeddings": False} | self.extras

    def matrices(self) -> Iterator[tuple[int, int]]:
        """Rows and columns of the quantized matrices of one decoder layer."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        yield from [(q, self.hidden), (kv, self.hidden), (kv, self.hidden), (self.hidden, q)]
        yield from [(self.intermediate, self.hidden)] * 2 + [(self.hidden, self.intermediate)]

    @property
    def nf4_weights(self) -> int:
        return self.layers * sum(rows * columns for rows, columns in self.matrices())

    @property
    def launches(self) -> int:
        """Dequantizations in one forward pass."""
        return self.layers * len(list(self.matrices()))

    def bytes_needed(
        self, batch: int, prompt: int, tokens: int, weight_bytes: float = NF4_BYTES
    ) -> int:
        """About the GPU memory of a run: weights, cache, activations of the prompt.
        `weight_bytes`: of one weight of a layer.
        """
        half = 2  # bytes of fp16
        weights = weight_bytes * self.nf4_weights + half * 2 * self.vocab * self.hidden
        largest = half * max(rows * columns for rows, columns in self.matrices())
        keys_and_values = 2 * half * self.layers * self.kv_heads * self.head_dim
        cache_bytes = 2 * keys_and_values * batch * (prompt + tokens)  # one grows, one is static
        activations = half * batch * prompt * (4 * self.intermediate + 8 * self.hidden)
        logits = 4 * batch * self.vocab * 4
        return int(weights + 2 * largest + cache_bytes + activations + logits + SPARE_BYTES)


def checkpoint_shapes(folder: Path) -> list[Shape]:
    """Sizes of every quantized layer; InputError names the fault of the folder."""
    try:
        return checkpoint.read(folder)
    except DropinError as error:
        raise InputError(str(error)) from None


@cache
def known() -> dict[str, Model]:
    """Every model that can be built without a download."""
    names = ("id", *CONFIG_NAMES)
    return {
        model["id"]: Model(
            **{name: model[name] for name in names},
            classes=tuple(model["classes"]),
            extras=model["config"],
        )
        for model in CONTENT["models"]
    }

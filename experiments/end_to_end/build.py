"""Models on the GPU: with random weights, never whole in fp16, or from a checkpoint."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitsandbytes
import torch
import transformers
from torch import nn

from experiments.end_to_end import SEED
from experiments.end_to_end.sizes import BLOCK_SIZE, Model, checkpoint_shapes
from reprolab.errors import InputError
from reprolab_nf4 import checkpoint
from reprolab_nf4.measuring import SCALE, linear, nf4

LINEAR = nn.Linear


def quiet() -> None:
    """Hides the libraries' remarks; their errors still reach the user."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def from_sizes(
    model: Model,
    device: torch.device,
    dtype: torch.dtype = torch.float16,
    make: Callable[[nn.Linear, torch.device, torch.dtype], nn.Module] | None = None,
) -> nn.Module:
    """A model with random weights, by default quantized(), made layer by layer; the embedding and
    the head are in `dtype`.
    """
    model_class, config_class = (getattr(transformers, name) for name in model.classes)
    config = config_class(**model.config)
    torch.manual_seed(SEED)
    nn.Linear = hollow_class(model.vocab)
    try:
        with torch.device(device):
            built = model_class._from_config(config, dtype=dtype)
    finally:
        nn.Linear = LINEAR
    for name, layer in list(built.named_modules()):
        if isinstance(layer, LINEAR) and layer.weight.is_meta:
            parent, _, own = name.rpartition(".")
            setattr(built.get_submodule(parent), own, (make or quantized)(layer, device, dtype))
    return built.eval()


def hollow_class(vocab: int) -> type[nn.Linear]:
    """torch.nn.Linear without memory, except the head: quantized weights replace it."""

    class Hollow(LINEAR):
        def __init__(self, columns: int, rows: int, bias: bool = True, **where: Any) -> None:
            where |= {} if rows == vocab else {"device": "meta"}
            super().__init__(columns, rows, bias, **where)

    return Hollow


def quantized(
    layer: nn.Linear, device: torch.device, dtype: torch.dtype, nested: bool = False
) -> nn.Module:
    """bitsandbytes' own layer with random weights; its 16-bit weights are freed on return."""
    return linear(*nf4(random_weight(layer, device, dtype), BLOCK_SIZE, nested), dtype)


def in_16_bits(layer: nn.Linear, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The layer itself with random weights."""
    layer.weight = nn.Parameter(random_weight(layer, device, dtype), requires_grad=False)
    return layer


def random_weight(layer: nn.Linear, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(layer.weight.shape, dtype=dtype, device=device).normal_(0, SCALE)


def from_checkpoint(name: str, device: torch.device) -> nn.Module:
    folder = Path(name)
    checkpoint_shapes(folder)  # reports in one line what transformers reports in many
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map={"": device})
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise InputError(f"{folder}: cannot be loaded: {first_line(error)}") from None
    if not any(isinstance(m, bitsandbytes.nn.Linear4bit) for m in model.modules()):
        raise InputError(f"{folder}: cannot be loaded: transformers made no 4-bit layer of it")
    return model.eval()


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


@torch.no_grad()
def check(model: nn.Module, name: str) -> None:
    """InputError where the logits are not finite: the tokens could not be compared."""
    ids = torch.arange(16, device=model.device)[None]
    if not torch.isfinite(model(input_ids=ids).logits).all():
        raise InputError(
            f"{name}: its logits are not finite, so that its tokens cannot be compared"
        )


@torch.no_grad()
def layers(model: nn.Module) -> list[nn.Module]:
    """The 4-bit layers that process text; a model may have others, for images."""
    called: set[nn.Module] = set()
    every = [m for m in model.modules() if isinstance(m, bitsandbytes.nn.Linear4bit)]
    hooks = [m.register_forward_hook(lambda layer, *_: called.add(layer)) for m in every]
    model(input_ids=torch.arange(16, device=model.device)[None])
    for hook in hooks:
        hook.remove()
    return [m for m in every if m in called]


def facts(model: nn.Module, name: str) -> dict[str, Any]:
    """The model's fields in a result file; bytes as they are in memory."""
    quantized_layers = layers(model)
    states = [layer.weight.quant_state for layer in quantized_layers]
    weights = sum(state.shape.numel() for state in states)
    tensors = {t.data_ptr(): t for t in [*model.parameters(), *model.buffers()]}
    others = [p for p in model.parameters() if not isinstance(p, bitsandbytes.nn.Params4bit)]
    scales = sum(t.nbytes for s in states for t in scale_tensors(s))
    codes = sum(layer.weight.nbytes for layer in quantized_layers)
    return {
        "model": name,
        "layers": model.config.get_text_config().num_hidden_layers,
        "launches": len(quantized_layers),
        "weights": weights,
        "parameters": weights + sum(p.numel() for p in others),
        "quantized_bytes": codes + scales,
        "memory_bytes": sum(t.nbytes for t in tensors.values()) + scales,
        "block_size": states[0].blocksize,
        "nested": bool(states[0].nested),
        "output": checkpoint.OUTPUTS[str(states[0].dtype).removeprefix("torch.")],
    }


def kinds(model: nn.Module) -> list[Any]:
    """One quantized weight of each shape and format in the layers that process text."""
    weights_by_kind: dict[Any, Any] = {}
    for layer in layers(model):
        state = layer.weight.quant_state
        kind = (state.shape, state.blocksize, state.nested, state.dtype)
        weights_by_kind.setdefault(kind, layer.weight)
    return list(weights_by_kind.values())


def scale_tensors(state: Any) -> list[torch.Tensor]:
    return [state.absmax, *([state.state2.absmax] if state.nested else [])]

"""Small checkpoints, made by transformers and bitsandbytes as real ones are."""

from pathlib import Path

from needs_torch import torch, transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from experiments.end_to_end.sizes import Model

WORDS = {word: i for i, word in enumerate(["?", "What", "is", "6", "x", "7"])}


def make(
    folder: Path, model: Model, nested: bool = True, dtype: str = "float16", device: str = "cpu"
) -> Path:
    """The folder of a checkpoint in bnb-4bit, with a tokenizer of a few words."""
    model_class, config = (getattr(transformers, name) for name in model.classes)
    torch.manual_seed(1)
    full, small = folder / "full", folder / f"{model.id}-bnb-4bit"
    model_class(config(**model.config)).to(getattr(torch, dtype)).save_pretrained(full)
    quantization = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=nested,
        bnb_4bit_compute_dtype=getattr(torch, dtype),
    )
    options = {"quantization_config": quantization, "device_map": {"": device}}
    transformers.AutoModelForCausalLM.from_pretrained(full, **options).save_pretrained(small)
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(small)
    return small

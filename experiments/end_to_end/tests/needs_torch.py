"""Packages missing in the own environment, and small checkpoints that they make. A file of tests
that imports it is skipped without them, and with a bitsandbytes that has no 4-bit layers on the
CPU; nothing that needs torch may be imported before.
"""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
bitsandbytes = pytest.importorskip("bitsandbytes")
functional = bitsandbytes.functional
if not hasattr(torch.ops.bitsandbytes, "quantize_4bit"):
    pytest.skip(
        f"NOT TESTED, bitsandbytes {bitsandbytes.__version__}: 4-bit layers on the CPU need 0.46",
        allow_module_level=True,
    )
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

WORDS = {word: i for i, word in enumerate(["?", "What", "is", "6", "x", "7"])}


def make_checkpoint(folder, model, nested=True, dtype="float16", device="cpu"):
    """The folder of a checkpoint in bnb-4bit, as real ones are, with a tokenizer of a few words;
    `full` beside it is the same in 16 bits.
    """
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

"""transformers' generate(cache_implementation="static") compiles and captures a decoding step by
itself, but not for models in bitsandbytes' 4 bits.
"""

import importlib

WHOLE_GRAPHS = (2, 8)  # the first PyTorch that compiles bitsandbytes' 4-bit layers without a break


def replaced() -> list[tuple]:
    """What lets it do so for these too, where each product is one opaque operator: owner, name,
    replacement. Empty without transformers, where it needs no help, and with an older PyTorch.
    """
    try:
        module = importlib.import_module("transformers.quantizers.quantizer_bnb_4bit")
        quantizer = module.Bnb4BitHfQuantizer
        torch = importlib.import_module("torch")
        operators = torch.ops.bitsandbytes
    except (ImportError, AttributeError, OSError, RuntimeError):
        return []
    name = "is_compileable"
    if not hasattr(quantizer, name) or name in vars(quantizer):
        return []
    if torch.__version__ < WHOLE_GRAPHS:
        return []
    # FP4 and fp32 stay bitsandbytes' own, which before 0.46 were no operators.
    return [(quantizer, name, True)] if hasattr(operators, "dequantize_4bit") else []

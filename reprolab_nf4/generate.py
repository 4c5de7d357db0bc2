"""transformers' generate(cache_implementation="static") compiles and captures a decoding step by
itself, but not for models in bitsandbytes' 4 bits.
"""

import importlib


def replaced() -> list[tuple]:
    """What lets it do so for these too, where each product is one opaque operator: owner, name,
    replacement. Empty without transformers, and where it needs no help.
    """
    try:
        module = importlib.import_module("transformers.quantizers.quantizer_bnb_4bit")
        quantizer = module.Bnb4BitHfQuantizer
        operators = importlib.import_module("torch").ops.bitsandbytes
    except (ImportError, AttributeError, OSError, RuntimeError):
        return []
    name = "is_compileable"
    if not hasattr(quantizer, name) or name in vars(quantizer):
        return []
    # FP4 and fp32 stay bitsandbytes' own, which before 0.46 were no operators.
    return [(quantizer, name, True)] if hasattr(operators, "dequantize_4bit") else []

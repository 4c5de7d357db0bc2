"""Makes transformers' generate(cache_implementation="static") compile and capture the decoding step
of models in bitsandbytes' 4 bits, as it does for others.
"""

import importlib

WHOLE_GRAPHS = (2, 8)  # the first PyTorch that compiles bitsandbytes' 4-bit layers without a break


def replaced() -> list[tuple]:
    """The replaced attributes: owner, name, replacement. Each matmul is one opaque operator then.
    Empty without a transformers that can be imported, if it compiles these models, and with an
    older PyTorch.
    """
    try:
        module = importlib.import_module("transformers.quantizers.quantizer_bnb_4bit")
        quantizer = module.Bnb4BitHfQuantizer
        torch = importlib.import_module("torch")
        operators = torch.ops.bitsandbytes
    except Exception:  # such as a ValueError of NumPy's, for another version of it
        return []
    name = "is_compileable"
    if not hasattr(quantizer, name) or name in vars(quantizer):
        return []
    if torch.__version__ < WHOLE_GRAPHS:
        return []
    # FP4 and fp32 stay bitsandbytes' own, which before 0.46 were no operators.
    return [(quantizer, name, True)] if hasattr(operators, "dequantize_4bit") else []

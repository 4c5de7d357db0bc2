"""Packages missing in the own environment. A file of tests that imports it is skipped without them,
and with a bitsandbytes that has no 4-bit layers on the CPU; nothing that needs torch may be
imported before.
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

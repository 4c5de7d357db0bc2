"""Packages missing in the own environment. A file of tests that imports it is skipped without it;
nothing that needs torch may be imported before.
"""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
bitsandbytes = pytest.importorskip("bitsandbytes")
functional = bitsandbytes.functional

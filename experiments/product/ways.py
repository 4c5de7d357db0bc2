"""The ways of computing a linear layer that experiments/product/host.py compares."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from unittest import mock

from reprolab.errors import InputError

DENSE, OWN, PYTHON, PLANNED = "nn.Linear", "bitsandbytes", "python", "planned"
WAYS = (DENSE, OWN, PYTHON, PLANNED)
SHARDS = "shards"  # ours, in a launch for each shard of a serving engine's layer


@contextmanager
def installed(way: str, library: Path | None = None, table: Path | None = None) -> Iterator[None]:
    """Installs ours if the way is ours; "python": without the extension in C."""
    import reprolab_nf4
    from reprolab_nf4 import layers, shards

    without = {
        PYTHON: mock.patch.object(layers, "EXTENSION", Path("none")),
        SHARDS: mock.patch.object(shards, "ENGINES", {}),
    }
    with without.get(way, nullcontext()):
        if way == PLANNED and layers.extension() is None:
            raise InputError("_layers.abi3.so cannot be used here: make dropin; PyTorch 2.10")
        is_ours = way in (PYTHON, PLANNED, SHARDS)
        with reprolab_nf4.install(library, table=table) if is_ours else nullcontext():
            yield


def shown(title: str, samples: dict[str, list[float]]) -> str:
    medians = (f"{way} {median(values):.1f}" for way, values in samples.items())
    return f"{title}: {', '.join(medians)}"

"""Puts the kernel of a row under bitsandbytes, and takes it away again."""

import importlib.metadata
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from bitsandbytes import functional

from experiments.end_to_end.plan import FUSED, Row, version_of
from records.errors import InputError
from reprolab_nf4 import choices
from reprolab_nf4.measuring import can_fuse

OTHER_SUMS = "multiply right from the codes, which sums in another order: tokens may differ"
DEVIATIONS = {
    "installed": "bitsandbytes itself chooses for each product whether to dequantize or to "
    + OTHER_SUMS,
    "fused": f"products that are faster so {OTHER_SUMS}",
}


def in_place(row: Row) -> AbstractContextManager[Any]:
    """While it lasts, bitsandbytes computes as the row says."""
    if row.kind == "installed":
        return nullcontext()
    if row.kind == "fused":
        return under(products=FUSED[row.kernel])
    given = {"kernel": row.kernel} if row.kind == "kernel" else {"library": row.library}
    return under(**given, products="dequantize")  # as the paper's bitsandbytes


def under(**given: Any) -> AbstractContextManager[Any]:
    """While it lasts, a kernel or a library lies under bitsandbytes: install()'s."""
    import reprolab_nf4  # looks for bitsandbytes' CUDA back end

    return reprolab_nf4.install(**given)


def count_wrong(
    in_place: AbstractContextManager[Any], codes: torch.Tensor, state: Any, expected: torch.Tensor
) -> int:
    """How many weights differ in some bit from those that are expected: reference.dequantized."""
    with in_place:
        found = functional.dequantize_4bit(codes, state)
    return int((found.view(torch.int16).flatten() != expected.to(found.device)).sum())


def check(chosen: Sequence[Row]) -> None:
    """InputError where one of them cannot be put in place."""
    for row in chosen:
        try:
            with in_place(row):
                pass
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(f"{row.kernel}: {error}") from None
    names = [described(row)["kernel"] for row in chosen]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"PEER: there are two rows '{name}'; name one: PEER=other=path")


def may_fuse(row: Row) -> bool:
    return row.kind == "fused" or (row.kind == "installed" and can_fuse())


def why_not(row: Row, compute_capability: str) -> str:
    """Empty where the row can be run on such a GPU."""
    if row.kind != "fused" or choices.recorded(compute_capability):
        return ""
    return f"no times of products are recorded for compute capability {compute_capability}"


def described(row: Row) -> dict[str, Any]:
    """What a result file says of the row, whatever came of it."""
    version = ""
    if row.kind == "installed":
        version = importlib.metadata.version("bitsandbytes")
    elif row.kind == "peer":
        version = version_of(Path(row.library)) or "(version unknown)"
    maker = f"bitsandbytes {version}" if version else ""
    return {
        "kernel": maker.replace(" ", "_") if row.kind == "installed" else row.kernel,
        "origin": {"kind": "peer" if maker else "project", "maker": maker},
        "lineage": row.lineage,
        "source_file": "" if maker else source_of(row),
        "deviation": None,
    }


def source_of(row: Row) -> str:
    return "reprolab_nf4/multiplying.py" if row.kind == "fused" else f"kernels/nf4/{row.kernel}.cu"

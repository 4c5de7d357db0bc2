"""Result files of the experiment transpose, with values near an H200's and seeded noise."""

import random
from collections.abc import Sequence
from typing import Any

from fixtures import CEILING, noisy
from made import fail, matrix_problem, provenance, record, results, set_times

# kernel -> lineage, GB/s on the big matrix, fixed cost in us
KERNELS = {
    "tma_naive": ("S. Veitner's post", 941, 2.4),
    "tma_swizzle": ("S. Veitner's post", 1345, 2.4),
    "tma_batched": ("S. Veitner's post, in CUDA", 3604, 2.2),
    "tma_batched_as_published": ("S. Veitner's post, in Mojo", 3606, 2.2),
    "tiled": ("ours", 3950, 1.6),
    "column_walk": ("ours", 4160, 1.6),
    "cublas_sgeam": ("cuBLAS", 3930, 3.1),
}
MOJO = {
    "mojo_tma_naive": ("S. Veitner's post, in Mojo", 942, 2.4),
    "mojo_tma_swizzle": ("S. Veitner's post, in Mojo", 1390, 2.4),
    "mojo_tma_batched": ("S. Veitner's post, in Mojo", 3580, 2.2),
    "mojo_tma_batched_as_published": ("S. Veitner's post, in Mojo", 3582, 2.2),
}
MAKER = "Mojo (max-core 26.7.0)"
CEILINGS = {
    "copy": (4280, 1.9),
    "same_bytes": (4262, 1.3),
    "write_only": (4600, 1.2),
    "read_only": (4500, 1.2),
}
SIZES = (256, 512, 1000, 1023, 1024, 2048, 2500, 4096, 4097, 5000, 8191, 8192, 10000, 16383)
SIZES += (16384, 20000, 24571, 32768, 40000, 65536)
LARGEST = 60000  # that fits
INDEXING = "each thread writes one column of its eight"
FIRST = "first at row 0, column 4 of the output: expected 0x3f8147ae, actual 0xbf2e147b"
NEEDS_HOPPER = "TMA needs compute capability 9.0, this GPU has 8.0"


def row(where: dict[str, Any], kernel: str) -> dict[str, Any]:
    """Not timed yet."""
    side = 4 * where["n"]
    moved = {"read": side * (kernel != "write_only"), "written": side * (kernel != "read_only")}
    changes = CEILING if kernel in CEILINGS else {"lineage": (KERNELS | MOJO)[kernel][0]}
    if kernel in MOJO:
        changes = changes | {"origin": {"kind": "compiler", "maker": MAKER}}
    if kernel == "cublas_sgeam":
        changes = changes | {"origin": {"kind": "peer", "maker": "cuBLAS 13.0"}}
    if kernel.endswith("_as_published"):
        changes = changes | {"deviation": INDEXING}
    return record(where, kernel, bytes=moved, **changes)


def timed_rows(
    where: dict[str, Any], rng: random.Random, n: int, kernels: dict[str, Any]
) -> list[dict[str, Any]]:
    """Every kernel and ceiling; the TMA kernels need rows of whole 16 bytes."""
    rows, elements = [], where["n"]
    for kernel, (*_, gb_s, fixed_us) in (kernels | CEILINGS).items():
        found = row(where, kernel)
        rows.append(found)
        is_aligned = where["rows"] % 4 == 0
        if "tma_" in kernel and not is_aligned:
            reason = f"a row of {4 * where['rows']} bytes is no multiple of 16"
            fail(found, "unsupported", reason)
            continue
        slower = 1 if is_aligned or kernel in CEILINGS or kernel == "cublas_sgeam" else 1.09
        moved = sum(found["bytes"].values())
        set_times(found, noisy(rng, fixed_us + slower * moved / gb_s / 1e3, n))
        if found["deviation"]:
            wrong = elements // 8 * 7
            reason = f"{wrong} of {elements} elements differ; {FIRST}"
            found |= {"outcome": "deviation_as_declared", "reason": reason, "mismatches": wrong}
    return rows


def matrix(seed: int = 1, rows: int = 32768, n: int = 11, mojo: bool = False) -> dict[str, Any]:
    """`mojo`: with the kernels in Mojo, as after `make mojo`."""
    where, constant = matrix_problem(rows), matrix_problem(rows, "constant")
    kernels = KERNELS | (MOJO if mojo else {})
    records = timed_rows(where, random.Random(seed), n, kernels)
    records += [row(constant, kernel) for kernel in kernels]
    return result("matrix", records)


def sizes(
    seed: int = 1, chosen: Sequence[int] = SIZES, n: int = 5, mojo: bool = False
) -> dict[str, Any]:
    rng = random.Random(seed)
    records = []
    for size in chosen:
        rows = timed_rows(matrix_problem(size), rng, n, KERNELS | (MOJO if mojo else {}))
        if size > LARGEST:
            needed = f"needs {8 * size * size / 1e9:.1f} GB of GPU memory, 25.0 GB are free"
            for found in rows:
                fail(found, "unsupported", needed)
        records += rows
    return result("sizes", records)


def result(name: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    argv = ["build/bench", "--family=transpose", f"--output=results/transpose/{name}.json"]
    where = provenance(argv=argv, instrument="events")
    return results("transpose", name, records) | {"provenance": where}

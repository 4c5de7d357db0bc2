"""Result files of the experiment puzzle, with values near an H200's and seeded noise."""

import random
from typing import Any

from fixtures import CEILING, noisy
from made import fail, metric, provenance, puzzle_problem, record, results

MLPS = {"2048x8192": 50331648, "1024x4096": 12582912, "4096x14336": 176160768}
WEIGHTS = sum(MLPS.values())
READ_PER_BLOCK, WRITTEN_PER_BLOCK = 33 + 4 / 256, 128  # of 64 weights
# kernel -> GB/s
KERNELS = {
    "branch_tree": 1130,
    "shared_lut": 2434,
    "scalar_store": 1400,
    "packed_store": 2200,
    "shared_lut_algorithm1": 2440,
    "bitsandbytes_0.50.1": 2300,
    "bitsandbytes_0.43.0": 1100,
}
CEILINGS = {"copy": 4180, "copy_kernel": 4200, "same_bytes": 4040}
HOST_US = 9  # of a launch that is waited for
ONE_SCALE = "reads one scale for each tile of 512 weights, as Algorithm 1 (line 12) is written"
NOT_CAPTURED = "cannot be captured in a CUDA graph: it ended the process with status 1"


def times(rng: random.Random, gb_s: float, iterations: int, n: int) -> dict[str, list[float]]:
    """In us, by metric: both ways in each MLP, and their sums."""
    found: dict[str, list[float]] = {}
    for name, weights in MLPS.items():
        us = 2.515869 * weights * iterations / gb_s / 1e3
        found[f"kernel_time.{name}"] = noisy(rng, us, n)
        found[f"wall_time.{name}"] = noisy(rng, us + 3 * iterations * HOST_US, n)
    for way in ("kernel_time", "wall_time"):
        parts = [samples for name, samples in found.items() if name.startswith(way + ".")]
        found[way] = [round(sum(samples), 3) for samples in zip(*parts, strict=True)]
    return found


def mlps(seed: int = 1, iterations: int = 1000, n: int = 5) -> dict[str, Any]:
    rng, problem = random.Random(seed), puzzle_problem(iterations)
    blocks = iterations * WEIGHTS // 64
    read, written = int(READ_PER_BLOCK * blocks), WRITTEN_PER_BLOCK * blocks
    records = []
    for kernel, gb_s in (KERNELS | CEILINGS).items():
        half = (read + written) // 2
        copied = {"read": half, "written": half}
        moved = copied if kernel.startswith("copy") else {"read": read, "written": written}
        changes: dict[str, Any] = {"bytes": moved}
        changes |= CEILING if kernel in CEILINGS else {}
        samples = times(rng, gb_s, iterations, n)
        changes["metrics"] = [metric(name, values) for name, values in samples.items()]
        row = record(problem, kernel, **changes | {"source_file": f"kernels/nf4/{kernel}.cu"})
        if kernel.startswith("bitsandbytes"):
            row["origin"] = {"kind": "peer", "maker": kernel.replace("_", " ")}
        if kernel == "bitsandbytes_0.43.0":
            row["metrics"] = [m for m in row["metrics"] if m["name"].startswith("wall_time")]
            for name in ("kernel_time", *(f"kernel_time.{mlp}" for mlp in MLPS)):
                row["metrics"].append({"name": name, "unit": "us", "missing": NOT_CAPTURED})
        if kernel == "shared_lut_algorithm1":
            reason = "2048x8192: 15270000 of 16777216 weights differ; first at index 64"
            row |= {"outcome": "deviation_as_declared", "deviation": ONE_SCALE, "reason": reason}
            row["mismatches"] = 15270000
        records.append(row)
    failed = record(problem, "broken_lut", bytes={"read": read, "written": written})
    fail(failed, "mismatch", "4096x14336.up: 1 of 58720256 weights differ; first at index 64")
    file = results("puzzle", "mlps", [*records, failed])
    argv = ["build/puzzle", "--output=results/puzzle/mlps.json"]
    return file | {"provenance": provenance(argv=argv, instrument="events")}

"""Result files of the experiment counters, with values near an H200's and seeded noise."""

import random
from typing import Any

from fixtures import CEILING, noisy
from made import latency, provenance, record, results

CYCLES = {
    "empty_chain": 0.3,
    "shared_load": 28.8,
    "shared_store": 4.1,
    "shared_store_to_load": 33.2,
    "constant_load": 41.0,
    "global_l1": 39.6,
    "global_l2": 288.0,
    "global_l2_one_line": 281.0,
    "global_dram": 697.0,
    "global_dram_by_page": 611.0,
}
ROWS, COLUMNS = 28672, 8192
# kernel -> us on equal codes, and how many times that on sorted, normal and uniform ones
KERNELS = {
    "branch_tree": (300.0, 1.01, 1.78, 2.02),
    "constant_lut": (250.0, 1.02, 3.20, 3.81),
    "shared_lut": (246.0, 1.0, 1.005, 1.01),
}
DATA = ("equal", "sorted", "normal", "uniform")


def walks(seed: int = 1, n: int = 21) -> dict[str, Any]:
    rng = random.Random(seed)
    return latency({kernel: noisy(rng, cycles, n) for kernel, cycles in CYCLES.items()})


def problem(data: str) -> dict[str, Any]:
    suffix = "" if data == "normal" else f"/{data}"
    found = {"name": f"{ROWS}x{COLUMNS}/fp16/b64{suffix}", "family": "nf4", "n": ROWS * COLUMNS}
    found |= {"rows": ROWS, "columns": COLUMNS, "block_size": 64, "nested": False}
    found |= {"output": "fp16", "models": ["asked for"]}
    return found | ({"data": data} if data != "normal" else {})


def divergence(seed: int = 1, n: int = 11) -> dict[str, Any]:
    rng, records = random.Random(seed), []
    for data in ("normal", "sorted", "uniform", "equal"):  # as the program is told
        for kernel, (us, *slower) in KERNELS.items():
            times = us * dict(zip(DATA, (1, *slower), strict=True))[data]
            records.append(record(problem(data), kernel, noisy(rng, times, n)))
        records.append(record(problem(data), "copy", noisy(rng, 142.0, n), **CEILING))
    argv = ["build/bench", "--output=results/counters/divergence.json"]
    where = provenance(argv=argv, instrument="events")
    return results("counters", "divergence", records) | {"provenance": where}

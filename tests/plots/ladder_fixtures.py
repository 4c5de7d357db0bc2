"""Result files of the experiment ladder, with values near an H200's and seeded noise."""

import random
from typing import Any

from counters_fixtures import launch
from fixtures import as_ceiling, noisy
from made import metric, provenance, record, results

ROWS, COLUMNS = 28672, 8192
# kernel -> GB/s on the large layer, instructions per weight, registers
PLAIN = {
    "branch_tree": (1130, 62.4, 48),
    "global_lut": (2441, 26.6, 48),
    "shared_lut": (2434, 23.1, 48),
    "scalar_store": (1410, 30.2, 16),
    "packed_store": (2180, 20.4, 16),
    "wide_store": (3480, 8.9, 24),
    "wide_store_hints": (3530, 9.0, 26),
    "wide_store_unrolled": (3990, 8.4, 30),
    "streaming": (4160, 9.2, 22),
}
NESTED = {"two_launches": (3310, 9.1, 30), "streaming": (4060, 9.6, 32)}
CEILINGS = {"copy": 4187, "copy_kernel": 4240, "same_bytes": 4290, "write_only": 4600}
CEILINGS |= {"read_only": 4500}
CURVES = ("branch_tree", "shared_lut", "packed_512", "streaming")
ROWS_OF_CURVES = (4, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 28672, 65536, 196608)
L2_BYTES = 62914560


def layer(rows: int = ROWS, nested: bool = False, warm: bool = False) -> dict[str, Any]:
    name = f"{rows}x{COLUMNS}/fp16/b64{'-nested' * nested}{'/warm' * warm}"
    found = {"name": name, "family": "nf4", "n": rows * COLUMNS, "rows": rows, "columns": COLUMNS}
    found |= {"block_size": 64, "nested": nested, "output": "fp16", "models": ["asked for"]}
    return found | ({"warm": True} if warm else {})


def moved(problem: dict[str, Any]) -> dict[str, int]:
    n = problem["n"]
    scales = n // 64 + 4 * (n // 16384) if problem["nested"] else n // 16
    return {"read": n // 2 + scales, "written": 2 * n}


def timed(problem: dict[str, Any], kernel: str, us: float, rng: random.Random, n: int):
    row = record(problem, kernel, noisy(rng, us, n), bytes=moved(problem))
    if kernel in CEILINGS:
        if kernel.startswith("copy"):
            row["bytes"] = dict.fromkeys(("read", "written"), sum(moved(problem).values()) // 2)
        as_ceiling(row)
    return row


def pass_of(name: str, records: list[dict[str, Any]], instrument: str) -> dict[str, Any]:
    argv = ["build/bench", f"--output=results/ladder/{name}.json"]
    where = provenance(argv=argv, instrument=instrument)
    return results("ladder", name, records) | {"provenance": where}


def ladder(name: str, kernels: dict[str, tuple], nested: bool, seed: int) -> list[dict[str, Any]]:
    """The pass of times, that of launches and that of counters."""
    rng, problem = random.Random(seed), layer(nested=nested)
    all_bytes = sum(moved(problem).values())
    speeds = {kernel: gb_s for kernel, (gb_s, *_) in kernels.items()} | CEILINGS
    times = [timed(problem, k, all_bytes / g / 1e3, rng, 21) for k, g in speeds.items()]
    launches, counters = [], []
    for kernel, (gb_s, instructions, registers) in kernels.items():
        row = timed(problem, kernel, all_bytes / gb_s / 1e3, rng, 5)
        row["launch"] = launch(registers)
        if kernel == "two_launches":
            row["launch"]["kernels"] = [launch(n)["kernels"][0] for n in (16, registers)]
            row["launch"]["kernels_per_call"] = 2
        launches.append(row)
        count = round(instructions * problem["n"] / 32)
        found = [metric("warp_instructions", [count] * 3, "instructions")]
        counters.append(record(problem, kernel, metrics=found))
    return [
        pass_of(name, times, "events"),
        pass_of(f"{name}_launches", launches, "activity"),
        pass_of(f"{name}_counters", counters, "counters"),
    ]


def curve(warm: bool, seed: int = 3) -> dict[str, Any]:
    """What fits into L2 is faster than memory where it is warm."""
    rng, records = random.Random(seed), []
    limits = {"branch_tree": 1160, "shared_lut": 2700, "packed_512": 2800, "streaming": 6900}
    for rows in ROWS_OF_CURVES:
        problem = layer(rows, warm=warm)
        all_bytes = sum(moved(problem).values())
        speeds = {k: PLAIN.get(k, (2436,))[0] for k in CURVES} | CEILINGS
        for kernel, gb_s in speeds.items():
            if warm and all_bytes < L2_BYTES:
                gb_s = limits.get(kernel, 7600)
            records.append(timed(problem, kernel, 1.4 + all_bytes / gb_s / 1e3, rng, 11))
    return pass_of("warm" if warm else "cold", records, "events")


def whole_run() -> dict[str, dict[str, Any]]:
    """Every pass of the experiment, by its name."""
    files = [*ladder("plain", PLAIN, False, 1), *ladder("nested", NESTED, True, 2)]
    files += [curve(warm=False), curve(warm=True)]
    return {file["pass"]: file for file in files}

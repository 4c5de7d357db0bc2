"""Result files of the experiment streaming, with values near an H200's and seeded noise."""

import random
from typing import Any

from fixtures import as_ceiling, noisy
from made import provenance, record, results

LAYERS = {
    (28672, 8192): ["llama-3.3-70b.gate", "llama-3.3-70b.up"],
    (8192, 28672): ["llama-3.3-70b.down"],
    (25600, 5120): ["qwen3-32b.gate", "qwen3-32b.up"],
    (8192, 8192): ["llama-3.3-70b.q", "llama-3.3-70b.o"],
    (4096, 4608): ["gemma-2-27b.q"],
    (1024, 5120): ["qwen3-32b.k", "qwen3-32b.v"],
}
PEER = "bitsandbytes_0.50.1"
# kernel -> GB/s on a large matrix, fixed cost in us
PLAIN = {"streaming": (4160, 1.9), "branch_tree": (1130, 3.0), "shared_lut": (2434, 2.0)}
NESTED = {"streaming": (4080, 2.0), "two_launches": (3310, 3.4), "branch_tree": (1120, 3.1)}
CEILINGS = {"copy": (4187, 1.6), "copy_kernel": (4240, 1.6), "same_bytes": (4290, 1.6)}
CEILINGS |= {"write_only": (4600, 1.4), "read_only": (4500, 1.4)}
SIZES = ((28672, 8192), (4096, 14336))
BLOCK_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
PLACES = [(r - odd, c - odd) for r, c in (*SIZES, (1024, 4096)) for odd in (0, 1)]
OFFSETS = (0, 1, 2, 3, 4, 8)
SWEPT = ((1024, 4096), (2048, 8192), (4096, 14336), (28672, 8192))
FORMS = {
    "streaming_256x4": ("StreamShape<256, 4>", 4080, 1.7),
    "streaming_512x2": ("StreamShape<512, 2>", 4150, 1.9),
    "streaming_1024x1": ("StreamShape<1024, 1>", 4165, 2.1),
    "streaming_512x2_nothing_ahead": (
        "NothingAhead<512, 2>",
        3990,
        1.9,
    ),
}


def matrix(rows: int, columns: int, nested: bool = False, **changes: Any) -> dict[str, Any]:
    """The problem of one matrix; `changes`: block_size, output, offset, models."""
    found = {"block_size": 64, "output": "fp16", "models": ["asked for"]} | changes
    name = f"{rows}x{columns}/{found['output']}/b{found['block_size']}{'-nested' * nested}"
    name += f"/offset{found['offset']}" if found.get("offset") else ""
    found |= {"name": name, "family": "nf4", "rows": rows, "columns": columns}
    return found | {"n": rows * columns, "nested": nested}


def moved(problem: dict[str, Any]) -> dict[str, int]:
    n, blocks = problem["n"], -(-problem["n"] // problem["block_size"])
    scales = blocks + 4 * -(-blocks // 256) if problem["nested"] else 4 * blocks
    return {"read": -(-n // 2) + scales, "written": 2 * n}


def rows_of(
    problem: dict[str, Any], kernels: dict[str, tuple[float, float]], rng: random.Random, n: int
) -> list[dict[str, Any]]:
    """Kernels and ceilings on one problem."""
    found = []
    for kernel, (gb_s, fixed_us) in (kernels | CEILINGS).items():
        bytes_of = moved(problem)
        us = fixed_us + sum(bytes_of.values()) / gb_s / 1e3
        if kernel.startswith("copy"):
            bytes_of = dict.fromkeys(("read", "written"), sum(bytes_of.values()) // 2)
        row = record(problem, kernel, noisy(rng, us, n), bytes=bytes_of)
        if kernel in CEILINGS:
            as_ceiling(row)
        if kernel.startswith("bitsandbytes"):
            row["origin"] = {"kind": "peer", "maker": kernel.replace("_", " ")}
        found.append(row)
    return found


def pass_of(name: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    argv = ["build/bench", f"--output=results/streaming/{name}.json"]
    where = provenance(argv=argv, instrument="events")
    return results("streaming", name, records) | {"provenance": where}


def layers(nested: bool, peers: dict[str, tuple[float, float]]) -> dict[str, Any]:
    rng, kernels = random.Random(1 + nested), (NESTED if nested else PLAIN) | peers
    records = []
    for shape, models in LAYERS.items():
        records += rows_of(matrix(*shape, nested, models=models), kernels, rng, 21)
    return pass_of(f"layers{'_nested' * nested}", records)


def formats() -> dict[str, Any]:
    rng, records = random.Random(3), []
    for shape in SIZES:
        for block_size in BLOCK_SIZES:
            for output in ("fp16", "bf16"):
                problem = matrix(*shape, block_size=block_size, output=output)
                gb_s = 4160 - (100 if block_size == 32 else 0) - 20 * (output == "bf16")
                records += rows_of(problem, {"streaming": (gb_s, 1.9)}, rng, 11)
    return pass_of("formats", records)


def places(nested: bool) -> dict[str, Any]:
    rng, records = random.Random(4 + nested), []
    for shape in PLACES:
        for offset in OFFSETS:
            changes = {"offset": offset} if offset else {}
            gb_s = 4160 - 200 * (offset % 8 != 0) - 100 * (shape[0] % 2)
            problem = matrix(*shape, nested, **changes)
            records += rows_of(problem, {"streaming": (gb_s, 1.9)}, rng, 11)
    return pass_of(f"places{'_nested' * nested}", records)


def shapes(nested: bool) -> dict[str, Any]:
    rng, records = random.Random(6 + nested), []
    kernels = {name: (gb_s, fixed_us) for name, (_, gb_s, fixed_us) in FORMS.items()}
    for shape, changes in ((shape, made) for made in ({}, {"offset": 1}) for shape in SWEPT):
        problem = matrix(*shape, nested, **changes)
        for row in rows_of(problem, kernels | {"streaming": (4140, 1.9)}, rng, 11):
            if row["kernel"] in FORMS:
                row["lineage"] = FORMS[row["kernel"]][0]
                row["source_file"] = "experiments/streaming/shapes.cu"
            records.append(row)
    return pass_of(f"shapes{'_nested' * nested}", records)


def whole_run(peers: tuple[str, ...] = (PEER,)) -> dict[str, dict[str, Any]]:
    """Every pass of the experiment, by its name; peers like the fastest of bitsandbytes."""
    speeds = {False: (2441, 2.4), True: (2050, 6.0)}
    files = [layers(nested, dict.fromkeys(peers, speeds[nested])) for nested in speeds]
    files += [formats()]
    files += [make(nested) for make in (places, shapes) for nested in speeds]
    return {file["pass"]: file for file in files}

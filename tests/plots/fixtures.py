"""Result files of table2 as the programs write them, near an H200's values, with seeded noise."""

import random
from typing import Any

from made import forward_pass, provenance, record, results

BATCHES = (2, 4, 8, 16, 32, 64)
# model -> layers, hidden, intermediate, heads, kv heads, branch-tree and product ms at batch 2
MODELS = {
    "gemma-2-27b": (46, 4608, 36864, 32, 16, 60.5, 24.0),
    "gemma-3-27b": (62, 5376, 21504, 32, 16, 59.6, 24.5),
    "qwen3-32b": (64, 5120, 25600, 64, 8, 72.7, 26.4),
    "llama-3.3-70b": (80, 8192, 28672, 64, 8, 158.3, 44.7),
}
# kernel -> lineage, GB/s on a large shape, fixed cost in us
KERNELS = {
    "branch_tree": ("bitsandbytes 0.47.0, baseline of the paper", 1130, 3.0),
    "shared_lut": ("paper, section V", 2434, 2.0),
    "global_lut": ("bitsandbytes 0.50.1", 2438, 2.2),
    "shuffle_lut": ("ours: table in a warp's registers", 2495, 2.1),
    "constant_lut": ("ours: table in constant memory", 744, 3.0),
    "packed_512": ("Modular's post", 2436, 2.0),
    "streaming": ("ours: 4-byte loads, 16-byte streaming stores", 4044, 1.4),
}
CEILINGS = {
    "copy": (4187, 1.3),
    "same_bytes": (4048, 1.3),
    "write_only": (4600, 1.2),
    "read_only": (4500, 1.2),
}
CEILING = {"origin": {"kind": "ceiling", "maker": ""}, "outcome": "not_verified", "lineage": ""}
ONE_SCALE = "reads one scale for each tile of 512 weights, as Algorithm 1 (line 12) is written"
FIRST_MISMATCH = (
    "1 of 131072000 weights differ; first at index 64 (row 0, column 64): block 1, code 7, "
    "scale 1, expected 0x0000 (0), actual 0x8000 (-0)"
)


def odd_ones(problem: dict[str, Any], samples: list[float]) -> list[dict[str, Any]]:
    """A kernel with a declared deviation, a wrong one, and one that cannot run here."""
    wrong = {"outcome": "deviation_as_declared", "deviation": ONE_SCALE}
    n = problem.get("n", 1000)
    reason = f"{n * 91 // 100} of {n} weights differ; first at index 64 (row 0, column 64)"
    peer = {"kind": "peer", "maker": "bitsandbytes 0.47.0"}
    absent = "libbitsandbytes_cuda130.so was not found; set BITSANDBYTES_LIBRARY"
    return [
        record(problem, "one_scale_a_tile", samples, reason=reason, mismatches=9, **wrong),
        record(problem, "broken_lut", outcome="mismatch", reason=FIRST_MISMATCH, mismatches=1),
        record(problem, "bitsandbytes_0_47_0", outcome="unsupported", reason=absent, origin=peer),
    ]


def as_ceiling(row: dict[str, Any]) -> dict[str, Any]:
    """The row as one of a ceiling; two of them move all their bytes one way."""
    row |= CEILING
    moved = sum(row["bytes"].values())
    if row["kernel"] in ("read_only", "write_only"):
        reads = row["kernel"] == "read_only"
        row["bytes"] = {"read": moved * reads, "written": moved * (not reads)}
    return row


def noisy(rng: random.Random, centre: float, n: int, spread: float = 0.002) -> list[float]:
    """`n` samples near `centre`, now and then one that is late."""
    samples = []
    for _ in range(n):
        late = 1 + 0.02 * rng.random() if rng.random() < 0.05 else 1.0
        samples.append(round(centre * late * (1 + spread * rng.gauss(0, 1)), 3))
    return samples


def replay(seed: int = 1, models: Any = tuple(MODELS), batches: Any = BATCHES) -> dict[str, Any]:
    rng = random.Random(seed)
    records = []
    for model in models:
        layers, *_, tree_ms, product_ms = MODELS[model]
        weights = int(tree_ms * 1e3 * 1130e3 / 2.5625)
        for batch in batches:
            size = {"layers": layers, "layers_resident": layers, "launches": 7 * layers}
            size |= {"weights": weights, "weights_resident": weights}
            problem = forward_pass(model, batch, **size)
            for kernel, (lineage, gb_s, _) in KERNELS.items():
                samples = noisy(rng, tree_ms * 1e3 * 1130 / gb_s * (1 + 0.001 * batch), 3)
                products = noisy(rng, product_ms * 1e3 * (1 + 0.012 * batch), 3)
                row = record(problem, kernel, samples, products=products, lineage=lineage)
                records.append(row)
            records += odd_ones(problem, noisy(rng, tree_ms * 460, 3))
    return results("table2", "replay", records)


def layer_shapes(models: Any) -> dict[tuple[int, int], list[str]]:
    """(rows, columns) -> the layers that have this shape."""
    found: dict[tuple[int, int], list[str]] = {}
    for model in models:
        _, hidden, inner, heads, kv_heads, _, _ = MODELS[model]
        layers = {
            "q": (heads * 128, hidden),
            "k": (kv_heads * 128, hidden),
            "o": (hidden, heads * 128),
            "gate": (inner, hidden),
            "down": (hidden, inner),
        }
        for layer, shape in layers.items():
            found.setdefault(shape, []).append(f"{model}.{layer}")
    return found


def shapes(seed: int = 1, models: Any = tuple(MODELS), n: int = 30) -> dict[str, Any]:
    rng = random.Random(seed)
    records = []
    for (rows, columns), layers in layer_shapes(models).items():
        weights = rows * columns
        problem = {"name": f"{layers[0]}/fp16/b64", "family": "nf4", "n": weights, "rows": rows}
        problem |= {"columns": columns, "block_size": 64, "nested": False, "output": "fp16"}
        problem |= {"models": layers}
        moved = weights * 2.5625
        for kernel, (lineage, gb_s, fixed_us) in KERNELS.items():
            samples = noisy(rng, fixed_us + moved / gb_s / 1e3, n)
            records.append(record(problem, kernel, samples, lineage=lineage))
        records += odd_ones(problem, noisy(rng, 2 + moved / 2440e3, n))
        for kernel, (gb_s, fixed_us) in CEILINGS.items():
            samples = noisy(rng, fixed_us + moved / gb_s / 1e3, n)
            records.append(as_ceiling(record(problem, kernel, samples)))
    found = results("table2", "shapes", records)
    argv = ["build/bench", "--output=results/table2/shapes.json"]
    return found | {"provenance": provenance(argv=argv, instrument="events")}

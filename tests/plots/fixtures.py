"""Result files as the programs write them, with values near an H200's and seeded noise."""

import random
from typing import Any

BATCHES = (2, 4, 8, 16, 32, 64)
PAPER = {
    "gemma-2-27b": dict(zip(BATCHES, (2.1, 2.1, 2.11, 2.1, 2.11, 2.08), strict=True)),
    "gemma-3-27b": dict(zip(BATCHES, (2.1, 2.1, 2.11, 2.1, 2.11, 2.08), strict=True)),
    "qwen3-32b": dict(zip(BATCHES, (2.2, 2.19, 2.19, 2.19, 2.19, 2.15), strict=True)),
    "llama-3.3-70b": dict(zip(BATCHES, (2.04, 2.04, 2.04, 2.03, 2.05, 2.03), strict=True)),
}
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
ONE_SCALE = "reads one scale for each tile of 512 weights, as Algorithm 1 (line 12) is written"
AVERAGES = {"gemma-2-27b": 2.1, "gemma-3-27b": 2.1, "qwen3-32b": 2.19, "llama-3.3-70b": 2.04}
FIRST_MISMATCH = (
    "1 of 131072000 elements differ, first at 64 (block 1): code 7, scale 0x3f800000, "
    "expected 0x0000, actual 0x8000"
)


def provenance(**changes: Any) -> dict[str, Any]:
    found = {
        "started": "2026-11-20T08:00:00Z",
        "runtime_s": 212.4,
        "argv": ["build/table2_replay", "--output=results/table2/replay.json"],
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "instrument": "activity",
        "seed": 1,
        "build": {
            "compiler": "GNU 13.3.0",
            "nvcc": "13.0.88",
            "type": "Release",
            "architectures": "90",
        },
        "host": {"cpu": "Xeon", "cores": 16, "memory_bytes": 1 << 37, "os": "Linux"},
        "gpu": {
            "name": "NVIDIA H200",
            "compute_capability": "9.0",
            "multiprocessors": 132,
            "memory_bytes": 150754820096,
            "l2_bytes": 62914560,
            "theoretical_bandwidth_gb_s": 4814.0,
            "driver": "580.159.04",
            "cuda_driver": "13.0",
            "cuda_runtime": "13.0",
            "ecc": True,
            "power_limit_w": 700.0,
        },
        "clocks": {
            "policy": "observed",
            "locked_mhz": None,
            "sm_mhz": {"min": 345, "median": 1980, "max": 1980},
            "memory_mhz": {"min": 3201, "median": 3201, "max": 3201},
            "power_w": {"min": 118, "median": 402, "max": 655},
            "temperature_c": {"min": 31, "median": 44, "max": 52},
            "throttle_reasons": [],
        },
    }
    return found | changes


def record(problem: dict[str, Any], kernel: str, samples: list[float], **changes: Any):
    is_ceiling = kernel in CEILINGS
    n = problem.get("n", problem.get("weights", 0))
    found = {
        "key": f"{problem['name']}/{kernel}",
        "kernel": kernel,
        "role": "ceiling" if is_ceiling else "kernel",
        "lineage": "" if is_ceiling else KERNELS.get(kernel, ("ours", 0, 0))[0],
        "source_file": "" if is_ceiling else f"kernels/nf4/{kernel}.cu",
        "contract": {"kind": "bit_exact", "deviation": ""},
        "problem": problem,
        "outcome": "not_verified" if is_ceiling else "bit_exact",
        "reason": "",
        "samples_us": samples,
        "bytes": {"read": n // 2 + n // 16, "written": 2 * n},
        "clocks": {"sm_mhz_before": 1980, "sm_mhz_during": 1980, "sm_mhz_after": 1980},
        "counters": {},
    }
    return found | changes


def odd_ones(problem: dict[str, Any], samples: list[float]) -> list[dict[str, Any]]:
    """A kernel with a declared deviation, a wrong one, and one that cannot run here."""
    deviation = {"kind": "declared_deviation", "deviation": ONE_SCALE}
    outcome = "deviation_as_declared"
    return [
        record(problem, "one_scale_a_tile", samples, contract=deviation, outcome=outcome),
        record(problem, "broken_lut", [], outcome="mismatch", reason=FIRST_MISMATCH),
        record(
            problem,
            "bitsandbytes_0_47_0",
            [],
            role="peer",
            outcome="unsupported",
            reason="libbitsandbytes_cuda130.so was not found; set BITSANDBYTES_LIBRARY",
        ),
    ]


def noisy(rng: random.Random, centre: float, n: int, spread: float = 0.002) -> list[float]:
    """`n` samples near `centre`, now and then one that is late."""
    samples = []
    for _ in range(n):
        late = 1 + 0.02 * rng.random() if rng.random() < 0.05 else 1.0
        samples.append(round(centre * late * (1 + spread * rng.gauss(0, 1)), 3))
    return samples


def replay(seed: int = 1, models: Any = tuple(MODELS), batches: Any = BATCHES) -> dict[str, Any]:
    rng = random.Random(seed)
    records, verdicts = [], []
    for model in models:
        layers, _, _, _, _, tree_ms, product_ms = MODELS[model]
        for batch in batches:
            problem = {
                "name": f"{model}/batch{batch}",
                "family": "nf4",
                "model": model,
                "batch": batch,
                "layers": layers,
                "layers_resident": layers,
                "launches": 7 * layers,
                "weights": int(tree_ms * 1e3 * 1130e3 / 2.5625),
            }
            medians = {}
            for kernel, (_, gb_s, _) in KERNELS.items():
                centre = tree_ms * 1e3 * 1130 / gb_s * (1 + 0.001 * batch)
                samples = noisy(rng, centre, 3)
                products = noisy(rng, product_ms * 1e3 * (1 + 0.012 * batch), 3)
                medians[kernel] = sorted(samples)
                row = record(problem, kernel, samples, product_samples_us=products)
                records.append(row)
            records += odd_ones(problem, noisy(rng, tree_ms * 460, 3))
            verdicts.append(speedup_verdict(problem, medians))
        verdicts.append(average_verdict(model, verdicts[-len(batches) :]))
    if "qwen3-32b" in models and 8 in batches:
        verdicts += other_verdicts()
    results = {"schema": "reprolab-results/1", "experiment": "table2", "pass": "replay"}
    return results | {"provenance": provenance(), "records": records, "verdicts": verdicts}


def speedup_verdict(problem: dict[str, Any], medians: dict[str, list[float]]) -> dict[str, Any]:
    base, ours = medians["branch_tree"], medians["shared_lut"]
    low, high = base[0] / ours[-1], base[-1] / ours[0]
    source, value = PAPER[problem["model"]][problem["batch"]], base[1] / ours[1]
    difference = 100 * (value / source - 1)
    name = problem["name"]
    return {
        "claim": "kernel-speedup",
        "source": "paper",
        "cell": {"model": problem["model"], "batch": problem["batch"]},
        "text": "2.0-2.2x on the dequantization kernel",
        "unit": "x",
        "source_value": source,
        "our_value": round(value, 4),
        "our_interval": [round(low, 4), round(high, 4)],
        "difference_percent": round(difference, 2),
        "tolerance": "within 5 % of the source's value",
        "verdict": "reproduced" if abs(difference) <= 5 else "not_reproduced",
        "reason": f"differs by {difference:+.1f} %",
        "decided_by": [f"{name}/branch_tree", f"{name}/shared_lut"],
    }


def average_verdict(model: str, cells: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean over the batches; as the driver, none where a batch was not run."""
    found = cells[0] | {"cell": {"model": model, "batch": "average"}}
    found |= {"source_value": AVERAGES[model], "our_value": None, "our_interval": None}
    missing = set(BATCHES) - {cell["cell"]["batch"] for cell in cells}
    if missing:
        reason = f"branch_tree did not run on {model} at batch {min(missing)}"
        untested = {"difference_percent": None, "verdict": "not_testable", "decided_by": []}
        return found | untested | {"reason": reason}
    ours = [sum(cell["our_value"] for cell in cells) / len(cells)]
    ours += [sum(cell["our_interval"][i] for cell in cells) / len(cells) for i in (0, 1)]
    difference = 100 * (ours[0] / AVERAGES[model] - 1)
    return found | {
        "our_value": ours[0],
        "our_interval": ours[1:],
        "difference_percent": difference,
        "verdict": "reproduced" if abs(difference) <= 5 else "not_reproduced",
        "reason": f"differs by {difference:+.1f} %",
        "decided_by": [key for cell in cells for key in cell["decided_by"]],
    }


def other_verdicts() -> list[dict[str, Any]]:
    cell = "qwen3-32b/batch8"
    common = {"source": "paper", "cell": None, "our_interval": None, "difference_percent": None}
    return [
        common
        | {
            "claim": "baseline-reads-lut-from-global",
            "text": "the baseline loads its 16-entry code table from global memory",
            "unit": "",
            "source_value": None,
            "our_value": None,
            "tolerance": "none: a fact of the source",
            "verdict": "premise_false",
            "reason": "bitsandbytes 0.47.0 holds no table: it compares and branches",
            "decided_by": [],
        },
        common
        | {
            "claim": "qmatmul-72",
            "cell": {"model": "qwen3-32b", "batch": 8},
            "text": "dequantization is 72.4 % of quantized matmul, Qwen3-32B at batch 8",
            "unit": "%",
            "source_value": 72.4,
            "our_value": 71.69,
            "our_interval": [71.6, 71.8],
            "difference_percent": -1.0,
            "tolerance": "within 5 % of the source's value",
            "verdict": "reproduced",
            "reason": "71.7 % of dequantize and product",
            "decided_by": [f"{cell}/branch_tree"],
        },
        common
        | {
            "claim": "immediates-icache",
            "text": "immediates instead of a table enlarge the code and press on the "
            "instruction cache",
            "unit": "x",
            "source_value": None,
            "our_value": 1.0203,
            "our_interval": [0.9981, 1.0412],
            "tolerance": "instruction-cache counters, which this run does not take",
            "verdict": "not_testable",
            "reason": "needs counters; time of shared_lut_immediates over shared_lut: slower in "
            "1 of 2 cells, faster in 0, no difference seen in 1",
            "decided_by": [f"{cell}/shared_lut"],
        },
    ]


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
        problem = {
            "name": f"{layers[0]}/fp16/b64",
            "family": "nf4",
            "n": weights,
            "rows": rows,
            "columns": columns,
            "block_size": 64,
            "nested": False,
            "output": "fp16",
            "models": layers,
        }
        moved = weights * 2.5625
        for kernel, (_, gb_s, fixed_us) in KERNELS.items():
            records.append(record(problem, kernel, noisy(rng, fixed_us + moved / gb_s / 1e3, n)))
        records += odd_ones(problem, noisy(rng, 2 + moved / 2440e3, n))
        for kernel, (gb_s, fixed_us) in CEILINGS.items():
            records.append(record(problem, kernel, noisy(rng, fixed_us + moved / gb_s / 1e3, n)))
    argv = ["build/table2_shapes", "--output=results/table2/shapes.json"]
    results = {"schema": "reprolab-results/1", "experiment": "table2", "pass": "shapes"}
    found = provenance(argv=argv, instrument="events")
    return results | {"provenance": found, "records": records, "verdicts": []}

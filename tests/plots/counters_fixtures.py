"""Result files of the experiment counters, with values near an H200's and seeded noise."""

import random
from typing import Any

from fixtures import CEILING, noisy
from made import latency, matrix_problem, metric, provenance, record, results

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


# counter -> unit, branch_tree's value per weight (a count) or as it is, factor of the other kernels
COUNTED = {
    "warp_instructions": ("instructions", 1.985, 0.4),
    "threads_per_instruction": ("threads", 19.6, 1.6),
    "branches": ("instructions", 0.318, 0.03),
    "divergent_targets": ("branches", 0.0936, 0.01),
    "warps_launched": ("warps", 1 / 512, 1),
    "pipe_alu": ("instructions", 1.007, 0.35),
    "pipe_fma": ("instructions", 0.404, 0.52),
    "pipe_fmaheavy": ("instructions", 0.373, 0.5),
    "pipe_lsu": ("instructions", 0.152, 1.2),
    "shared_loads": ("instructions", 0.0488, 1.6),
    "local_loads": ("instructions", 0, 0),
    "l1_hit_rate": ("%", 35.2, 0.76),
    "sectors_per_load_request": ("sectors", 1.0, 1),
    "shared_load_bank_conflicts": ("conflicts", 0.0125, 1.1),
    "shared_store_bank_conflicts": ("conflicts", 0.0208, 0.8),
    "l2_hit_rate": ("%", 81.9, 1.013),
    "dram_bytes_read": ("bytes", 0.561, 1.002),
    "dram_utilisation": ("%", 23.3, 2.1),
    "achieved_occupancy": ("%", 73.0, 0.8),
    "active_warps": ("warps", 46.72, 0.8),
    "issue_utilisation": ("%", 85.6, 0.87),
    "stall_long_scoreboard": ("warps/issue", 0.29, 6.5),
    "stall_wait": ("warps/issue", 2.48, 0.38),
    "stall_math_pipe_throttle": ("warps/issue", 2.37, 0.4),
    "stall_not_selected": ("warps/issue", 3.4, 0.8),
    "stall_selected": ("warps/issue", 1.0, 1),
    "sm_cycles": ("cycles", 0.0045, 0.47),
}
RATES = ("%", "threads", "sectors", "warps/issue")
NO_FP16 = "GH100 has no metric smsp__inst_executed_pipe_fp16.sum"
EXTRA = "smsp__inst_executed_op_ld.sum"
LAYERS = ((21504, 5376), (28672, 8192))
DEVIATING, WRONG = "one_scale_a_tile", "broken_lut"


def counters_of(problem: dict[str, Any], base: bool, **changes: float) -> list[dict[str, Any]]:
    """Three samples of every counter, one that is missing and one that a user asked for."""
    found = []
    for name, (unit, value, factor) in COUNTED.items():
        per_row = unit in RATES or name == "active_warps"
        number = value * (1 if base else factor) * (1 if per_row else problem["n"])
        number = changes.get(name, number if per_row else round(number))
        found.append(metric(name, [number, number, number * 1.001], unit))
    found.append({"name": "pipe_fp16", "unit": "instructions", "missing": NO_FP16})
    return [*found, metric(EXTRA, [problem["n"] / 16] * 3, "")]


def launch(registers: int) -> dict[str, Any]:
    kernel = {"name": "kernel", "grid": [1000, 2, 1], "block": [8, 8, 1], "registers": registers}
    kernel |= {"static_shared_bytes": 64, "dynamic_shared_bytes": 0}
    return {"kernels_per_call": 1, "kernels": [kernel | {"blocks_per_multiprocessor": 24}]}


def layer(rows: int, columns: int) -> dict[str, Any]:
    found = {"name": f"{rows}x{columns}/fp16/b64", "family": "nf4", "n": rows * columns}
    found |= {"rows": rows, "columns": columns, "block_size": 64, "nested": False}
    return found | {"output": "fp16", "models": ["a.model"]}


def pass_of(name: str, records: list[dict[str, Any]], instrument: str) -> dict[str, Any]:
    argv = ["build/bench", f"--output=results/counters/{name}.json"]
    where = provenance(argv=argv, instrument=instrument)
    return results("counters", name, records) | {"provenance": where}


def counted(name: str, problems: list[dict[str, Any]], kernels: list[str]) -> dict[str, Any]:
    """A pass of counters; the first kernel is the baseline."""
    records = [
        record(p, k, metrics=counters_of(p, k == kernels[0])) for p in problems for k in kernels
    ]
    return pass_of(name, records, "counters")


def launched(name: str, problems: list[dict[str, Any]], kernels: list[str]) -> dict[str, Any]:
    """A pass of times and launches: each kernel faster than the one before it."""
    records = []
    for p in problems:
        for i, kernel in enumerate(kernels):
            times = [round(p["n"] / (440e3 * (1 + i)), 3)] * 5
            records.append(record(p, kernel, times, launch=launch(40 + 8 * i)))
        records.append(record(p, "copy", [round(p["n"] / 1.65e6, 3)] * 5, **CEILING))
    return pass_of(name, records, "activity")


def nf4_counters() -> dict[str, Any]:
    problems, kernels = (
        [layer(*shape) for shape in LAYERS],
        ["branch_tree", "shared_lut", DEVIATING],
    )
    found = counted("nf4_counters", problems, kernels)
    for row in found["records"]:
        if row["kernel"] == DEVIATING:
            row |= {"outcome": "deviation_as_declared", "deviation": "reads one scale in eight"}
    reason = "1 of 8 weights differ"
    wrong = {"outcome": "mismatch", "reason": reason, "mismatches": 1, "metrics": []}
    found["records"] += [record(p, WRONG, **wrong) for p in problems]
    return found


def nf4_launches() -> dict[str, Any]:
    problems = [layer(*shape) for shape in LAYERS]
    return launched("nf4_launches", problems, ["branch_tree", "shared_lut"])


TRANSPOSES = ["tma_naive", "tiled"]


def transpose_counters() -> dict[str, Any]:
    return counted("transpose_counters", [matrix_problem(32768)], TRANSPOSES)


def transpose_launches() -> dict[str, Any]:
    return launched("transpose_launches", [matrix_problem(32768)], TRANSPOSES)


def divergence_counters() -> dict[str, Any]:
    """As many instructions as there are threads that part: fewest on equal codes."""
    found = counted("divergence_counters", [problem(data) for data in DATA], list(KERNELS))
    for row in found["records"]:
        if row["problem"].get("data") == "equal" and row["kernel"] == "branch_tree":
            n = row["problem"]["n"]
            some = {"warp_instructions": n, "threads_per_instruction": 32.0, "divergent_targets": 0}
            row["metrics"] = counters_of(row["problem"], True, **some)
    return found


def sass() -> dict[str, Any]:
    """Two kernels on two architectures, one without a loop that stores."""
    records = []
    for arch in ("sm_80", "sm_90"):
        for kernel, family, element in (
            ("branch_tree", "nf4", "weight"),
            ("shared_lut", "nf4", "weight"),
            ("tma_naive", "transpose", "element"),
        ):
            p = {"name": arch, "family": family, "arch": arch, "function": kernel}
            facts = [("registers", 40, ""), ("code_bytes", 15504, ""), ("branches", 48, "")]
            facts += [("branches_may_diverge", 47 * (kernel == "branch_tree"), "")]
            for name, least, most in (("instructions", 35.1875, 37.1875), ("index", 2, 2)):
                why = "the kernel stores nothing on sm_80" if kernel == "tma_naive" else ""
                ways = {"least": least, "most": most, "all": 64}
                facts += [(f"{name}_per_{element}.{w}", v, why) for w, v in ways.items()]
            metrics = [
                {"name": f"sass_{name}", "unit": ""}
                | ({"missing": why} if why else {"samples": [v]})
                for name, v, why in facts
            ]
            row = record(p, kernel, metrics=metrics, outcome="not_verified", key=f"{arch}/{kernel}")
            clocks = dict.fromkeys(("sm_mhz_before", "sm_mhz_during", "sm_mhz_after"))
            records.append(row | {"bytes": {"read": 0, "written": 0}, "clocks": clocks})
    found = pass_of("sass", records, "sass")
    found["provenance"] |= {"gpu": None, "clocks": None}
    return found


def whole_run() -> dict[str, dict[str, Any]]:
    """Every pass of the experiment, by its name."""
    files = (walks(), nf4_launches(), nf4_counters(), transpose_launches(), transpose_counters())
    files += (divergence(), divergence_counters(), sass())
    return {file["pass"]: file for file in files}

"""A run of the experiment with an H200's counts, in which numbers can be changed."""

import copy

import made
import pytest

LAYERS = [(layer["rows"], layer["columns"]) for layer in made.all_sources()[0].setup["layers"]]
SECOND_LAYER = (1, 2)
TREE, LUT, TILE512 = "branch_tree", "shared_lut", "shared_lut_tile512"
TREE_CONSTANT = "branch_tree_constant"
READER, OTHER_FILL = "global_lut", "shared_lut_cooperative"
IMMEDIATES, CONSTANT = "shared_lut_immediates", "constant_lut"

# Counts of an H200, rounded: of one block, or of the whole.
STALLS = {"long_scoreboard": 2.0, "short_scoreboard": 1.0, "wait": 1.0, "barrier": 1.4}
STALLS |= {"no_instruction": 0.03, "selected": 1.0, "not_selected": 2.7}
OF_LUT = {"warp_instructions": 840, "blocks_launched": 1, "global_loads": 18}
OF_LUT |= {"dram_bytes_read": 576, "divergent_targets": 1, "shared_loads": 82}
OF_LUT |= {"shared_load_wavefronts": 96.6, "icc_requests": 50, "icc_misses": 0}
OF_BLOCK = (*OF_LUT, "global_stores", "dram_bytes_written", "l2_written_sectors")
OF_LUT |= {"threads_per_instruction": 31.4, "eligible_warps": 2.8}
OF_LUT |= {"dram_utilisation": 48.8, "issue_utilisation": 74.2}
OF_LUT |= {f"stall_{name}": warps for name, warps in STALLS.items()}
OF_TREE = OF_LUT | {"warp_instructions": 2033, "divergent_targets": 96, "shared_loads": 50}
OF_TREE |= {"shared_load_wavefronts": 62.9, "threads_per_instruction": 19.6}
OF_TREE |= {"eligible_warps": 3.8, "stall_wait": 2.5, "dram_utilisation": 23.3}
OF_TREE |= {"issue_utilisation": 85.6, "stall_long_scoreboard": 0.3, "stall_no_instruction": 1.53}
COUNTED = {TREE: OF_TREE, LUT: OF_LUT, READER: OF_LUT | {"global_loads": 50}}
COUNTED |= {OTHER_FILL: OF_LUT | {"warp_instructions": 834, "stall_barrier": 0.8}}
COUNTED |= {TREE_CONSTANT: OF_TREE}
COUNTED |= {IMMEDIATES: OF_LUT | {"stall_no_instruction": 0.031}}
TIMES = {TREE: 533.0, LUT: 252.4, OTHER_FILL: 247.3}
CODE = {"registers": 56, "static_shared_bytes": 2720, "code_bytes": 6704}
CODE |= {"instructions_per_weight.least": 21.7, "branches_may_diverge": 0}
CODE |= {"index_per_weight.least": 1.5, "index_per_weight.all": 1.5}
TREES_CODE = CODE | {"index_per_weight.least": 14.875, "index_per_weight.all": 37.875}
TREES_CODE |= {"instructions_per_weight.least": 34.3, "branches_may_diverge": 48}
TREES_CODE |= {"code_bytes": 15424}
COMPILED = {TREE: TREES_CODE, LUT: CODE, IMMEDIATES: CODE}
COMPILED |= {TREE_CONSTANT: TREES_CODE | {"code_bytes": 15680}}
COMPILED |= {TILE512: CODE | {"registers": 32, "static_shared_bytes": 1392}}
COMPILED |= {"packed_512": {"registers": 16, "static_shared_bytes": 64}}
COMPILED |= {"packed_1024": {"registers": 18, "static_shared_bytes": 64}}
STORES = {"scalar_store": 64, "packed_store": 32}  # of a thousand weights
SECTORS = {"scalar_store": 125.8, "packed_store": 96.0}  # that reach L2, of as many
COMPILED |= {"triton_lut": {"widest_global_store_bytes": 16, "weights_per_trip": 8}}
ROUNDS = {"tma_naive": 32.3, "tma_swizzle": 4.16}
CYCLES = {"shared_load": 28.8, "shared_store": 4, "shared_store_to_load": 33, "global_l1": 39.6}
CYCLES |= {"global_dram": 697}

YES, NO, MAY_BE, CANNOT = "reproduced", "not_reproduced", "undecided", "not_testable"
PREMISE, OTHERWISE, NOT_YET = "premise_false", "contradicted", "not_tested"
AS_ON_AN_H200 = {
    "index-71": [YES] * 5,
    "index-7": [NO],
    "instructions-71": [NO],
    "compact-binary": [YES, YES, NO, NO, NO, NO],
    "latency-12-15": [CANNOT, *["documented"] * 3],  # a ratio of an A100; numbers as cited
    "latency-15": [PREMISE],
    "table-latency": [NO, NO],
    "lut-traffic-64": [PREMISE],
    "no-divergence": [YES],
    "divergence-makes-it": [YES],
    "smem-64-bytes": [YES, NO],
    "occupancy-2-3": [NO, NO],
    "memory-bound": [NO, NO, NOT_YET],  # the last is of generated text
    "broadcast-no-conflicts": [YES],
    "immediates-icache": [YES, NO, MAY_BE, NOT_YET],  # the last is of a replay
    "register-pressure": [NO] * 6,
    "constant-broadcast": [YES],
    "more-ilp": [MAY_BE],  # fewer waits, but no more warps to choose from
    "single-thread-fill": [NOT_YET, MAY_BE],  # the first is of a replay
    "blocks-3-4": [OTHERWISE, OTHERWISE, YES, YES],
    "packed-stores": [CANNOT, CANNOT, NOT_YET, NO, YES],  # two of a T4, and one of a puzzle
    "single-kernel": [YES],
    "threads-512": [OTHERWISE, *[NOT_YET] * 4],
    "triton": [CANNOT, CANNOT],
    "swizzle-conflicts": [YES, NO],
}
DIVERGING = {"": {TREE: 532.6, LUT: 252.0}, "equal": {TREE: 322.5}}  # us, by the kind of codes


class Run:
    """A run of the experiment, one file for each pass, in which numbers can be changed."""

    def __init__(self):
        counted, launches = [], []
        for problem in (made.layer(*layer) for layer in LAYERS):
            blocks = problem["n"] // 1024
            for kernel, values in COUNTED.items():
                scaled = {k: v * (blocks if k in OF_BLOCK else 1) for k, v in values.items()}
                counted.append(made.counted(problem, kernel, scaled))
            for kernel, stores in STORES.items():
                values = {"global_stores": stores * blocks}
                values |= {"l2_written_sectors": SECTORS[kernel] * blocks, "l2_read_sectors": 27.0}
                values |= {"dram_bytes_read": 576 * blocks, "dram_bytes_written": 2027 * blocks}
                counted.append(made.counted(problem, kernel, values))
            replays = {"idc_replays": 12 * problem["n"] / 32}
            counted.append(made.counted(problem, CONSTANT, replays))
            for kernel, us in TIMES.items():
                shared = 2656 + 64 * (kernel != TREE)
                launches.append(made.launched(problem, kernel, us, static_shared_bytes=shared))
            launches.append(made.launched(problem, "mojo_packed_512", 250.0))
        equal = made.layer(*LAYERS[-1], data="equal")
        transposes = [
            made.counted(
                made.matrix_problem(32768),
                kernel,
                {"shared_stores": 1e6, "shared_store_wavefronts": 1e6 * rounds},
            )
            for kernel, rounds in ROUNDS.items()
        ]
        archs = ("sm_75", "sm_80", "sm_89", "sm_90")
        codes = [made.compiled(k, arch, facts) for arch in archs for k, facts in COMPILED.items()]
        constant = [made.counted(equal, CONSTANT, {"idc_replays": 0})]
        passes = {"nf4_counters": counted, "nf4_launches": launches}
        passes |= {"transpose_counters": transposes, "divergence_counters": constant}
        self.files = {name: made.results("counters", name, rows) for name, rows in passes.items()}
        layer, files = made.layer(*LAYERS[-1]), []
        for data, times in DIVERGING.items():
            problem = made.layer(*LAYERS[-1], data=data) if data else layer
            files += [made.record(problem, kernel, [us] * 3) for kernel, us in times.items()]
        self.files["divergence"] = made.results("counters", "divergence", files)
        self.files["sass"] = made.code(copy.deepcopy(codes))
        self.files["latency"] = made.latency({k: [c] * 3 for k, c in CYCLES.items()})

    def rows(self, pass_name, kernel, arch=None):
        rows = made.rows_of(self.files[pass_name], kernel)
        return [row for row in rows if arch in (None, row["problem"].get("arch"))]

    def verdicts(self, claim, *files):
        return made.decision(claim, *(files or self.files.values())).verdicts

    def words(self, claim):
        return [v.kind for v in self.verdicts(claim)]

    def every_word(self):
        decisions = made.decisions(*self.files.values())
        return {claim: [v.kind for v in decisions[claim].verdicts] for claim in AS_ON_AN_H200}


@pytest.fixture(name="run")
def put_run():
    return Run()

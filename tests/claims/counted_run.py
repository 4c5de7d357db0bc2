"""A run of experiment counters, made by hand, and what its claims come to."""

import copy

import made

from claims.published import load_sources

LAYERS = [(layer["rows"], layer["columns"]) for layer in load_sources()[0].setup["layers"]]
BASELINE, SUBJECT, READER = "branch_tree", "shared_lut", "global_lut"
OTHER_FILL, IMMEDIATES, CONSTANT = "shared_lut_cooperative", "shared_lut_immediates", "constant_lut"
PER_LAYER, PAPERS_GPU, THIS_GPU = "layer all", "sm_80", "this GPU"
INDEX, WHOLE = "the index computation", "all of the kernel"
TREE, FILL = "the baseline's tree", "literals that fill the table"
OF_BYTES, OF_WEIGHTS = "tiles of 512 bytes", "tiles of 512 weights"
CLAIMS = {
    "instructions-71": ((PAPERS_GPU, INDEX), (THIS_GPU, INDEX), (PER_LAYER, WHOLE)),
    "seven-to-two": ((PAPERS_GPU,), (THIS_GPU,)),
    "compact-binary": ((PAPERS_GPU,), (THIS_GPU,)),
    "lut-traffic-64": ((PER_LAYER,),),
    "no-divergence": ((PER_LAYER,),),
    "smem-64-bytes": ((PER_LAYER,),),
    "occupancy-2-3": (("shared_lut, sm_80", OF_BYTES), ("shared_lut_tile512, sm_80", OF_WEIGHTS)),
    "memory-bound": ((PER_LAYER,), ("rows 28672, columns 8192, arithmetic",)),
    "broadcast-no-conflicts": ((PER_LAYER,),),
    "immediates-icache": tuple(
        (cell, reading) for reading in (TREE, FILL) for cell in (PAPERS_GPU, THIS_GPU, PER_LAYER)
    ),
    "constant-broadcast": (("equal",),),
    "more-ilp": ((PER_LAYER,),),
    "single-thread-fill": ((PER_LAYER,),),  # its other cell is of times alone
    "swizzle-conflicts": (("random",),),
}

# Of one block, or of the whole: what an H200 counts, rounded.
STALLS = {"long_scoreboard": 2.0, "short_scoreboard": 1.0, "wait": 1.0, "barrier": 1.4}
STALLS |= {"no_instruction": 0.03, "selected": 1.0, "not_selected": 2.7}
OF_SUBJECT = {"warp_instructions": 840, "blocks_launched": 1, "warps_launched": 2}
OF_SUBJECT |= {"global_loads": 18, "dram_bytes_read": 576, "divergent_targets": 1}
OF_SUBJECT |= {"shared_loads": 82, "shared_load_wavefronts": 96.6, "icc_misses": 0}
OF_BLOCK = tuple(OF_SUBJECT)
OF_SUBJECT |= {"threads_per_instruction": 31.4, "active_warps": 37.4, "eligible_warps": 2.8}
OF_SUBJECT |= {"dram_utilisation": 48.8, "issue_utilisation": 74.2, "idc_replays": 0}
OF_SUBJECT |= {f"stall_{name}": warps for name, warps in STALLS.items()}
OF_BASELINE = OF_SUBJECT | {"warp_instructions": 2033, "divergent_targets": 96}
OF_BASELINE |= {"shared_loads": 50, "shared_load_wavefronts": 62.9, "active_warps": 46.7}
OF_BASELINE |= {"threads_per_instruction": 19.6, "eligible_warps": 3.8, "stall_wait": 2.5}
OF_BASELINE |= {"dram_utilisation": 23.3, "issue_utilisation": 85.6, "stall_long_scoreboard": 0.3}
OF_BASELINE |= {"stall_no_instruction": 1.53}
COUNTED = {
    BASELINE: OF_BASELINE,
    SUBJECT: OF_SUBJECT,
    READER: OF_SUBJECT | {"global_loads": 50},
    OTHER_FILL: OF_SUBJECT | {"warp_instructions": 834, "stall_barrier": 0.8},
    IMMEDIATES: OF_SUBJECT | {"stall_no_instruction": 0.031},
}
TIMES = {BASELINE: 533.0, SUBJECT: 252.4, OTHER_FILL: 247.3, IMMEDIATES: 252.6}
CODE = {"registers": 56, "static_shared_bytes": 2720, "code_bytes": 6704}
CODE |= {"instructions_per_weight.least": 21.7}
CODE |= {"index_per_weight.least": 1.5, "index_per_weight.all": 1.5, "branches_may_diverge": 0}
COMPILED = {
    BASELINE: CODE | {"index_per_weight.least": 14.875, "index_per_weight.all": 37.875}
    | {"branches_may_diverge": 48, "code_bytes": 15424, "instructions_per_weight.least": 34.3},
    SUBJECT: CODE,
    "shared_lut_tile512": CODE | {"registers": 32, "static_shared_bytes": 1392},
    IMMEDIATES: CODE,
}  # fmt: skip
ROUNDS = {"tma_naive": 32.3, "tma_swizzle": 4.16, "tma_batched": 4.2}
AS_ON_AN_H200 = {
    "instructions-71": ["reproduced", "reproduced", "not_reproduced"],
    "seven-to-two": ["reproduced", "reproduced"],
    "compact-binary": ["reproduced", "reproduced"],
    "lut-traffic-64": ["premise_false"],
    "no-divergence": ["reproduced"],
    "smem-64-bytes": ["reproduced"],
    "occupancy-2-3": ["not_reproduced", "not_reproduced"],
    "memory-bound": ["not_reproduced", "not_reproduced"],
    "broadcast-no-conflicts": ["reproduced"],
    "immediates-icache": ["reproduced"] * 3 + ["not_reproduced"] * 3,
    "constant-broadcast": ["reproduced"],
    "more-ilp": ["reproduced"],
    "single-thread-fill": ["reproduced"],
    "swizzle-conflicts": ["not_reproduced"],
}


class Run:
    """One file for each pass; `change` sets one number of a kernel, on all layers or on one."""

    def __init__(self):
        problems = [made.layer(*layer) for layer in LAYERS]
        counted = []
        for problem in problems:
            blocks = problem["n"] // 1024
            for kernel, values in COUNTED.items():
                scaled = {k: v * (blocks if k in OF_BLOCK else 1) for k, v in values.items()}
                counted.append(made.counted(problem, kernel, scaled))
            look_ups = problem["n"] / 32
            counted.append(made.counted(problem, CONSTANT, {"idc_replays": 12 * look_ups}))
        equal = made.layer(*LAYERS[-1], data="equal")
        transposes = [
            made.counted(
                made.matrix_problem(32768),
                kernel,
                {"shared_stores": 1e6, "shared_store_wavefronts": 1e6 * rounds}
                | {"active_warps": 60, "warps_launched": 4e6, "blocks_launched": 1e6},
            )
            for kernel, rounds in ROUNDS.items()
        ]
        launches = [
            made.launched(p, k, us, static_shared_bytes=2656 + 64 * (k != BASELINE))
            for p in problems
            for k, us in TIMES.items()
        ]
        codes = [made.compiled(k, a, f) for a in ("sm_80", "sm_90") for k, f in COMPILED.items()]
        constant = [made.counted(equal, CONSTANT, {"idc_replays": 0})]
        self.files = {
            "nf4_counters": made.results("counters", "nf4_counters", counted),
            "nf4_launches": made.results("counters", "nf4_launches", launches),
            "transpose_counters": made.results("counters", "transpose_counters", transposes),
            "divergence_counters": made.results("counters", "divergence_counters", constant),
            "sass": made.code(copy.deepcopy(codes)),
        }

    def rows(self, pass_name, kernel, arch=None):
        rows = made.rows_of(self.files[pass_name], kernel)
        return [row for row in rows if arch in (None, row["problem"].get("arch"))]

    def change(self, kernel, pass_name="nf4_counters", only=None, arch=None, **values):
        for row in self.rows(pass_name, kernel, arch)[slice(*only or (None,))]:
            blocks = row["problem"].get("n", 1024) // 1024
            for name, value in values.items():
                scale = blocks if pass_name == "nf4_counters" and name in OF_BLOCK else 1
                made.set_metric(row, name, value * scale)

    def code(self, kernel, arch, fact, value):
        (row,) = self.rows("sass", kernel, arch)
        made.set_metric(row, f"sass_{fact}", value)

    def launch(self, kernel, **facts):
        for row in self.rows("nf4_launches", kernel):
            row["launch"]["kernels"][0].update(facts)

    def decided(self, claim):
        found = made.decided(*self.files.values(), sources=made.with_claim(claim))
        return [found[claim, *cell] for cell in CLAIMS[claim]]

    def every_word(self):
        """By claim, as `words`."""
        found = made.decided(*self.files.values())
        return {c: [found[c, *cell].verdict for cell in cells] for c, cells in CLAIMS.items()}

    def whole(self, claim):
        """The verdict on the claim."""
        return made.decisions(*self.files.values())[claim].verdict

    def words(self, claim):
        return [v.verdict for v in self.decided(claim)]

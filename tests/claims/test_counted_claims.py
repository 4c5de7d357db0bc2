"""The claims that counters, launches and compiled code decide: each way that they can go."""

import copy

import made
import pytest

from claims.counters import blocks_on_a100
from claims.published import load_sources

LAYERS = [(layer["rows"], layer["columns"]) for layer in load_sources()[0].setup["layers"]]
BASELINE, SUBJECT, READER = "branch_tree", "shared_lut", "global_lut"
OTHER_FILL, IMMEDIATES, CONSTANT = "shared_lut_cooperative", "shared_lut_immediates", "constant_lut"
PER_LAYER, PAPERS_GPU, THIS_GPU = "layer all", "sm_80", "this GPU"
CLAIMS = {
    "instructions-71": (PER_LAYER, PAPERS_GPU, THIS_GPU),
    "lut-traffic-64": (PER_LAYER,),
    "no-divergence": (PER_LAYER,),
    "smem-64-bytes": (PER_LAYER,),
    "occupancy-2-3": ("shared_lut, sm_80", "shared_lut_tile512, sm_80", PER_LAYER),
    "memory-bound": (PER_LAYER,),
    "broadcast-no-conflicts": (PER_LAYER,),
    "immediates-icache": (PAPERS_GPU, THIS_GPU, PER_LAYER),
    "constant-broadcast": ("equal",),
    "more-ilp": (PER_LAYER,),
    "amortised-fill": (PER_LAYER,),
    "swizzle-conflicts": ("random",),
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
COUNTED = {
    BASELINE: OF_BASELINE,
    SUBJECT: OF_SUBJECT,
    READER: OF_SUBJECT | {"global_loads": 50},
    OTHER_FILL: OF_SUBJECT | {"warp_instructions": 834, "stall_barrier": 0.8},
    IMMEDIATES: OF_SUBJECT | {"stall_no_instruction": 0.031},
}
TIMES = {BASELINE: 533.0, SUBJECT: 252.4, OTHER_FILL: 247.3, IMMEDIATES: 252.6}
CODE = {"registers": 56, "static_shared_bytes": 2720, "code_bytes": 6704}
CODE |= {"index_per_weight.least": 1.5, "index_per_weight.all": 1.5, "branches_may_diverge": 0}
COMPILED = {
    BASELINE: CODE | {"index_per_weight.least": 14.875, "index_per_weight.all": 37.875}
    | {"branches_may_diverge": 48, "code_bytes": 15424},
    SUBJECT: CODE,
    "shared_lut_tile512": CODE | {"registers": 32, "static_shared_bytes": 1392},
    IMMEDIATES: CODE,
}  # fmt: skip
ROUNDS = {"tma_naive": 32.3, "tma_swizzle": 4.16, "tma_batched": 4.2}
AS_ON_AN_H200 = {
    "instructions-71": ["not_reproduced", "reproduced", "reproduced"],
    "lut-traffic-64": ["premise_false"],
    "no-divergence": ["reproduced"],
    "smem-64-bytes": ["reproduced"],
    "occupancy-2-3": ["not_reproduced", "not_reproduced", "not_testable"],
    "memory-bound": ["not_reproduced"],
    "broadcast-no-conflicts": ["reproduced"],
    "immediates-icache": ["not_reproduced", "not_reproduced", "not_reproduced"],
    "constant-broadcast": ["reproduced"],
    "more-ilp": ["reproduced"],
    "amortised-fill": ["not_reproduced"],
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
        found = made.decided(*self.files.values())
        return [found[claim, cell] for cell in CLAIMS[claim]]

    def words(self, claim):
        return [v.verdict for v in self.decided(claim)]


@pytest.fixture
def run():
    return Run()


def test_what_an_h200_counts_decides_every_claim(run):
    assert {claim: run.words(claim) for claim in CLAIMS} == AS_ON_AN_H200


def test_instructions_are_those_executed_and_those_of_the_index_computation(run):
    layers, papers, here = run.decided("instructions-71")
    assert layers.ours == pytest.approx(100 * (1 - 840 / 2033))
    assert papers.ours == here.ours == pytest.approx(100 * (1 - 1.5 / 14.875))
    assert len(layers.evidence) == 8
    assert [key for _, key in papers.evidence] == ["sm_80/branch_tree", "sm_80/shared_lut"]
    assert [key for _, key in here.evidence] == ["sm_90/branch_tree", "sm_90/shared_lut"]
    assert papers.reason == (
        "89.9 % fewer; index computation per weight: 14.9 instructions on the shortest way through "
        "branch_tree, 37.9 on all of its ways together, 1.50 in shared_lut"
    )


@pytest.mark.parametrize(
    ("executed", "verdict"),
    [(1000 - 639.1, "reproduced"), (1000 - 638.9, "not_reproduced"), (10, "reproduced")],
)
def test_at_least_71_percent_fewer_less_a_tenth(run, executed, verdict):
    run.change(BASELINE, warp_instructions=1000)
    run.change(SUBJECT, warp_instructions=executed)
    assert run.words("instructions-71")[0] == verdict


def test_every_layer_must_hold(run):
    run.change(SUBJECT, warp_instructions=2033 * 0.29)
    assert run.words("instructions-71")[0] == "reproduced"
    run.change(SUBJECT, only=(2, 3), warp_instructions=2033 * 0.5)
    found = run.decided("instructions-71")[0]
    assert found.verdict == "not_reproduced"
    assert found.interval == pytest.approx((50, 71))


@pytest.mark.parametrize(("index", "verdict"), [(5.36, "reproduced"), (5.38, "not_reproduced")])
def test_the_index_computation_on_each_architecture(run, index, verdict):
    run.code(SUBJECT, "sm_90", "index_per_weight.least", index)  # of 14.875
    assert run.words("instructions-71") == ["not_reproduced", "reproduced", verdict]


def test_a_baseline_without_table_has_no_traffic_to_reduce(run):
    (found,) = run.decided("lut-traffic-64")
    assert found.ours is None
    assert found.reason == (
        "branch_tree reads no table: global loads a block: branch_tree 18.0, shared_lut 18.0, "
        "global_lut 50.0; global_lut, which does read one, loads it 64.0 times for shared_lut's "
        "once, but from caches: bytes that device memory is read for a block: 576, 576, 576"
    )


@pytest.mark.parametrize(
    ("loads", "verdict"),
    [
        (18.4, "premise_false"),
        (50, "reproduced"),
        (18 + 35.1, "reproduced"),
        (18 + 35.3, "not_reproduced"),
        (34, "not_reproduced"),
    ],
)
def test_a_baseline_that_reads_a_table_would_be_counted(run, loads, verdict):
    run.change(BASELINE, global_loads=loads)
    (found,) = run.decided("lut-traffic-64")
    assert found.verdict == verdict
    if verdict != "premise_false":
        assert found.ours == pytest.approx(2 * (loads - 18))


def test_divergence_is_eliminated_but_for_the_fill(run):
    (found,) = run.decided("no-divergence")
    assert found.ours == pytest.approx(100 * (1 - 1 / 96))
    assert found.reason == (
        "branches in the loop that may diverge: 48 and 0; divergent branches that warps took, "
        "per layer: 10.8 to 22.0 M and 0.113 to 0.229 M, which are 1.00 a block, where one thread "
        "fills the table; threads per instruction, of 32: 19.6 and 31.4"
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run.change(SUBJECT, divergent_targets=1.01),
        lambda run: run.change(SUBJECT, only=(1, 2), divergent_targets=3),
        lambda run: run.change(SUBJECT, threads_per_instruction=19.6),
        lambda run: run.code(SUBJECT, "sm_90", "branches_may_diverge", 1),
    ],
)
def test_any_other_divergence_is_not_eliminated(run, spoil):
    spoil(run)
    assert run.words("no-divergence") == ["not_reproduced"]


@pytest.mark.parametrize(
    ("facts", "verdict", "added"),
    [
        ({}, "reproduced", 64),
        ({"dynamic_shared_bytes": 4}, "not_reproduced", 68),
        ({"static_shared_bytes": 2656}, "not_reproduced", 0),
        ({"static_shared_bytes": 2656, "dynamic_shared_bytes": 64}, "reproduced", 64),
    ],
)
def test_the_table_adds_exactly_64_bytes(run, facts, verdict, added):
    run.launch(SUBJECT, **facts)
    (found,) = run.decided("smem-64-bytes")
    assert (found.verdict, found.ours) == (verdict, added)
    whole = f"the whole of shared_lut takes {2656 + added}, of which 2656 are branch_tree's already"
    assert found.reason == f"the table adds {added} bytes a block; {whole}"


def test_without_a_launch_there_are_no_launch_facts(run):
    for row in run.rows("nf4_launches", SUBJECT):
        row["launch"] = None
    assert run.words("smem-64-bytes") == ["not_tested"]
    assert run.words("occupancy-2-3")[2] == "not_tested"


def test_two_launches_have_no_one_size(run):
    for row in run.rows("nf4_launches", SUBJECT):
        row["launch"]["kernels"] *= 2
    assert run.words("smem-64-bytes") == ["not_testable"]


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks"),
    [
        (64, 56, 2720, 18),  # registers
        (64, 32, 1392, 32),  # blocks
        (1024, 32, 0, 2),  # threads
        (1024, 65, 0, 0),  # does not run
        (64, 32, 40 << 10, 4),  # shared memory
        (96, 56, 0, 12),  # warps of three
        (64, 16, 4096, 32),
        (64, 16, 4225, 31),  # 128 bytes more
    ],
)
def test_what_fits_on_an_a100(threads, registers, shared_bytes, blocks):
    """As cuda_occupancy.h has it; tests/profiling/occupancy_test.cpp asks it for the same."""
    assert blocks_on_a100(threads, registers, shared_bytes) == blocks


@pytest.mark.parametrize(
    ("registers", "blocks", "verdict"),
    [(255, 4, "not_reproduced"), (232, 4, "not_reproduced"), (56, 18, "not_reproduced")],
)
def test_registers_leave_at_least_four_blocks_of_64_threads(run, registers, blocks, verdict):
    run.code(SUBJECT, "sm_80", "registers", registers)
    found = run.decided("occupancy-2-3")[0]
    assert (found.verdict, found.ours) == (verdict, blocks)


@pytest.mark.parametrize(
    ("shared", "verdict"),
    [(80 << 10, "reproduced"), (50 << 10, "reproduced"), (39 << 10, "not_reproduced"),
     (82 << 10, "not_reproduced")],
)  # fmt: skip
def test_two_or_three_blocks_fit_where_shared_memory_says_so(run, shared, verdict):
    run.code(SUBJECT, "sm_80", "static_shared_bytes", shared)
    assert run.words("occupancy-2-3")[0] == verdict


@pytest.mark.parametrize(
    ("capability", "blocks", "verdict"),
    [
        ("9.0", 3, "not_testable"),
        ("8.0", 3, "reproduced"),
        ("8.0", 2, "reproduced"),
        ("8.6", 16, "not_reproduced"),
        ("8.0", None, "not_testable"),
    ],
)
def test_an_ampere_gpu_decides_by_what_fits_on_it(run, capability, blocks, verdict):
    run.launch(SUBJECT, blocks_per_multiprocessor=blocks)
    for file in run.files.values():
        if file["provenance"]["gpu"]:
            file["provenance"]["gpu"]["compute_capability"] = capability
    found = run.decided("occupancy-2-3")[2]
    assert found.verdict == verdict
    assert found.ours == blocks
    if capability == "9.0":
        assert found.reason == (
            "3 blocks of shared_lut fit on a multiprocessor of this NVIDIA H200, and 18.7 are "
            "there on average; it is no Ampere"
        )


@pytest.mark.parametrize(
    ("memory", "issue", "waiting", "verdict"),
    [
        (60, 59.9, 0.3, "reproduced"),
        (59.9, 20, 0.3, "not_reproduced"),
        (60, 60, 0.3, "not_reproduced"),
        (10, 20, 2.51, "reproduced"),
        (10, 20, 2.49, "not_reproduced"),  # after stall_wait; those that could issue do not wait
    ],
)
def test_bound_by_bandwidth_or_by_latency(run, memory, issue, waiting, verdict):
    run.change(BASELINE, dram_utilisation=memory, issue_utilisation=issue)
    run.change(BASELINE, stall_long_scoreboard=waiting)
    (found,) = run.decided("memory-bound")
    assert (found.verdict, found.ours) == (verdict, memory)


def test_what_an_h200s_baseline_is_bound_by(run):
    assert run.decided("memory-bound")[0].reason == (
        "branch_tree keeps device memory 23.3 % busy and the schedulers 85.6 %; at each issue "
        "0.300 warps wait for global memory; the most common waits: wait 2.50, barrier 1.40, "
        "short_scoreboard 1.00"
    )


@pytest.mark.parametrize(
    ("rounds", "verdict"), [(1.0, "reproduced"), (1.09, "reproduced"), (1.11, "not_reproduced")]
)
def test_rounds_of_the_look_ups_alone(run, rounds, verdict):
    """50 loads and 62.9 rounds are the baseline's too."""
    run.change(SUBJECT, shared_load_wavefronts=62.9 + 32 * rounds)
    (found,) = run.decided("broadcast-no-conflicts")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(rounds))
    ours = f"{rounds:.2f}"
    assert found.reason == f"rounds for each access of shared_lut that branch_tree lacks: {ours}"


def test_without_look_ups_there_are_no_rounds_of_them(run):
    run.change(SUBJECT, shared_loads=50)
    (found,) = run.decided("broadcast-no-conflicts")
    assert found.verdict == "not_testable"
    assert found.reason == "shared_lut has no shared loads that branch_tree lacks"


@pytest.mark.parametrize(("rounds", "verdict"), [(1.1, "reproduced"), (1.11, "not_reproduced")])
def test_a_swizzle_without_conflicts(run, rounds, verdict):
    run.change("tma_swizzle", "transpose_counters", shared_store_wavefronts=1e6 * rounds)
    (found,) = run.decided("swizzle-conflicts")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(rounds))
    assert found.reason == (
        f"rounds for each access of tma_swizzle: {rounds:.2f}; of tma_naive: 32.3"
    )


@pytest.mark.parametrize(("size", "verdict"), [(6705, "reproduced"), (6703, "not_reproduced")])
def test_the_size_of_the_code(run, size, verdict):
    run.code(IMMEDIATES, "sm_80", "code_bytes", size)
    papers, here, _ = run.decided("immediates-icache")
    assert (papers.verdict, here.verdict) == (verdict, "not_reproduced")
    assert papers.ours == pytest.approx(size / 6704)


@pytest.mark.parametrize(
    ("with_immediates", "with_table", "verdict"),
    [(1.0, 0.03, "reproduced"), (1.0, 1.0, "not_reproduced"), (0.05, 0.03, "not_reproduced")],
)
def test_pressure_is_what_warps_wait_for(run, with_immediates, with_table, verdict):
    run.change(IMMEDIATES, stall_no_instruction=with_immediates)
    run.change(SUBJECT, stall_no_instruction=with_table)
    assert run.words("immediates-icache")[2] == verdict


@pytest.mark.parametrize(("replays", "verdict"), [(0, "reproduced"), (1, "not_reproduced")])
def test_one_read_of_a_constant_serves_a_warp(run, replays, verdict):
    run.change(CONSTANT, "divergence_counters", idc_replays=replays)
    (found,) = run.decided("constant-broadcast")
    assert found.verdict == verdict
    assert "; on the codes of weights 12.0 times, once for each further" in found.reason
    keys = [key for _, key in found.evidence]
    assert keys == ["28672x8192/fp16/b64/equal/constant_lut", "28672x8192/fp16/b64/constant_lut"]


@pytest.mark.parametrize(("wait", "verdict"), [(2.25, "reproduced"), (2.26, "not_reproduced")])
def test_a_tenth_less_to_wait_out(run, wait, verdict):
    run.change(SUBJECT, stall_wait=wait)  # 2.5 in the baseline
    (found,) = run.decided("more-ilp")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(wait / 2.5))
    assert found.reason.endswith("so that a scheduler has 3.80 and 2.80 warps to choose from")


@pytest.mark.parametrize(
    ("us", "verdict"), [(240.0, "reproduced"), (249.7, "reproduced"), (249.8, "not_reproduced")]
)
def test_a_fill_that_costs_a_percent_is_not_negligible(run, us, verdict):
    run.change(SUBJECT, "nf4_launches", kernel_time=us)  # 247.3 with the other
    (found,) = run.decided("amortised-fill")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(us / 247.3))


def test_counters_say_what_a_batch_keeps_under_way(run):
    times = {"tma_swizzle": 6000.0, "tma_batched": 3000.0}
    problem = made.matrix_problem(32768)
    moved = {"bytes": {"read": problem["n"] * 4, "written": problem["n"] * 4}}
    rows = [made.record(problem, kernel, [us], **moved) for kernel, us in times.items()]
    matrix = made.results("transpose", "matrix", rows)
    alone = made.decided(matrix)["batched", "random"]
    assert (alone.verdict, len(alone.evidence)) == ("reproduced", 2)
    assert alone.reason == "tma_swizzle: 1432 GB/s, tma_batched: 2863 GB/s"
    run.change("tma_swizzle", "transpose_counters", warps_launched=32e6)
    both = made.decided(matrix, *run.files.values())["batched", "random"]
    assert (both.verdict, both.ours, len(both.evidence)) == ("reproduced", alone.ours, 4)
    assert both.reason == (
        f"{alone.reason}; tiles under way on a multiprocessor at once: 1.88 (7.68 kB) and 15.0 "
        "(61.4 kB)"
    )


NEEDED = {
    ("nf4_counters", SUBJECT): {*CLAIMS} - {"smem-64-bytes", "memory-bound", "constant-broadcast"}
    - {"swizzle-conflicts"},
    ("nf4_counters", BASELINE): {"instructions-71", "lut-traffic-64", "no-divergence", "more-ilp"}
    | {"memory-bound", "broadcast-no-conflicts"},
    ("nf4_counters", READER): {"lut-traffic-64"},
    ("nf4_counters", OTHER_FILL): {"amortised-fill"},
    ("nf4_counters", IMMEDIATES): {"immediates-icache"},
    ("nf4_counters", CONSTANT): {"constant-broadcast"},
    ("nf4_launches", SUBJECT): {"smem-64-bytes", "occupancy-2-3", "immediates-icache"}
    | {"amortised-fill"},
    ("divergence_counters", CONSTANT): {"constant-broadcast"},
    ("transpose_counters", "tma_naive"): {"swizzle-conflicts"},
    ("sass", SUBJECT): {"instructions-71", "no-divergence", "occupancy-2-3", "immediates-icache"},
}  # fmt: skip


@pytest.mark.parametrize("place", NEEDED, ids="/".join)
def test_a_missing_or_failed_row_decides_nothing(run, place):
    rows = run.rows(*place)
    if place[0] != "sass":  # of which nothing ran, nor failed
        made.fail(rows[-1], "mismatch")
        rows[-1]["launch"] = None
        assert all("not_testable" in run.words(claim) for claim in NEEDED[place])
    for row in rows:
        run.files[place[0]]["records"].remove(row)
    if run.files[place[0]]["records"]:
        assert {c for c in CLAIMS if "not_tested" in run.words(c)} == NEEDED[place]


NOTHING = [
    ("blocks_launched", SUBJECT, {"lut-traffic-64", "no-divergence", "occupancy-2-3"}),
    ("divergent_targets", BASELINE, {"no-divergence"}),
    ("stall_wait", BASELINE, {"more-ilp"}),
    ("warp_instructions", BASELINE, {"instructions-71"}),
]


@pytest.mark.parametrize(("metric", "kernel", "claims"), NOTHING)
def test_what_counts_nothing_divides_nothing(run, metric, kernel, claims):
    run.change(kernel, **{metric: 0})
    assert all("not_testable" in run.words(claim) for claim in claims)


def test_code_that_takes_no_registers_is_no_code(run):
    run.code(SUBJECT, "sm_80", "registers", 0)
    assert run.words("occupancy-2-3")[0] == "not_testable"


@pytest.mark.parametrize(
    ("metric", "claims"),
    [
        ("stall_wait", {"more-ilp"}),
        ("stall_short_scoreboard", {"more-ilp"}),
        ("stall_long_scoreboard", {"more-ilp", "memory-bound"}),
        ("stall_no_instruction", {"immediates-icache"}),
        ("stall_barrier", {"amortised-fill"}),
        ("icc_misses", set()),  # is shown, and decides nothing
    ],
)
def test_a_counter_that_the_gpu_lacks(run, metric, claims):
    for row in run.files["nf4_counters"]["records"]:
        row["metrics"] = [
            {"name": m["name"], "unit": m["unit"], "missing": "not on this chip"}
            if m["name"] == metric
            else m
            for m in row["metrics"]
        ]
    changed = {c for c in CLAIMS if run.words(c) != AS_ON_AN_H200[c]}
    assert changed == claims
    assert all("not_testable" in run.words(claim) for claim in claims)


def test_other_output_types_decide_nothing(run):
    for row in run.files["nf4_counters"]["records"]:
        row["problem"]["output"] = "bf16"
    (found,) = run.decided("memory-bound")
    assert found.verdict == "not_testable"
    assert found.reason.startswith("decided on problems with output fp16 and block_size 64 and ")


def test_code_alone_decides_for_the_papers_gpu_and_for_no_other(run):
    found = made.decided(run.files["sass"])
    assert found["instructions-71", PAPERS_GPU].verdict == "reproduced"
    here = found["instructions-71", THIS_GPU]
    assert (here.verdict, here.reason) == ("not_tested", "nothing ran on a GPU")


def test_code_for_another_gpu_does_not_decide_for_this_one(run):
    for file in run.files.values():
        if file["provenance"]["gpu"]:
            file["provenance"]["gpu"]["compute_capability"] = "8.6"
    found = run.decided("instructions-71")
    assert [v.verdict for v in found] == ["not_reproduced", "reproduced", "not_tested"]
    assert found[2].reason == "sass.json has no branch_tree for sm_86"

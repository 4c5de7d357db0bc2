"""Runs that went otherwise than the recorded ones: rows that failed, or were not measured, or are
missing, clocks that differ, another GPU. A golden file for each experiment has what tables, figures
and sentences then show instead; of the recorded run itself test_recorded_tables.py has it.
"""

from collections.abc import Callable

import made
import pytest
from edited import Edited, changes

EDITS: dict[str, list[Callable[[Edited], None]]] = {}
LAYER, NESTED = "28672x8192/fp16/b64", "28672x8192/fp16/b64-nested"
REFUSED = "its rows are not aligned"


def edits(*experiments: str) -> Callable[[Callable[[Edited], None]], Callable[[Edited], None]]:
    def register(edit: Callable[[Edited], None]) -> Callable[[Edited], None]:
        for name in experiments:
            EDITS.setdefault(name, []).append(edit)
        return edit

    return register


def set_metric(row: dict, name: str, samples: list[float]) -> None:
    (found,) = (m for m in row["metrics"] if m["name"] == name)
    found["samples"] = samples


def not_counted(row: dict, *names: str) -> None:
    for metric in row["metrics"]:
        if metric["name"] in names or not names:
            metric.pop("samples", None)
            metric["missing"] = "no permission: see the driver's setting"


def fail_all(run: Edited, passes="*", kernel="*", problem="*", outcome="unsupported", why=REFUSED):
    for row in run.rows(passes, kernel, problem):
        if "arch" not in row["problem"]:
            made.fail(row, outcome, why)


def clock(row: dict, mhz: float | None) -> None:
    row["clocks"]["sm_mhz_during"] = mhz


ALL = (
    *("ceilings", "counters", "end_to_end", "ladder", "product", "puzzle", "streaming", "table2"),
    "transpose",
)


@edits(*ALL)
def every_row_failed(run):
    fail_all(run)


@edits("ceilings", "product", "puzzle", "streaming", "transpose")
def no_ceilings(run):
    run.drop(lambda row: row["origin"]["kind"] == "ceiling")


@edits("ceilings")
def the_fastest_form_is_wrong(run):
    made.fail(run.row("sweep", "copy_128x2_evict_last_plain", "copy/448MiB"), "mismatch")


@edits("ceilings")
def a_size_did_not_fit(run):
    fail_all(run, problem="copy/3072MiB", why="needs 24.0 GiB of device memory")


@edits("ceilings")
def a_family_was_not_swept(run):
    run.drop(lambda row: row["problem"]["family"] == "even")


@edits("counters")
def nothing_was_counted(run):
    for row in run.rows("*_counters"):
        not_counted(row)


@edits("counters")
def two_counters_are_missing(run):
    for row in run.rows("nf4_counters"):
        not_counted(row, "l2_hit_rate", "active_warps")


@edits("counters")
def a_counted_output_is_wrong(run):
    fail_all(run, "nf4_counters", "constant_lut", outcome="mismatch", why="1 of 8 weights differ")


@edits("counters")
def the_baseline_was_not_counted(run):
    run.drop(lambda row: row["kernel"] == "tma_naive", "transpose_counters")


@edits("counters")
def launches_of_several_kernels_and_of_unknown_occupancy(run):
    launch = run.row("nf4_launches", "shared_lut", LAYER)["launch"]
    launch["kernels"].append(launch["kernels"][0] | {"registers": 16})
    (kernel,) = run.row("transpose_launches", "tiled")["launch"]["kernels"]
    kernel["blocks_per_multiprocessor"] = None


@edits("counters")
def a_walk_is_wrong_and_others_ran_at_odd_clocks(run):
    made.fail(run.row("latency", "global_dram"), "mismatch", "1 of 1 ends differ")
    clock(run.row("latency", "global_l2"), 1000)
    clock(run.row("latency", "global_l1"), None)


@edits("counters")
def four_fifths_of_what_is_saved_is_divergence(run):
    times = {"branch_tree": (500.0, 300.0), "shared_lut": (250.0, 240.0)}
    for kernel, both in times.items():
        for problem, us in zip((LAYER, f"{LAYER}/equal"), both, strict=True):
            made.set_times(run.row("divergence", kernel, problem), [us] * 5)


@edits("counters")
def nothing_is_saved(run):
    made.set_times(run.row("divergence", "shared_lut", LAYER), [1000.0] * 5)


@edits("counters")
def a_row_of_equal_codes_is_wrong(run):
    made.fail(run.row("divergence", "branch_tree", "*/equal"), "mismatch")


@edits("end_to_end")
def a_small_difference(run):
    for kernel, us in (("branch_tree", 100e3), ("streaming", 99.9e3)):
        row = run.row("timing", kernel, "qwen3-32b/batch8/graph")
        set_metric(row, "wall_time.step", [us] * 3)


@edits("end_to_end")
def a_kernel_is_wrong_everywhere(run):
    fail_all(run, kernel="shared_lut", problem="*/batch8/*", outcome="mismatch", why="1 differs")


@edits("end_to_end")
def a_kernel_fails_in_the_graph_alone(run):
    fail_all(run, kernel="streaming", problem="*/batch8/graph", why="cannot be captured: it waits")


@edits("end_to_end")
def the_profile_was_lost(run):
    fail_all(run, "profile", why="CUPTI recorded 3 of 448 dequantizations")


@edits("end_to_end")
def one_batch_alone(run):
    run.drop(lambda row: row["problem"]["batch"] != 8)


@edits("end_to_end")
def a_model_did_not_fit(run):
    fail_all(run, problem="llama-3.3-70b/*", why="out of memory")


@edits("end_to_end")
def no_graph(run):
    run.drop(lambda row: row["problem"]["way"] == "graph")


@edits("end_to_end")
def some_samples_are_of_a_slow_host(run):
    first, second, *_ = run.rows("timing")
    first["disturbed"] = {"repeated": 5, "kept": 2}
    second["disturbed"] = {"repeated": 5, "kept": 0}


@edits("end_to_end")
def fewer_tokens_were_generated_than_asked_for(run):
    row = run.row("timing", "bitsandbytes_0.50.2", "qwen3-32b/batch2/graph")
    row["problem"]["generated"] = 8
    row |= {"outcome": "deviation_as_declared", "mismatches": 9}


@edits("ladder")
def two_steps_are_not_told_apart(run):
    made.set_times(run.row("plain", "global_lut"), [200.0, 210.0, 220.0, 230.0, 240.0])
    made.set_times(run.row("plain", "shared_lut"), [199.0, 209.0, 219.0, 229.0, 239.0])


@edits("ladder")
def a_step_failed_and_another_did_not_run(run):
    made.fail(run.row("plain", "packed_store"), "mismatch")
    run.drop(lambda row: row["kernel"] == "wide_store_hints", "plain")


@edits("ladder")
def steps_were_not_counted(run):
    for row in run.rows("plain_counters"):
        not_counted(row)


@edits("ladder")
def the_last_step_has_other_shapes(run):
    row = run.row("plain_launches", "streaming")
    kernel = {"grid": [row["problem"]["n"] // 8 // 1024, 1, 1], "block": [1024, 1, 1]}
    row["launch"]["kernels"][0] |= kernel
    run.row("nested_launches", "streaming")["launch"] = None


@edits("product")
def no_other_library(run):
    run.drop(lambda row: row["kernel"].startswith("bitsandbytes"))


@edits("product")
def a_product_is_outside_its_bound(run):
    fail_all(run, kernel="many_rows", problem="64x28672x8192/*", outcome="mismatch", why="3 of 9")


@edits("product")
def an_exact_kernel_multiplies_by_other_weights(run):
    row = run.row("one_hot", "few_rows_exact", "8x*/fp16/*")
    made.fail(row, "mismatch", "5 of 4194304 weights are not those that dequantization writes")


@edits("puzzle")
def a_kernel_was_not_measured_and_one_is_wrong(run):
    made.fail(run.row("mlps", "shared_lut"), "not_measured", "CUPTI dropped 3 records")
    made.fail(run.row("mlps", "constant_lut"), "mismatch", "4096x14336.up: 1 of 8 weights differ")


@edits("puzzle")
def the_fastest_ceiling_failed(run):
    made.fail(run.row("mlps", "copy_kernel"), "launch_failed")
    made.fail(run.row("mlps", "same_bytes"), "launch_failed")


@edits("puzzle")
def a_library_cannot_be_captured(run):
    row = run.row("mlps", "bitsandbytes_0.47.0")
    graphs = [m for m in row["metrics"] if m["name"].startswith("kernel_time")]
    not_counted(row, *(m["name"] for m in graphs))


@edits("puzzle")
def no_library_ran(run):
    run.drop(lambda row: row["origin"]["kind"] == "peer")


@edits("streaming")
def no_difference_was_seen(run):
    close = [99.0, 100.0, 101.0, 100.0, 100.0]
    for name, kernel in (("layers", "bitsandbytes_0.50.2"), ("layers_nested", "two_launches")):
        made.set_times(run.row(name, "streaming", "28672x8192/*"), close)
        made.set_times(run.row(name, kernel, "28672x8192/*"), close[::-1])


@edits("streaming", "transpose")
def no_peer_ran(run):
    run.drop(lambda row: row["origin"]["kind"] == "peer")


@edits("streaming")
def our_kernel_is_absent(run):
    run.drop(lambda row: row["kernel"] == "streaming")


@edits("streaming")
def one_row_of_each_pass_failed(run):
    made.fail(run.row("layers", "streaming", LAYER), "mismatch")
    made.fail(run.row("layers", "bitsandbytes_0.50.2", "1024x5120/*"), "unsupported", REFUSED)
    made.fail(run.row("places", "streaming", LAYER), "launch_failed", "was stuck")
    made.fail(run.row("shapes", "streaming", "1024x4096/fp16/b64"), "unsupported", REFUSED)


@edits("table2")
def rows_that_failed_or_cannot_run(run):
    made.fail(run.row("replay", "shared_lut", "*/batch8/*"), "mismatch", "3 of 4 weights differ")
    fail_all(run, kernel="bitsandbytes_0.47.0", why="libbitsandbytes.so was not found")


@edits("table2")
def the_worst_deviation_is_not_the_first(run):
    first, second = run.rows("shapes", "shared_lut_algorithm1")
    first |= {"reason": "88 of 100 weights differ", "mismatches": 88}
    second |= {"outcome": "unsupported", "reason": "needs more", "mismatches": 90, "metrics": []}


@edits("table2")
def kernels_that_are_not_told_apart(run):
    for row in run.rows(kernel="global_lut"):
        (name,) = (p for p in run.files if row in run.files[p]["records"])
        fastest = run.row(name, "streaming", row["problem"]["name"])
        row["metrics"] = fastest["metrics"]
    tree = run.row("shapes", "branch_tree", "1024x5120/*")
    run.row("shapes", "constant_lut", "1024x5120/*")["metrics"] = tree["metrics"]


@edits("table2")
def a_slower_ceiling(run):
    made.set_times(run.row("shapes", "same_bytes", "1024x5120/*"), [1.0] * 5)


@edits("table2")
def clocks_that_are_too_far_apart(run):
    """2 percent, and just less of it; a row without a time has no say."""
    for row in run.rows():
        clock(row, 1980)
    clock(run.row("replay", "shared_lut", "*/batch8/*"), 1800)
    clock(run.row("replay", "streaming", "*/batch8/*"), 1940.4)
    for kernel, mhz in (("streaming", 1935), ("global_lut", 1930), ("copy", 1700)):
        clock(run.row("shapes", kernel, "1024x5120/*"), mhz)
    clock(run.row("shapes", "streaming", "25600x5120/*"), 1940.4)
    made.fail(run.row("shapes", "constant_lut", "25600x5120/*"), "mismatch")
    clock(run.row("shapes", "constant_lut", "25600x5120/*"), 3000)


@edits("table2")
def a_check_that_failed(run):
    keys = [run.files["replay"]["records"][0]["key"]]
    bad = {"name": "b", "first": 75000.0, "second": 73000.0, "unit": "us", "keys": keys}
    run.files["replay"]["checks"].append(bad | {"allowed_percent": 1.0})


@edits("table2")
def layers_that_did_not_fit(run):
    for row in run.rows("replay"):
        row["problem"]["layers_resident"] = 20


@edits("ladder", "puzzle", "streaming", "table2", "transpose")
def the_fastest_kernel_passes_every_ceiling(run):
    for row in (*run.rows(kernel="streaming"), *run.rows(kernel="column_walk")):
        for metric in row["metrics"]:
            if metric["name"] == "kernel_time" and "samples" in metric:
                metric["samples"] = [us / 3 for us in metric["samples"]]


@edits("transpose")
def no_theoretical_bandwidth_and_no_tma(run):
    run.provenance(gpu={"theoretical_bandwidth_gb_s": None})
    fail_all(run, kernel="*tma_*", why="TMA needs compute capability 9.0, this GPU has 8.0")


@edits("transpose")
def a_smaller_matrix(run):
    for row in run.rows("matrix"):
        row["problem"] |= {"rows": 16384, "columns": 16384, "n": 16384**2}


@edits("transpose")
def a_wrong_kernel(run):
    for row in (*run.rows("matrix", "tiled"), run.row("sizes", "tiled", "1000x*")):
        made.fail(row, "mismatch", "first at row 1")
        row["mismatches"] = 5


@edits("transpose")
def no_constant_matrix_and_no_mojo(run):
    run.drop(lambda row: row["problem"]["data"] == "constant")
    run.drop(lambda row: row["kernel"].startswith("mojo"))


@edits("transpose")
def mojo_was_not_compiled(run):
    fail_all(run, kernel="mojo_*", why="is not compiled for sm_100; make mojo ARCH=100")


@pytest.mark.parametrize("name", EDITS)
def test_what_is_shown_otherwise(name, golden, tmp_path):
    before, lines = Edited(name, tmp_path / name).shown(), []
    for edit in EDITS[name]:
        run = Edited(name, tmp_path / name)
        edit(run)
        found = list(changes(before, run.shown()))
        assert found, edit.__name__
        lines += [f"## {edit.__name__.replace('_', ' ')}", *found, ""]
    golden(f"edited-{name}.txt", "\n".join(lines))

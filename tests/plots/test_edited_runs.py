"""Runs that differ from the recorded ones: failed, unmeasured or missing rows, different clocks,
another GPU. A golden file for each experiment has the differences in tables, figures and sentences;
test_recorded_tables.py covers the recorded run itself.
"""

from collections.abc import Callable

import made
import pytest
from edited import Edited, changes, scale

Edit = Callable[[Edited], None]
LAYER = "28672x8192/fp16/b64"
REFUSED = "its rows are not aligned"


def failed(
    passes: str = "*",
    kernel: str = "*",
    problem: str = "*",
    outcome: str = "unsupported",
    why: str = REFUSED,
) -> Edit:
    """Edits all matching rows, except those of compiled code."""

    def edit(run: Edited) -> None:
        for row in run.rows(passes, kernel, problem):
            if "arch" not in row["problem"]:
                made.fail(row, outcome, why)

    return edit


def dropped(which: Callable[[dict], bool], passes: str = "*") -> Edit:
    return lambda run: run.drop(which, passes)


def timed(passes: str, kernel: str, us: list[float], problem: str = "*") -> Edit:
    return lambda run: made.set_times(run.row(passes, kernel, problem), us)


def clocked(passes: str, kernel: str, problem: str, mhz: float | None) -> Edit:
    def edit(run: Edited) -> None:
        run.row(passes, kernel, problem)["clocks"]["sm_mhz_during"] = mhz

    return edit


def uncounted(passes: str, *names: str, kernel: str = "*") -> Edit:
    """These metrics, or all."""

    def edit(run: Edited) -> None:
        for metric in (m for row in run.rows(passes, kernel) for m in row["metrics"]):
            if any(metric["name"].startswith(name) for name in names or ("",)):
                metric.pop("samples", None)
                metric["missing"] = "no permission: see the driver's setting"

    return edit


def all_of(*edits: Edit) -> Edit:
    def edit(run: Edited) -> None:
        for one in edits:
            one(run)

    return edit


def is_ceiling(row: dict) -> bool:
    return row["origin"]["kind"] == "ceiling"


def is_peer(row: dict) -> bool:
    return row["origin"]["kind"] == "peer"


def several_launches_and_unknown_occupancy(run):
    launch = run.row("nf4_launches", "shared_lut", LAYER)["launch"]
    launch["kernels"].append(launch["kernels"][0] | {"registers": 16})
    (kernel,) = run.row("transpose_launches", "tiled")["launch"]["kernels"]
    kernel["blocks_per_multiprocessor"] = None


def a_small_difference(run):
    for kernel, us in (("branch_tree", 100e3), ("streaming", 99.9e3)):
        row = run.row("timing", kernel, "qwen3-32b/batch8/graph")
        (metric,) = (m for m in row["metrics"] if m["name"] == "wall_time.step")
        metric["samples"] = [us] * 3


def a_slow_host(run):
    first, second, *_ = run.rows("timing")
    first["disturbed"] = {"repeated": 5, "kept": 2}
    second["disturbed"] = {"repeated": 5, "kept": 0}


def other_shapes(run):
    row = run.row("plain_launches", "streaming")
    kernel = {"grid": [row["problem"]["n"] // 8 // 1024, 1, 1], "block": [1024, 1, 1]}
    row["launch"]["kernels"][0] |= kernel
    run.row("nested_launches", "streaming")["launch"] = None


def no_difference(run):
    close = [99.0, 100.0, 101.0, 100.0, 100.0]
    for name, kernel in (("layers", "bitsandbytes_0.50.2"), ("layers_nested", "two_launches")):
        made.set_times(run.row(name, "streaming", "28672x8192/*"), close)
        made.set_times(run.row(name, kernel, "28672x8192/*"), close[::-1])


def the_worst_deviation_is_not_the_first(run):
    first, second = run.rows("shapes", "shared_lut_algorithm1")
    first |= {"reason": "88 of 100 weights differ", "mismatches": 88}
    second |= {"outcome": "unsupported", "reason": "needs more", "mismatches": 90, "metrics": []}


def kernels_that_are_not_told_apart(run):
    for name in run.files:
        for row in run.rows(name, "global_lut"):
            row["metrics"] = run.row(name, "streaming", row["problem"]["name"])["metrics"]
    tree = run.row("shapes", "branch_tree", "1024x5120/*")
    run.row("shapes", "constant_lut", "1024x5120/*")["metrics"] = tree["metrics"]


def clocks_that_are_too_far_apart(run):
    """2 percent, and just less; a row without a time does not count."""
    for row in run.rows():
        row["clocks"]["sm_mhz_during"] = 1980
    small, large = "1024x5120/*", "25600x5120/*"
    for place in (
        ("replay", "shared_lut", "*/batch8/*", 1800),
        ("replay", "streaming", "*/batch8/*", 1940.4),
        ("shapes", "streaming", small, 1935),
        ("shapes", "global_lut", small, 1930),
        ("shapes", "copy", small, 1700),
        ("shapes", "streaming", large, 1940.4),
        ("shapes", "constant_lut", large, 3000),
    ):
        clocked(*place)(run)
    made.fail(run.row("shapes", "constant_lut", large), "mismatch")


def a_check_that_failed(run):
    keys = [run.files["replay"]["records"][0]["key"]]
    bad = {"name": "b", "first": 75000.0, "second": 73000.0, "unit": "us", "keys": keys}
    run.files["replay"]["checks"].append(bad | {"allowed_percent": 1.0})


def layers_that_did_not_fit(run):
    for row in run.rows("replay"):
        row["problem"]["layers_resident"] = 20


def passes_every_ceiling(run):
    scale((*run.rows(kernel="streaming"), *run.rows(kernel="column_walk")), 1 / 3, "kernel_time")


def a_smaller_matrix(run):
    for row in run.rows("matrix"):
        row["problem"] |= {"rows": 16384, "columns": 16384, "n": 16384**2}


def a_wrong_kernel(run):
    for row in (*run.rows("matrix", "tiled"), run.row("sizes", "tiled", "1000x*")):
        made.fail(row, "mismatch", "first at row 1")
        row["mismatches"] = 5


WRONG = {"outcome": "mismatch", "why": "1 of 8 weights differ"}
EVERY = {"every row failed": failed()}
NO_CEILINGS = {"no ceilings": dropped(is_ceiling)}
NO_PEER = {"no peer ran": dropped(is_peer)}
PASSES = {"the fastest kernel passes every ceiling": passes_every_ceiling}
EDITS: dict[str, dict[str, Edit]] = {
    "counters": {
        **EVERY,
        "nothing was counted": uncounted("*_counters"),
        "two counters are missing": uncounted("nf4_counters", "l2_hit_rate", "active_warps"),
        "a counted output is wrong": failed("nf4_counters", "constant_lut", **WRONG),
        "the baseline was not counted": dropped(
            lambda row: row["kernel"] == "tma_naive", "transpose_counters"
        ),
        "launches of several kernels and of unknown occupancy": (
            several_launches_and_unknown_occupancy
        ),
        "a chase is wrong and others ran at odd clocks": all_of(
            failed("latency", "global_dram", outcome="mismatch", why="1 of 1 ends differ"),
            clocked("latency", "global_l2", "*", 1000),
            clocked("latency", "global_l1", "*", None),
        ),
        "four fifths of what is saved is divergence": all_of(
            timed("divergence", "branch_tree", [500.0] * 5, LAYER),
            timed("divergence", "branch_tree", [300.0] * 5, f"{LAYER}/equal"),
            timed("divergence", "shared_lut", [250.0] * 5, LAYER),
            timed("divergence", "shared_lut", [240.0] * 5, f"{LAYER}/equal"),
        ),
        "nothing is saved": timed("divergence", "shared_lut", [1000.0] * 5, LAYER),
        "a row of equal codes is wrong": failed("divergence", "branch_tree", "*/equal", **WRONG),
    },
    "end_to_end": {
        **EVERY,
        "a small difference": a_small_difference,
        "a kernel is wrong everywhere": failed(
            "*", "shared_lut", "*/batch8/*", "mismatch", "1 differs"
        ),
        "a kernel fails in the graph alone": failed(
            "*", "streaming", "*/batch8/graph", why="cannot be captured: it waits"
        ),
        "the profile was lost": failed("profile", why="CUPTI recorded 3 of 448 dequantizations"),
        "one batch alone": dropped(lambda row: row["problem"]["batch"] != 8),
        "a model did not fit": failed(problem="llama-3.3-70b/*", why="out of memory"),
        "no graph": dropped(lambda row: row["problem"]["way"] == "graph"),
        "some samples are of a slow host": a_slow_host,
        "neither of our ways ran": dropped(lambda row: row["kernel"] in ("streaming", "fused")),
        "a GPU without times of products": failed(
            "*", "fused", outcome="unsupported", why="no times of products are recorded"
        ),
        "no bitsandbytes as it is installed": dropped(lambda row: row["lineage"] == "as installed"),
    },
    "ladder": {
        **EVERY,
        "two steps are not told apart": all_of(
            timed("plain", "global_lut", [200.0, 210.0, 220.0, 230.0, 240.0]),
            timed("plain", "shared_lut", [199.0, 209.0, 219.0, 229.0, 239.0]),
        ),
        "a step failed and another did not run": all_of(
            failed("plain", "packed_store", **WRONG),
            dropped(lambda row: row["kernel"] == "wide_store_hints", "plain"),
        ),
        "steps were not counted": uncounted("plain_counters"),
        "the last step has other shapes": other_shapes,
        **PASSES,
    },
    "product": {
        **(EVERY | NO_CEILINGS),
        "no other library": dropped(lambda row: row["kernel"].startswith("bitsandbytes")),
        "a product is outside its bound": failed(
            "*", "many_rows", "64x28672x8192/*", "mismatch", "3 of 9"
        ),
        "an exact kernel multiplies by other weights": failed(
            "one_hot",
            "few_rows_exact",
            "8x*/fp16/*",
            "mismatch",
            "5 of 4194304 weights are not those that dequantization writes",
        ),
        "under PyTorch ours was not measured": dropped(
            lambda row: row["kernel"] == "fused", "peers"
        ),
    },
    "puzzle": {
        **(EVERY | NO_CEILINGS),
        "a kernel was not measured and one is wrong": all_of(
            failed("mlps", "shared_lut", "*", "not_measured", "CUPTI dropped 3 records"),
            failed("mlps", "constant_lut", "*", "mismatch", f"4096x14336.up: {WRONG['why']}"),
        ),
        "the fastest ceiling failed": all_of(
            failed("mlps", "copy_kernel", "*", "launch_failed", WRONG["why"]),
            failed("mlps", "same_bytes", "*", "launch_failed", WRONG["why"]),
        ),
        "a library cannot be captured": uncounted(
            "mlps", "kernel_time", kernel="bitsandbytes_0.47.0"
        ),
        "no library ran": dropped(is_peer),
        **PASSES,
    },
    "streaming": {
        **(EVERY | NO_CEILINGS),
        "no difference was seen": no_difference,
        **NO_PEER,
        "our kernel is absent": dropped(lambda row: row["kernel"] == "streaming"),
        "one row of each pass failed": all_of(
            failed("layers", "streaming", LAYER, **WRONG),
            failed("layers", "bitsandbytes_0.50.2", "1024x5120/*"),
            failed("places", "streaming", LAYER, "launch_failed", "was stuck"),
            failed("shapes", "streaming", "1024x4096/fp16/b64"),
        ),
        **PASSES,
    },
    "table2": {
        **EVERY,
        "rows that failed or cannot run": all_of(
            failed("replay", "shared_lut", "*/batch8/*", "mismatch", "3 of 4 weights differ"),
            failed("*", "bitsandbytes_0.47.0", why="libbitsandbytes.so was not found"),
        ),
        "the worst deviation is not the first": the_worst_deviation_is_not_the_first,
        "kernels that are not told apart": kernels_that_are_not_told_apart,
        "a slower ceiling": timed("shapes", "same_bytes", [1.0] * 5, "1024x5120/*"),
        "clocks that are too far apart": clocks_that_are_too_far_apart,
        "a check that failed": a_check_that_failed,
        "layers that did not fit": layers_that_did_not_fit,
        **PASSES,
    },
    "transpose": {
        **(EVERY | NO_CEILINGS | NO_PEER | PASSES),
        "no theoretical bandwidth and no tma": all_of(
            lambda run: run.provenance(gpu={"theoretical_bandwidth_gb_s": None}),
            failed(kernel="*tma_*", why="TMA needs compute capability 9.0, this GPU has 8.0"),
        ),
        "a smaller matrix": a_smaller_matrix,
        "a wrong kernel": a_wrong_kernel,
        "no constant matrix and no mojo": all_of(
            dropped(lambda row: row["problem"]["data"] == "constant"),
            dropped(lambda row: row["kernel"].startswith("mojo")),
        ),
        "mojo was not compiled": failed(
            kernel="mojo_*", why="is not compiled for sm_100; make mojo ARCH=100"
        ),
    },
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_runs_change_the_golden_lines(name, golden, tmp_path):
    before, lines = Edited(name, tmp_path / name).shown(), []
    for title, edit in EDITS[name].items():
        run = Edited(name, tmp_path / name)
        edit(run)
        lines_changed = list(changes(before, run.shown()))
        assert lines_changed, title
        lines += [f"## {title}", *lines_changed, ""]
    golden(f"edited-{name}.txt", "\n".join(lines))

"""The transpose post's claims that the big matrix decides: each possible verdict."""

import made
import pytest

(POST,) = (source for source in made.all_sources() if source.id == "transpose_blog")
CUDA, MOJO = POST.tables["cuda_gb_s"], POST.tables["mojo_gb_s"]
NAIVE, SWIZZLE, BATCHED = "tma_naive", "tma_swizzle", "tma_batched"
PUBLISHED = "tma_batched_as_published"
RIGHT_IN_MOJO, PUBLISHED_IN_MOJO = "mojo_tma_batched", "mojo_tma_batched_as_published"
SPEEDS = {NAIVE: MOJO[NAIVE], SWIZZLE: MOJO[SWIZZLE], BATCHED: CUDA["tma_swizzle_batched"]}
SPEEDS |= {PUBLISHED: MOJO["tma_swizzle_batched"]}
WRONG = {"deviation": "as published", "outcome": "deviation_as_declared"}
WRONG |= {"reason": "939524096 of 1073741824 elements differ; first at row 4"}
RIGHT = {"outcome": "bit_exact", "reason": "", "mismatches": None}
CLAIMS = ("swizzle", "batched", "speeds", "correct")
NO_MOJO = "Mojo itself was not run; in CUDA: "
GAIN = {"swizzle": MOJO[SWIZZLE] / MOJO[NAIVE]}
GAIN |= {"batched": MOJO["tma_swizzle_batched"] / MOJO[SWIZZLE]}
RATIO = 2775.49 / 2771.35
THEIRS, RIGHTED = "the post's two kernels", "two kernels with right indices"


def us_at(gb_s, rows=32768):
    return 8 * rows * rows / gb_s / 1e3


def matrix_of(rows):
    """Every kernel as fast as the post says, its batched one in Mojo as wrong as it is."""
    moved = {"bytes": {"read": 4 * rows * rows, "written": 4 * rows * rows}}
    constant, random = made.matrix_problem(rows, "constant"), made.matrix_problem(rows)
    records = [made.record(constant, kernel, **moved) for kernel in SPEEDS]
    for kernel, gb_s in SPEEDS.items():
        us = us_at(gb_s, rows)
        records.append(made.record(random, kernel, [us * 0.999, us, us * 1.001], **moved))
    records[-1] |= WRONG | {"mismatches": 939524096}
    ceiling = {"origin": {"kind": "ceiling", "maker": ""}, "outcome": "not_verified"}
    records.append(made.record(random, "copy", [us_at(4000, rows)], **ceiling | moved))
    file = made.results("transpose", "matrix", records)
    return made.on("NVIDIA H100 80GB HBM3", file, theoretical_bandwidth_gb_s=3300)  # the post's own


@pytest.fixture
def matrix():
    return matrix_of(32768)


def row(matrix, kernel, data="random"):
    return next(r for r in made.rows_of(matrix, kernel) if r["problem"]["data"] == data)


def set_speed(matrix, kernel, gb_s):
    made.set_times(row(matrix, kernel), [us_at(gb_s)])


def add_mojo(matrix, kernel, gb_s, **changes):
    """Moves what its counterpart does."""
    cuda = row(matrix, kernel.removeprefix("mojo_"))
    origin = {"kind": "compiler", "maker": "Mojo (max-core 26.7.0)"}
    changes |= {"bytes": cuda["bytes"], "origin": origin}
    matrix["records"].append(made.record(cuda["problem"], kernel, [us_at(gb_s)], **changes))


def decided(matrix):
    verdicts = made.decided(matrix)
    of_mojo = {
        reading: verdicts["mojo-is-cuda-like", "random", reading] for reading in (THEIRS, RIGHTED)
    }
    return {claim: verdicts[claim, "random"] for claim in CLAIMS} | of_mojo


def test_the_posts_slower_kernels_in_mojo_and_in_cuda(matrix):
    """Its 1.21 and 1.15 times are required, and the gains of its CUDA kernels."""
    for kernel, gain in ((NAIVE, 1.2), (SWIZZLE, 0.95)):
        set_speed(matrix, kernel, CUDA[kernel])
        add_mojo(matrix, f"mojo_{kernel}", gain * CUDA[kernel])
    decisions = made.decisions(matrix)
    assert [v.verdict for v in decisions["mojo-over-cuda"].verdicts] == [
        "reproduced",
        "not_testable",  # ours are written anew
    ]
    cuda = {name: decisions[name].verdicts[1] for name in ("swizzle", "batched")}
    assert {name: v.verdict for name, v in cuda.items()} == dict.fromkeys(cuda, "reproduced")
    assert cuda["swizzle"].ours == pytest.approx(CUDA[SWIZZLE] / CUDA[NAIVE])


AS_PUBLISHED = ["reproduced"] * 3 + ["premise_false"] * 2 + ["not_testable"]


@pytest.mark.parametrize("rows", [32768, 16384, 16416])
def test_on_the_posts_own_numbers_all_holds_but_its_indices(rows):
    verdicts = decided(matrix_of(rows))
    assert [v.verdict for v in verdicts.values()] == AS_PUBLISHED
    keys = {claim: [key for _, key in v.evidence] for claim, v in verdicts.items()}
    assert keys["batched"] == [f"{rows}x{rows}/{SWIZZLE}", f"{rows}x{rows}/{BATCHED}"]
    both = (f"{rows}x{rows}", f"{rows}x{rows}/constant")
    assert keys["correct"] == [f"{name}/{PUBLISHED}" for name in both]


@pytest.mark.parametrize("rows", [16352, 16385, 16400])
def test_other_matrices_decide_nothing(rows):
    for v in decided(matrix_of(rows)).values():
        assert (v.verdict, v.ours) == ("not_testable", None)
        condition = "decided on problems with rows at least 16384 and multiple of 32; "
        assert v.reason.startswith(condition)
        assert v.reason.split(" ran on ")[1].startswith(f"{rows}x{rows}")


@pytest.mark.parametrize("claim", ["swizzle", "batched"])
@pytest.mark.parametrize(
    ("share", "verdict"),
    [(5.0, "reproduced"), *made.around(0.9, guards=made.guards(0.475, 2))],
)
def test_a_gain_needs_nine_tenths_of_the_posts_and_may_exceed_it(matrix, claim, share, verdict):
    slow, fast = (NAIVE, SWIZZLE) if claim == "swizzle" else (SWIZZLE, BATCHED)
    set_speed(matrix, slow, 1000)
    set_speed(matrix, fast, 1000 * share * GAIN[claim])
    v = decided(matrix)[claim]
    assert (v.verdict, v.ours) == (verdict, pytest.approx(share * GAIN[claim]))
    speeds = f"{slow}: 1000 GB/s, {fast}: {1000 * share * GAIN[claim]:.0f} GB/s"
    assert v.reason.startswith(f"{NO_MOJO}{speeds}; the source has ")
    assert f"{100 * (share - 1):+.1f} % from the source's" in v.reason
    assert v.why == speeds or verdict == "undecided"


def test_the_share_of_the_peak_is_of_the_posts_gpu(matrix):
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = 4800
    us = us_at(48 * 84.1056 * 1.05)
    made.set_times(row(matrix, PUBLISHED), [us / 1.02, us, us * 1.01])
    v = decided(matrix)["speeds"]
    assert (v.verdict, v.ours) == ("reproduced", pytest.approx(84.1056 * 1.05))
    assert v.interval == pytest.approx((v.ours / 1.01, v.ours * 1.02))
    assert v.reason.endswith(" 106.0 %")
    v = decided(made.on("NVIDIA H200", matrix))["speeds"]
    assert (v.verdict, v.elsewhere, v.ours) == ("not_testable", True, pytest.approx(84.1056 * 1.05))
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = None
    v = decided(matrix)["speeds"]
    text = "this GPU does not say its theoretical bandwidth"
    assert (v.verdict, v.reason) == ("not_testable", NO_MOJO + text)


def test_the_posts_speeds_are_those_of_its_gpu_and_language(matrix):
    """One cell for each of the post's three kernels, in its CUDA and in its Mojo."""
    set_speed(matrix, SWIZZLE, CUDA["tma_swizzle"])
    add_mojo(matrix, "mojo_tma_naive", 500)
    *speeds, _ = made.decisions(matrix)["speeds"].verdicts
    assert [v.cell.at["kernel"] for v in speeds] == [*CUDA, *MOJO]
    assert [v.cell.value for v in speeds] == [*CUDA.values(), *MOJO.values()]
    assert [v.verdict for v in speeds[1:3]] == ["reproduced"] * 2
    of_cuda, of_mojo = speeds[::3]
    assert (of_cuda.ours, of_mojo.ours) == (pytest.approx(MOJO[NAIVE]), pytest.approx(500))
    assert of_mojo.verdict == "not_testable" and "written anew" in of_mojo.why
    assert of_mojo.reason.endswith("; in CUDA 1056 GB/s")
    assert all(NO_MOJO in v.reason for v in speeds[4:])
    decision = made.decisions(made.on("NVIDIA H200", matrix))["speeds"]
    assert {v.verdict for v in decision.verdicts} == {decision.verdict} == {"not_testable"}


def test_the_same_task_needs_mojo_itself(matrix):
    row(matrix, PUBLISHED).update(RIGHT)
    set_speed(matrix, PUBLISHED, 3000)
    set_speed(matrix, BATCHED, 2000)
    verdicts = decided(matrix)
    assert (verdicts[THEIRS].verdict, verdicts["correct"].verdict) == ("reproduced", "reproduced")
    assert verdicts[THEIRS].reason.endswith(" 3000 GB/s")
    v = verdicts[RIGHTED]
    assert (v.verdict, v.ours) == ("not_testable", None) and "Mojo" in v.why
    assert made.decisions(matrix)["mojo-is-cuda-like"].verdict == "reproduced"


TASK = "not the same task: 7 of 8 elements are wrong, at "


@pytest.mark.parametrize(("share", "verdict"), [(1.5, "reproduced"), (0.5, "not_testable")])
@pytest.mark.parametrize("published", ["wrong", "right", "failed"])
def test_with_right_indices_mojo_itself_decides(matrix, share, verdict, published):
    """At a share of CUDA's 2771.35 GB/s, independent of the post's own kernel."""
    add_mojo(matrix, RIGHT_IN_MOJO, share * 2771.35)
    changes = WRONG | {"mismatches": 939524096} if published == "wrong" else {}
    add_mojo(matrix, PUBLISHED_IN_MOJO, 3000, **changes)
    if published == "failed":
        made.fail(row(matrix, PUBLISHED_IN_MOJO), "launch_failed", "out of resources")
    verdicts = decided(matrix)
    v = verdicts[RIGHTED]
    assert (v.verdict, v.ours, v.cell.value) == (verdict, pytest.approx(share), RATIO)
    speeds = f"{RIGHT_IN_MOJO}: {share * 2771.35:.0f} GB/s, {BATCHED}: 2771 GB/s"
    off = f"{100 * (share / RATIO - 1):+.1f} % from the source's value"
    assert f"{speeds}; {off}" in v.reason
    assert ("written anew" in v.why) is (verdict == "not_testable")
    of_task = {"wrong": "premise_false", "right": "reproduced", "failed": "not_testable"}
    assert verdicts[THEIRS].verdict == of_task[published]
    assert (verdicts[THEIRS].reason == f"{TASK}3000 GB/s") is (published == "wrong")


@pytest.mark.parametrize("kernel", [NAIVE, SWIZZLE])
def test_one_kernel_in_mojo_of_the_two_of_a_gain_decides_nothing(matrix, kernel):
    in_cuda = decided(matrix)["swizzle"]
    assert in_cuda.reason.startswith(NO_MOJO)
    add_mojo(matrix, f"mojo_{kernel}", 100)
    v = decided(matrix)["swizzle"]
    assert (v.ours, v.reason) == (in_cuda.ours, in_cuda.reason)


def test_mojo_decides_and_cuda_is_shown(matrix):
    """As fast as the post says in CUDA, and in Mojo at other speeds."""
    add_mojo(matrix, RIGHT_IN_MOJO, 2775.49)
    add_mojo(matrix, PUBLISHED_IN_MOJO, 3000, **WRONG)
    add_mojo(matrix, "mojo_tma_naive", 800)
    add_mojo(matrix, "mojo_tma_swizzle", 950)
    verdicts = decided(matrix)
    assert (verdicts["swizzle"].verdict, verdicts["batched"].verdict) == (
        "not_reproduced",
        "reproduced",
    )
    assert verdicts["swizzle"].ours == pytest.approx(950 / 800)
    assert verdicts["batched"].ours == pytest.approx(2775.49 / 950)
    gain = verdicts["swizzle"].reason
    assert gain.startswith("mojo_tma_naive: 800 GB/s, mojo_tma_swizzle: 950 GB/s; ")
    assert "1056.08 and 1437.55 GB/s" in gain and gain.endswith("; in CUDA 1.36 x")
    assert verdicts["speeds"].ours == pytest.approx(3000 / 33)
    assert verdicts["speeds"].reason.endswith("; in CUDA 84.1 %")
    matrix["records"].remove(row(matrix, SWIZZLE))
    assert decided(matrix)["swizzle"].reason == gain.partition("; in CUDA")[0]
    made.fail(row(matrix, PUBLISHED_IN_MOJO), "launch_failed", "out of resources")
    assert decided(matrix)["speeds"].verdict == "not_testable"  # CUDA does not take its place


@pytest.mark.parametrize("language", ["", "mojo_"])
def test_counters_say_how_much_is_under_way(matrix, language):
    problem, counts = row(matrix, BATCHED)["problem"], {"warps_launched": 4e6, "active_warps": 60}
    kernels = [f"{language}{kernel}" for kernel in (SWIZZLE, BATCHED)]
    counters = [made.counted(problem, k, counts | {"blocks_launched": 1e6}) for k in kernels]
    for kernel in kernels if language else ():
        add_mojo(matrix, kernel, 1000)
    v = made.decided(matrix, made.results("counters", "transpose_counters", counters))
    tiles = f"tiles of {' and '.join(kernels)} under way on a multiprocessor at once"
    text = f"; {tiles}: 15.0 (61.4 kB) and 15.0 (61.4 kB)"
    assert v["batched", "random"].reason.endswith(text)


@pytest.mark.parametrize("random", [RIGHT, WRONG])
def test_a_kernel_that_fails_the_posts_check_is_not_correct(matrix, random):
    row(matrix, PUBLISHED).update(random)
    constant = WRONG | {"reason": "1 of 8 elements differ"}
    row(matrix, PUBLISHED, "constant").update(constant)
    v = decided(matrix)["correct"]
    assert v.verdict == "not_reproduced" and v.reason.endswith("1 of 8 elements differ")

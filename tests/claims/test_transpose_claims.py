"""The transpose post's claims that the big matrix decides: each way that they can go."""

import made
import pytest

from claims.published import load_sources

POST = next(source for source in load_sources() if source.id == "transpose_blog")
CUDA, MOJO = POST.tables["cuda_gb_s"], POST.tables["mojo_gb_s"]
NAIVE, SWIZZLE, BATCHED = "tma_naive", "tma_swizzle", "tma_batched"
PUBLISHED = "tma_batched_as_published"
SPEEDS = {NAIVE: MOJO[NAIVE], SWIZZLE: MOJO[SWIZZLE], BATCHED: CUDA["tma_swizzle_batched"]}
SPEEDS |= {PUBLISHED: MOJO["tma_swizzle_batched"]}
WRONG = "939524096 of 1073741824 elements differ; first at row 4"
CLAIMS = {"swizzle": "random", "batched": "random", "84-percent": "random"}
CLAIMS |= {"mojo-is-cuda-like": "random", "correct": "random"}
NO_MOJO = "Mojo itself was not run; in CUDA: "
GAIN = {"swizzle": MOJO[SWIZZLE] / MOJO[NAIVE]}
GAIN |= {"batched": MOJO["tma_swizzle_batched"] / MOJO[SWIZZLE]}


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
    records[-1] |= {"deviation": "as published", "outcome": "deviation_as_declared"}
    records[-1] |= {"reason": WRONG, "mismatches": 939524096}
    ceiling = {"origin": {"kind": "ceiling", "maker": ""}, "outcome": "not_verified"}
    records.append(made.record(random, "copy", [us_at(4000, rows)], **ceiling | moved))
    file = made.results("transpose", "matrix", records)
    return made.on("NVIDIA H100 80GB HBM3", file, theoretical_bandwidth_gb_s=3300)  # the post's own


@pytest.fixture
def matrix():
    return matrix_of(32768)


def row(matrix, kernel, data="random"):
    return next(r for r in made.rows_of(matrix, kernel) if r["problem"]["data"] == data)


def drop(matrix, kernel, data="random"):
    matrix["records"].remove(row(matrix, kernel, data))


def set_speed(matrix, kernel, gb_s):
    made.set_times(row(matrix, kernel), [us_at(gb_s)])


def decided(matrix):
    found = made.decided(matrix)
    return {claim: found[claim, cell] for claim, cell in CLAIMS.items()}


def words(matrix):
    return {claim: v.verdict for claim, v in decided(matrix).items()}


AS_PUBLISHED = {
    "swizzle": "reproduced",
    "batched": "reproduced",
    "84-percent": "reproduced",
    "mojo-is-cuda-like": "premise_false",
    "correct": "premise_false",
}


def test_on_the_posts_own_numbers_all_holds_but_its_indices(matrix):
    assert words(matrix) == AS_PUBLISHED
    keys = {c: [key for _, key in v.evidence] for c, v in decided(matrix).items()}
    assert keys["batched"] == ["32768x32768/tma_swizzle", "32768x32768/tma_batched"]
    assert keys["correct"] == [
        "32768x32768/tma_batched_as_published",
        "32768x32768/constant/tma_batched_as_published",
    ]


@pytest.mark.parametrize("rows", [16384, 16416, 65536])
def test_large_matrices_of_whole_tiles_decide(rows):
    assert words(matrix_of(rows)) == AS_PUBLISHED


@pytest.mark.parametrize("rows", [1, 1024, 16352, 16383, 16385, 16400, 32767])
def test_other_matrices_decide_nothing(rows):
    for v in decided(matrix_of(rows)).values():
        assert (v.verdict, v.ours) == ("not_testable", None)
        condition = "decided on problems with rows at least 16384 and multiple of 32; "
        assert v.reason.startswith(condition)
        assert v.reason.split(" ran on ")[1].startswith(f"{rows}x{rows}")


@pytest.mark.parametrize("claim", ["swizzle", "batched"])
@pytest.mark.parametrize(("share", "verdict"), [(5.0, "reproduced"), *made.around(0.9)])
def test_a_gain_needs_nine_tenths_of_the_posts_and_may_exceed_it(matrix, claim, share, verdict):
    slow, fast = (NAIVE, SWIZZLE) if claim == "swizzle" else (SWIZZLE, BATCHED)
    set_speed(matrix, slow, 1000)
    set_speed(matrix, fast, 1000 * share * GAIN[claim])
    v = decided(matrix)[claim]
    assert (v.verdict, v.ours) == (verdict, pytest.approx(share * GAIN[claim]))
    speeds = f"{slow}: 1000 GB/s, {fast}: {1000 * share * GAIN[claim]:.0f} GB/s"
    assert v.reason.startswith(f"{NO_MOJO}{speeds}; {100 * (share - 1):+.1f} % from the source's")


@pytest.mark.parametrize(("factor", "verdict"), made.around(0.9, 1.1))
def test_the_share_of_the_peak_is_held_to_both_sides_on_the_posts_gpu(matrix, factor, verdict):
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = 4800
    set_speed(matrix, PUBLISHED, 48 * 84.1056 * factor)
    v = decided(matrix)["84-percent"]
    assert (v.verdict, v.ours) == (verdict, pytest.approx(84.1056 * factor))
    v = decided(made.on("NVIDIA H200", matrix))["84-percent"]
    assert (v.verdict, v.elsewhere, v.ours) == (
        "not_testable",
        True,
        pytest.approx(84.1056 * factor),
    )


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "reproduced"), made.around(0.9)[0]])
def test_the_posts_speeds_are_those_of_its_gpu(matrix, factor, verdict):
    """One cell for each of the post's three kernels, in its CUDA and in its Mojo."""
    set_speed(matrix, SWIZZLE, factor * CUDA["tma_swizzle"])
    speeds = made.decisions(matrix)["speeds"].verdicts
    cells = [v.cell.at["kernel"] for v in speeds]
    assert cells == [*CUDA, *MOJO] == ["tma_naive", "tma_swizzle", "tma_swizzle_batched"] * 2
    cuda = speeds[1]
    assert (cuda.verdict, cuda.cell.value) == (verdict, 1251.76)
    assert cuda.ours == pytest.approx(factor * 1251.76)
    assert [v.verdict for v in speeds[3::2]] == ["reproduced"] * 2  # of Mojo, by CUDA's
    assert all(v.reason.startswith("Mojo itself was not run; in CUDA: ") for v in speeds[3:])
    there = made.decisions(made.on("NVIDIA H200", matrix))["speeds"]
    assert {v.verdict for v in there.verdicts} == {there.verdict} == {"not_testable"}


def test_a_speed_in_mojo_is_mojos_where_it_ran(matrix):
    cuda = row(matrix, NAIVE)
    mojo = made.record(cuda["problem"], "mojo_tma_naive", [us_at(500)], bytes=cuda["bytes"])
    matrix["records"].append(mojo)
    of_cuda, of_mojo = made.decisions(matrix)["speeds"].verdicts[::3]
    assert (of_cuda.ours, of_mojo.ours) == (pytest.approx(MOJO[NAIVE]), pytest.approx(500))
    assert of_mojo.reason.endswith("; in CUDA 1056 GB/s")


def test_the_share_of_the_peak_needs_a_peak(matrix):
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = None
    v = decided(matrix)["84-percent"]
    said = "this GPU does not say its theoretical bandwidth"
    assert (v.verdict, v.reason) == ("not_testable", NO_MOJO + said)


def test_where_the_kernel_is_right_the_same_task_needs_mojo_itself(matrix):
    row(matrix, PUBLISHED).update(outcome="bit_exact", reason="", mismatches=None)
    set_speed(matrix, PUBLISHED, 3000)
    set_speed(matrix, BATCHED, 2000)
    v = decided(matrix)["mojo-is-cuda-like"]
    assert (v.verdict, v.ours) == ("not_testable", pytest.approx(1.5))
    assert v.reason.startswith("Mojo itself was not run; ")


RIGHT_IN_MOJO, PUBLISHED_IN_MOJO = "mojo_tma_batched", "mojo_tma_batched_as_published"
RATIO = 2775.49 / 2771.35


def with_mojo(matrix, share=1.0, published=True):
    """Mojo with right indices at a share of CUDA's 2771.35 GB/s, and the post's own kernel."""
    origin = {"origin": {"kind": "compiler", "maker": "Mojo (max-core 26.7.0)"}}
    moved = {"bytes": row(matrix, BATCHED)["bytes"]}
    problem = row(matrix, BATCHED)["problem"]
    us = us_at(SPEEDS[BATCHED])
    right = made.record(problem, RIGHT_IN_MOJO, [us / share], **moved | origin)
    matrix["records"].append(right)
    if published:
        wrong = {k: row(matrix, PUBLISHED)[k] for k in ("deviation", "outcome", "reason")}
        wrong |= {"mismatches": 939524096} | moved | origin
        matrix["records"].append(made.record(problem, PUBLISHED_IN_MOJO, [us], **wrong))
    return matrix


@pytest.mark.parametrize(("share", "verdict"), [(1.5, "reproduced"), (0.5, "not_reproduced")])
def test_with_right_indices_mojo_itself_decides(matrix, share, verdict):
    v = decided(with_mojo(matrix, share))["mojo-is-cuda-like"]
    assert (v.verdict, v.ours) == (verdict, pytest.approx(share))
    assert v.cell.value == RATIO
    assert v.reason.startswith(
        f"with right indices mojo_tma_batched: {share * 2771.35:.0f} GB/s, tma_batched: 2771 GB/s; "
        "the post's own kernel does another task: 939524096 of 1073741824 elements are wrong, at "
        f"2771 GB/s; {100 * (share / RATIO - 1):+.1f} % from the source's value"
    )
    kernels = [key.split("/")[1] for _, key in v.evidence]
    assert kernels == [RIGHT_IN_MOJO, BATCHED, PUBLISHED_IN_MOJO]


def test_where_mojo_ran_it_decides_and_cuda_stands_beside(matrix):
    """As fast as the post says in CUDA, and in Mojo at other speeds."""
    with_mojo(matrix, RATIO)
    for kernel, gb_s in ((NAIVE, 800), (SWIZZLE, 950)):
        cuda = row(matrix, kernel)
        mojo = made.record(cuda["problem"], f"mojo_{kernel}", [us_at(gb_s)], bytes=cuda["bytes"])
        matrix["records"].append(mojo)
    found = decided(matrix)
    assert (found["swizzle"].verdict, found["batched"].verdict) == ("not_reproduced", "reproduced")
    assert found["swizzle"].ours == pytest.approx(950 / 800)
    assert found["batched"].ours == pytest.approx(2775.49 / 950)
    gain = "mojo_tma_naive: 800 GB/s, mojo_tma_swizzle: 950 GB/s; -12.8 % from the source's value, "
    gain += "10 % less allowed; in CUDA 1.36 x"
    assert found["swizzle"].reason == gain
    set_speed(matrix, PUBLISHED_IN_MOJO, 3000)
    share = decided(matrix)["84-percent"]
    assert share.ours == pytest.approx(3000 / 33)
    assert share.reason.endswith("; in CUDA 84.1 %")
    drop(matrix, SWIZZLE)
    alone = decided(matrix)["swizzle"]
    assert (alone.verdict, alone.reason) == ("not_reproduced", gain.partition("; in")[0])


def test_where_mojo_failed_cuda_decides_nothing_in_its_place(matrix):
    with_mojo(matrix)
    made.fail(row(matrix, PUBLISHED_IN_MOJO), "launch_failed", "out of resources")
    assert decided(matrix)["84-percent"].verdict == "not_testable"


@pytest.mark.parametrize("spoil", ["missing", "mismatch", "right"])
def test_the_posts_own_kernel_in_mojo_is_a_remark_alone(matrix, spoil):
    with_mojo(matrix, 1.0, published=spoil != "missing")
    if spoil == "mismatch":
        made.fail(row(matrix, PUBLISHED_IN_MOJO), "mismatch")
    if spoil == "right":
        row(matrix, PUBLISHED_IN_MOJO).update(outcome="bit_exact", reason="", mismatches=None)
    v = decided(matrix)["mojo-is-cuda-like"]
    said = "with right indices mojo_tma_batched: 2771 GB/s, tma_batched: 2771 GB/s"
    assert v.verdict == "reproduced" and v.reason.startswith(f"{said}; -0.1 % from the source's")


def test_a_right_output_is_correct(matrix):
    row(matrix, PUBLISHED).update(outcome="bit_exact", reason="", mismatches=None)
    assert decided(matrix)["correct"].verdict == "reproduced"


@pytest.mark.parametrize("random", ["bit_exact", "deviation_as_declared"])
def test_where_the_posts_own_check_fails_it_is_not_correct(matrix, random):
    row(matrix, PUBLISHED).update(outcome=random, mismatches=None, deviation="as published")
    constant = {"outcome": "deviation_as_declared", "deviation": "as published"}
    constant["reason"] = "1 of 8 elements differ"
    row(matrix, PUBLISHED, "constant").update(constant)
    v = decided(matrix)["correct"]
    assert v.verdict == "not_reproduced"
    assert v.reason == f"{NO_MOJO}the source's check fails here: 1 of 8 elements differ"

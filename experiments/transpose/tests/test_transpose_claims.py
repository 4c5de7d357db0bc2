"""The transpose post's claims that the big matrix decides: each possible verdict."""

import made
import pytest

(POST,) = (source for source in made.all_sources() if source.id == "transpose_blog")
CUDA, MOJO = POST.tables["cuda_gb_s"], POST.tables["mojo_gb_s"]
NAIVE, SWIZZLE, BATCHED = "tma_naive", "tma_swizzle", "tma_batched"
PUBLISHED = "tma_batched_as_published"
SPEEDS = {NAIVE: MOJO[NAIVE], SWIZZLE: MOJO[SWIZZLE], BATCHED: CUDA["tma_swizzle_batched"]}
SPEEDS |= {PUBLISHED: MOJO["tma_swizzle_batched"]}
WRONG = {"deviation": "as published", "outcome": "deviation_as_declared", "mismatches": 939524096}
WRONG |= {"reason": "939524096 of 1073741824 elements differ; first at row 4"}
RIGHT = {"outcome": "bit_exact", "reason": "", "mismatches": None}
GAIN = {"swizzle": MOJO[SWIZZLE] / MOJO[NAIVE]}
GAIN |= {"batched": MOJO["tma_swizzle_batched"] / MOJO[SWIZZLE]}
THEIRS, RIGHTED = "the post's two kernels", "two kernels with right indices"
YES, NO, MAY_BE, CANNOT = "reproduced", "not_reproduced", "undecided", "not_testable"


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
    records[-1] |= WRONG
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
    changes |= {"bytes": cuda["bytes"], "origin": {"kind": "compiler", "maker": "Mojo"}}
    matrix["records"].append(made.record(cuda["problem"], kernel, [us_at(gb_s)], **changes))


def verdict(matrix, claim, reading="", cell="random"):
    return made.verdict(claim, cell, matrix, reading=reading)


CLAIMS = {("swizzle", ""): YES, ("batched", ""): YES, ("correct", ""): "premise_false"}
CLAIMS |= {("mojo-is-cuda-like", THEIRS): "premise_false", ("mojo-is-cuda-like", RIGHTED): CANNOT}


@pytest.mark.parametrize(("rows", "decides"), [(32768, True), (16416, True), (16400, False)])
def test_on_the_posts_own_numbers_all_holds_but_its_indices(rows, decides):
    """Matrices of at least 16384 rows, in multiples of 32."""
    for (claim, reading), kind in CLAIMS.items():
        v = verdict(matrix_of(rows), claim, reading)
        assert v.kind == (kind if decides else CANNOT), claim


@pytest.mark.parametrize("claim", ["swizzle", "batched"])
@pytest.mark.parametrize(("share", "kind"), [(5.0, YES), (0.95, YES), (0.9, MAY_BE), (0.8, NO)])
def test_a_gain_needs_nine_tenths_of_the_posts_and_may_exceed_it(matrix, claim, share, kind):
    slow, fast = (NAIVE, SWIZZLE) if claim == "swizzle" else (SWIZZLE, BATCHED)
    set_speed(matrix, slow, 1000)
    set_speed(matrix, fast, 1000 * share * GAIN[claim])
    v = verdict(matrix, claim)
    assert (v.kind, v.ours) == (kind, pytest.approx(share * GAIN[claim]))
    assert v.note.startswith("Mojo itself was not run")


def test_mojo_decides_and_cuda_is_shown(matrix):
    """As fast as the post says in CUDA, and in Mojo at other speeds."""
    add_mojo(matrix, "mojo_tma_naive", 800)
    assert verdict(matrix, "swizzle").note.startswith("Mojo itself was not run")  # one of two
    add_mojo(matrix, "mojo_tma_swizzle", 850)
    add_mojo(matrix, "mojo_tma_batched", 2775.49)
    v = verdict(matrix, "swizzle")
    assert (v.kind, v.ours) == (NO, pytest.approx(850 / 800))
    assert v.note.endswith("; in CUDA 1.36 x")
    v = verdict(matrix, "batched")
    assert (v.kind, v.ours) == (YES, pytest.approx(2775.49 / 850))


@pytest.mark.parametrize(("share", "kind"), [(1.5, YES), (0.5, CANNOT)])
@pytest.mark.parametrize("published", ["wrong", "right", "failed"])
def test_with_right_indices_mojo_itself_decides(matrix, share, kind, published):
    """At a share of CUDA's 2771.35 GB/s, independent of the post's own kernel."""
    add_mojo(matrix, "mojo_tma_batched", share * 2771.35)
    add_mojo(matrix, f"mojo_{PUBLISHED}", 3000, **WRONG if published == "wrong" else {})
    if published == "failed":
        made.fail(row(matrix, f"mojo_{PUBLISHED}"), "launch_failed", "out of resources")
    v = verdict(matrix, "mojo-is-cuda-like", RIGHTED)
    assert (v.kind, v.ours) == (kind, pytest.approx(share))
    assert ("own code was not run" in v.note) is (kind == CANNOT)
    v = verdict(matrix, "mojo-is-cuda-like", THEIRS)
    assert v.kind == {"wrong": "premise_false", "right": YES, "failed": CANNOT}[published]
    assert v.note.startswith("7 of 8 elements are wrong") is (published == "wrong")


def test_the_posts_speeds_are_those_of_its_gpu_and_confirmed_only(matrix):
    """One cell for each of the post's three kernels, in its CUDA and in its Mojo."""
    set_speed(matrix, SWIZZLE, CUDA["tma_swizzle"])
    add_mojo(matrix, "mojo_tma_naive", 500)
    *speeds, _ = made.decision("speeds", matrix).verdicts
    assert [v.cell.value for v in speeds] == [*CUDA.values(), *MOJO.values()]
    assert [v.kind for v in speeds[1:3]] == [YES] * 2
    assert (speeds[0].ours, speeds[3].ours) == (pytest.approx(MOJO[NAIVE]), pytest.approx(500))
    assert speeds[3].kind == CANNOT and "own code was not run" in speeds[3].note
    decision = made.decision("speeds", made.on("NVIDIA H200", matrix))
    assert {v.kind for v in decision.verdicts} == {decision.verdict} == {CANNOT}


def test_the_share_of_the_peak(matrix):
    """Of this GPU's, against the post's 84.1056 %."""
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = 4800
    us = us_at(48 * 84.1056 * 1.05)
    made.set_times(row(matrix, PUBLISHED), [us / 1.02, us, us * 1.01])
    v = verdict(matrix, "speeds")
    assert (v.kind, v.ours) == (YES, pytest.approx(84.1056 * 1.05))
    assert v.interval == pytest.approx((v.ours / 1.01, v.ours * 1.02))
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = None
    assert verdict(matrix, "speeds").kind == CANNOT


@pytest.mark.parametrize(
    ("random", "constant", "kind"),
    [(RIGHT, RIGHT, YES), (WRONG, RIGHT, "premise_false"), (RIGHT, WRONG, NO), (WRONG, WRONG, NO)],
)
def test_the_posts_check_of_a_constant_matrix(matrix, random, constant, kind):
    row(matrix, PUBLISHED).update(random)
    row(matrix, PUBLISHED, "constant").update(constant)
    assert verdict(matrix, "correct").kind == kind

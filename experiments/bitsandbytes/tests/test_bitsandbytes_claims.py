"""The claims of bitsandbytes' pull requests: each possible verdict."""

import made
import pytest

DESIGN, RELEASE = "its own design, written anew", "the release with pull request 1746"
SHAPES = ((1024, 1024), (16384, 8192))
OLD, NEW = "bitsandbytes_0.47.0", "bitsandbytes_0.48.2"


def row(problem, kernel, us, version=""):
    origin = {"kind": "peer", "maker": f"bitsandbytes {version}"}
    changes = {"origin": origin} if version else {}
    return made.record(problem, kernel, [us, us * 0.9999, us * 1.0001], **changes)


def layers(*gains, gpu="NVIDIA H200", peers=(("0.47.0", 1.0), ("0.48.2", 2.0))):
    """The gain of the warp shuffle in each layer, and each library's over the tree in all."""
    rows = []
    for shape, gain in zip(SHAPES, gains, strict=True):
        problem = made.layer(*shape)
        rows += [row(problem, "branch_tree", 100.0), row(problem, "warp_shuffle_lut", 100 / gain)]
        rows += [row(problem, f"bitsandbytes_{v}", 100 / g, v) for v, g in peers]
    return made.on(gpu, made.results("bitsandbytes", "layers", rows))


def reading(name, *files):
    (verdict,) = made.decision("lut-1.36-2.07", *files).of_reading(name)
    return verdict


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(1.3, "reproduced"), (1.36 * 0.9, "undecided"), (1.15, "not_reproduced")],
)
def test_the_smallest_gain_of_all_layers_decides(gain, expected):
    v = reading(DESIGN, layers(2.1, gain))
    assert (v.kind, v.ours) == (expected, pytest.approx(gain))
    assert "16384x8192" in v.note


def test_the_releases_next_to_the_change_are_compared():
    four = (("0.50.2", 9.0), ("0.46.1", 0.5), ("0.47.0", 1.0), ("0.48.2", 1.7))
    v = reading(RELEASE, layers(2.0, 2.0, peers=four))
    assert (v.kind, v.ours) == ("reproduced", pytest.approx(1.7))
    assert {key.rpartition("/")[2] for _, key in v.rows} == {OLD, NEW}


@pytest.mark.parametrize(("version", "missing"), [("0.47.0", "from 0.48"), ("0.50.2", "before")])
def test_one_library_decides_nothing(version, missing):
    v = reading(RELEASE, layers(2.0, 2.0, peers=((version, 1.0),)))
    assert v.kind == "not_tested" and missing in v.note


def test_another_experiments_rows_decide_where_its_own_lack_them():
    one = layers(2.0, 2.0, peers=())
    other = layers(1.0, 1.0, peers=(("0.47.0", 1.0), ("0.50.2", 1.9)))
    other |= {"experiment": "table2", "pass": "shapes"}
    assert reading(DESIGN, one, other).ours == pytest.approx(2.0)
    assert reading(RELEASE, one, other).ours == pytest.approx(1.9)
    assert reading(RELEASE, one).awaits == "bitsandbytes"


@pytest.mark.parametrize(
    ("gpu", "largest", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 2.0, "reproduced"),
        ("NVIDIA H100 80GB HBM3", 2.6, "not_reproduced"),
        ("Tesla T4", 3.05, "reproduced"),
        ("Tesla T4", 1.8, "not_reproduced"),
        ("NVIDIA H200", 2.0, "not_testable"),
    ],
)
def test_a_gpu_that_the_source_names_has_its_own_range(gpu, largest, expected):
    assert made.decision("lut-by-gpu", layers(1.5, largest, gpu=gpu)).verdict == expected


@pytest.mark.parametrize(
    ("gpu", "expected"), [("NVIDIA H200", "not_testable"), ("Tesla T4", "not_tested")]
)
def test_without_rows_a_gpu_that_is_not_named_cannot_decide(gpu, expected):
    other = layers(2.0, 2.0, gpu=gpu) | {"experiment": "puzzle", "pass": "mlps"}
    assert made.decision("lut-by-gpu", other).verdict == expected


def products(gains):
    """By number of rows of activations, the gain of the fused product."""
    rows = []
    for batch, gain in gains.items():
        problem = made.layer(8192, 8192) | {"family": "nf4_product", "batch": batch, "bias": False}
        problem["name"] = f"{batch}x8192x8192/fp16/b64"
        bounded = {"outcome": "within_bound", "bound": "another order of sums"}
        rows += [
            row(problem, "shared_lut_then_cublas", 100.0) | bounded,
            row(problem, "bitsandbytes_0.50.2_gemv", 1.0, "0.50.2") | bounded,
            row(problem, "bitsandbytes_0.50.2_gemm", 100 / gain, "0.50.2") | bounded,
        ]
    return made.results("bitsandbytes", "products", rows)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ({1: 1.0, 2: 4.1, 64: 1.0}, "reproduced"),
        ({2: 1.0, 64: 4.1, 128: 9.0}, "reproduced"),
        ({1: 9.0, 2: 3.6, 64: 1.0}, "undecided"),
        ({1: 9.0, 2: 2.6, 64: 1.0}, "not_testable"),
    ],
)
def test_the_largest_gain_confirms_and_does_not_refute(gains, expected):
    (v,) = made.decision("gemm-4x", products(gains)).verdicts
    assert (v.kind, v.ours) == (expected, pytest.approx(max(gains[2], gains[64])))


@pytest.mark.parametrize(
    ("few_rows", "expected"), [(2.0, "reproduced"), (1.0, "undecided"), (0.5, "not_reproduced")]
)
def test_gains_with_few_rows_and_with_many(few_rows, expected):
    decision = made.decision("gemm-smaller-batches", products({2: few_rows, 64: 1.0}))
    assert decision.verdict == expected


def test_the_kernel_for_one_compute_capability_is_no_release():
    decision = made.decision("nested-fused")
    assert decision.verdict == "not_testable"

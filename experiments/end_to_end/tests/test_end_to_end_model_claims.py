"""The claims on the models: their tokens, sizes and versions."""

import made
import pytest
from generated_runs import BATCHES, TREE, files, gains, verdict

ONE_OTHER = {"outcome": "deviation_as_declared", "deviation": "sums in another order"}


@pytest.mark.parametrize(
    ("claim", "cell", "count"),
    [
        ("plug-and-play", "", "1 model"),
        ("token-exact", "qwen3-32b, batch all", f"{32 * sum(BATCHES)} tokens"),
    ],
)
def test_nothing_but_the_kernel_was_exchanged(claim, cell, count):
    timing = gains(dict.fromkeys(BATCHES, 1.5))
    v = verdict(claim, cell, timing)
    assert (v.verdict, len(v.evidence)) == ("reproduced", 6)
    assert f" {count}" in v.why
    timing["records"][-1] |= ONE_OTHER | {"reason": "1 token differs"}
    v = verdict(claim, cell, timing)
    assert v.verdict == "not_reproduced" and "qwen3-32b/batch64/eager" in v.reason
    timing["records"] = made.rows_of(timing, TREE)
    assert verdict(claim, cell, timing).verdict == "not_tested"


def test_one_sequence_decides_nothing_of_the_papers():
    """The paper has no batch 1, at which bitsandbytes does not dequantize."""
    times = dict.fromkeys(BATCHES, (10e6, 8e6))
    expected = made.decided(*files("qwen3-32b", times))
    passes, single = files("qwen3-32b", times), files("qwen3-32b", {1: (10e6, 80e6)}, (9e6, 50e6))
    for record in single[0]["records"]:
        record["problem"]["parameters"] = 1
        record |= ONE_OTHER | {"reason": "1 token differs"}
    for file, more in zip(passes, single, strict=True):
        file["records"] = more["records"] + file["records"]
    decided = made.decided(*passes)
    assert expected.keys() == decided.keys()
    for key, before in expected.items():
        assert (decided[key].verdict, decided[key].ours) == (before.verdict, before.ours), key
        assert decided[key].evidence == before.evidence, key


def test_a_model_that_does_not_fit_decides_nothing():
    timing = gains(dict.fromkeys(BATCHES, 1.5))
    lost = {"outcome": "unsupported", "reason": "out of memory", "metrics": []}
    ours = [r for r in timing["records"] if r["kernel"] == "shared_lut"]
    ours[-1] |= lost
    v = verdict("plug-and-play", "", timing)
    assert (v.verdict, len(v.evidence)) == ("reproduced", 5)
    for row in ours:
        row |= lost
    v = verdict("plug-and-play", "", timing)
    assert v.verdict == "not_testable" and v.reason.endswith("unsupported: out of memory")
    ours[0] |= {"outcome": "mismatch", "reason": "tokens differ", "mismatches": 1}
    assert verdict("plug-and-play", "", timing).verdict == "not_testable"


@pytest.mark.parametrize(
    ("cell", "name", "value", "expected"),
    [
        ("fp16", "parameters", 32762123264, "reproduced"),
        ("fp16", "parameters", 28_000_000_000, "not_reproduced"),
        ("nf4", "memory_bytes", 17_600_000_000, "reproduced"),  # no run changes a size
        ("nf4", "memory_bytes", 17_600_100_000, "not_reproduced"),
        ("ratio", "memory_bytes", 18_201_000_000, "reproduced"),  # 3.6 times
        ("ratio", "memory_bytes", 18_202_000_000, "not_reproduced"),
    ],
)
def test_the_models_size_in_memory(cell, name, value, expected):
    passes = files("qwen3-32b", {4: (10e6, 8e6), 2: (10e6, 8e6)})
    for record in passes[0]["records"]:
        record["problem"][name] = value
    v = verdict("model-size", f"qwen3-32b, {cell}", *passes, reading="the model in memory")
    fp16 = 2 * (value if cell == "fp16" else 32762123264)
    ours = {"fp16": fp16 / 1e9, "nf4": value / 1e9, "ratio": fp16 / value}[cell]
    assert (v.verdict, v.ours) == (expected, pytest.approx(ours))
    assert [key for _, key in v.evidence] == ["qwen3-32b/batch2/eager/branch_tree"]


def test_the_size_of_the_codes_alone():
    passes = files("qwen3-32b", {2: (10e6, 8e6)})
    for record in passes[0]["records"]:
        record["problem"]["weights"] = 31_000_000_000
    for cell, ours in (("fp16", 62), ("nf4", 15.5), ("ratio", 4)):
        at = f"qwen3-32b, {cell}"
        v = verdict("model-size", at, *passes, reading="codes of its weights alone")
        assert (v.verdict, v.ours) == ("reproduced", pytest.approx(ours))


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("2.1.2+cu121", "0.47.0"), "reproduced"),
        (("2.10.0", "0.47.0"), "not_testable"),
        (("2.1.2", "0.47.1"), "not_testable"),
        ((), "not_testable"),
    ],
)
def test_the_versions_that_ran(versions, expected):
    timing = gains({2: 1.5})
    if versions:
        installed = dict(zip(("torch", "bitsandbytes"), versions, strict=True))
        timing["provenance"]["build"]["versions"] = installed
    v = verdict("environment", "", timing)
    assert v.verdict == expected and all(version in v.reason for version in versions)
    assert [key for _, key in v.evidence] == [""]  # the file's provenance, not a row

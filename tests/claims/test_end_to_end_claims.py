"""The claims on generated text: each way that they can go."""

import json

import made
import pytest

from claims.end_to_end import amdahl
from claims.published import load_source

BATCHES = (2, 4, 8, 16, 32, 64)
TREE, LUT = "branch_tree", "shared_lut"


def row(model, batch, kernel, **times):
    problem = made.generated(model, batch)
    metrics = [made.metric(name, [us] * 3) for name, us in times.items()]
    found = made.record(problem, kernel, metrics=metrics)
    weights = problem["weights"]
    found["bytes"] = {"read": weights * 9 // 16 * 32, "written": weights * 2 * 32}
    return found


def files(model, walls, parts=(4e6, 2e6)):
    """`walls`: by batch, the baseline's latency and the kernel's; `parts`: of dequantizations."""
    timing, profile = [], []
    for batch, pair in walls.items():
        for kernel, wall, part in zip((TREE, LUT), pair, parts, strict=True):
            timing.append(row(model, batch, kernel, wall_time=wall))
            profile.append(row(model, batch, kernel, kernel_time=part))
    return [
        made.results("end_to_end", name, records)
        for name, records in (("timing", timing), ("profile", profile))
    ]


def verdict(claim, cell, *found, sources=None):
    return made.decided(*found, sources=sources)[claim, cell]


def changed(tmp_path, change):
    """The paper with other numbers in its tables."""
    paper = json.loads((made.PUBLISHED / "paper.json").read_text())
    change(paper["tables"])
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    return [load_source(tmp_path / "paper.json")]


def test_amdahls_law():
    assert amdahl(0, 2) == amdahl(0.5, 1) == 1
    assert amdahl(1, 2) == 2
    assert amdahl(0.5, 2) == pytest.approx(4 / 3)
    # The paper's Tables I and II, as the issue of its own numbers has them.
    shares, gains = (39.8, 39.3, 37.4, 34.7, 29.5, 21.4), (2.2, 2.19, 2.19, 2.19, 2.19, 2.15)
    found = [round(amdahl(s / 100, g), 2) for s, g in zip(shares, gains, strict=True)]
    assert found == [1.28, 1.27, 1.26, 1.23, 1.19, 1.13]


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(1.54, "reproduced"), (1.69, "reproduced"), (1.7, "not_reproduced"), (1.38, "not_reproduced")],
)
def test_the_speed_up_of_figure_4(gain, expected):
    v = verdict(
        "end-to-end", "llama-3.3-70b, batch 2", *files("llama-3.3-70b", {2: (gain * 1e6, 1e6)})
    )
    assert (v.verdict, v.ours, v.cell.value) == (expected, pytest.approx(gain), 1.54)


def test_the_average_is_over_all_batches():
    walls = dict.fromkeys(BATCHES, (1.18e6, 1e6))
    cell = "qwen3-32b, average"
    assert verdict("end-to-end", cell, *files("qwen3-32b", walls)).verdict == "reproduced"
    del walls[16]
    v = verdict("end-to-end", cell, *files("qwen3-32b", walls))
    assert (v.verdict, v.reason) == ("not_tested", "branch_tree did not run on qwen3-32b, batch 16")


@pytest.mark.parametrize(
    "change", [{"tokens": 31}, {"way": "graph"}, {"nested": True}, {"output": "bf16"}]
)
def test_other_runs_decide_nothing(change):
    found = files("llama-3.3-70b", {2: (1.54e6, 1e6)})
    for record in [r for file in found for r in file["records"]]:
        record["problem"] |= change
    v = verdict("end-to-end", "llama-3.3-70b, batch 2", *found)
    assert v.verdict == "not_testable"
    assert v.reason.startswith("decided on problems with way eager and tokens at least 32")


def test_a_model_that_did_not_fit_is_not_testable():
    found = files("llama-3.3-70b", {2: (1.54e6, 1e6)})
    made.fail(found[0]["records"][0], "unsupported", "out of memory: about 44 GB are needed")
    v = verdict("end-to-end", "llama-3.3-70b, batch 2", *found)
    assert v.verdict == "not_testable"
    assert v.reason.endswith("unsupported: out of memory: about 44 GB are needed")


@pytest.mark.parametrize(
    ("part", "expected"),
    [(37.4, "reproduced"), (41.1, "reproduced"), (41.2, "not_reproduced"), (30, "not_reproduced")],
)
def test_dequantizations_share(part, expected):
    found = files("qwen3-32b", {8: (10e6, 9e6)}, (part * 1e5, 1e5))
    v = verdict("dequantization-overhead", "qwen3-32b, batch 8", *found)
    assert (v.verdict, v.ours) == (expected, pytest.approx(part))
    assert v.reason.endswith(f"{part / 10:.2f} of 10.00 s")
    assert [file.name for file, _ in v.evidence] == ["timing.json", "profile.json"]


def test_a_share_is_of_one_kernel():
    found = files("qwen3-32b", {8: (10e6, 9e6)}, (37.4e5, 1e5))
    for record in found[1]["records"]:
        record["code"] = made.code_of("sm_90", record["kernel"], "edited")
    v = verdict("dequantization-overhead", "qwen3-32b, batch 8", *found)
    assert (v.verdict, v.ours) == ("not_testable", None)
    assert v.reason.startswith("rows of branch_tree are of two different kernels: ")
    for record in found[1]["records"]:
        del record["code"]  # recorded before there were digests
    v = verdict("dequantization-overhead", "qwen3-32b, batch 8", *found)
    assert (v.verdict, v.of_unknown_code) == ("reproduced", (TREE,))


@pytest.mark.parametrize("other", [{"tokens": 64}, {"prompts": "of another file"}])
def test_a_share_is_of_one_kind_of_run(other):
    found = files("qwen3-32b", {8: (10e6, 9e6)}, (37.4e5, 1e5))
    for record in found[0]["records"]:
        record["problem"] |= other
    v = verdict("dequantization-overhead", "qwen3-32b, batch 8", *found)
    assert v.verdict == "not_tested"
    assert v.reason.startswith("branch_tree did not run on qwen3-32b, batch 8")


def consistent(tables):
    """The speed-up that Amdahl's law makes of the source's own tables."""
    tables["figure4"]["qwen3-32b"]["32"]["speedup_latency"] = 1.19


CELL = "qwen3-32b, batch 32"


def test_the_papers_own_tables_allow_less_than_it_reports():
    v = verdict("amdahl", CELL, *files("qwen3-32b", {32: (10e6, 8e6)}))
    assert v.verdict == "premise_false"
    assert v.ours == 1.25
    assert v.reason == (
        "its 29.5 % and 2.19 x predict 1.19 x, it reports 1.29; here 40.0 % and 2.00 x predict "
        "1.25 x, measured 1.25; with the share and the speed-up by which it explains the gain, "
        "1.19 x is the most that is possible"
    )


@pytest.mark.parametrize(
    ("after", "expected"), [(8e6, "reproduced"), (9e6, "reproduced"), (7.5e6, "not_reproduced")]
)
def test_where_they_allow_it_ours_decide(tmp_path, after, expected):
    sources = changed(tmp_path, consistent)
    v = verdict("amdahl", CELL, *files("qwen3-32b", {32: (10e6, after)}), sources=sources)
    assert v.verdict == expected


def test_latency_and_throughput_of_the_paper_are_two_numbers():
    v = verdict(
        "latency-and-throughput", "gemma-2-27b, batch 64", *files("gemma-2-27b", {64: (3e6, 2e6)})
    )
    assert (v.verdict, v.ours) == ("not_testable", 1.5)
    assert v.reason.startswith(
        "its seconds give 1.32 x, its tokens/s 1.25 x: 183 tokens per sequence before and 173 "
        "after, where the outputs are the same, token by token: not both can be of the same two"
    )


def test_one_number_would_be_no_contradiction(tmp_path):
    def same(tables):
        tables["figure4"]["gemma-27b"]["64"]["optimized_tokens_per_s"] = 669

    found = files("gemma-3-27b", {64: (3e6, 2e6)})
    cell = "gemma-3-27b, batch 64"
    v = verdict("latency-and-throughput", cell, *found, sources=changed(tmp_path, same))
    assert v.verdict == "reproduced"


def test_small_batches_gain_more():
    walls = {batch: ((2 - i / 10) * 1e6, 1e6) for i, batch in enumerate(BATCHES)}
    cell = "qwen3-32b, batch all"
    v = verdict("small-batches-gain-more", cell, *files("qwen3-32b", walls))
    assert (v.verdict, v.ours) == ("reproduced", 2)
    assert v.reason.startswith("speed-up by batch: 2: 2.00, 4: 1.90")
    walls[2] = (1.45e6, 1e6)
    v = verdict("small-batches-gain-more", cell, *files("qwen3-32b", walls))
    assert (v.verdict, v.ours) == ("not_reproduced", 1.45)
    found = files("qwen3-32b", walls)
    for record in found[0]["records"]:
        record["metrics"][0]["samples"][0] *= 1.1  # so that the intervals overlap
    flat = files("qwen3-32b", dict.fromkeys(BATCHES, (1.5e6, 1e6)))
    for unclear in (found, flat):
        v = verdict("small-batches-gain-more", cell, *unclear)
        assert v.verdict == "not_testable"
        assert v.reason.endswith("; no difference seen between 2 and 64")


def test_table_1_and_figure_4_need_more_than_the_memory_gives():
    found = files("qwen3-32b", {32: (10e6, 8e6)}, (32 * 72.7e3, 1e6))
    v = verdict("tables-agree", CELL, *found)
    assert (v.verdict, v.ours) == ("not_testable", pytest.approx(72.7))
    assert v.reason == (
        "if tokens/s counts new tokens alone, 391 forward passes of 33.4 ms of dequantization; its "
        "bytes alone take 39.2 ms at 2039 GB/s, where none stay in the L2 cache; here 72.7 ms; "
        "they may be of the same runs if prompts are counted too, which it does not say"
    )


def test_with_fewer_tokens_they_would_agree(tmp_path):
    def slower(tables):
        tables["figure4"]["qwen3-32b"]["32"]["baseline_tokens_per_s"] = 80

    found = files("qwen3-32b", {32: (10e6, 8e6)})
    v = verdict("tables-agree", CELL, *found, sources=changed(tmp_path, slower))
    assert v.verdict == "reproduced"


@pytest.mark.parametrize(
    ("cell", "name", "value", "expected"),
    [
        ("fp16", "parameters", 32762123264, "reproduced"),
        ("fp16", "parameters", 28_000_000_000, "not_reproduced"),
        ("nf4", "memory_bytes", 20_664_000_000, "not_reproduced"),
        ("nf4", "memory_bytes", 17_600_000_000, "reproduced"),
    ],
)
def test_the_models_size(cell, name, value, expected):
    found = files("qwen3-32b", {4: (10e6, 8e6), 2: (10e6, 8e6)})
    for record in found[0]["records"]:
        record["problem"][name] = value
    v = verdict("model-size", f"qwen3-32b, {cell}", *found)
    assert v.verdict == expected
    assert v.ours == pytest.approx(value / 1e9 * (2 if cell == "fp16" else 1))
    assert [key for _, key in v.evidence] == ["qwen3-32b/batch2/eager/branch_tree"]


def test_a_model_that_did_not_run_has_no_size():
    v = verdict("model-size", "qwen3-32b, fp16", *files("llama-3.3-70b", {2: (10e6, 8e6)}))
    assert (v.verdict, v.reason) == ("not_tested", "branch_tree did not run on qwen3-32b")


def test_dequantizations_part_of_products_while_text_is_generated():
    _, profile = files("qwen3-32b", {8: (10e6, 8e6)}, (7e6, 3e6))
    for record in profile["records"]:
        record["metrics"].append(made.metric("product_time", [3e6] * 3))
    v = verdict("qmatmul-72-generating", "qwen3-32b, batch 8", profile)
    assert (v.verdict, v.ours) == ("reproduced", pytest.approx(70))


def test_one_other_token_is_no_same_output():
    cell, walls = "qwen3-32b, batch all", dict.fromkeys(BATCHES, (1.2e6, 1e6))
    timing, profile = files("qwen3-32b", walls)
    v = verdict("same-tokens", cell, timing, profile)
    assert (v.verdict, v.reason) == (
        "reproduced",
        f"{32 * sum(BATCHES)} tokens, in each generation of 6 batches",
    )
    timing["records"][-1].update(
        outcome="deviation_as_declared", deviation="sums in another order", reason="1 token differs"
    )
    v = verdict("same-tokens", cell, timing, profile)
    assert (v.verdict, v.reason) == (
        "not_reproduced",
        "shared_lut on qwen3-32b/batch64/eager: 1 token differs",
    )
    made.fail(timing["records"][-1], "mismatch", "1 token differs")
    assert verdict("same-tokens", cell, timing, profile).verdict == "not_testable"
    del timing["records"][-2:]
    assert verdict("same-tokens", cell, timing, profile).verdict == "not_tested"


def test_without_a_run_nothing_is_tested():
    waiting = ("end-to-end", "dequantization-overhead", "amdahl", "latency-and-throughput")
    waiting += (
        "qmatmul-72-generating",
        "same-tokens",
        "model-size",
        "small-batches-gain-more",
        "tables-agree",
        "environment",
    )
    found = made.decided()
    assert {v.verdict for (claim, _), v in found.items() if claim in waiting} == {"not_tested"}


def environment(torch="2.11.0+cu130", bitsandbytes="0.50.2", sources=None):
    timing, _ = files("qwen3-32b", {2: (4e6, 3e6)})
    made_with = f"Python 3.12.3, torch {torch}, transformers 5.17.0, bitsandbytes {bitsandbytes}"
    timing["provenance"]["build"]["compiler"] = made_with
    return verdict("environment", "", timing, sources=sources)


def test_a_bitsandbytes_that_asks_for_a_newer_pytorch():
    found = environment()
    assert found.verdict == "premise_false"
    assert found.reason == (
        "bitsandbytes 0.47.0 asks for PyTorch 2.2 or newer, which 2.1 is not; "
        "here torch 2.11.0 and bitsandbytes 0.50.2 ran"
    )
    assert len(found.evidence) == 1


@pytest.mark.parametrize(
    ("torch", "bitsandbytes", "expected"),
    [
        ("2.1.2+cu121", "0.47.0", "reproduced"),
        ("2.1.0", "0.47.0.dev0", "reproduced"),
        ("2.10.0", "0.47.0", "premise_false"),
        ("2.1.2", "0.47.1", "premise_false"),
    ],
)
def test_versions_that_ran_here_need_no_declaration(torch, bitsandbytes, expected):
    assert environment(torch, bitsandbytes).verdict == expected


def test_versions_that_fit_were_yet_not_tried(tmp_path):
    paper = json.loads((made.PUBLISHED / "paper.json").read_text())
    paper["setup"]["pytorch"] = "2.10"  # which is newer than 2.2
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    found = environment(sources=[load_source(tmp_path / "paper.json")])
    assert found.verdict == "not_testable"
    assert ", and 2.10 was not tried; here torch 2.11.0 and " in found.reason


def test_a_run_of_unknown_versions_decides_nothing():
    timing, _ = files("qwen3-32b", {2: (4e6, 3e6)})
    found = verdict("environment", "", timing)
    assert (found.verdict, found.reason) == (
        *("not_testable", "the run does not say its torch: GNU 13.3.0"),
    )
    assert made.decided()["environment", ""].verdict == "not_tested"

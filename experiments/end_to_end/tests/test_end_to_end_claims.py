"""The claims on generated text: gains, shares, tokens, sizes, and two GPUs."""

import json

import made
import pytest

from reprolab.claims.evidence import machines
from reprolab.claims.ledger import decide
from reprolab.results import result_files

BATCHES = (2, 4, 8, 16, 32, 64)
TREE, LUT = "branch_tree", "shared_lut"


def results_of(pass_name, metric, times, way="eager", model="qwen3-32b", spread=0.0):
    """`times`: by batch, the baseline's and the kernel's, or in graphs those of a step; each has
    three samples, `spread` apart.
    """
    rows, metric = [], metric + ".step" * (way == "graph")
    for batch, pair in times.items():
        problem = made.generated(model, batch, way)
        moved = {"read": problem["weights"] * 18, "written": problem["weights"] * 64}
        for kernel, us in zip((TREE, LUT), pair, strict=True):
            samples = [us * (1 - spread), us, us * (1 + spread)]
            metrics = [made.metric(metric, samples)]
            rows.append(made.record(problem, kernel, metrics=metrics, bytes=moved))
    return made.results("end_to_end", pass_name, rows)


def files(model, walls, parts=(4e6, 2e6), way="eager"):
    """`walls`: by batch, the latencies; `parts`: the times of dequantizations."""
    timing = results_of("timing", "wall_time", walls, way, model)
    return [timing, results_of("profile", "kernel_time", dict.fromkeys(walls, parts), way, model)]


def gains(by_batch, spread=0.0, way="eager", model="qwen3-32b"):
    """The baseline takes `by_batch` times as long; the host hardly affects runs so long."""
    times = {batch: (6e6 * gain, 6e6) for batch, gain in by_batch.items()}
    return results_of("timing", "wall_time", times, way, model, spread)


EAGER, GRAPH = "eager generations", "decoding steps in a CUDA graph"
READINGS = {"eager": EAGER, "graph": GRAPH}
YES, NO, MAY_BE, CANNOT, NOT_YET = (
    *("reproduced", "not_reproduced", "undecided", "not_testable", "not_tested"),
)
ONE_OTHER = {"outcome": "deviation_as_declared", "deviation": "sums in another order"}


def verdict(claim, cell, *results, reading=""):
    return made.verdict(claim, cell, *results, reading=reading)


def test_shares_of_table_1_are_those_of_an_a100():
    """37.4 % and 13021 ms at batch 8, the latter in an unknown number of passes."""
    cell, claim = "qwen3-32b, batch 8", "dequantization-overhead"
    passes = files("qwen3-32b", {8: (1e3 * 13021 / 0.374, 9e6)}, (1e3 * 13021, 1e5))
    for file in passes:
        for record in file["records"]:
            record["problem"]["weights"] = 69 * 10**9  # of a model that hardly waits for the host
    on_a100 = [made.on("NVIDIA A100-SXM4-80GB", file) for file in passes]
    v = verdict(claim, cell, *on_a100)
    assert (v.kind, v.ours) == (YES, pytest.approx(37.4))
    assert {file for file, _ in v.rows} == {"timing.json", "profile.json"}
    v = verdict(claim, cell, *passes)
    assert (v.kind, v.elsewhere, v.ours) == (CANNOT, True, pytest.approx(37.4))
    v = verdict("kernel-latency", cell, *on_a100)
    assert (v.kind, v.elsewhere, v.ours) == (CANNOT, False, pytest.approx(13021))


@pytest.mark.parametrize("other", [{"tokens": 64}, {"prompts": "of another file"}])
def test_a_share_is_of_one_kind_of_run(other):
    passes = files("qwen3-32b", {8: (10e6, 9e6)}, (37.4e5, 1e5))
    for record in passes[0]["records"]:
        record["problem"] |= other
    assert verdict("dequantization-overhead", "qwen3-32b, batch 8", *passes).kind == NOT_YET


def passes_with_share(gains, way, share=0.4, model="qwen3-32b"):
    """Dequantization has that share of 10 s; the kernel takes half of it."""
    walls = {batch: (1e7, 1e7 / gain) for batch, gain in gains.items()}
    return files(model, walls, (1e7 * share, 5e6 * share), way)


@pytest.mark.parametrize(
    ("gain", "kind"),
    [(1.25, YES), (1.25 * 1.09, MAY_BE), (1.25 * 1.18, NO), (1.25 * 0.89, MAY_BE), (1.0, NO)],
)
def test_as_much_is_gained_as_amdahls_law_makes_of_the_share(gain, kind):
    """40 % and 2 x make 1.25 x; one batch of six that is off decides."""
    passes = passes_with_share(dict.fromkeys(BATCHES, 1.25) | {16: gain}, "graph")
    v = verdict("amdahl", "qwen3-32b, batch all, graph", *passes, reading=GRAPH)
    assert (v.kind, v.ours) == (kind, pytest.approx((5 * 1.25 + gain) / 6))
    assert f"16: 1.25 and {gain:.2f}" in v.note


def test_predicted_and_measured_gains_are_of_geometric_means():
    """Of samples 1, 1 and 8 the geometric mean is 2, the median 1: a share of 20 % becomes half."""
    timing, profile = passes_with_share(dict.fromkeys(BATCHES, 1.1), "graph", 0.1)
    for record in made.rows_of(profile, TREE):
        made.set_metric(record, "kernel_time.step", 0)
        record["metrics"][0]["samples"] = [1e6, 1e6, 8e6]
    v = verdict("amdahl", "qwen3-32b, batch all, graph", timing, profile, reading=GRAPH)
    predicted = 1 / (0.8 + 0.2 * 0.5 / 2)  # the kernel takes 5 % of 10 s instead of 20
    assert f"16: {predicted:.2f} and 1.10" in v.note


FALLS = {batch: 2 - i / 10 for i, batch in enumerate(BATCHES)}


@pytest.mark.parametrize(
    ("smallest", "way", "kind", "gemmas"),
    [
        (2.0, "graph", YES, NO),
        (1.3, "graph", NO, YES),
        (1.5, "graph", MAY_BE, MAY_BE),
        (2.0, "eager", MAY_BE, MAY_BE),  # as far as hosts differ
        (20.0, "eager", YES, NO),
    ],
)
def test_smaller_batches_gain_more_or_larger_ones(smallest, way, kind, gemmas):
    timing, reading = gains(FALLS | {2: smallest}, way=way), READINGS[way]
    v = verdict("small-batches-gain-more", f"qwen3-32b, batch all, {way}", timing, reading=reading)
    assert (v.kind, v.ours) == (kind, pytest.approx(smallest))
    assert ("would decide" in v.note) is (kind == MAY_BE and way == "eager")
    timing = gains(FALLS | {2: smallest}, model="gemma-2-27b", way=way)
    v = verdict("gemma-rises", f"gemma-2-27b, batch all, {way}", timing, reading=reading)
    assert (v.kind, v.ours) == (gemmas, pytest.approx(1.5))


@pytest.mark.parametrize(("peak", "kind"), [(1.7, YES), (1.5, MAY_BE), (1.3, NO)])
def test_the_gain_of_batch_32_is_the_greatest(peak, kind):
    timing = gains(dict.fromkeys(BATCHES, 1.5) | {32: peak}, way="graph")
    v = verdict("peak-at-32", "qwen3-32b, batch all, graph", timing, reading=GRAPH)
    assert (v.kind, v.ours) == (kind, pytest.approx(peak))


MODELS = ("gemma-3-27b", "qwen3-32b", "llama-3.3-70b")


@pytest.mark.parametrize(
    ("gain", "share", "kinds"),
    [
        ((1.1, 1.3, 1.5), (0.4, 0.5, 0.6), [YES, YES]),
        ((1.1, 1.3, 1.1), (0.4, 0.5, 0.45), [NO, NO]),
        ((1.1, 1.1, 1.1), (0.4, 0.4, 0.4), [MAY_BE, MAY_BE]),
    ],
)
def test_larger_models_gain_more_and_spend_more(gain, share, kinds):
    every = [
        passes_with_share(dict.fromkeys(BATCHES, g), "graph", s, model)
        for model, g, s in zip(MODELS, gain, share, strict=True)
    ]
    merged = [
        parts[0] | {"records": [r for part in parts for r in part["records"]]}
        for parts in zip(*every, strict=True)
    ]
    cells = made.decision("larger-models", *merged).of_reading(GRAPH)
    assert [v.kind for v in cells if v.cell.at["model"] == MODELS[0]] == kinds
    assert {v.kind for v in cells if v.cell.at["model"] != MODELS[0]} == {NOT_YET}


@pytest.mark.parametrize(("last", "kind"), [(0.2, YES), (0.4, MAY_BE), (0.8, NO)])
def test_the_share_at_the_largest_batch_is_less(last, kind):
    walls = dict.fromkeys(BATCHES, (1000000.0 / 0.4, 1000000.0)) | {64: (1e6 / last, 1e6)}
    passes = files("qwen3-32b", walls, parts=(1e6, 5e5))
    v = verdict("share-falls", "qwen3-32b, batch all", *passes)
    assert (v.kind, v.ours) == (kind, pytest.approx(100 * last))


@pytest.mark.parametrize(("product", "kind"), [(30, YES), (20, MAY_BE), (10, NO)])
def test_products_and_other_work_grow_by_40_ms(product, kind):
    """Dequantization grows too, and is neither; steps of a graph decide nothing."""
    rows = []
    for batch, products, others, kernels in (
        (2, 50, 100, 90),
        (64, 50 + product, 140 - product, 110),
    ):
        ms = {"product_time": products, "busy_time": products + others + kernels}
        ms |= {"kernel_time": kernels}
        metrics = [made.metric(name, [1e3 * time]) for name, time in ms.items()]
        metrics += [made.metric(f"{name}.step", [1e3]) for name in ms]
        rows.append(made.record(made.generated("qwen3-32b", batch), TREE, metrics=metrics))
    profile = made.results("end_to_end", "profile", rows)
    v = verdict("why-the-share-falls", "qwen3-32b, batch all, eager", profile)
    assert (v.kind, v.ours) == (kind, pytest.approx(100 * product / 40))


def test_the_least_gain_is_of_all_models():
    cell = "model all, batch all"
    timing = gains({2: 3.0, 16: 2.2, 64: 1.9})
    for model in ("gemma-3-27b", "llama-3.3-70b"):  # one Gemma is enough
        v = verdict("end-to-end", cell, timing)
        assert (v.kind, v.ours) == (NOT_YET, None)
        timing["records"] += gains({2: 2.0}, model=model)["records"]
    for record in timing["records"]:
        record["problem"]["weights"] = 69 * 10**9
    v = verdict("end-to-end", cell, timing)
    assert (v.kind, v.ours, v.cell.value) == (YES, pytest.approx(1.9), 1.07)
    assert "qwen3-32b at batch 64" in v.note
    # No other model can raise the smallest gain; a tenth below 1.07 x does not allow a loss.
    assert verdict("end-to-end", cell, gains({2: 0.2})).kind == NO


@pytest.mark.parametrize(
    ("claim", "cell"), [("plug-and-play", ""), ("token-exact", "qwen3-32b, batch all")]
)
def test_nothing_but_the_kernel_was_exchanged(claim, cell):
    timing = gains(dict.fromkeys(BATCHES, 1.5))
    v = verdict(claim, cell, timing)
    assert (v.kind, len(v.rows)) == (YES, 6)
    timing["records"][-1] |= ONE_OTHER | {"reason": "1 token differs"}
    v = verdict(claim, cell, timing)
    assert v.kind == NO and "qwen3-32b/batch64/eager" in v.note
    timing["records"] = made.rows_of(timing, TREE)
    assert verdict(claim, cell, timing).kind == NOT_YET


def test_tokens_that_were_extrapolated_are_not_counted():
    timing = gains(dict.fromkeys(BATCHES, 1.5))
    for record in timing["records"]:
        record["problem"] |= {"tokens": 391, "generated": 32}
    v = verdict("token-exact", "qwen3-32b, batch all", timing)
    assert v.note.startswith(f"{32 * sum(BATCHES)} tokens ")


def test_one_sequence_decides_nothing_of_the_papers():
    """The paper has no batch 1, at which bitsandbytes does not dequantize."""
    timing = gains(dict.fromkeys((1, *BATCHES), 1.5))
    for record in timing["records"][:2]:
        record |= ONE_OTHER | {"reason": "1 token differs"}
    assert verdict("plug-and-play", "", timing).kind == YES


def test_a_model_that_does_not_fit_decides_nothing():
    timing = gains(dict.fromkeys(BATCHES, 1.5))
    lost = {"outcome": "unsupported", "reason": "out of memory", "metrics": []}
    ours = [r for r in timing["records"] if r["kernel"] == "shared_lut"]
    ours[-1] |= lost
    assert verdict("plug-and-play", "", timing).kind == YES
    for row in ours:
        row |= lost
    assert verdict("plug-and-play", "", timing).kind == CANNOT
    ours[0] |= {"outcome": "mismatch", "reason": "tokens differ", "mismatches": 1}
    assert verdict("plug-and-play", "", timing).kind == CANNOT


@pytest.mark.parametrize(
    ("claim", "cell", "name", "value", "kind"),
    [
        ("model-size-in-memory", "fp16", "parameters", 32762123264, YES),
        ("model-size-in-memory", "fp16", "parameters", 28_000_000_000, NO),
        ("model-size-in-memory", "nf4", "memory_bytes", 17_600_000_000, YES),  # no spread
        ("model-size-in-memory", "nf4", "memory_bytes", 17_600_100_000, NO),
        ("model-size-in-memory", "ratio", "memory_bytes", 18_202_000_000, NO),  # 3.6 times
        ("model-size", "fp16", "weights", 31_000_000_000, YES),
        ("model-size", "nf4", "weights", 36_000_000_000, NO),
        ("model-size", "ratio", "weights", 1, YES),
    ],
)
def test_the_models_size(claim, cell, name, value, kind):
    passes = files("qwen3-32b", {4: (10e6, 8e6), 2: (10e6, 8e6)})
    for record in passes[0]["records"]:
        record["problem"][name] = value
    assert verdict(claim, f"qwen3-32b, {cell}", *passes).kind == kind


@pytest.mark.parametrize(
    ("versions", "kind"),
    [
        (("2.1.2+cu121", "0.47.0"), YES),
        (("2.10.0", "0.47.0"), CANNOT),
        (("2.1.2", "0.47.1"), CANNOT),
        ((), CANNOT),
    ],
)
def test_the_versions_that_ran(versions, kind):
    timing = gains({2: 1.5})
    if versions:
        installed = dict(zip(("torch", "bitsandbytes"), versions, strict=True))
        timing["provenance"]["build"]["versions"] = installed
    v = verdict("environment", "", timing)
    assert v.kind == kind and all(version in v.note for version in versions)
    assert [key for _, key in v.rows] == [""]  # the file's provenance, not a row


def step_on(gpu, us, bandwidth, multiprocessors=132):
    metrics = [made.metric("kernel_time.step", [us] * 3)]
    row = made.record(made.generated("llama-3.3-70b", 2, "graph"), TREE, metrics=metrics)
    facts = {"multiprocessors": multiprocessors, "compute_capability": "9.0"}
    facts |= {"theoretical_bandwidth_gb_s": bandwidth}
    return made.on(gpu, made.results("end_to_end", "profile", [row]), **facts)


def two_gpus(tmp_path, *runs):
    for i, file in enumerate(runs):
        place = tmp_path / f"data/recorded/gpu{i}/end_to_end/profile.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(file))
    first, *_ = machines([*result_files(tmp_path)])
    (d,) = decide(first, made.with_claim("memory-bound"))
    return d.verdicts[-1]


@pytest.mark.parametrize(("scale", "kind"), [(1.436, YES), (1.3, MAY_BE), (1.0, NO)])
@pytest.mark.parametrize("swapped", [False, True])
def test_bandwidth_bound_rows_scale_with_the_bandwidth(tmp_path, scale, kind, swapped):
    """44 % more bandwidth, a tenth less allowed, in the evidence of either GPU."""
    both = [step_on("NVIDIA H200", 1e5, 4814), step_on("NVIDIA H100 80GB HBM3", 1e5 * scale, 3352)]
    v = two_gpus(tmp_path, *both[:: -1 if swapped else 1])
    assert (v.kind, v.ours) == (kind, pytest.approx(scale))
    assert len({file for file, _ in v.rows}) == 2


def test_a_gpu_with_other_multiprocessors_or_the_same_memory_decides_nothing(tmp_path):
    runs = [step_on("NVIDIA H200", 1e5, 4814), step_on("NVIDIA H200", 1e5, 4800)]
    assert two_gpus(tmp_path, *runs, step_on("NVIDIA A100", 2e5, 2039, 108)).kind == NOT_YET

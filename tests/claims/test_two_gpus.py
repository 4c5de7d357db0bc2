"""Claims that rest on two recorded GPUs."""

import json

import made
import pytest

from reprolab.claims.evidence import machines
from reprolab.claims.ledger import decide

STEP = "kernel_time.step"
TIMES = {"branch_tree": 157.0, "shared_lut": 75.0, "streaming": 42.0}


def profile(scale, bandwidth, gpu):
    problem = made.generated("llama-3.3-70b", 2, "graph")
    rows = [
        made.record(problem, kernel, metrics=[made.metric(STEP, [1e3 * ms * scale] * 3)])
        for kernel, ms in TIMES.items()
    ]
    file = made.results("end_to_end", "profile", rows)
    facts = {"multiprocessors": 132, "compute_capability": "9.0"}
    return made.on(gpu, file, theoretical_bandwidth_gb_s=bandwidth, **facts)


def bandwidth_cell(tmp_path, here, *others):
    recorded = tmp_path / "data/recorded"
    for i, file in enumerate((here, *others)):
        place = recorded / f"gpu{i}/end_to_end/profile.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(file))
    first, *_ = machines([recorded])
    (d,) = decide(first, made.with_claim("memory-bound"))
    return d.verdicts[-1]


@pytest.mark.parametrize(
    ("scale", "verdict"),
    [(1.436, "reproduced"), (1.3, "undecided"), (1.0, "not_reproduced")],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_bandwidth_bound_rows_scale_with_the_bandwidth(tmp_path, scale, verdict, swapped):
    """44 % more bandwidth, a tenth less allowed, in the evidence of either GPU."""
    both = [profile(1.0, 4814, "NVIDIA H200"), profile(scale, 3352, "NVIDIA H100 80GB HBM3")]
    v = bandwidth_cell(tmp_path, *both[:: -1 if swapped else 1])
    assert (v.verdict, v.ours) == (verdict, pytest.approx(scale))
    assert len({file for file, _ in v.evidence}) == 2
    assert "streaming" in v.reason


def test_a_gpu_with_other_multiprocessors_or_the_same_memory_decides_nothing(tmp_path):
    here = profile(1.0, 4814, "NVIDIA H200")
    same, other = profile(1.0, 4800, "NVIDIA H200"), profile(1.4, 2039, "NVIDIA A100")
    other["provenance"]["gpu"]["multiprocessors"] = 108
    assert bandwidth_cell(tmp_path, here, same, other).verdict == "not_tested"

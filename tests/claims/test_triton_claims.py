"""The claim on Triton, decided by the code that its compiler made: each way that it can go."""

import made
import pytest

PACKED, UNROLLED = "packed stores, this GPU", "unrolling, this GPU"


def code(stored_bytes, weights, arch="sm_90"):
    facts = {"widest_global_store_bytes": stored_bytes, "weights_per_trip": weights}
    row = made.compiled("triton_lut", arch, facts)
    return made.code([row | {"origin": {"kind": "compiler", "maker": "Triton (triton 3.9.0)"}}])


def ran(capability="9.0"):
    found = made.results("puzzle", "mlps", [made.record(made.puzzle_problem(), "streaming")])
    found["provenance"]["gpu"]["compute_capability"] = capability
    return found


def verdicts(*files):
    found = made.decided(*files)
    return [found["triton", cell] for cell in (PACKED, UNROLLED)]


@pytest.mark.parametrize(("stored_bytes", "weights"), [(2, 2), (4, 2), (16, 16)])
def test_a_judgement_gets_no_verdict_but_what_the_compiler_makes(stored_bytes, weights):
    found = verdicts(code(stored_bytes, weights), ran())
    assert [v.verdict for v in found] == ["not_testable"] * 2
    assert [v.ours for v in found] == [stored_bytes / 2, weights]
    assert [key for v in found for _, key in v.evidence] == ["sm_90/triton_lut"] * 2


def test_what_was_not_compiled_for_this_gpu_decides_nothing():
    for v in verdicts(code(16, 16, "sm_80"), ran()):
        assert (v.verdict, v.reason) == (
            *("not_tested", "sass.json has no triton_lut for sm_90 (make triton compiles it)"),
        )
    assert {v.verdict for v in verdicts(code(16, 16))} == {"not_tested"}  # nothing ran on a GPU


def test_a_fact_that_could_not_be_read_decides_nothing():
    file = code(16, 16)
    for fact in file["records"][0]["metrics"]:
        del fact["samples"]
        fact["missing"] = "the kernel stores nothing on sm_90"
    for v in verdicts(file, ran()):
        assert (v.verdict, v.ours) == ("not_testable", None)
        assert v.reason.endswith("the kernel stores nothing on sm_90")

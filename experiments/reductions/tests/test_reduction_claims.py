"""Claims on sums and scans, on rows made with the sources' own numbers."""

import made
import pytest

SOURCES = {s.id: s for s in made.all_sources()}
YES, NO, MAY_BE, CANNOT = "reproduced", "not_reproduced", "undecided", "not_testable"
WORDS = 1 << 30


def row(family, kernel, gb_s, moved, **problem):
    us = moved / gb_s / 1e3
    facts = {"name": f"{WORDS}/{problem}", "family": family, "n": WORDS, "length": WORDS} | problem
    facts |= {"data": "random"}
    origin = {"kind": "peer" if "cub" in kernel else "project", "maker": ""}
    moves = {"read": moved, "written": 0}
    return made.record(facts, kernel, [0.999 * us, us, 1.001 * us], origin=origin, bytes=moves)


@pytest.fixture
def sums():
    """Every kernel of the CUDA post as fast as it says."""
    post = SOURCES["sum_cuda"]
    speeds, ours = post.tables["gb_s"], post.setup["our_kernels"]["gb_s"]
    rows = [row("reduction", ours[k], gb_s, 4 * WORDS) for k, gb_s in speeds.items()]
    return made.on("NVIDIA H100 80GB HBM3", made.results("reductions", "sizes", rows))


def set_speed(file, kernel, gb_s):
    made.set_times(made.rows_of(file, kernel)[0], [4 * WORDS / gb_s / 1e3] * 3)


def test_on_the_posts_own_numbers_its_lead_over_cub_is_undecided(sums):
    """1.1 to 1.3 % are about what two runs differ by, and 0.016 % less."""
    made_of = made.decisions(sums, sources=[SOURCES["sum_cuda"]])
    kinds = {claim: decision.verdict for claim, decision in made_of.items()}
    assert kinds["sum-5x"] == kinds["sum-speeds"] == YES
    assert kinds["sum-kernel-9-best"] == MAY_BE


@pytest.mark.parametrize(("gb_s", "kind"), [(2500, YES), (3231, MAY_BE), (4000, NO)])
def test_cub_decides_who_outperforms_it(sums, gb_s, kind):
    set_speed(sums, "cub_sum_allocating", gb_s)
    cell = "kernel_9 over kernel_5 (CUB)"
    assert made.verdict("sum-beats-cub", cell, sums).kind == kind


OURS, LIBRARY = ("sum_vectors", "kernel_4"), ("cub_sum_allocating", "kernel_5 (CUB)")


@pytest.mark.parametrize(
    ("pair", "gb_s", "kind"), [(OURS, 2700, CANNOT), (OURS, 3300, YES), (LIBRARY, 2700, NO)]
)
def test_a_speed_of_a_kernel_written_anew_refutes_nothing(sums, pair, gb_s, kind):
    kernel, cell = pair
    set_speed(sums, kernel, gb_s)
    assert made.verdict("sum-speeds", cell, sums).kind == kind


def test_steps_of_the_scan_have_one_task_or_the_sources_two():
    """Kernel 2 is faster than kernel 1 on its own segment alone."""
    kernels = {"scan_in_shared": (1300, 1290), "scan_two_buffers": (1700, 1100)}
    rows = [
        row("scan", kernel, gb_s, 8 * WORDS, segment=segment)
        for kernel, both in kernels.items()
        for segment, gb_s in zip((256, 512), both, strict=True)
    ]
    file = made.results("scan", "sizes", rows)
    for reading, kind in (("one task", NO), ("as published", YES)):
        found = made.verdict("scan-steps", "kernel_2 over kernel_1", file, reading=reading)
        assert found.kind == kind


def test_a_scan_that_restarts_is_no_prefix_sum():
    rows = [row("scan", "scan_four_each", 3000, 8 * WORDS, segment=s) for s in (512, WORDS)]
    made.fail(rows[1], "unsupported", "restarts every 256 or 512 words")
    verdict = made.decision("scan-prefix-sum", made.results("scan", "sizes", rows))
    assert verdict.verdict == YES
    found = made.verdict("scan-prefix-sum", f"segment {WORDS}", made.results("scan", "sizes", rows))
    assert (found.kind, found.note[-33:]) == ("premise_false", "99.99995 % of the sums are others")


def test_a_slower_kernel_of_a_language_that_was_not_run_refutes_nothing():
    speeds = {"cub_sum": 4500, "sum_eight": 2000}
    rows = [row("reduction", kernel, gb_s, 4 * WORDS) for kernel, gb_s in speeds.items()]
    file = made.results("reductions", "sizes", rows)
    assert made.verdict("sum-mojo-close-to-cub", "one_pass_4 over CUB", file).kind == CANNOT

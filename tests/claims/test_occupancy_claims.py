"""The claims on how many blocks and warps a multiprocessor holds: each way that they can go."""

import json

import made
import pytest
from counted_run import SUBJECT

from claims.occupancy import MULTIPROCESSORS
from claims.published import load_source


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks"),
    [
        (64, 56, 2720, 18),  # registers
        (64, 32, 1392, 32),  # blocks
        (1024, 32, 0, 2),  # threads
        (1024, 65, 0, 0),  # does not run
        (64, 32, 40 << 10, 4),  # shared memory
        (96, 56, 0, 12),  # warps of three
        (64, 16, 4096, 32),
        (64, 16, 4225, 31),  # 128 bytes more
    ],
)
def test_what_fits_on_an_a100(threads, registers, shared_bytes, blocks):
    """As cuda_occupancy.h has it; tests/profiling/occupancy_test.cpp asks it for the same."""
    assert MULTIPROCESSORS["sm_80"].blocks_that_fit(threads, registers, shared_bytes) == blocks


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks"),
    [
        (512, 16, 64, 2),  # threads
        (1024, 16, 64, 1),
        (512, 128, 0, 1),  # registers
        (513, 16, 64, 1),  # a warp of one thread
        (160, 80, 0, 4),  # registers of each quarter: 6 warps, not 25 of all together
        (32, 16, 0, 16),  # blocks
        (32, 16, 64, 16),
        (32, 16, 4096, 16),
        (32, 16, 4097, 15),  # 256 bytes more
    ],
)
def test_what_fits_on_a_t4(threads, registers, shared_bytes, blocks):
    assert MULTIPROCESSORS["sm_75"].blocks_that_fit(threads, registers, shared_bytes) == blocks


POSTS = {"registers": 16, "static_shared_bytes": 64}


def posts(tmp_path=None, facts=POSTS, **arguments):
    """The post's claim on its blocks of 512 threads, or one with other arguments."""
    found = load_source(made.PUBLISHED / "modular_blog.json")
    if tmp_path:
        post = json.loads(found.file.read_text())
        (claim,) = (claim for claim in post["claims"] if claim["id"] == "blocks-3-4")
        claim["comparisons"][0]["arguments"] |= arguments
        (tmp_path / "post.json").write_text(json.dumps(post))
        found = load_source(tmp_path / "post.json")
    code = made.code([made.compiled("packed_512", "sm_75", facts)])
    return made.decided(code, sources=[found])["blocks-3-4", "packed_512, sm_75"]


def test_a_t4_does_not_hold_the_warps_that_four_blocks_would_take():
    found = posts()
    assert (found.verdict, found.ours) == ("premise_false", 2)
    assert found.reason == (
        "2 blocks of packed_512 fit on a multiprocessor of a T4, with 512 threads, 16 registers a "
        "thread and 64 bytes of shared memory; it holds 32 warps, not 64"
    )
    assert [key for _, key in found.evidence] == ["sm_75/packed_512"]


@pytest.mark.parametrize(
    ("least", "registers", "verdict"),
    [(3, 16, "not_reproduced"), (2, 16, "reproduced"), (2, 128, "not_reproduced")],
)
def test_with_the_warps_of_a_t4_its_blocks_decide(tmp_path, least, registers, verdict):
    facts = POSTS | {"registers": registers}
    assert posts(tmp_path, facts, least=least, warps=32).verdict == verdict


def test_code_for_another_gpu_says_nothing_of_a_t4(run):
    found = made.decided(*run.files.values())["blocks-3-4", "packed_512, sm_75"]
    assert (found.verdict, found.reason) == ("not_tested", "sass.json has no packed_512 for sm_75")


@pytest.mark.parametrize(
    ("registers", "blocks", "verdict"),
    [(255, 4, "not_reproduced"), (232, 4, "not_reproduced"), (56, 18, "not_reproduced")],
)
def test_registers_leave_at_least_four_blocks_of_64_threads(run, registers, blocks, verdict):
    run.code(SUBJECT, "sm_80", "registers", registers)
    found = run.decided("occupancy-2-3")[0]
    assert (found.verdict, found.ours) == (verdict, blocks)


@pytest.mark.parametrize(
    ("shared", "verdict"),
    [(80 << 10, "reproduced"), (50 << 10, "reproduced"), (39 << 10, "not_reproduced"),
     (82 << 10, "not_reproduced")],
)  # fmt: skip
def test_two_or_three_blocks_fit_where_shared_memory_says_so(run, shared, verdict):
    run.code(SUBJECT, "sm_80", "static_shared_bytes", shared)
    assert run.words("occupancy-2-3")[0] == verdict


def test_either_tile_would_do(run):
    """The paper's own figure is of one of two sizes, whichever it means."""
    assert run.whole("occupancy-2-3") == "not_reproduced"
    run.code("shared_lut_tile512", "sm_80", "static_shared_bytes", 50 << 10)
    assert run.words("occupancy-2-3") == ["not_reproduced", "reproduced"]
    assert run.whole("occupancy-2-3") == "reproduced"


def test_on_an_a100_four_blocks_of_512_threads_are_right():
    code = made.code([made.compiled("packed_512", "sm_80", POSTS)])
    found = made.decided(code)["blocks-3-4", "packed_512, sm_80"]
    assert (found.verdict, found.ours) == ("reproduced", 4)


def constant_cache(write, kb):
    paper = made.raw("paper")
    paper["tables"]["constant_cache_kb"] = kb
    source = load_source(write("paper.json", paper))
    return made.decided(sources=[source])["constant-cache", "constant cache"]


@pytest.mark.parametrize(("kb", "verdict"), [(64, "premise_false"), (8, "reproduced")])
def test_the_constant_cache_is_as_large_as_its_documentation_says(write, kb, verdict):
    found = constant_cache(write, kb)
    assert (found.verdict, found.ours) == (verdict, 8)
    assert found.reason.startswith("8 KB by the CUDA C++ Programming Guide, ")

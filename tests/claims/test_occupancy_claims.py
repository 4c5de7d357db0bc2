"""The claims on how many blocks and warps a multiprocessor holds: each way that they can go."""

import json

import made
import pytest

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
    """As cuda_occupancy.h has it; tests/profiling/activity_test.cpp asks it for the same."""
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


@pytest.mark.parametrize(
    ("least", "registers", "verdict"),
    [(3, 16, "not_reproduced"), (2, 16, "reproduced"), (2, 128, "not_reproduced")],
)
def test_with_the_warps_of_a_t4_its_blocks_decide(tmp_path, least, registers, verdict):
    facts = POSTS | {"registers": registers}
    assert posts(tmp_path, facts, least=least, warps=32).verdict == verdict


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

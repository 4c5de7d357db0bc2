"""The claims of Modular's post that the puzzle decides: each way that they can go."""

import made
import pytest

from claims.ledger import verdict_on

SCALAR, PACKED = "scalar_store", "packed_store"
VALUE = 8 / 4.25


def file(scalar_us, packed_us, iterations=1000):
    """Two rows that were timed as published; by graphs the gain is 3."""
    problem = made.puzzle_problem(iterations)
    records = []
    for kernel, us, graph_us in ((SCALAR, scalar_us, 300000.0), (PACKED, packed_us, 100000.0)):
        metrics = [made.metric("wall_time", [us] * 5), made.metric("kernel_time", [graph_us] * 5)]
        records.append(made.record(problem, kernel, metrics=metrics))
    return made.results("puzzle", "mlps", records)


def verdict(found):
    return made.decided(made.on("Tesla T4", found))["packed-stores", "T4"]


@pytest.mark.parametrize(
    ("gain", "expected"), [(VALUE * 2, "reproduced"), *made.around(VALUE * 0.9)]
)
def test_the_gain_as_published_decides(gain, expected):
    v = verdict(file(gain * 200000, 200000.0))
    assert v.verdict == expected
    assert v.ours == pytest.approx(gain)
    assert v.cell.value == VALUE
    assert [key for _, key in v.evidence] == [
        f"three MLPs, 1000 times/{kernel}" for kernel in (SCALAR, PACKED)
    ]


def test_without_a_graph_the_host_decides_alone():
    found = file(400000.0, 200000.0)
    missing = {"name": "kernel_time", "unit": "us", "missing": "cannot be captured"}
    found["records"][0]["metrics"][1] = missing
    v = verdict(found)
    assert v.verdict == "reproduced"
    assert v.reason.startswith("scalar_store: 0.400 s, packed_store: 0.200 s; +6.2 % from the")


def test_fewer_iterations_decide_nothing():
    v = verdict(file(400000.0, 200000.0, iterations=999))
    assert (v.verdict, v.ours) == ("not_testable", None)
    assert v.reason.startswith("decided on problems with iterations at least 1000; ")


MOJO, PEER = "mojo_packed_512", "bitsandbytes_0_47_0"
LEAST = 1.07
FIRST = "two bytes loaded, then stored"
OWN = {"Tesla T4": 1.07, "NVIDIA L4": 1.25, "NVIDIA A100-PCIE-40GB": 1.84, "NVIDIA H100 PCIe": 1.51}


def timed(kernel, wall_us, graph_us=100000.0, **changes):
    metrics = [made.metric("wall_time", [wall_us] * 5), made.metric("kernel_time", [graph_us] * 5)]
    return made.record(made.puzzle_problem(), kernel, metrics=metrics, **changes)


def peer(wall_us, name=PEER):
    origin = {"kind": "peer", "maker": "bitsandbytes 0.47.0"}
    return timed(name, wall_us, 150000.0, origin=origin)


def puzzle(gain, *more):
    """The Mojo row in 0.2 s, the library `gain` times as slow."""
    origin = {"kind": "compiler", "maker": "Mojo (max-core 26.7.0)"}
    rows = [timed(MOJO, 200000.0, origin=origin), peer(gain * 200000.0), *more]
    return made.results("puzzle", "mlps", rows)


def over_peer(found, library=PEER):
    return made.decided(found)["mojo-1.07-1.84", library, FIRST]


@pytest.mark.parametrize(
    ("gain", "expected"), [(5.0, "reproduced"), *made.around(LEAST * 0.95), (0.5, "not_reproduced")]
)
def test_mojo_over_the_library_is_decided_by_the_smallest_gain(gain, expected):
    v = over_peer(puzzle(gain))
    assert (v.verdict, v.cell.value) == (expected, LEAST)
    assert v.ours == pytest.approx(gain)
    assert [key.rpartition("/")[2] for _, key in v.evidence] == [MOJO, PEER]


@pytest.mark.parametrize("gpu", OWN)
def test_each_gpu_has_its_own_gain(gpu):
    """On a GPU of the post's, its own gain decides too; those of the others never do."""
    for gain, whole in ((OWN[gpu] * 1.01, "reproduced"), (OWN[gpu] * 0.9, "not_reproduced")):
        d = made.decisions(made.on(gpu, puzzle(gain)))["mojo-1.07-1.84"]
        cells = [v for v in d.readings[FIRST] if v.cell.gpu]
        (own,) = [v for v in cells if not v.elsewhere]
        assert (own.cell.value, own.ours) == (OWN[gpu], pytest.approx(gain))
        assert (own.verdict, verdict_on(d.readings[FIRST])) == (whole, whole)
        assert {v.verdict for v in cells if v.elsewhere} == {"not_testable"}
    d = made.decisions(puzzle(LEAST))["mojo-1.07-1.84"]  # an H200
    assert d.verdict == "reproduced"
    cells = [v.cell.text for v in d.readings[FIRST]]
    assert cells == [PEER, *(f"{g}, {PEER}" for g in ("T4", "L4", "A100-40GB", "H100-PCIe"))]


def test_without_a_library_nothing_is_decided():
    found = puzzle(1.5)
    found["records"].remove(made.find(found, f"three MLPs, 1000 times/{PEER}"))
    v = over_peer(found, "")
    assert (v.verdict, v.ours) == ("not_tested", None)
    assert v.reason == "no bitsandbytes ran: PEER=path/to/libbitsandbytes_cuda130.so"


def test_a_gain_within_the_intervals_is_undecided():
    found = puzzle(1.06)
    row = made.find(found, f"three MLPs, 1000 times/{MOJO}")
    row["metrics"][0]["samples"] = [180000.0, 190000.0, 200000.0, 210000.0, 220000.0]
    v = over_peer(found)
    assert v.verdict == "undecided"
    assert v.reason.endswith(": runs on several GPUs of this kind would decide it")
    row["metrics"][0]["samples"] = [199900.0, 200000.0, 200000.0, 200000.0, 200100.0]
    assert over_peer(found).verdict == "reproduced"


@pytest.mark.parametrize(("us", "expected"), [(220000.0, "reproduced"), (190000.0, "not_rep")])
def test_each_of_several_libraries_is_decided_on_its_own(us, expected):
    found = puzzle(2.0, peer(us, "bitsandbytes_newest"))
    old, new = over_peer(found), over_peer(found, "bitsandbytes_newest")
    assert (old.verdict, old.ours) == ("reproduced", pytest.approx(2.0))
    assert new.verdict.startswith(expected)
    assert new.ours == pytest.approx(us / 200000)
    assert old.reason.startswith("bitsandbytes_0_47_0: 0.400 s, mojo_packed_512: 0.200 s; ")
    assert new.reason.startswith(f"bitsandbytes_newest: {us / 1e6:.3f} s, mojo_packed_512: ")

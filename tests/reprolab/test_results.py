"""The reader and the schema: errors for invalid files, and the values of a valid one."""

import json
import lzma

import made
import pytest

from reprolab import result_file
from reprolab.json_files import ROOT
from reprolab.results import load, read

SEE = "(see data/results.schema.json)"


@pytest.fixture
def file():
    """A replay of two rows, with a check of the first."""
    problem = made.forward_pass("qwen3-32b", 2)
    tree = made.record(problem, "branch_tree", [30.0, 10.0, 20.0], products=[5.0, 6.0, 7.0])
    lut = made.record(problem, "shared_lut", [10.0, 11.0, 12.0])
    check = {"name": "clock", "keys": [tree["key"]], "first": 101.0, "second": 100.0}
    check |= {"unit": "us", "allowed_percent": 1.0}
    return made.results("table2", "replay", [tree, lut], checks=[check])


def first(file):
    return file["records"][0]


CASES = [
    (lambda r: r.update(schema=3), "schema"),
    (lambda r: r.update(verdicts=[], more=1), "verdicts"),
    (lambda r: first(r).pop("outcome"), "records[0]"),
    (lambda r: first(r).update(outcome="fine"), "records[0].outcome"),
    (lambda r: first(r)["metrics"][0]["samples"].__setitem__(2, 0), "metrics[0].samples[2]"),
    (lambda r: first(r).update(outcome="mismatch"), "records[0].metrics"),
    (lambda r: first(r).update(outcome="deviation_as_declared"), "records[0].deviation"),
    (lambda r: first(r)["metrics"][0].update(name="kernel_time.step", unit="s"), "metrics[0].unit"),
    (lambda r: first(r).update(kernel="k" * 10**6), "records[0].kernel"),
    (lambda r: r["provenance"].update(started="2026-13-01T00:00:00Z"), "provenance.started"),
    (lambda r: r["records"].append(first(r)), "records[2].key"),
    (lambda r: first(r).update(run=1), "records[0].run"),
]


@pytest.mark.parametrize(("spoil", "field"), CASES)
def test_an_error_names_the_file_and_the_field(file, write, spoil, field, refused):
    spoil(file)
    error = refused(load, write("replay.json", file))
    assert "/replay.json: " in error and field in error and error.endswith(SEE)
    assert len(error) < 600


def test_a_file_describes_families_that_this_checkout_does_not_have(write):
    problem = {"name": "64", "family": "product", "n": 64}
    kernel = {"name": "mojo_a", "language": "mojo", "counterpart": "a", "lineage": "ours"}
    kernel |= {"source_file": "a.mojo", "contract": "bit_exact", "contract_text": ""}
    family = {"name": "product", "size_option": "--of", "profiled_size": ""}
    family |= {"parts": [], "kernels": [kernel]}
    file = made.results("any", "any", [made.record(problem, "mojo_a", [1.0])])
    results = load(write("file.json", file | {"families": [family]}))
    assert results.family.size_option == "--of"
    assert results.families["nf4"].size_option == "--shape"


@pytest.mark.parametrize(
    ("name", "content", "noun"),
    [
        ("a.json", b'{"schema": ', "column 12"),
        ("a.json", b"\xff\xfe{}", "UTF-8"),
        ("a.json", b"[1]", "object"),
        ("a.json.xz", b'{"schema": 1}', ".xz"),
        ("a.json.xz", lzma.compress(b"{}" * 1000)[:-20], ".xz"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, name, content, noun, refused):
    path = tmp_path / name
    path.write_bytes(content)
    error = refused(load, path)
    assert f"/{name}: " in error and noun in error
    assert "cannot be read" in refused(load, tmp_path / "none.json")


def test_a_compressed_file_is_read_under_either_name(file, tmp_path):
    path = tmp_path / "replay.json"
    (tmp_path / "replay.json.xz").write_bytes(lzma.compress(json.dumps(file).encode()))
    assert load(path).rows[1].samples == (5.0, 6.0, 7.0)
    assert load(path).file.name == "replay.json.xz"
    assert len(read([tmp_path])) == 3  # two times, and the products of one row


def test_a_file_that_violates_the_schema_is_not_written(file, tmp_path, refused):
    path = tmp_path / "replay.json"
    result_file.write(path, file)
    assert [row.samples for row in load(path).rows] == [row.samples for row in made.read(file).rows]
    path.unlink()
    file.pop("checks")
    assert "'checks'" in refused(result_file.write, path, file)
    assert list(tmp_path.iterdir()) == []


def test_another_pass_than_the_one_needed(file, write, refused):
    path = write("r.json", file)
    assert load(path, "table2", "replay").pass_name == "replay"
    assert "'puzzle'" in refused(load, path, "puzzle", "replay")
    assert "'shapes'" in refused(load, path, "table2", "shapes")


@pytest.mark.parametrize(
    ("changes", "has_bandwidth", "ranked"),
    [
        ({}, True, True),
        ({"outcome": "within_bound", "bound": "sums in another order"}, True, True),
        ({"outcome": "deviation_as_declared", "deviation": "wrong scale"}, True, False),
        ({"deviation": "wrong where scales are nested"}, True, True),
        ({"outcome": "not_verified"}, False, False),
        ({"outcome": "not_verified", "origin": {"kind": "ceiling", "maker": ""}}, True, False),
        ({"outcome": "mismatch", "metrics": []}, False, False),
        ({"metrics": [{"name": "kernel_time", "unit": "us", "missing": "x"}]}, False, False),
    ],
)
def test_only_verified_rows_and_ceilings_have_a_bandwidth(file, changes, has_bandwidth, ranked):
    first(file).update(changes)
    record = made.read(file).records[0]
    assert (record.gb_per_s is not None, record.ranked) == (has_bandwidth, ranked)
    assert record.is_verified is (record.outcome not in ("not_verified", "mismatch"))


@pytest.mark.parametrize(
    ("reading", "passed"), [(101.0, True), (99.0, True), (101.01, False), (98.99, False)]
)
def test_a_check_passes_up_to_what_it_allows(file, reading, passed):
    file["checks"][0]["first"] = reading
    results = made.read(file)
    assert results.checks[0].passed is passed
    assert results.checks[0].difference_percent == pytest.approx(reading - 100)
    assert list(results.failed_checks) == ([] if passed else [first(file)["key"]])
    # Another failed check hides none.
    file["checks"].append(file["checks"][0] | {"first": 1.0, "unit": "byte"})
    failed = made.read(file).failed_checks[first(file)["key"]]
    assert [check.unit for check in failed] == ["us"] * (not passed) + ["byte"]


def test_a_file_that_the_cpp_test_wrote():
    """tests/harness writes it, so that one schema validates both ends."""
    files = sorted(ROOT.glob("build/*/result_file_from_cpp.json"))
    if not files:
        programs = list(ROOT.glob("build/*/bin/harness_test"))
        assert not programs, (
            f"{programs[0]} is there, but has not written result_file_from_cpp.json"
        )
        pytest.skip("no build/*/result_file_from_cpp.json: the C++ tests were not run here")
    for file in files:
        results, raw = load(file), json.loads(file.read_text())
        assert len(results.records) == len(raw["records"])
        for record, value in zip(results.records, raw["records"], strict=True):
            assert list(record.metrics) == [m["name"] for m in value["metrics"]]
            assert record.bytes_moved == sum(value["bytes"].values())

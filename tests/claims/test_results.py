"""The reader against the schema: what a wrong file is answered with, and what a right one holds."""

import json
import os
from pathlib import Path

import made
import pytest

from claims.errors import InputError
from claims.json_files import ROOT
from claims.results import load

SEE = "(see data/results.schema.json)"


@pytest.fixture
def file():
    """A replay of two rows, with a check that vouches for the first."""
    problem = made.forward_pass("qwen3-32b", 2)
    tree = made.record(problem, "branch_tree", [30.0, 10.0, 20.0], products=[5.0, 6.0, 7.0])
    lut = made.record(problem, "shared_lut", [10.0, 11.0, 12.0])
    check = {"name": "clock", "keys": [tree["key"]], "first": 101.0, "second": 100.0}
    check |= {"unit": "us", "allowed_percent": 1.0}
    return made.results("table2", "replay", [tree, lut], checks=[check])


def first(file):
    return file["records"][0]


CASES = [
    (lambda r: r.pop("schema"), "the file lacks 'schema'"),
    (lambda r: r.update(schema=3), "schema must be reprolab-results/2, not 3"),
    (lambda r: r.update(schema="other/2"), 'schema must be reprolab-results/2, not "other/2"'),
    (lambda r: r.update(records=[]), "records must contain at least 1 items"),
    (lambda r: r["records"].append(3), "records[2] must be object, not 3"),
    (lambda r: r.update(verdicts=[], more=1), "the file has 'more', 'verdicts', which it must not"),
    (lambda r: r["provenance"]["gpu"].pop("driver"), "provenance.gpu lacks 'driver'"),
    (lambda r: r["provenance"].update(dirty=0), "provenance.dirty must be boolean, not 0"),
    (
        lambda r: r["provenance"]["clocks"].update(policy="locked"),
        "provenance.clocks.locked_mhz must be number, not null",
    ),
    (lambda r: first(r).pop("outcome"), "records[0] lacks 'outcome'"),
    (
        lambda r: first(r).update(outcome="fine"),
        "records[0].outcome must be one of bit_exact, within_bound, deviation_as_declared, "
        'mismatch, launch_failed, unsupported, not_measured, not_verified, not "fine"',
    ),
    (
        lambda r: first(r)["origin"].update(kind="kernel"),
        'records[0].origin.kind must be one of project, peer, compiler, ceiling, not "kernel"',
    ),
    (
        lambda r: first(r)["metrics"][0]["samples"].__setitem__(1, None),
        "records[0].metrics[0].samples[1] must be number, not null",
    ),
    (
        lambda r: first(r)["metrics"][0]["samples"].__setitem__(2, 0),
        "records[0].metrics[0].samples[2] must be bigger than or equal to 1e-06, not 0",
    ),
    (
        lambda r: first(r)["metrics"][0].update(missing="no clock"),
        "records[0].metrics[0] has 'samples', which it must not have",
    ),
    (
        lambda r: first(r).update(outcome="mismatch"),
        "records[0].metrics must contain less than or equal to 0 items",
    ),
    (
        lambda r: first(r)["bytes"].update(read=True),
        "records[0].bytes.read must be integer, not true",
    ),
    (lambda r: first(r)["problem"].pop("layers"), "records[0].problem lacks 'layers'"),
    (lambda r: first(r).update(mismatches=5), "records[0].mismatches must be null, not 5"),
    (
        lambda r: first(r).update(outcome="within_bound", bound=None),
        "records[0].bound must be string, not null",
    ),
    (
        lambda r: first(r).update(outcome="deviation_as_declared"),
        "records[0].deviation must be string, not null",
    ),
    (
        lambda r: first(r)["metrics"][0].update(name="kernel_time.step", unit="s"),
        'records[0].metrics[0].unit must be us, not "s"',
    ),
    (
        lambda r: first(r)["metrics"][0].update(name="registers", unit="registers", samples=[-1]),
        "records[0].metrics[0].samples[0] must be bigger than or equal to 0, not -1",
    ),
    (
        lambda r: r["checks"][0].update(second=0),
        "checks[0].second must be bigger than or equal to 1e-06, not 0",
    ),
    # What the schema cannot say.
    (
        lambda r: r["provenance"].update(started="2026-02-30T08:00:00Z"),
        "provenance.started is no date: '2026-02-30T08:00:00Z'",
    ),
    (
        lambda r: r["provenance"].update(instrument="counters"),
        "records[0].metrics names 'kernel_time', which instrument 'counters' does not measure",
    ),
    (
        lambda r: r["provenance"].update(instrument="none"),
        "records[0].metrics names 'kernel_time', which instrument 'none' does not measure",
    ),
    (
        lambda r: r["records"].append(first(r)),
        "records[2].key comes a second time: 'qwen3-32b/batch2/fp16/b64/branch_tree'",
    ),
    (
        lambda r: r["records"].append(first(r) | {"key": "another"}),
        "records[2] is a second row of 'branch_tree' on 'qwen3-32b/batch2/fp16/b64'",
    ),
    (
        lambda r: first(r)["metrics"][1]["samples"].pop(),
        "records[0].metrics must all have equally many samples, not 2 and 3",
    ),
    *(
        (
            lambda r, row=row: first(r).update(bytes={"read": 0, "written": 0}, **row),
            "records[0].bytes are all 0, but a problem of family 'nf4' moves data: measure it anew",
        )
        for row in ({}, {"outcome": "unsupported", "metrics": []})
    ),
    (
        lambda r: first(r)["metrics"].append(first(r)["metrics"][0]),
        "records[0].metrics names 'kernel_time' twice",
    ),
    (
        lambda r: r["checks"][0]["keys"].append("nobody"),
        "checks[0].keys names 'nobody', which no record has",
    ),
]


def test_a_counter_has_its_unit(file, write):
    file["provenance"]["instrument"] = "counters"
    for record in file["records"]:
        record["metrics"] = [made.metric("dram_utilisation", [23.0], "%")]
    load(write("replay", file))
    first(file)["metrics"][0]["unit"] = "ratio"
    path = write("replay", file)
    with pytest.raises(InputError) as error:
        load(path)
    wrong = "records[0].metrics has 'dram_utilisation' in 'ratio', not in '%'"
    assert str(error.value) == f"{path}: {wrong} {SEE}"


@pytest.mark.parametrize(("spoil", "message"), CASES, ids=[text[:40] for _, text in CASES])
def test_a_wrong_file_is_one_line_that_names_file_and_field(file, write, spoil, message):
    spoil(file)
    path = write("replay.json", file)
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert str(error.value).endswith(f" {SEE}")
    assert "\n" not in str(error.value)


NEEDED = [
    (made.layer(64, 32), "n rows columns block_size nested output"),
    (made.forward_pass("qwen3-32b", 2), "batch layers launches weights block_size nested output"),
    (made.matrix_problem(64), "n rows columns in_stride out_stride data checked_on"),
    (made.puzzle_problem(), "iterations launches weights block_size nested"),
    (made.generated("qwen3-32b", 2), "model batch way tokens prompts layers launches weights"),
    (made.walked("a", [1])["problem"], "what nodes memory_bytes timed_steps"),
    ({"name": "1MiB", "family": "copy", "n": 1}, "n"),
    ({"name": "1MiB", "family": "mixed", "n": 1}, "n"),
]


@pytest.mark.parametrize(("problem", "fields"), NEEDED)
def test_each_family_says_what_its_tables_show(write, problem, fields):
    file = made.results("any", "any", [made.record(problem, "a", [1.0])])
    load(write("file.json", file))
    for field in fields.split():
        value = problem.pop(field)
        path = write("file.json", file)
        with pytest.raises(InputError, match=rf"records\[0\].problem lacks '{field}'"):
            load(path)
        problem[field] = value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"schema": ', "is not whole JSON: Expecting value: line 1 column 12 (char 11)"),
        (b'{"schema": NaN}', "is not whole JSON: NaN is no finite number"),
        (b'{"schema": -Infinity}', "is not whole JSON: -Infinity is no finite number"),
        (b'{"schema": 1e999}', "is not whole JSON: 1e999 is no finite number"),
        (b"1" * 400, f"is not whole JSON: {'1' * 20} is no finite number"),
        (b"\xff\xfe{}", "is not text in UTF-8"),
        (b"", "is not whole JSON: Expecting value: line 1 column 1 (char 0)"),
        (
            b"\xef\xbb\xbf{}",
            "is not whole JSON: Unexpected UTF-8 BOM (decode using utf-8-sig): line",
        ),
        (b'{"a": 1, "a": 1}', "is not whole JSON: 'a' comes twice in one object"),
        (b'{"schema": "\\ud800\\n"}', r'schema must be reprolab-results/2, not "\\ud800\\n"'),
        (b'{"schema": ["deep"]}', "schema must be reprolab-results/2, not a list"),
        (b'{"schema": "' + b"x" * 10**6, "is not whole JSON: Unterminated string starting at"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[1]", f"the file must be object {SEE}"),
        (b"7", f"the file must be object, not 7 {SEE}"),
    ],
)
def test_what_is_no_json_object_of_finite_numbers(tmp_path, content, message):
    path = tmp_path / "replay.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert len(str(error.value)) < len(str(path)) + 150


@pytest.mark.parametrize(
    "spoil",
    [lambda r: first(r).update(kernel="k" * 10**6), lambda r: r.update({"n" * 10**6: 1})],
)
def test_a_field_of_any_length_makes_a_short_line(file, write, spoil):
    spoil(file)
    with pytest.raises(InputError) as error:
        load(write("replay.json", file))
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path, make):
    path = tmp_path / "replay.json"
    make(path)
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value) == f"{path}: cannot be read: it is no regular file"


def test_texts_are_printable_as_soon_as_they_are_read(file, write):
    first(file)["reason"] = "a\nb\x1b[31m\x7f\x9b\u202e\u200b\ufeff\u2028\ud800 \u00e9\u4e2d"
    first(file)["problem"]["\u2066"] = "\r"
    record = load(write("replay.json", file)).records[0]
    shown = r"a\nb\x1b[31m\x7f\x9b\u202e\u200b\ufeff\u2028\ud800" + " \u00e9\u4e2d"
    assert record.reason == shown
    assert record.problem[r"\u2066"] == r"\r"


def test_an_error_is_one_line_whatever_the_file_is_called(tmp_path):
    with pytest.raises(InputError) as error:
        load(tmp_path / "a\nerror: forged\x1b[2J\udcff.json")
    assert str(error.value) == (
        f"{tmp_path}/a\\nerror: forged\\x1b[2J\\udcff.json: cannot be read: "
        "No such file or directory"
    )


def test_no_file(tmp_path):
    with pytest.raises(InputError) as error:
        load(tmp_path / "none.json")
    assert str(error.value) == f"{tmp_path}/none.json: cannot be read: No such file or directory"


def test_another_pass_than_the_one_needed(file, write):
    path = write("r.json", file)
    assert load(path, "table2", "replay").pass_name == "replay"
    for wanted, message in (
        (("puzzle", "replay"), "experiment is 'table2', but 'puzzle' is needed here"),
        (("table2", "shapes"), "pass is 'replay', but 'shapes' is needed here"),
    ):
        with pytest.raises(InputError) as error:
            load(path, *wanted)
        assert str(error.value) == f"{path}: {message}"


def test_a_record_has_its_metrics_by_name(file):
    missing = {"name": "l2_hit_rate", "unit": "%", "missing": "this chip has no such counter"}
    first(file)["metrics"].append(missing)
    first(file)["origin"] = {"kind": "peer", "maker": "bitsandbytes 0.47.0"}
    record = made.read(file).find("qwen3-32b/batch2/fp16/b64", "branch_tree")
    assert record.metric("kernel_time").samples == (30.0, 10.0, 20.0)
    assert record.metric("kernel_time").summary.median == 20.0
    assert record.metric("product_time").unit == "us"
    assert record.metric("l2_hit_rate").missing == "this chip has no such counter"
    assert record.metric("l2_hit_rate").summary is None
    assert record.metric("branches") is None
    assert (record.origin, record.maker) == ("peer", "bitsandbytes 0.47.0")
    assert (record.deviation, record.sm_mhz, record.timed, record.ranked) == (
        None,
        1980,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("changes", "timed", "ranked"),
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
def test_only_verified_rows_and_ceilings_have_a_time(file, changes, timed, ranked):
    first(file).update(changes)
    record = made.read(file).records[0]
    assert (record.timed, record.ranked) == (timed, ranked)
    assert (record.bandwidth is None) is not timed


@pytest.mark.parametrize(
    ("reading", "passed"), [(101.0, True), (99.0, True), (101.01, False), (98.99, False)]
)
def test_a_check_passes_up_to_what_it_allows(file, reading, passed):
    file["checks"][0]["first"] = reading
    results = made.read(file)
    assert results.checks[0].passed is passed
    assert results.checks[0].difference_percent == pytest.approx(reading - 100)
    assert list(results.failed_checks) == ([] if passed else [first(file)["key"]])


def test_what_the_schema_calls_nullable_may_be_null(file):
    gpu, clocks = file["provenance"]["gpu"], file["provenance"]["clocks"]
    gpu.update(driver=None, theoretical_bandwidth_gb_s=None, power_limit_w=None)
    clocks.update(dict.fromkeys(("sm_mhz", "memory_mhz", "power_w", "throttle_reasons")))
    first(file)["clocks"] = dict.fromkeys(first(file)["clocks"])
    assert made.read(file).records[0].sm_mhz is None


def test_a_file_that_the_cpp_test_wrote():
    """tests/harness writes it; both ends are so held against one schema."""
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
            assert [m.name for m in record.metrics.values()] == [
                m["name"] for m in value["metrics"]
            ]
            assert record.bytes_moved == sum(value["bytes"].values())

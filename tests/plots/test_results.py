"""What a wrong result file is answered with: exact text, exit status 2."""

import pytest
from conftest import find

from plots.cli import main
from plots.errors import InputError
from plots.results import load

SEE = "(see experiments/harness/RESULTS.md)"
KEY = "qwen3-32b/batch2/branch_tree"


def drop(name):
    return lambda r: r.pop(name)


CASES = [
    (drop("schema"), f"schema is missing: a string is needed {SEE}"),
    (
        lambda r: r.update(schema="reprolab-results/2"),
        "schema is 'reprolab-results/2', but this reads 'reprolab-results/1'; "
        "use the plots/ of the commit that wrote the file",
    ),
    (lambda r: r.update({"pass": "shapes"}), "pass is 'shapes', but 'replay' is needed here"),
    (
        lambda r: r.update(experiment="puzzle"),
        "experiment is 'puzzle', but 'table2' is needed here",
    ),
    (lambda r: r.update(records=[]), f"records is empty: nothing was measured {SEE}"),
    (lambda r: r["records"].append(3), f"records[20] must be an object {SEE}"),
    (
        lambda r: r["provenance"]["gpu"].pop("driver"),
        f"provenance.gpu.driver is missing: a string is needed {SEE}",
    ),
    (
        lambda r: r["provenance"].update(dirty=0),
        f"provenance.dirty must be true or false, not 0 {SEE}",
    ),
    (
        lambda r: r["records"][1].pop("outcome"),
        f"records[1].outcome is missing: a string is needed {SEE}",
    ),
    (
        lambda r: r["records"][1].update(outcome="fine"),
        "records[1].outcome must be one of bit_exact, deviation_as_declared, mismatch, "
        f"launch_failed, unsupported, not_verified, not 'fine' {SEE}",
    ),
    (
        lambda r: r["records"][0]["samples_us"].__setitem__(1, None),
        f"records[0].samples_us[1] must be a time above 0, not null {SEE}",
    ),
    (
        lambda r: r["records"][0]["samples_us"].__setitem__(2, -1.5),
        f"records[0].samples_us[2] must be a time above 0, not -1.5 {SEE}",
    ),
    (
        lambda r: r["records"][0]["bytes"].update(read=True),
        f"records[0].bytes.read must be an integer, not true {SEE}",
    ),
    (
        lambda r: r["records"][0]["product_samples_us"].pop(),
        f"records[0].product_samples_us has 2 samples, samples_us has 3 {SEE}",
    ),
    (
        lambda r: r["records"].append(r["records"][0]),
        f"records[20].key comes a second time: '{KEY}' {SEE}",
    ),
    (
        lambda r: r["verdicts"][0].update(decided_by=["nobody"]),
        f"verdicts[0].decided_by names 'nobody', which no record has as its key {SEE}",
    ),
    (
        lambda r: r["verdicts"][0].update(our_interval=[1.0]),
        f"verdicts[0].our_interval must be two numbers or null {SEE}",
    ),
    (
        lambda r: r["verdicts"][0].update(our_value=float("nan")),
        f"verdicts[0].our_value must be a number and finite, not nan {SEE}",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), CASES, ids=[text[:40] for _, text in CASES])
def test_wrong_files(replay, shapes, write, tmp_path, capsys, spoil, message):
    spoil(replay)
    a, b = write("replay.json", replay), write("shapes.json", shapes)
    options = ["--replay", str(a), "--shapes", str(b), "--output", str(tmp_path / "out")]
    assert main(["table2", *options]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"error: {a}: {message}\n"
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


def test_half_a_file(write, tmp_path):
    path = tmp_path / "half.json"
    path.write_text('{"schema": ')
    with pytest.raises(InputError, match=r"half\.json: is not whole JSON: Expecting value"):
        load(path)


def test_no_file(tmp_path):
    with pytest.raises(InputError) as error:
        load(tmp_path / "none.json")
    assert str(error.value) == f"{tmp_path}/none.json: cannot be read: No such file or directory"


def test_two_gpus(replay, shapes, write, capsys, tmp_path):
    shapes["provenance"]["gpu"] = shapes["provenance"]["gpu"] | {"name": "NVIDIA A100"}
    a, b = write("replay.json", replay), write("shapes.json", shapes)
    assert main(["table2", "--replay", str(a), "--shapes", str(b), "--output", "x"]) == 2
    expected = f"error: {a} is of NVIDIA H200, but {b} of NVIDIA A100: give two passes of one run\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("change", "ours", "other"),
    [
        (lambda p: p.update(commit="9" * 40), "commit 012345678", "commit 999999999"),
        (lambda p: p.update(dirty=True), "commit 012345678", "commit 012345678+dirty"),
        (lambda p: p["gpu"].update(driver="535.1"), "driver 580.159.04", "driver 535.1"),
        (lambda p: p["gpu"].update(driver=None), "driver 580.159.04", "driver not known"),
    ],
)
def test_two_runs(replay, shapes, write, capsys, change, ours, other):
    change(shapes["provenance"])
    a, b = write("replay.json", replay), write("shapes.json", shapes)
    assert main(["table2", "--replay", str(a), "--shapes", str(b), "--output", "x"]) == 2
    expected = f"error: {a} is of {ours}, but {b} of {other}: give two passes of one run\n"
    assert capsys.readouterr().err == expected


def test_another_source_value(replay, shapes, write, capsys, tmp_path):
    replay["verdicts"][0]["source_value"] = 2.9
    a, b = write("replay.json", replay), write("shapes.json", shapes)
    out = str(tmp_path / "out")
    assert main(["table2", "--replay", str(a), "--shapes", str(b), "--output", out]) == 2
    assert capsys.readouterr().err == (
        f"error: {a}: kernel-speedup qwen3-32b 2: source_value is 2.9, but data/published has "
        "2.2; run the experiment again\n"
    )


def test_no_time_without_verification(replay, write):
    """Samples that should not be there are not shown."""
    find(replay, "qwen3-32b/batch2/broken_lut")["samples_us"] = [1.0, 2.0, 3.0]
    results = load(write("replay.json", replay))
    record = results.find("qwen3-32b/batch2", "broken_lut")
    assert not record.timed
    assert record.summary is None


def test_deviations_are_timed_but_not_ranked(replay, write):
    record = load(write("r.json", replay)).find("qwen3-32b/batch2", "one_scale_a_tile")
    assert record.timed
    assert not record.ranked

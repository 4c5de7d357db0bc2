"""`make record`: what others can rely on is copied, compressed; all else is refused unwritten."""

import json

import pytest

from reprolab import record
from reprolab.json_files import ROOT, read_json
from reprolab.results import load, result_files

NAMES = ("replay", "shapes")


@pytest.fixture
def results(tmp_path):
    """A run of Table II with two kernels, as if of an A100."""
    for name in NAMES:
        file = read_json(ROOT / f"data/recorded/h200/table2/{name}.json")
        rows = [r for r in file["records"] if r["kernel"] in ("branch_tree", "shared_lut")]
        file |= {"records": rows, "checks": []}
        file["provenance"] |= {"dirty": False}
        file["provenance"]["gpu"] |= {"name": "NVIDIA A100", "unit": "0" * 16}
        path = tmp_path / f"mine/table2/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(file))
    return tmp_path / "mine"


def call(results, gpu="a100", *options):
    folder = results.parent / "data/recorded"
    words = [f"--results={results}", f"--gpu={gpu}", f"--recorded-dir={folder}", *options]
    return record.command_line.run(record.parser(), words)


def edit(results, name, change):
    path = results / f"table2/{name}.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def origin(part="", **facts):
    def change(content):
        place = content["provenance"]
        (place[part] if part else place).update(facts)

    return change


def failed(content):
    content["records"][0] |= {"outcome": "mismatch", "reason": "12 differ", "metrics": []}
    content["records"][0] |= {"launch": None}


def other_code(content):
    row = next(r for r in content["records"] if r["kernel"] == "shared_lut")
    row["code"]["sha256"] = dict.fromkeys(row["code"]["sha256"], "0" * 64)


def test_a_run_is_copied_compressed_and_may_be_replaced(results, capsys):
    folder = results.parent / "data/recorded/a100"
    for _ in range(2):
        assert call(results) == 0
        assert sorted(f.name for f in folder.rglob("*.*")) == [f"{n}.json.xz" for n in NAMES]
    for name in NAMES:
        ours, theirs = results / f"table2/{name}.json", folder / f"table2/{name}.json"
        assert [r.samples for r in load(ours).rows] == [r.samples for r in load(theirs).rows]
    assert "NVIDIA A100: table2" in capsys.readouterr().out
    edit(results, "replay", origin(started="2020-01-01T00:00:00Z"))
    assert call(results) == 2 and "OLDER=1" in capsys.readouterr().err
    assert call(results, "a100", "--older") == 0


@pytest.mark.parametrize(
    ("name", "damage", "noun"),
    [
        ("replay", failed, "mismatch (12 differ)"),
        ("replay", lambda content: content["provenance"]["gpu"].pop("unit"), "'unit'"),
        ("replay", origin("clocks", sm_mhz=None), "clocks.sm_mhz"),
        ("replay", origin("clocks", throttle_reasons=None), "clocks.throttle_reasons"),
        ("replay", origin(dirty=True), "provenance.commit"),
        ("replay", origin(commit="unknown"), "provenance.commit"),
        ("replay", origin("gpu", driver="1.2"), "driver"),
        ("replay", origin("gpu", name="Tesla T4"), "Tesla T4"),
        ("shapes", other_code, "different code"),
        ("shapes", lambda content: content.pop("checks"), "checks"),
    ],
)
def test_unreliable_results_are_not_recorded(results, capsys, name, damage, noun):
    edit(results, name, damage)
    assert call(results) == 2
    error = capsys.readouterr().err
    assert noun in error and error.count("\n") == 1
    assert not (results.parent / "data").exists()


def test_other_gpus_recorded_runs_and_empty_folders_are_refused(results, capsys, tmp_path):
    assert call(results) == 0
    for name in NAMES:
        edit(results, name, origin("gpu", name="Tesla T4"))
    before = len(list(result_files(tmp_path / "data/recorded")))
    (tmp_path / "empty").mkdir()
    places = [(results, "a100"), (results, "A 100"), (tmp_path / "empty", "t4")]
    for place, gpu in [*places, (ROOT / "data/recorded/h200", "t4")]:
        capsys.readouterr()
        assert call(place, gpu) == 2 and capsys.readouterr().err.count("\n") == 1
    assert len(list(result_files(tmp_path / "data/recorded"))) == before

"""reprolab.load, on recorded runs: the frames agree with the project's own tables."""

import os
import shutil
import subprocess
import sys

import made
import pandas
import pytest

import reprolab
from reprolab.json_files import ROOT, read_json

H200 = ROOT / "data/recorded/h200"
PLACES = [H200 / "table2", H200 / "counters/sass.json.xz"]


@pytest.fixture(scope="module")
def recorded():
    return reprolab.load(*PLACES)


def test_a_table_of_times_can_be_made_of_the_records(recorded):
    """The numbers of the file itself."""
    rows = recorded.records.query("experiment == 'table2' and `pass` == 'shapes'")
    rows = rows[rows.metric == "kernel_time"].set_index(["problem", "kernel"])
    file = read_json(H200 / "table2/shapes.json.xz")
    assert set(rows.unit) == {"us"} and len(file["records"]) == len(rows) > 100
    for record in file["records"]:
        row = rows.loc[(record["problem"]["name"], record["kernel"])]
        (samples,) = [m["samples"] for m in record["metrics"] if m["name"] == "kernel_time"]
        assert row["median"] == pandas.Series(samples).median() and row.n == len(samples)
        assert (row["min"], row.outcome) == (min(samples), record["outcome"])


def test_evidence_names_records(recorded):
    """By file and key, both as seen from the working directory."""
    places = set(zip(recorded.records.file, recorded.records.key, strict=True))
    cells = recorded.claims[recorded.claims.claim == "kernel-speedup"]
    assert len(cells) == 56
    for cell in cells.itertuples():
        for key in cell.keys.split():
            assert (cell.file, key) in places


def test_columns_have_the_types_that_pandas_users_expect(recorded):
    records, claims = recorded
    types = records.dtypes.astype(str)
    assert types["started"] == "datetime64[us, UTC]"
    assert set(types[["n", "bytes_moved", "problem_batch"]]) == {"Int64"}
    assert set(types[["recorded", "ranked", "problem_nested"]]) == {"boolean"}
    assert set(types[["median", "sm_mhz", "gb_per_s"]]) == {"float64"}
    assert records.recorded.all() and (claims.recorded == "h200").all()
    assert set(records.gpu.dropna()) == set(claims.gpu) == {"NVIDIA H200"}
    assert set(records[records.gpu.isna()]["pass"]) == {"sass"}  # of compiled code, once
    assert not records.duplicated(["file", "key", "metric"]).any()
    one = records[records.metric == "kernel_time"].iloc[0]
    assert len(one.samples) == one.n and min(one.samples) == one["min"]


def test_a_row_without_a_time_stays_and_says_why(write):
    file = made.replay({"branch_tree": [10.0, 11.0, 12.0], "mine": [1.0, 2.0, 3.0]})
    made.fail(file["records"][1], "mismatch")
    records, claims = reprolab.load(write("table2/replay.json", file))
    right, wrong = (records[records.kernel == name].iloc[0] for name in ("branch_tree", "mine"))
    assert (right["median"], right.unit, right.ranked) == (11.0, "us", True)
    assert (wrong.outcome, wrong.reason) == ("mismatch", "1 of 8 weights differ")
    assert pandas.isna(wrong["median"]) and wrong.samples is None and not wrong.ranked
    assert not records.recorded.any() and (claims.recorded == "").all()


def test_folders_of_many_gpus_are_one_frame_with_a_ledger_each(tmp_path, write):
    file = made.replay({"branch_tree": [10.0, 11.0, 12.0]})
    for gpu in ("NVIDIA A100-SXM4-80GB", "Tesla T4"):
        write(f"{gpu}/table2/replay.json", made.on(gpu, file))
    shutil.copytree(tmp_path / "Tesla T4", tmp_path / "again")  # the same pass
    folders = [tmp_path / name for name in ("NVIDIA A100-SXM4-80GB", "Tesla T4", "again")]
    records, claims = reprolab.load(*folders, str(H200 / "puzzle"))
    per_gpu = claims.groupby("gpu").size()
    assert set(per_gpu.index) == {"NVIDIA A100-SXM4-80GB", "NVIDIA H200", "Tesla T4"}
    assert len(records[records.gpu == "Tesla T4"]) == 1
    assert set(records[records.recorded].gpu) == {"NVIDIA H200"}
    measured = claims[claims.claim == "two-bytes"]
    assert set(measured[measured.claim_verdict == "reproduced"].gpu) == {"NVIDIA H200"}


def test_nothing_to_load_is_an_error(write, refused):
    with pytest.raises(TypeError, match="results"):
        reprolab.load()
    assert "empty path" in refused(reprolab.load, "")
    assert "is not a folder" in refused(reprolab.load, "nowhere")
    assert "/empty: " in refused(reprolab.load, write("empty/notes.json", {}).parent)


def test_the_documented_lines_run_anywhere(tmp_path):
    """With the project's Python; and nothing but `load` itself imports pandas."""
    block = (ROOT / "docs/pandas.md").read_text().split("```")[1].removeprefix("python\n")
    code = block.replace('"results"', repr(str(H200 / "table2")))
    code += "import sys\nassert 'pandas' in sys.modules\n"
    code = code.replace("\n\n", "\nimport sys; assert 'pandas' not in sys.modules\n", 1)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")

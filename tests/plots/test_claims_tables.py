"""`python -m plots claims`: the ledger as tables."""

import csv
import json
import re
import statistics

import made
import pytest
from looking import markdown_row

from claims.errors import InputError
from claims.json_files import ROOT
from claims.published import FOLDER, load_sources
from plots import experiments
from plots.cli import main

RECORDED = ROOT / "data/recorded"
CLAIMS = ("kernel-speedup", "qmatmul-72", "immediates-icache", "smem-64-bytes", "end-to-end")


@pytest.fixture
def run(tmp_path, capsys):
    """Runs the command on folders and returns what it printed and the files it wrote."""

    def run(*folders):
        options = [option for folder in folders for option in ("--results", str(folder))]
        assert main(["claims", *options, "--output", str(tmp_path / "out")]) == 0
        return capsys.readouterr().out, {
            p.name: p.read_text() for p in (tmp_path / "out").iterdir()
        }

    return run


def rows_of_csv(text):
    return list(csv.DictReader(x for x in text.splitlines() if not x.startswith("# ")))


def test_without_any_result_every_claim_waits_for_a_command(run, tmp_path):
    (tmp_path / "nothing").mkdir()
    text, files = run(tmp_path / "nothing")
    assert set(files) == {"claims.txt", "claims.md", "claims.csv", "claims.tex"}
    assert "44 claims: 44 not tested yet." in text
    assert "Waiting for make reproduce-table2: kernel-speedup, qmatmul-72" in text
    rows = [x for x in files["claims.md"].splitlines() if " | not tested yet | " in x]
    assert len(rows) == 44
    assert all("; make reproduce-" in row for row in rows)
    row = markdown_row(files["claims.md"], "kernel-speedup")
    assert row[3:6] == ["2.03 to 2.20 x", "-", "-"]
    assert row[7].startswith("no results of the pass table2/replay; make reproduce-table2")


def test_the_recorded_run(run):
    text, files = run(RECORDED)
    assert set(files) == {f"claims-h200.{suffix}" for suffix in ("txt", "md", "csv", "tex")}
    assert text.startswith("+--")
    assert "| Recorded run of NVIDIA H200, 2026-11-22. Not measured on this machine. |" in text
    assert max(map(len, text.splitlines()[:-1])) <= 100
    counts = "16 reproduced, 14 not reproduced, 7 premise false, 7 not testable."
    assert f"44 claims: {counts}" in text
    found = {r[0]: r for r in (markdown_row(files["claims-h200.md"], c) for c in CLAIMS)}
    section, published, ours, difference, verdict = found["kernel-speedup"][2:7]
    assert (section, published) == ("VI-C, Table II", "2.03 to 2.20 x")
    assert re.fullmatch(r"2\.\d\d to 2\.\d\d x", ours)
    assert re.fullmatch(r"-\d\.\d to \+\d\.\d %", difference)
    assert verdict == "reproduced in 28 of 28 cells"
    assert found["kernel-speedup"][7].startswith("ours within 10 % of the source's value; remark: ")
    published, ours, difference, verdict, reason = found["qmatmul-72"][3:8]
    assert (published, verdict) == ("72.4 %", "reproduced")
    assert re.fullmatch(r"\d\d\.\d % \(\d\d\.\d-\d\d\.\d\)", ours)
    assert reason == (
        f"{difference} from the source's value, 10 % allowed; reproduced if ours within 10 % of "
        "the source's value; remark: the replay holds matrix products alone, no activation "
        "transfers, so that ours is an upper bound"
    )
    assert found["qmatmul-72"][8].startswith("[1 row of replay.json](../")
    assert found["qmatmul-72"][8].endswith("/data/recorded/h200/table2/replay.json)")
    assert found["immediates-icache"][6] == "not reproduced in 2 of 3 cells, reproduced in 1"
    words = "not reproduced in 2 of 9 cells, reproduced in 5, not tested yet in 2"
    assert found["end-to-end"][6] == words
    assert found["smem-64-bytes"][3] == "64 bytes"
    over_peers = markdown_row(files["claims-h200.md"], "mojo-1.07-1.84")
    assert over_peers[6] == "reproduced in 2 of 2 cells"
    for library in ("0.47.0", "0.50.2"):
        assert re.search(rf"bitsandbytes_{library}, \d\.\d\d x: ", over_peers[7]), library


def test_the_csv_has_every_cell_with_its_evidence(run):
    _, files = run(RECORDED)
    rows = rows_of_csv(files["claims-h200.csv"])
    assert len({(row["source"], row["claim"]) for row in rows}) == 44
    cells = [row for row in rows if row["claim"] == "kernel-speedup"]
    assert len(cells) == 28
    row = next(row for row in cells if row["cell"] == "qwen3-32b, batch 8")
    assert row["source_value"] == "2.19"
    ours = float(row["our_value"])
    replay = json.loads((RECORDED / "h200/table2/replay.json").read_text())
    times = {
        record["kernel"]: statistics.median(
            next(m["samples"] for m in record["metrics"] if m["name"] == "kernel_time")
        )
        for record in replay["records"]
        if record["key"] in row["evidence_keys"].split()
    }
    assert ours == pytest.approx(times["branch_tree"] / times["shared_lut"], rel=1e-5)
    assert row["reproduced_if"] == "ours within 10 % of the source's value"
    difference = f"{100 * (ours / 2.19 - 1):+.1f} %"
    assert row["reason"] == f"'{difference} from the source's value, 10 % allowed"
    assert row["evidence_file"].endswith("data/recorded/h200/table2/replay.json")
    assert row["evidence_keys"] == (
        "qwen3-32b/batch8/fp16/b64/branch_tree qwen3-32b/batch8/fp16/b64/shared_lut"
    )


def replay(speed_ups, gpu="NVIDIA L4"):
    """One cell of Table II for each batch."""
    records = []
    for batch, speed_up in speed_ups.items():
        problem = made.forward_pass("qwen3-32b", batch)
        records.append(made.record(problem, "branch_tree", [speed_up]))
        records.append(made.record(problem, "shared_lut", [1.0]))
    file = made.results("table2", "replay", records)
    file["provenance"]["gpu"]["name"] = gpu
    return file


def test_own_runs_come_first_and_each_machine_has_its_table(run, write):
    write("results/a", replay({8: 9.0}, "NVIDIA L4"))
    folder = write("results/b", replay({8: 9.0}, "NVIDIA A100")).parent
    text, files = run(RECORDED, folder)
    assert {name for name in files if name.endswith(".md")} == {
        *("claims.md", "claims-2.md", "claims-h200.md")
    }
    heads = [x for x in text.splitlines() if x.startswith("Every claim, and what was measured on")]
    assert [x.removeprefix("Every claim, and what was measured on ") for x in heads] == [
        *("NVIDIA A100", "NVIDIA L4", "NVIDIA H200")
    ]
    row = markdown_row(files["claims.md"], "kernel-speedup")
    assert row[6] == "not reproduced in 1 of 28 cells, not tested yet in 27"
    assert row[7].startswith(
        "+311.0 % from the source's value, 10 % allowed; reproduced if ours within "
    )
    assert "Recorded" not in files["claims.md"]


def test_several_reasons_are_named_with_their_cells(run, write):
    """Of a claim that fails in many cells the first three are shown."""
    _, files = run(write("results", replay({2: 12.0, 4: 14.0, 8: 18.0, 16: 26.0})))
    reasons = markdown_row(files["claims.md"], "kernel-speedup")[7]
    assert reasons.startswith("qwen3-32b, batch 2: +445.5 % from the source's value, 10 % ")
    assert "; and 1 more; reproduced if " in reasons


def test_a_damaged_file_is_one_line_and_nothing_is_written(tmp_path, capsys):
    (tmp_path / "bad.json").write_text('{"schema": "reprolab-results/2"}')
    options = ["--results", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main(["claims", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {tmp_path}/bad.json: the file lacks 'experiment', ")
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("transpose", lambda p: p["setup"].pop("peak_gb_s"), "setup has no 'peak_gb_s', which"),
        ("transpose", lambda p: p["setup"].pop("our_kernels"), "setup has no 'our_kernels', which"),
        ("table2", lambda p: p["setup"].pop("sm_clock_mhz"), "setup has no 'sm_clock_mhz', which"),
        (
            "table2",
            lambda p: p["claims"][0]["cells"][0].update(at={"batch": 8}),
            "claim 'kernel-speedup': each cell needs a model and a batch",
        ),
    ],
)
def test_what_tables_need_of_a_source(monkeypatch, tmp_path, name, spoil, message):
    for path in FOLDER.glob("*.json"):
        source = json.loads(path.read_text())
        if any(claim["experiment"] == name for claim in source["claims"]):
            spoil(source)
            spoilt = tmp_path / path.name
        (tmp_path / path.name).write_text(json.dumps(source))
    monkeypatch.setattr(experiments, "load_sources", lambda: load_sources(tmp_path))
    run = experiments.load_run(name, RECORDED / "h200" / name)
    with pytest.raises(InputError) as error:
        experiments.all_tables(name, run, tmp_path)
    assert str(error.value).startswith(f"{spoilt}: {message}")

"""The two tables that are only for the terminal."""

import re

import pytest
from edited import line

from plots.cli import main
from plots.counter_values import ASKED_FOR
from plots.single_files import asked_for
from reprolab.results import load

EXTRA = "smsp__inst_executed_op_ld.sum"


@pytest.fixture
def bench(capsys):
    def show(run, name):
        assert main(["bench", "--results", str(run.write() / f"{name}.json")]) == 0
        return capsys.readouterr().out

    return show


def test_list_of_recorded_runs(edited, tmp_path, capsys):
    assert main(["list", "--recorded", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}: no recorded runs")
    for name in ("table2", "transpose", "streaming"):
        edited(name).write()
    assert main(["list", "--recorded", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    box = r"\+-+\+\n\| Recorded runs of NVIDIA H200, 2026-\d\d-\d\d to 2026-\d\d-\d\d\. "
    assert re.match(box, text) and text.count("Recorded") == 1
    assert re.search(r"\n\d\d kernels\n", text) and text.count("\nstreaming ") == 1
    assert line(text, "streaming ").split()[-1] == "kernels/nf4/streaming.cu"
    assert "] line 12 of Algorithm 1" in text  # its declared deviation
    for left_out in ("copy ", "streaming_256x4 "):  # a ceiling, and a form that a sweep tried
        assert f"\n{left_out}" not in text


def test_bench(bench, edited):
    run = edited("table2")
    text = bench(run, "shapes")
    assert text.startswith("table2, shapes\n\nkernel ")
    assert " over " not in text.split("---")[0]  # no baseline, so no speed-ups
    assert line(text, "streaming").split()[:2] == ["streaming", "bit-exact"]
    for row in run.rows():  # another family has neither weights nor models
        row["problem"] = {"name": row["problem"]["name"].split("/")[0], "family": "another"}
    assert "\n1024x5120\nstreaming " in bench(run, "shapes")
    text = bench(edited("table2", "data/recorded/h200/nf4"), "shapes")
    assert text.startswith("+--") and text.count("Recorded run of NVIDIA H200, 20") == 2


def test_bench_shows_every_metric_that_is_no_time(bench, edited):
    run = edited("table2")
    first, second, *_ = (row for row in run.rows("shapes") if row["outcome"] == "bit_exact")
    time = first["metrics"][0]
    first["metrics"].append(
        {"name": "energy", "unit": "mJ", "samples": [12.5] * len(time["samples"])}
    )
    first["metrics"].append(time | {"name": "wall_time.step"})
    second["metrics"].append({"name": "energy", "unit": "mJ", "missing": "no sensor"})
    text = bench(run, "shapes")
    head = text.split("---")[0]
    assert "energy" in head and "(mJ)" in head and "wall_time" not in head
    assert " 12.5" in text and "no sensor" in text


def test_bench_shows_counters_where_there_are_no_times(bench, edited):
    run = edited("counters")
    for row in run.rows("nf4_counters"):
        row["metrics"].append({"name": EXTRA, "unit": "", "samples": [14.68e6] * 2})
    text = bench(run, "nf4_counters")
    assert max(map(len, text.splitlines())) <= 100 and "GB/s" not in text
    asked = text.split(f"counters, nf4_counters: {ASKED_FOR}")[1]
    assert EXTRA.split(".")[1] in asked and "14.68 M" in asked


def test_bench_shows_what_was_asked_for_in_its_order(bench, edited):
    run = edited("counters")
    run.files["transpose_counters"]["provenance"]["metrics"] = ["l1_hit_rate", "pipe_fp16"]
    for row in run.rows("transpose_counters"):
        row["metrics"].append({"name": EXTRA, "unit": "", "samples": [1.0] * 2})
    path = run.write() / "transpose_counters.json"
    assert asked_for(load(path)) == ["l1_hit_rate", "pipe_fp16", EXTRA]
    asked = bench(run, "transpose_counters").split(ASKED_FOR)[1]
    assert line(asked, "tiled").split()[1] == "l1_hit_rate"


def test_bench_of_compiled_code_has_nothing_to_show(edited, capsys):
    path = edited("counters").write() / "sass.json"
    assert main(["bench", "--results", str(path)]) == 2
    expected = f"error: {path}: nothing ran, so that there is nothing to show\n"
    assert capsys.readouterr().err == expected

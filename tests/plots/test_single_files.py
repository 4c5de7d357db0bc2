"""The two tables that are for the terminal alone."""

import re

import counters_fixtures
from looking import BANNER, line

from plots.cli import main
from plots.counter_values import ASKED_FOR
from plots.documents import markdown
from plots.single_files import asked_for, kernel_list
from records.json_files import ROOT
from records.results import load


def test_list(replay, shapes, write, capsys, golden):
    folder = write("run", replay, shapes)
    assert main(["list", "--recorded", str(folder)]) == 0
    text = capsys.readouterr().out
    assert text.count("Recorded run of NVIDIA H200") == 1  # two files of one run
    assert "\n11 kernels\n" not in text and "\n10 kernels\n" in text
    assert not any(x.startswith("copy ") for x in text.splitlines())  # a ceiling is no kernel
    golden("list.md", markdown(kernel_list([load(folder / "shapes.json")])))


def test_list_of_a_recorded_run(capsys):
    assert main(["list", "--recorded", str(ROOT / "data/recorded/h200")]) == 0
    text = capsys.readouterr().out
    found = re.findall(r"Recorded run of (.*), \d{4}-\d\d-\d\d\. Not measured", text)
    assert set(found) == {"NVIDIA H200"} and found  # facts of compiled code are of no GPU
    assert "\n45 kernels\n" in text
    assert "\nstreaming " in text
    assert "\nstreaming_256x4 " not in text  # a form that a sweep tried


def test_list_of_nothing_is_an_error(tmp_path, capsys):
    assert main(["list", "--recorded", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}: no recorded runs")


def test_bench(shapes, write, capsys):
    path = write("run", shapes) / "shapes.json"
    assert main(["bench", "--results", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("table2, shapes\n\nkernel ")
    assert " over " not in text.split("---")[0]  # no baseline, so no speed-ups
    assert line(text, "streaming").split()[:2] == ["streaming", "bit-exact"]


def test_bench_of_a_recorded_run_says_so(shapes, write, capsys):
    path = write("data/recorded/h200/nf4", shapes) / "shapes.json"
    assert main(["bench", "--results", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("+--")
    assert text.count(BANNER) == 2


def test_bench_knows_no_family(shapes, write, capsys):
    """Another family has neither weights nor models."""
    shapes["experiment"], shapes["pass"] = "another", "sizes"
    for r in shapes["records"]:
        r["problem"] = {"name": r["problem"]["name"].split("/")[0], "family": "another"}
    path = write("run", shapes) / "sizes.json"
    assert main(["bench", "--results", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("another, sizes\n")
    assert "\nqwen3-32b.gate\nstreaming " in text


def test_bench_shows_counters_where_there_are_no_times(write, capsys):
    path = write("run", counters_fixtures.nf4_counters()) / "nf4_counters.json"
    assert main(["bench", "--results", str(path)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert line(text, "shared_lut ").split()[:3] == ["shared_lut", "25.41", "31.36"]
    asked = text.split(f"counters, nf4_counters: {ASKED_FOR}")[1]
    assert counters_fixtures.EXTRA.split(".")[1] in asked and "14.68 M" in asked
    assert "GB/s" not in text


def test_bench_shows_what_was_asked_for_in_its_order(write, capsys):
    file = counters_fixtures.transpose_counters()
    file["provenance"]["metrics"] = ["l1_hit_rate", "pipe_fp16"]
    path = write("run", file) / "transpose_counters.json"
    assert asked_for(load(path)) == ["l1_hit_rate", "pipe_fp16", counters_fixtures.EXTRA]
    assert main(["bench", "--results", str(path)]) == 0
    asked = capsys.readouterr().out.split(ASKED_FOR)[1]
    assert line(asked, "tiled").split()[1:4] == ["l1_hit_rate", "26.8", "-8.4"]
    assert f"[1] {counters_fixtures.NO_FP16}" in asked


def test_bench_of_compiled_code_has_nothing_to_show(write, capsys):
    path = write("run", counters_fixtures.sass()) / "sass.json"
    assert main(["bench", "--results", str(path)]) == 2
    expected = f"error: {path}: nothing ran, so that there is nothing to show\n"
    assert capsys.readouterr().err == expected

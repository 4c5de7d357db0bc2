"""The two tables that are for the terminal alone."""

import pytest
from looking import BANNER, line

from claims.results import load
from plots.cli import main
from plots.documents import markdown
from plots.single_files import kernel_list


def test_list(replay, shapes, write, capsys, golden):
    folder = write("run", replay, shapes)
    files = [str(folder / "replay.json"), str(folder / "shapes.json")]
    assert main(["list", "--recorded", *files]) == 0
    text = capsys.readouterr().out
    assert text.count("Recorded run of NVIDIA H200") == 1  # two files of one run
    assert "\n11 kernels\n" not in text and "\n10 kernels\n" in text
    assert not any(x.startswith("copy ") for x in text.splitlines())  # a ceiling is no kernel
    golden("list.md", markdown(kernel_list([load(folder / "shapes.json")])))


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


def test_wrong_usage(capsys):
    with pytest.raises(SystemExit) as error:
        main(["bench"])
    assert error.value.code == 2
    assert "the following arguments are required: --results" in capsys.readouterr().err

"""The two tables that are for the terminal alone."""

import pytest

from plots.cli import main


def test_list(replay, shapes, write, capsys, golden):
    files = [str(write("replay.json", replay)), str(write("shapes.json", shapes))]
    assert main(["list", "--recorded", *files]) == 0
    text = capsys.readouterr().out
    assert text.count("Recorded run of NVIDIA H200") == 1  # two files of one run
    golden("list.txt", text)


def test_bench(shapes, write, capsys, golden):
    assert main(["bench", "--results", str(write("bench.json", shapes))]) == 0
    golden("bench.txt", capsys.readouterr().out)


def test_bench_of_a_recorded_run_says_so(shapes, write, capsys):
    path = write("data/recorded/h200/nf4/bench.json", shapes)
    assert main(["bench", "--results", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("+--")
    assert text.count("Recorded run of NVIDIA H200, 2026-11-20.") == 2


def test_bench_knows_no_family(shapes, write, capsys):
    """A transpose has neither weights nor models."""
    shapes["experiment"], shapes["pass"] = "transpose", "sizes"
    for r in shapes["records"]:
        r["problem"] = {"name": r["problem"]["name"].split("/")[0], "family": "transpose"}
        r["key"] = f"{r['problem']['name']}/{r['kernel']}"
    assert main(["bench", "--results", str(write("bench.json", shapes))]) == 0
    text = capsys.readouterr().out
    assert text.startswith("transpose, sizes\n")
    assert "\nqwen3-32b.gate\nstreaming " in text


def test_bench_shows_n_where_it_differs(shapes, write, capsys):
    shapes["records"][0]["samples_us"] = shapes["records"][0]["samples_us"][:3]
    assert main(["bench", "--results", str(write("bench.json", shapes))]) == 0
    text = capsys.readouterr().out
    assert "samples in every row" not in text
    assert "  n  " in text.splitlines()[2]


def test_wrong_usage(capsys):
    with pytest.raises(SystemExit) as error:
        main(["bench"])
    assert error.value.code == 2

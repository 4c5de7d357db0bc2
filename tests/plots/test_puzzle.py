"""The puzzle from end to end: golden texts, every kind of row, and what is refused."""

import copy

import made
import puzzle_fixtures
import pytest
import streaming_fixtures
from looking import BANNER, IN_FULL, lines_of, markdown_row, rendered, text_of

from plots import puzzle
from plots.cli import main
from plots.experiments import CLAIM_DETAILS, load_run
from plots.figures import house_style

NAME = "three MLPs, 1000 times"


@pytest.fixture
def texts(mlps, write):
    """Renders the pass as it now is: file name -> text."""
    return lambda: rendered("puzzle", write("run", mlps))


@pytest.fixture
def drawn(mlps, write):
    """Draws the pass as it now is."""

    def draw(recorded=False, name="seconds"):
        with house_style():
            return puzzle.FIGURES[name][1](load_run("puzzle", write("run", mlps), recorded))

    return draw


def row(mlps, kernel):
    return made.find(mlps, f"{NAME}/{kernel}")


def set_metric(mlps, kernel, name, values):
    (found,) = (m for m in row(mlps, kernel)["metrics"] if m["name"] == name)
    found["samples"] = values


def test_what_was_not_measured_is_no_wrong_output(mlps, write, capsys, monkeypatch, tmp_path):
    made.fail(row(mlps, "shared_lut"), "not_measured", "CUPTI dropped 3 records")
    write("run", mlps)
    monkeypatch.chdir(tmp_path)
    assert main(["render", "puzzle", "--results", "run", "--output", "out", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "WRONG OUTPUT, hence no time: broken_lut (1 rows)." in text
    line = "NOT MEASURED, by no fault of the kernel; run again: shared_lut (1 rows)."
    assert line in text
    assert "shared_lut: CUPTI dropped 3 records" in (tmp_path / "out/puzzle.md").read_text()


@pytest.mark.parametrize("name", ["puzzle", "mlps", "claims"])
def test_golden(texts, golden, name):
    golden(f"puzzle/{name}.md", texts()[f"{name}.md"])


def test_render(mlps, write, capsys, monkeypatch, tmp_path):
    write("run", mlps)
    monkeypatch.chdir(tmp_path)
    assert main(["render", "puzzle", *IN_FULL]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    assert "Fastest: shared_lut; 0.24" in text
    assert "WRONG OUTPUT, hence no time: broken_lut (1 rows)." in text
    assert "NOT MEASURED" not in text
    tables = ("puzzle", "mlps", "claims")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"{t}.{s}" for t in tables for s in ("txt", "md", "csv", "tex")
    } | {f"{f}.{s}" for f in ("brief", "seconds") for s in ("pdf", "png", "svg")} | {CLAIM_DETAILS}


def test_the_posts_own_values_stand_above_ours(texts):
    text = texts()["puzzle.md"]
    names = [x.split(" |")[0].removeprefix("| ") for x in text.splitlines() if x.startswith("| ")]
    posts = [f"**The post, on {gpu}**" for gpu in ("T4", "L4", "A100-40GB", "H100-PCIe")]
    places = [names.index(name) for name in posts]
    assert places == sorted(places)
    assert places[-1] < names.index("`shared_lut`") < names.index("`copy`")
    last = text.split(posts[-1])[1]
    assert markdown_row(last, "`Unsloth (CUDA)`")[1:] == ["0.6176", "974", *["-"] * 4]
    assert markdown_row(last, "`the post (Mojo)`")[1:3] == ["0.4080", "1474"]


def test_numbers_by_hand(texts, mlps):
    for kernel, us in (("shared_lut", 240592.0), ("copy_kernel", 120296.0)):
        set_metric(mlps, kernel, "kernel_time", [us] * 5)
        row(mlps, kernel)["bytes"] = {"read": 101_480_000_000, "written": 500_000_000_000}
    set_metric(mlps, "shared_lut", "wall_time", [601480.0] * 5)
    found = markdown_row(texts()["puzzle.md"], "`shared_lut`")
    assert found[1:3] == ["0.6015 (0.6015-0.6015)", "1000"]
    assert found[3:] == ["**0.2406 (0.2406-0.2406)**", "2500", "50.0", "bit-exact"]


def test_our_kernel_is_held_to_its_launches_one_by_one(mlps, write):
    ours = copy.deepcopy(row(mlps, "shared_lut"))
    ours |= {"kernel": "streaming", "key": f"{NAME}/streaming"}
    ours["code"] = made.code_of("sm_90", "streaming")
    mlps["records"].append(ours)
    set_metric(mlps, "streaming", "kernel_time", [126000.0] * 5)
    alone = streaming_fixtures.shapes(nested=True)
    for shape, us in (("2048x8192", 10.0), ("1024x4096", 5.0), ("4096x14336", 30.0)):
        made.set_times(made.find(alone, f"{shape}/fp16/b64-nested/streaming"), [us] * 11)

    def said():
        return puzzle.highlights(load_run("puzzle", write("run/puzzle", mlps)))

    assert len(said()) == 1  # nothing to hold it to
    write("run/streaming", alone)
    # 3000 launches of each: 135 ms
    start = (
        "streaming by graphs takes 0.933 times as long as 9000 launches one by one and cold, 0.1350"
    )
    assert said()[1].startswith(f"{start} s by streaming/shapes_nested.json")
    of_then = copy.deepcopy(alone)
    for record in of_then["records"]:
        del record["code"]
    write("run/streaming", of_then)
    assert said()[1].startswith(start)
    assert said()[2].startswith(
        "Whether rows of one kernel from several files are of the same code"
    )
    for record in of_then["records"]:
        record["code"] = made.code_of("sm_90", record["kernel"], "edited")
    write("run/streaming", of_then)
    assert said()[1].startswith(
        "streaming by graphs is not compared with launches one by one: rows"
    )
    alone["records"] = [r for r in alone["records"] if r["problem"]["rows"] != 4096]
    write("run/streaming", alone)
    assert len(said()) == 1


def test_the_fastest_ceiling_is_the_one_that_shares_are_of(texts, mlps):
    assert "bandwidth by graphs of copy_kernel, the fastest" in texts()["puzzle.md"]
    made.rows_of(mlps, "copy_kernel")[0]["outcome"] = "launch_failed"
    row(mlps, "copy_kernel")["metrics"] = []
    assert "bandwidth by graphs of copy, the fastest" in texts()["puzzle.md"]
    mlps["records"] = [r for r in mlps["records"] if r["origin"]["kind"] != "ceiling"]
    found = texts()["puzzle.md"]
    assert "the fastest" not in found
    assert markdown_row(found, "`shared_lut`")[5] == "-"


def test_a_deviation_is_told_of_every_mlp(texts, mlps):
    told = "2048x8192 fp16: 215 of 16777216 weights differ, by at most 1 ULP; "
    told += "1024x4096 bf16: 0 of 4194304 weights differ"
    row(mlps, "shared_lut_algorithm1")["reason"] = told
    assert f"{puzzle_fixtures.ONE_SCALE}; at worst: {told}\n" in texts()["puzzle.md"]


def test_what_cannot_be_captured_has_no_time_by_graphs_and_says_why(texts):
    text = texts()["puzzle.md"]
    assert "| **Timed as published alone: left out of the ranking** |" in text
    found = markdown_row(text, "`bitsandbytes_0.43.0`")
    assert found[1].startswith("0.6")
    assert found[3:6] == ["-"] * 3
    assert found[6].startswith("bit-exact <sup>")
    why = f"bitsandbytes_0.43.0: no time by graphs: {puzzle_fixtures.NOT_CAPTURED}"
    assert why in text
    assert puzzle_fixtures.NOT_CAPTURED in texts()["puzzle.csv"]
    assert markdown_row(texts()["mlps.md"], "`bitsandbytes_0.43.0`")[2::2] == ["-"] * 3


def test_the_peers_bytes(texts, mlps):
    # 239075328 / 64 scales, 16 bytes each, 1000 times
    text = texts()["puzzle.md"]
    assert "written and read twice, so 661.25 GB really move, 59.77 GB of them for that" in text
    mlps["records"] = [r for r in mlps["records"] if r["origin"]["kind"] != "peer"]
    assert "really move" not in texts()["puzzle.md"]


def test_deviating_and_wrong_rows_are_not_ranked(texts):
    text = texts()["puzzle.md"]
    assert "| **Deviates as declared: left out of the ranking** |" in text
    assert "| **No time: mismatch** |" in text
    assert markdown_row(text, "`broken_lut`")[1:6] == ["-"] * 5
    assert "**" not in markdown_row(text, "`shared_lut_algorithm1`")[3]
    assert "broken_lut" not in texts()["mlps.md"]


def test_each_mlp_by_hand(texts, mlps):
    set_metric(mlps, "shared_lut", "wall_time.1024x4096", [36000.0] * 5)
    set_metric(mlps, "shared_lut", "kernel_time.1024x4096", [15000.0] * 5)
    found = markdown_row(texts()["mlps.md"], "`shared_lut`")
    # 3000 launches of 4194304 weights; 4194304 * 2.515869 bytes in 5 us
    assert found[3:5] == ["12.0", "5.00 (2110)"]


def test_an_mlp_without_a_size(mlps, write, tmp_path, capsys):
    row(mlps, "copy")["metrics"].append(made.metric("wall_time.small", [1.0] * 5))
    folder, output = write("run", mlps), tmp_path / "out"
    assert main(["render", "puzzle", "--results", str(folder), "--output", str(output)]) == 2
    expected = f"error: {folder}/mlps.json: 'wall_time.small' names no MLP, such as 2048x8192\n"
    assert capsys.readouterr().err == expected


def test_two_problems(mlps, write, tmp_path, capsys):
    mlps["records"] += puzzle_fixtures.mlps(iterations=10)["records"]
    folder, output = write("run", mlps), tmp_path / "out"
    assert main(["render", "puzzle", "--results", str(folder), "--output", str(output)]) == 2
    expected = f"error: {folder}/mlps.json: needs one problem, but has 2\n"
    assert capsys.readouterr().err == expected


def test_the_short_table(mlps, write):
    for row in mlps["records"]:
        if row["kernel"] == "packed_store":
            row |= {"kernel": "mojo_packed_512", "key": row["key"].replace("packed_store", "mojo")}
    table = puzzle.SHORT_TABLE(load_run("puzzle", write("run", mlps)))
    names = [row[0] for row in table.rows if not hasattr(row, "text")]
    assert names == [
        *["Unsloth (CUDA), H100-PCIe", "the post (Mojo), H100-PCIe"],
        *["shared_lut", "bitsandbytes_0.50.1", "mojo_packed_512", "bitsandbytes_0.43.0"],
    ]
    assert [c.name for c in table.columns][1:4] == [
        *("timed as published s (interval)", "by graphs s (interval)", "ceiling %"),
    ]
    assert not any("mismatch" in getattr(row, "text", "") for row in table.rows)


def test_figure(drawn):
    figure = drawn(recorded=True)
    (axes,) = figure.axes
    labels = [t.get_text() for t in axes.get_yticklabels()]
    assert labels[:4] == [f"the post's {gpu}" for gpu in ("T4", "L4", "A100-40GB", "H100-PCIe")]
    assert labels[4] == "shared_lut"
    assert "shared_lut_algorithm1 \u2020" in labels
    assert "broken_lut" not in labels
    (unsloth,), (mojo,) = lines_of(axes, "Unsloth (CUDA)"), lines_of(axes, "the post (Mojo)")
    assert list(unsloth.get_xdata()) == [3.69844, 3.00312, 1.20743, 0.61759]
    assert list(mojo.get_xdata()) == [3.4619, 2.40428, 0.65647, 0.40803]
    (ceiling,) = lines_of(axes, "ceiling")
    assert round(ceiling.get_xdata()[0], 2) == 0.14
    assert text_of(figure, "banner") == [BANNER]


def test_the_brief_figure_has_the_rows_of_the_short_table(drawn):
    (axes,) = drawn(name="brief").axes
    labels = [t.get_text() for t in axes.get_yticklabels()]
    assert labels[3:] == [
        *["the post's H100-PCIe", "shared_lut", "bitsandbytes_0.50.1", "bitsandbytes_0.43.0"]
    ]
    assert lines_of(axes, "ceiling")


def test_figure_without_a_timed_row(drawn, mlps):
    for r in mlps["records"]:
        if r["origin"]["kind"] != "ceiling":
            made.fail(r, "unsupported", "no")
    (axes,) = drawn().axes
    assert "no timed row" in [t.get_text() for t in axes.texts]

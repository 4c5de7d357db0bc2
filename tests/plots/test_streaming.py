"""The streaming kernel's experiment: golden texts, values by hand, and what is missing."""

import made
import pytest
import streaming_fixtures
from looking import BANNER, IN_FULL, line, lines_of, look, markdown_row, rendered, text_of

from claims.errors import InputError
from claims.json_files import ROOT
from plots import streaming
from plots.cli import main
from plots.experiments import load_run
from plots.figures import house_style

TABLES = ("layers", "layers_nested", "formats", "places", "shapes")
LARGE, SMALL = "28672x8192/fp16/b64", "1024x4096/fp16/b64"
PEER, NESTED = streaming_fixtures.PEER, streaming_fixtures.NESTED
MARK = " <sup>1</sup>"  # of a speed that passes its ceiling
DRAWN = ("copy", "same_bytes")  # of the ceilings


@pytest.fixture
def passes():
    return streaming_fixtures.whole_run()


@pytest.fixture
def texts(passes, write):
    """Renders the passes as they now are: file name -> text."""
    return lambda: rendered("streaming", write("run", *passes.values()))


@pytest.fixture
def said(passes, write):
    """The sentences of the passes as they now are."""
    return lambda: streaming.highlights(load_run("streaming", write("run", *passes.values())))


def row(passes, name, problem, kernel="streaming"):
    return made.find(passes[name], f"{problem}/{kernel}")


def cells(text, group, start):
    """Of the row that starts so, below a heading."""
    return markdown_row(text.split(f"| **{group}")[1], start)


def gb_s(row, us):
    return f"{sum(row['bytes'].values()) / us / 1e3:.0f}"


@pytest.mark.parametrize("name", TABLES)
def test_golden(texts, golden, name):
    golden(f"streaming/{name}.md", texts()[f"{name}.md"])


@pytest.mark.parametrize("peers", [(), (PEER,), (PEER, "bitsandbytes_0.47.0")])
def test_render(write, capsys, monkeypatch, tmp_path, peers):
    write("run", *streaming_fixtures.whole_run(peers).values())
    monkeypatch.chdir(tmp_path)
    assert main(["render", "streaming", *IN_FULL]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    assert "28672x8192    234.9 " in text, "no name or number is broken"
    heads = [x.split() for x in text.splitlines() if x.endswith(" bitsandbytes")]
    assert [head.count("bitsandbytes") for head in heads] == [len(peers)] * 2 * bool(peers)
    assert "0 claims" not in text
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"{t}.{s}" for t in TABLES for s in ("txt", "md", "csv", "tex")
    } | {f"layers.{s}" for s in ("pdf", "png", "svg")}


def test_the_passes_run_what_the_tables_show():
    lines = (ROOT / "experiments/streaming/passes").read_text().splitlines()
    found = {x.split()[0]: x for x in lines if x and not x.startswith("#")}
    assert list(streaming.PASSES) == [name for name in found if name != "check"]
    for name, text in found.items():
        assert ("--nested" in text) == name.endswith("_nested")
    sizes = " ".join(f"--shape {r}x{c}" for r, c in streaming_fixtures.PLACES)
    offsets = ",".join(map(str, streaming_fixtures.OFFSETS))
    assert f"{sizes} --offset {offsets} " in found["places"]
    blocks = ",".join(map(str, streaming_fixtures.BLOCK_SIZES))
    assert f"--block-size {blocks} --output-type fp16,bf16 " in found["formats"]
    for name, kernels in (("layers", streaming_fixtures.PLAIN), ("layers_nested", NESTED)):
        assert f"--kernel {'|'.join(kernels)}{{|peers}} {{peers}}" in found[name]


def test_layers_by_hand(texts, passes):
    times = {"streaming": 100.0, "branch_tree": 360.0, "shared_lut": 200.0, PEER: 170.0}
    times |= {"copy": 98.0, "copy_kernel": 97.0, "same_bytes": 95.0}
    for kernel, us in times.items():
        made.set_times(row(passes, "layers", LARGE, kernel), [us] * 21)
    nested = "28672x8192/fp16/b64-nested"
    made.set_times(row(passes, "layers_nested", nested), [96.0] * 21)
    made.set_times(row(passes, "layers_nested", nested, "two_launches"), [120.0] * 21)
    assert line(texts()["layers.csv"], "28672x8192,branch_tree,").endswith(",3.6,3.6,3.6")
    found = cells(texts()["layers.md"], "100 million weights and more**", "28672x8192")
    speed = gb_s(row(passes, "layers", LARGE), 100)
    assert found[1:6] == ["234.9", "100.0", speed, "98.0", "95.0"]
    assert found[6:9] == ["3.60 (3.60-3.60)", "2.00 (2.00-2.00)", "1.70 (1.70-1.70)"]
    assert found[9] == "llama-3.3-70b.gate, llama-3.3-70b.up"
    found = cells(texts()["layers_nested.md"], "58 million weights and more**", "28672x8192")
    speed = gb_s(row(passes, "layers_nested", nested), 96) + MARK
    assert [found[2], found[3], found[6], found[7]] == ["96.00", speed, "0.960", "1.25 (1.25-1.25)"]


def test_layers_are_told_apart_by_their_size(texts):
    text = texts()["layers.md"]
    assert cells(text, "less than 100 million weights**", "8192x8192")[1] == "67.1"
    text = texts()["layers_nested.md"]
    assert cells(text, "58 million weights and more**", "8192x8192")[1] == "67.1"


def test_where_no_difference_was_seen(texts, passes):
    close = [99.0, 100.0, 101.0, 100.0, 100.0]
    for name, scales, kernel in (
        ("layers", "", PEER),
        ("layers_nested", "-nested", "two_launches"),
    ):
        made.set_times(row(passes, name, LARGE + scales), close)
        made.set_times(row(passes, name, LARGE + scales, kernel), close[::-1])
    assert cells(texts()["layers.md"], "100 million", "28672x8192")[8] == "no difference seen"
    found = cells(texts()["layers_nested.md"], "58 million", "28672x8192")
    assert found[6:8] == [r"\~1.000", "no difference seen"]


def test_without_a_peer_there_is_no_column_for_it(write):
    plain = streaming_fixtures.whole_run(())
    folder = write("run", *plain.values())
    text = rendered("streaming", folder)["layers.md"]
    assert "bitsandbytes" not in text and "over shared_lut | used by |" in text
    assert not any("bitsandbytes" in x for x in streaming.highlights(load_run("streaming", folder)))


def test_formats_by_hand(texts, passes):
    def set_us(size, output, us):
        made.set_times(row(passes, "formats", f"28672x8192/{output}/b{size}"), [us] * 11)

    for size, output, us in ((64, "fp16", 100.0), (32, "fp16", 105.0), (32, "bf16", 107.0)):
        set_us(size, output, us)
    set_us(64, "bf16", 100.0)
    text, n = texts()["formats.md"], 28672 * 8192
    moved = {32: 2.5 + 4 / 32, 64: 2.5 + 4 / 64}
    found = cells(text, "28672x8192**", "32 ")
    against = 100 * (moved[32] / 105 / (moved[64] / 100) - 1)
    assert found[1:4] == ["105.0", f"{n * moved[32] / 105e3:.0f}{MARK}", f"{against:+.1f}"]
    assert found[7] == f"{100 * (105 / 107 - 1):+.1f}" == "-1.9"
    assert cells(text, "28672x8192**", "64 ")[3] == "+0.0"


def test_places_by_hand(texts, passes, said):
    made.set_times(row(passes, "places", "28672x8192/fp16/b64"), [100.0] * 11)
    made.set_times(row(passes, "places", "28672x8192/fp16/b64/offset3"), [104.0] * 11)
    odd = row(passes, "places", "28671x8191/fp16/b64/offset1")
    made.set_times(odd, [125.0] * 11)
    text = texts()["places.md"]
    assert cells(text, "28672x8192**", "3 ")[1:4:2] == ["104.0", f"{100 * (100 / 104 - 1):+.1f}"]
    found = cells(text, "28671x8191, against 28672x8192 at offset 0**", "1 ")
    assert found[1:4] == ["125.0", gb_s(odd, 125) + MARK, "-20.0"]
    made.set_times(row(passes, "places_nested", f"{SMALL}-nested"), [4.0] * 11)
    made.set_times(row(passes, "places_nested", f"{SMALL}-nested/offset2"), [10.0] * 11)
    assert any("at worst -60.0 % (1024x4096 at offset 2, nested), of 66." in x for x in said())


def test_shapes_by_hand(texts, passes):
    for kernel, us in (
        ("streaming_256x4", 4.0),
        ("streaming_512x2", 4.0),
        ("streaming_1024x1", 5.0),
        ("streaming_512x2_nothing_ahead", 5.0),
        ("streaming", 4.2),
        ("copy", 3.8),
    ):
        made.set_times(row(passes, "shapes", SMALL, kernel), [us] * 11)
    found = cells(texts()["shapes.md"], "plain scales**", "1024x4096")
    ours = row(passes, "shapes", SMALL)
    assert found[2:4] == ["`streaming_256x4`", "`StreamShape<256, 4>`"]
    assert found[4].startswith(f"{gb_s(ours, 4.0)} (")
    assert found[5:] == ["95.0", "1", gb_s(ours, 4.2), "90.5", "+5.0"]


def test_the_sentences_by_hand(passes, said):
    for problem in ("28672x8192", "8192x28672", "25600x5120"):
        for kernel in ("streaming", "copy", "copy_kernel", "same_bytes"):
            made.set_times(row(passes, "layers", f"{problem}/fp16/b64", kernel), [100.0] * 21)
        made.set_times(row(passes, "layers", f"{problem}/fp16/b64", "branch_tree"), [380.0] * 21)
    made.set_times(row(passes, "layers", "8192x28672/fp16/b64", "copy"), [97.0] * 21)
    made.set_times(row(passes, "layers", "25600x5120/fp16/b64", "branch_tree"), [340.0] * 21)
    first, nested, places = said()
    assert "at least: 97.0 % of cudaMemcpy (8192x28672), 9" in first
    assert "3.40 times as fast as branch_tree (25600x5120)" in first
    assert f"times as fast as {PEER} (" in first
    assert nested.startswith("Nested scales, layers of 58 million weights and more, at least: ")
    assert places.startswith("Offsets and odd sizes, GB/s")


def test_rows_that_failed_have_their_reason(texts, passes, said):
    refused = "its rows are not aligned"
    made.fail(row(passes, "layers", LARGE), "mismatch")
    made.fail(row(passes, "layers", SMALL.replace("4096", "5120"), PEER), "unsupported", refused)
    made.fail(row(passes, "places", "28672x8192/fp16/b64"), "launch_failed", "was stuck")
    made.fail(row(passes, "shapes", SMALL), "unsupported", refused)
    found = texts()
    failed = cells(found["layers.md"], "100 million", "28672x8192")
    assert failed[2].startswith("mismatch <sup>") and failed[3:9] == ["-"] * 6
    nested = cells(found["layers_nested.md"], "58 million", "28672x8192")
    assert nested[6] == "-", "there is nothing to hold it to"
    assert cells(found["layers.md"], "less than", "1024x5120")[8].startswith("unsupported <sup>")
    assert refused in found["layers.md"]
    places = found["places.md"]
    assert cells(places, "28672x8192**", "0 ")[1].startswith("launch failed <sup>")
    for group in ("28672x8192**", "28671x8191, against"):
        assert cells(places, group, "1 ")[3] == "-"
    shapes = cells(found["shapes.md"], "plain scales**", "1024x4096")
    assert shapes[2] == "`streaming_256x4`" and shapes[7:] == ["-", "-", "-"]
    last = said()[-1]
    assert last.startswith(f"NO TIME of streaming: layers.json: {LARGE}: 1 of 8 weights differ.")
    assert last.endswith("(2 more such rows.)")


@pytest.mark.parametrize("kind", ["every row fails", "our kernel is absent", "no ceilings"])
def test_nothing_to_compare(passes, texts, said, drawn, kind):
    for file in passes.values():
        if kind == "every row fails":
            for r in file["records"]:
                made.fail(r, "unsupported", "too little memory")
        elif kind == "our kernel is absent":
            file["records"] = [r for r in file["records"] if r["kernel"] != "streaming"]
        else:
            file["records"] = [r for r in file["records"] if r["origin"]["kind"] != "ceiling"]
    look({ROOT / name: text.encode() for name, text in texts().items()})
    drawn()
    if kind == "every row fails":
        assert [x[:7] for x in said()] == ["NO TIME"]
    elif kind == "our kernel is absent":
        assert said() == []
        assert cells(texts()["layers.md"], "100 million", "28672x8192")[2] == "not run"
    else:
        assert "of cudaMemcpy" not in "".join(said())
        assert cells(texts()["layers.md"], "100 million", "28672x8192")[4:6] == ["-", "-"]


def test_two_problems_of_one_shape(passes, texts):
    for r in passes["layers"]["records"]:
        if r["problem"]["name"] == LARGE:
            r["problem"] |= {"rows": 8192, "columns": 28672}
    with pytest.raises(InputError, match=r"problem '.*' has shape and format of another"):
        texts()


def test_problems_that_are_no_matrix(passes, texts):
    problem = made.forward_pass("qwen3-32b", 8)
    passes["layers"]["records"][0]["problem"] = problem
    with pytest.raises(InputError, match=r"'qwen3-32b/batch8/fp16/b64' is a forward pass"):
        texts()
    passes["layers"]["records"][0]["problem"] = made.matrix_problem(64)
    with pytest.raises(InputError, match=r"family is 'transpose', but 'nf4' is needed here"):
        texts()


@pytest.fixture
def drawn(passes, write):
    """Draws the figure of the passes as they now are."""

    def draw(recorded=False):
        with house_style():
            run = load_run("streaming", write("run", *passes.values()), recorded)
            return streaming.FIGURES["layers"][1](run)

    return draw


def test_the_figure(drawn, passes):
    made.set_times(row(passes, "layers", LARGE), [100.0] * 21)
    figure = drawn(recorded=True)
    plain, nested = figure.axes
    assert {x.get_gid() for x in plain.lines} == {*streaming_fixtures.PLAIN, PEER, *DRAWN}
    assert {x.get_gid() for x in nested.lines} == {*streaming_fixtures.NESTED, PEER, *DRAWN}
    (curve,) = lines_of(plain, "streaming")
    assert list(curve.get_xdata())[-1] == pytest.approx(28672 * 8192 / 1e6)
    assert max(curve.get_ydata()) == pytest.approx(28672 * 8192 * 2.5625 / 100e3)
    assert text_of(figure, "banner") == [BANNER]


def test_the_csv_has_every_row(texts, passes):
    found = texts()
    for name in TABLES:
        files = [f for f in (name, f"{name}_nested") if f in passes and name != "layers"]
        count = sum(len(passes[file]["records"]) for file in files or [name])
        lines = [x for x in found[f"{name}.csv"].splitlines() if not x.startswith("#")]
        if name in ("formats", "places"):
            count = sum(len(made.rows_of(passes[file], "streaming")) for file in files)
        assert len(lines) == 1 + count, name
    assert line(found["places.csv"], "plain,1024,4096,8,streaming,")

"""The streaming kernel's experiment: rows that are missing, fail or do not differ."""

import made
import pytest
import streaming_fixtures
from looking import look, markdown_row, rendered

from experiments import declared
from plots import streaming
from plots.experiments import load_run
from plots.figures import house_style
from records.errors import InputError
from records.json_files import ROOT

LARGE, SMALL = "28672x8192/fp16/b64", "1024x4096/fp16/b64"
PEER, NESTED = streaming_fixtures.PEER, streaming_fixtures.NESTED


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


def test_the_passes_run_what_the_tables_show():
    passes = declared.experiment("streaming").passes
    for name, step in passes.items():
        assert ("--nested" in step.arguments) == name.endswith("_nested")
    sizes = " ".join(f"--shape {r}x{c}" for r, c in streaming_fixtures.PLACES)
    offsets = ",".join(map(str, streaming_fixtures.OFFSETS))
    assert f"{sizes} --offset {offsets} " in " ".join(passes["places"].arguments)
    blocks = ",".join(map(str, streaming_fixtures.BLOCK_SIZES))
    found = " ".join(passes["formats"].arguments)
    assert f"--block-size {blocks} --output-type fp16,bf16 " in found
    for name, kernels in (("layers", streaming_fixtures.PLAIN), ("layers_nested", NESTED)):
        assert (passes[name].kernels, passes[name].takes) == (tuple(kernels), ("PEER",))


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

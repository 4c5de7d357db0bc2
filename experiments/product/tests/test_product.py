"""Experiment product: a pass under PyTorch, and a run in which all failed. The golden files have
the tables.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import made
import pytest

pytest.importorskip("matplotlib", reason="NOT TESTED, no matplotlib")

from edited import Edited, edited  # noqa: F401, a fixture

from experiments.product import views as product
from experiments.product.host import File
from experiments.product.views.host import generation_table, host_table, steps_table
from experiments.product.views.serving import serving_table
from experiments.product.views.shared_memory import PAIRS, shared_memory_table
from plots.experiments import NotMeasured, figure_files, load_run
from plots.figures import figure_style, take_caption
from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_json, read_text, stored

H100 = ROOT / "data/recorded/h100/product"


def copy_of_h100(folder):
    """A small pass of its run, and the files that no pass writes."""
    for name in ("simple", "host", "serving"):
        text = read_text(stored(H100 / f"{name}.json"))
        (folder / f"{name}.json").write_text(text)


@pytest.fixture
def run(edited) -> Edited:  # noqa: F811
    return edited("product")


def test_a_run_under_torch_may_be_of_another_commit_and_other_code(run):
    peers = run.files["peers"]
    peers["provenance"] |= {"commit": "f" * 40, "gpu": peers["provenance"]["gpu"] | {"driver": "1"}}
    assert "peers" in run.tables()
    row = next(row for row in peers["records"] if row["kernel"] == "fused")
    code = {"target": "sm_90", "sha256": {"kernels/nf4_product/few_rows.cu": "0" * 64}}
    row["code"] = code
    assert "peers" in run.tables()
    layers = run.files["layers"]["records"]
    changed = next(r for r in layers if r["kernel"] == "few_rows")
    changed["code"], original = code, changed["code"]
    with pytest.raises(InputError, match="different code"):
        run.run()
    changed["code"] = original
    peers["provenance"]["gpu"]["name"] = "NVIDIA H100"
    with pytest.raises(InputError, match=r"is of NVIDIA H200, but .*/peers.json of NVIDIA H100"):
        run.run()


def test_the_pass_beside_unsloth_has_a_table_of_its_own(run):
    assert "unsloth" not in run.tables()
    run.files["unsloth"] = run.files["peers"] | {"pass": "unsloth"}
    assert {"peers", "unsloth"} <= run.tables().keys()


def test_rows_across_gpus_are_of_one_row_on_the_largest_layer(run):
    rows = product.brief(run.run())
    assert [m.record.kernel for m in rows] == ["few_rows", "bitsandbytes_0.50.2_gemm"]
    assert {m.record.problem["name"] for m in rows} == {"1x28672x8192/fp16/b64"}
    for row in run.rows():
        made.fail(row, "launch_failed", "no kernel image")
    assert product.brief(run.run()) == []


def test_a_step_of_training_is_beside_bitsandbytes_own():
    run = load_run("product", H100)
    table = product.tables.training_table(run)
    by_layer = {(row["_under"], row["batch"]): row for row in table.rows}
    assert len(by_layer) == 10
    rows = run["training"].rows_on("512x28672x8192/fp16/b64/training")
    base, ours = (r.times.median for r in rows)
    assert by_layer["28672x8192", 512]["_streaming"].text.startswith(f"{base / ours:.2f} (")
    assert [r.kernel for r in rows] == ["bitsandbytes_0.50.2", "streaming"]
    (sentence,) = (line for line in product.highlights(run) if "QLoRA" in line)
    assert sentence.endswith(" times as fast as bitsandbytes as it is installed.")


def test_a_table_has_the_time_in_99_kib_over_the_time_in_more(run):
    """Made from the pass of all layers, with a copy of each row that takes a tenth longer."""
    layers = run.files["layers"]
    run.files.pop("shared_memory", None)
    rows = [r for r in layers["records"] if r["kernel"] in PAIRS and r["problem"]["batch"] <= 16]
    small = [json.loads(json.dumps(r)) for r in rows]
    for row in small:
        row["kernel"] += "_99kib"
        row["key"] += "_99kib"
        for metric in row["metrics"]:
            metric["samples"] = [1.1 * us for us in metric["samples"]]
    provenance = json.loads(json.dumps(layers["provenance"])) | {"commit": "f" * 40}
    assert shared_memory_table(run.run()) is None
    shared_memory = {"pass": "shared_memory", "provenance": provenance, "records": rows + small}
    run.files["shared_memory"] = layers | shared_memory
    table = shared_memory_table(run.run())
    shown = [row["over_few_rows_99kib"].text for row in table.rows]
    assert shown and all(text.startswith("1.10 (") for text in shown)
    assert {row["batch"] for row in table.rows} >= {1, 8}


def test_measured_host_times_are_a_table(run, tmp_path):
    h100 = load_run("product", H100)
    table = host_table(h100)
    assert [row["batch"] for row in table.rows] == [1, 4, 16] * 2  # plain, then nested scales
    assert table.rows[0]["planned"].startswith("7.7")
    table = generation_table(h100)
    assert [row["batch"] for row in table.rows] == [1, 4, 16]
    assert table.rows[0]["dynamic x"] == pytest.approx(40.9 / 28.0, abs=0.01)
    assert {row["batch"] for row in steps_table(h100).rows} == {1, 4, 16}
    (sentence,) = (line for line in product.highlights(h100) if "generate()" in line)
    assert "1.46, 1.42, 1.79 times" in sentence
    assert not run.tables().keys() & {"host", "generation", "steps"}
    assert not any("generate()" in line for line in product.highlights(run.run()))


def test_measured_host_times_are_a_figure(run):
    for gpu in ("h100", "h200"):
        recorded_run = load_run("product", ROOT / "data/recorded" / gpu / "product", recorded=True)
        cells = read_json(recorded_run.first.file.parent / "host.json")["rows"]
        with figure_style():
            figure = product.host_figure(recorded_run)
        assert [axes.get_title() for axes in figure.axes] == ["plain scales", "nested scales"]
        for axes, nested in zip(figure.axes, (False, True), strict=False):
            those = [cell for cell in cells if cell["nested"] is nested]
            curves = {x.get_gid(): x for x in axes.lines if x.get_linestyle() != "None"}
            highest = max(max(line.get_ydata()) for line in curves.values())
            assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > highest
            for way, samples in those[0]["host_us"].items():
                assert curves[way].get_ydata()[0] == median(samples)
                assert list(curves[way].get_xdata()) == [cell["rows"] for cell in those]
        caption = take_caption(figure)
        assert "1, 4, 16 rows" in caption and "64 layers of 1024x1024" in caption
        assert recorded_run.banner.split(",")[0] in caption
    without = run.run()
    with pytest.raises(NotMeasured):
        product.host_figure(without)
    names = {path.name for path in figure_files("product", without, Path(), ("png",))}
    assert "rows.png" in names and "host.png" not in names


def requests_cell(**more):
    cell = {"requests": 8, "model": "a", "part": "qkv", "plugin": "0.0.3", "has_vllm": False}
    us = {"bitsandbytes": [30.0, 30.0, 31.0], "shards": [12.0], "planned": [6.0]}
    return cell | {"us": us, "wrong": {}} | more


@pytest.fixture
def with_serving(tmp_path):
    """The H100's run with these cells of layers under vLLM's plugin."""
    copy_of_h100(tmp_path)

    def call(*cells):
        content = ORIGIN | {"date": "2026-11-28", "requests": cells}
        (tmp_path / "serving.json").write_text(json.dumps(content))
        return load_run("product", tmp_path)

    return call


def test_layers_under_vllms_plugin_are_a_table(with_serving, run):
    first, last = requests_cell(), requests_cell(requests=1, part="layer")
    no_time = {"bitsandbytes": [30.0], "shards": [12.0]}
    wrong = requests_cell(requests=64, us=no_time, wrong={"planned": "3 of 9 outputs are wrong"})
    table = serving_table(with_serving(last, wrong, first))
    assert [(row["requests"], row["gain"]) for row in table.rows[:1]] == [(8, 5)]
    assert table.rows[0]["joined"] == 2 and "q, k and v" in table.rows[0]["_under"]
    assert table.rows[1]["requests"] == 64 and "planned" not in table.rows[1]
    assert "gain" not in table.rows[1] and "layer" in table.rows[2]["_under"]
    notes = " ".join(table.notes)
    assert "0.0.3" in notes and "without vLLM" in notes and "64 requests: wrong" in notes
    assert serving_table(run.run()) is None
    with pytest.raises(InputError, match=r"serving\.json"):
        serving_table(with_serving({"requests": 1}))


def static_cell(**more):
    """One sequence; bitsandbytes' 4-bit weights are 500 MB, 16-bit ones 2 GB."""
    cell = {"sequences": 1, "model": "a", "layers": 2, "nested": True, "cache": "static"}
    cell |= {"tokens": 64, "graphs": {}, "difference": None, "missing": {}}
    cell |= {"tokens_per_s": {"bitsandbytes": [99.0, 100.0, 101.0], "planned": [400.0]}}
    cell |= {"bytes": {"bitsandbytes": 500_000_000, "planned": 500_000_000}}
    busy = {"wall_us": 2000.0, "busy_us": 500.0, "launches": 90.0}
    cell |= {"steps": {"bitsandbytes": {"wall_us": 9000.0}, "planned": busy}}
    return cell | more


@pytest.fixture
def with_host(tmp_path):
    """The H100's run with other cells in its host.json."""
    copy_of_h100(tmp_path)

    def call(**cells):
        content = json.loads((tmp_path / "host.json").read_text())
        (tmp_path / "host.json").write_text(json.dumps(content | {"copy_gb_s": 2500.0} | cells))
        return load_run("product", tmp_path)

    return call


def test_the_floor_reads_weights_once_and_gaps_are_idle_time(with_host):
    h100 = with_host(sequences=[static_cell()])
    speeds, steps = generation_table(h100), steps_table(h100)
    (row,) = speeds.rows
    assert "nested" in row["_under"] and row["static x"] == 4
    assert row["floor"] == pytest.approx(5000)  # 0.2 ms for each token
    bitsandbytes, ours = steps.rows
    assert (bitsandbytes["wall"], bitsandbytes["floor"], "gaps" in bitsandbytes) == (
        9,
        pytest.approx(0.2),
        False,
    )
    assert (ours["busy"], ours["gaps"], ours["launches"]) == (0.5, 75, 90)


def test_other_tokens_with_a_static_cache_are_shown_with_their_logits(with_host):
    differs = {"sequence": 0, "token": 7, "tokens": [3, 4], "sequences": 1}
    differs |= {"dynamic": [2.5, 2.25], "static": [2.25, 2.375]}
    cells = [static_cell(), static_cell(sequences=4, difference=differs)]
    speeds = generation_table(with_host(sequences=cells))
    notes = " ".join(speeds.notes)
    assert "1 of 2 cells" in notes and "at token 7" in notes
    assert "2.5 and 2.25" in notes and "2.25 and 2.375" in notes


def test_a_way_that_does_not_fit_is_noted(with_host):
    cell = static_cell(missing={"nn.Linear": "150 GB are needed, 40 are free"})
    speeds = generation_table(with_host(sequences=[cell]))
    assert any("150 GB" in note for note in speeds.notes)


@pytest.mark.parametrize(
    "text", ['{"sequences": [{}]}', "[]", '{"rows": [{"rows": 1}]}', '{"rows": [1]}']
)
def test_a_damaged_file_of_host_times_is_named(tmp_path, text):
    copy_of_h100(tmp_path)
    (tmp_path / "host.json").write_text(text)
    with pytest.raises(InputError, match=r"host\.json"):
        every = load_run("product", tmp_path)
        (host_table(every), generation_table(every))


ORIGIN = {"commit": "a" * 40, "gpu": "a GPU", "versions": {"torch": "2.11"}}


def test_cells_are_written_one_by_one_and_a_run_continues(tmp_path):
    path = tmp_path / "made/host.json"
    cells = [{"rows": 1, "nested": False, "same": True}, {"rows": 4, "nested": False}]
    file = File(path, ORIGIN)

    def killed():
        yield cells[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        file.add("rows", killed())
    assert json.loads(path.read_text()) == ORIGIN | {"rows": cells[:1]}
    again = File(path, ORIGIN | {"date": "2026-11-28"})
    assert again.has("rows", rows=1, nested=False)
    assert not again.has("rows", rows=1, nested=True) and not again.has("rows", rows=4)
    again.add("rows", cells[1:])
    assert json.loads(path.read_text()) == ORIGIN | {"rows": cells}


@pytest.mark.parametrize("name", ["commit", "gpu", "versions"])
def test_a_file_of_another_run_is_not_continued(tmp_path, name, refused):
    path = tmp_path / "host.json"
    File(path, ORIGIN).add("rows", [{"rows": 1}])
    before = path.read_bytes()
    assert name in refused(File, path, ORIGIN | {name: "another"}).lower()
    path.write_text("[]")
    assert "/host.json" in refused(File, path, ORIGIN)
    assert before != path.read_bytes() == b"[]"


NOTHING = [
    [],
    ["--cpu", "--rows", "1"],
    ["--rows", "x"],
    ["--sequences", "1", "--model", "gpt"],
    ["--sequences", "1", "--generations", "0"],
    ["--sequences", "1", "--tokens", "1"],
    ["--sequences", "1", "--cache", "none"],
    ["--sequences", "0"],
    ["--requests", "0"],
    ["--cpu", "--requests", "1"],
]


@pytest.mark.parametrize("options", NOTHING)
def test_wrong_options_are_one_line(tmp_path, options):
    output = tmp_path / "host.json"
    command = [sys.executable, "-m", "experiments.product.host", *options, "--output", output]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 2 and process.stderr.count("\n") == 1 and not output.exists()

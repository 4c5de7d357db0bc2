"""Experiment product: its tables and figure, on made-up results."""

import json

import made
import pytest
from looking import line, lines_of, look, text_of

from experiments import declared
from experiments.product import recorded_times
from plots import product
from plots.console import render
from plots.documents import markdown, table_files
from plots.experiments import all_tables, load_run
from plots.figures import LOOKS, house_style
from plots.product.tables import cells
from records.json_files import ROOT
from reprolab_nf4 import choices

BATCHES = (1, 8, 64)
LAYERS = {(1024, 1024): "llama-3.3-70b.k", (4096, 1024): "llama-3.3-70b.up", (64, 64): "other.q"}
READING_US = 8.0  # of the largest layer
# Of the largest layer, by the number of rows; others take as much less as they are smaller.
TIMES = {
    "few_rows": (10.0, 12.0, None),
    "many_rows": (20.0, 11.0, 40.0),
    "streaming_then_cublas": (60.0, 50.0, 30.0),
    "shared_lut_then_cublas": (70.0, 70.0, 20.0),
    "cublas_16bit": (30.0, 10.5, 10.5),
    "bnb_gemm": (15.0, 55.0, 60.0),
    "bnb_gemv": (14.0, None, None),
}


def problem(n, k, batch, **changes):
    found = {"family": "nf4_product", "n": n * batch, "batch": batch, "rows": n, "columns": k}
    found |= {"block_size": 64, "nested": False, "output": "fp16", "bias": False}
    found |= {"models": [LAYERS.get((n, k), "asked for")]} | changes
    ends = "-nested" * found["nested"] + "/one_hot" * ("data" in found)
    found["name"] = f"{batch}x{n}x{k}/{found['output']}/b{found['block_size']}{ends}"
    return found


def row(p, kernel, samples=(), **changes):
    read = p["rows"] * p["columns"] * (32 + 64 // p["block_size"] * 4) // 64
    read += 2 * p["batch"] * p["columns"]
    origins = {"bnb_gemm": "peer", "bnb_gemv": "peer", "cublas_16bit": "peer"}
    found = {"outcome": "within_bound", "bound": "adds in fp32", "code": None}
    found |= {"origin": {"kind": origins.get(kernel, "project"), "maker": "somebody"}}
    found |= {"bytes": {"read": read, "written": 2 * p["n"]}}
    return made.record(p, kernel, list(samples), **found | changes)


def refused(p, kernel):
    return row(p, kernel, outcome="unsupported", reason="takes fewer rows")


def timed(problems):
    """Every kernel, and the ceiling that reads as many bytes."""
    rows = []
    for p in problems:
        part = p["rows"] * p["columns"] / (4096 * 1024)
        for kernel, times in TIMES.items():
            us = times[BATCHES.index(p["batch"])]
            found = [us * part * f for f in (0.99, 1.0, 1.01)] if us else []
            rows.append(row(p, kernel, found) if us else refused(p, kernel))
        read = row(p, "x")["bytes"]["read"]
        us = READING_US * read / (4096 * 1024 * 36 // 64 + 2 * 1024)
        ceiling = {"origin": {"kind": "ceiling", "maker": ""}, "outcome": "not_verified"}
        ceiling |= {"reason": "a ceiling", "bytes": {"read": read, "written": 0}}
        rows.append(row(p, "read_only", [us], **ceiling))
    return rows


def counted(p, kernel):
    counts = {"issue_utilisation": ("%", 61.0), "pipe_tensor": ("instructions", 4096.0)}
    metrics = [{"name": n, "unit": unit, "samples": [x]} for n, (unit, x) in counts.items()]
    return row(p, kernel, metrics=metrics)


def asked(**changes):
    rows = []
    for batch in BATCHES:
        p = problem(4096, 1024, batch, data="one_hot", models=["asked for"], **changes)
        for kernel in TIMES:
            count = 1_000_000 // batch if kernel == "few_rows" else 0
            found = {"weights_different": count, "weights_max_ulps": min(count, 3)}
            rows.append(
                row(p, kernel, findings=found) if kernel != "bnb_gemv" else refused(p, kernel)
            )
    return rows


@pytest.fixture
def run(tmp_path):
    """A run whose rows of `layers` are those given; all, where none are."""

    def build(layers=None, beside=()):
        every = [problem(n, k, batch) for n, k in LAYERS for batch in BATCHES]
        large = (4096, 1024)
        rows = {
            "layers": timed(every) if layers is None else layers,
            "simple": [row(problem(*large, 1), "simple", [99.0])],
            "nested": timed([problem(*large, b, nested=True) for b in BATCHES]),
            "bf16": timed([problem(*large, b, output="bf16") for b in BATCHES]),
            "block_sizes": timed([problem(*large, b, block_size=32) for b in BATCHES]),
            "counters": [counted(problem(*large, b), "few_rows") for b in BATCHES],
            "one_hot": asked(),
            "one_hot_nested": asked(nested=True),
        }
        origin = made.provenance(instrument="events")
        rows |= {"peers": beside} if beside else {}
        for name, found in rows.items():
            file = made.results("product", name, found, provenance=origin)
            (tmp_path / f"{name}.json").write_text(json.dumps(file))
        return load_run("product", tmp_path)

    return build


def table(run, name):
    return next(t for t in all_tables("product", run, "", ROOT) if t.name == name)


def shown(run, name, layer, start):
    """The cells of a row in Markdown, below the heading of its layer."""
    text = markdown(table(run, name))
    below = text[text.index(f"**{layer}:") if f"**{layer}:" in text else text.index(f"**{layer}") :]
    return [cell.strip() for cell in line(below, f"| {start} |").split("|")[1:-1]]


def test_the_fastest_of_ours_beside_each_other_way(run):
    first = shown(run(), "layers", "4096x1024", 1)
    # bitsandbytes' gemm, where it has one, although gemv is faster; the faster way to dequantize.
    assert first[:4] == ["1", "`few_rows`", "10.00 (9.900-10.10)", "79.9"]
    assert [cell.split()[0] for cell in first[4:]] == ["1.50", "6.00", "3.00"]
    last = shown(run(), "layers", "4096x1024", 64)
    assert last[3] == "26.3"  # of what the fastest kernel takes for as many multiplications
    assert last[1] == "`many_rows`" and [c.split()[0] for c in last[4:]] == ["1.50", "0.50", "0.26"]


def test_reading_is_held_to_codes_and_scales_of_each_layer(run):
    found = {(c.layer, c.batch): c for c in cells(run())}
    speed = (4096 * 1024 * 36 / 64 + 2 * 1024) / READING_US
    for layer, weights in (("4096x1024", 4096 * 1024), ("1024x1024", 1024 * 1024)):
        for batch in BATCHES:
            assert found[layer, batch].reading_us == pytest.approx(weights * 36 / 64 / speed)


def test_without_a_ceiling_no_share_is_shown(run):
    rows = [r for r in timed([problem(4096, 1024, 1)]) if r["kernel"] != "read_only"]
    assert shown(run(rows), "layers", "4096x1024", 1)[3] == "-"
    with house_style():
        axes = product.rows_figure(run(rows)).axes[0]
    assert not lines_of(axes, "reading") and lines_of(axes, "few_rows")


def test_every_kernel_and_the_best_in_bold(run):
    first = shown(run(), "kernels", "4096x1024", 1)
    names = [c.name for c in table(run(), "kernels").columns[1:]]
    assert names[-1] == "simple" and first[1 + names.index("simple")].startswith("99.0")
    assert first[1 + names.index("few rows")] == "**10.0 (80)**"
    assert shown(run(), "kernels", "4096x1024", 8)[1 + names.index("simple")] == "-"
    assert "other.q" not in markdown(table(run(), "kernels"))  # the largest model's layers


def test_from_how_many_rows_on_another_way_is_faster(run):
    text = line(markdown(table(run(), "crossover")), "| 4096x1024 |")
    # At 8 rows the intervals of ours and of cublas_16bit do not overlap.
    assert text == "| 4096x1024 | 64 | 8 | 8 | 1 | llama-3.3-70b.up |"
    rows = timed([problem(4096, 1024, b) for b in BATCHES])
    for r in rows:
        if r["kernel"].endswith("then_cublas") and r["problem"]["batch"] == 64:
            made.set_times(r, [90.0])
    text = line(markdown(table(run(rows), "crossover")), "| 4096x1024 |")
    assert text == "| 4096x1024 | not up to 64 | 8 | not up to 64 | 1 | llama-3.3-70b.up |"
    for r in rows:
        if r["kernel"] == "cublas_16bit":
            made.fail(r, "mismatch")
    text = line(markdown(table(run(rows), "crossover")), "| 4096x1024 |")
    assert text == "| 4096x1024 | not up to 64 | - | not up to 64 | - | llama-3.3-70b.up |"


def under_torch(problems):
    """A library that is missing, one that is wrong, and two rows that are not told apart."""
    rows = []
    for p in problems:
        floor = READING_US * p["rows"] / 4096  # at one row
        for kernel, us in {"bitsandbytes_1.0": 3, "fused": 2, "torch_16bit": 2.001}.items():
            held = {"lineage": f"what {kernel} is", "bound": f"what {kernel} rounds"}
            rows.append(row(p, kernel, [us * floor * f for f in (0.99, 1.0, 1.01)], **held))
        rows.append(row(p, "humming", outcome="unsupported", reason="no module: pip install it"))
        rows.append(row(p, "gemlite", outcome="mismatch", reason="1 of 8 outputs", mismatches=1))
    return rows


def test_ways_under_torch_beside_the_floor(run):
    found = run(beside=under_torch([problem(n, k, 1) for n, k in LAYERS]))
    cells = shown(found, "peers", "4096x1024", 1)
    assert cells[0] == "1" and cells[1] == "24.0 (3.00)"
    assert cells[2:4] == ["**16.0 (2.00)**", "**16.0 (2.00)**"]
    assert [cell[0] for cell in cells[4:]] == ["-", "-"]  # with a footnote
    text = markdown(table(found, "peers"))
    assert "**4096x1024: llama-3.3-70b.up**" in text
    assert "humming: no module: pip install it" in text and "gemlite: 1 of 8 outputs" in text
    assert "fused: somebody; what fused is; what fused rounds." in text
    data = table(found, "peers").data
    assert len(data) == 5 * len(LAYERS)
    assert {d["floor_us"] is not None for d in data} == {True}
    look(
        {
            path: t
            for path, t in table_files([table(found, "peers")], ROOT, True).items()
            if path.suffix in (".md", ".txt")
        }
    )


def test_a_run_without_torch_has_no_such_table(run):
    assert "peers" not in [t.name for t in all_tables("product", run(), "", ROOT)]


def test_a_sentence_says_how_many_times_as_fast_ours_is_under_torch(run):
    found = run(beside=under_torch([problem(n, k, 1) for n, k in LAYERS]))
    said = product.highlights(found)[-1]
    assert said == (
        "Under PyTorch fused is 1.00 times as fast as torch_16bit; "
        "1.50 times as fast as bitsandbytes_1.0."
    )


def test_ways_on_a_layer_that_nothing_else_measured_have_no_floor(run):
    found = run(beside=under_torch([problem(128, 128, 1)]))
    assert shown(found, "peers", "128x128", 1)[1] == "0.750"


def test_other_formats_beside_plain_scales(run):
    rows = [c for c in table(run(), "formats").rows if isinstance(c, list)]
    formats = [row[1] for row in rows[:3]]
    assert formats == ["nested scales", "bf16", "block size 32"]
    assert [row[5] for row in rows] == ["~1.00"] * 9


def test_which_weights_are_multiplied_by(run):
    text = markdown(table(run(), "weights"))
    for scales in ("plain", "nested"):
        below = text[text.index(f"**{scales} scales, fp16**") :]
        few = line(below, "| `few_rows` |").split(" | ")
        assert few[1:5] == ["23.8", "2.98", "0.373", "3"]
        assert line(below, "| `many_rows` |").split(" | ")[1:5] == ["0", "0", "0", "0"]
        assert "unsupported" in line(below, "| `bnb_gemv` |")


def test_a_panel_per_layer_of_the_largest_model_under_both_roofs(run):
    with house_style():
        figure = product.rows_figure(run())
    assert [axes.get_title() for axes in figure.axes] == ["1024x1024", "4096x1024"]
    large = figure.axes[1]
    lines = (lines_of(large, gid) for gid in ("few_rows", "reading", "multiplying"))
    (few,), (reading,), (multiplying,) = lines
    assert few.get_color() == LOOKS["few_rows"][0]
    assert list(few.get_xdata()) == [1, 8] and list(few.get_ydata()) == [10.0, 12.0]
    assert reading.get_ydata()[0] == pytest.approx(READING_US, rel=1e-2)
    (cublas,) = lines_of(large, "cublas_16bit")
    assert multiplying.get_ydata()[-1] == pytest.approx(cublas.get_ydata()[-1])  # the highest rate
    (caption,) = text_of(figure, "caption")
    assert "(cublas_16bit on 64x" in caption.replace("\n", " ")


def test_the_sentences_say_where_ours_is_slower(run):
    one, eight, slower = product.highlights(run())
    assert one.startswith("1 row, all layers: the fastest of ours is 1.50 times as fast as bnb;")
    assert "the floor is 80 % of its time" in one
    assert eight.startswith("8 rows, all layers: ")
    counts = "dequantizing in 3 of 9 cells, cublas_16bit in 6 of 9 cells"
    assert slower == f"The fastest of ours is slower than {counts}."


def test_a_run_in_which_everything_failed_is_shown(run):
    rows = timed([problem(4096, 1024, batch) for batch in BATCHES])
    for r in rows:
        made.fail(r, "launch_failed", "no kernel image")
    found = run(rows)
    tables = all_tables("product", found, "", ROOT)
    assert all(render(t) for t in tables)
    texts = table_files(tables, ROOT, True)
    look({path: text for path, text in texts.items() if path.suffix in (".md", ".txt")})
    assert product.highlights(found) == [] and product.brief(found) == []
    with house_style():
        assert product.rows_figure(found).axes


def test_rows_across_gpus_are_of_one_row_on_the_largest_layer(run):
    found = product.brief(run())
    assert [m.record.kernel for m in found] == ["few_rows", "bnb_gemm"]
    assert {m.record.problem["name"] for m in found} == {"1x4096x1024/fp16/b64"}


def test_counters_stand_beside_the_bandwidths_of_the_timed_pass(run):
    text = render(table(run(), "counters"))
    few, *_ = [line.split() for line in text.splitlines() if line.startswith("few_rows")]
    assert set(few) >= {"few_rows", "237", "4096", "61.0"}


def test_every_pass_is_of_products():
    passes = declared.experiment("product").passes.values()
    assert all(step.families == ("nf4_product",) for step in passes)
    assert all("nf4_product" in step.arguments for step in passes if step.program)


def derived(folder, *options):
    return recorded_times.run(recorded_times.parser(), [str(folder), *options])


def test_the_drop_ins_table_is_derived_from_a_run(run, tmp_path, monkeypatch, capsys):
    run()
    monkeypatch.setattr(choices, "RECORDED", tmp_path / "products")
    assert derived(tmp_path) == 0
    found = choices.recorded(made.GPU["compute_capability"])
    assert (found.gpu, found.source) == (made.GPU["name"], f"{tmp_path}, somebody")
    layers = {(x.n, x.k, x.type, x.nested): x.us for x in found.layers}
    large = [(4096, 1024, *more) for more in (("fp16", False), ("fp16", True), ("bf16", False))]
    assert layers.keys() == {*[(n, k, "fp16", False) for n, k in LAYERS], *large}
    us = layers[4096, 1024, "fp16", False]
    assert us[1] == {
        **{"few_rows": 10.0, "many_rows": 20.0, "simple": 99.0},
        **{"dequantize": 60.0, "bitsandbytes": 15.0},
    }
    assert us[64] == {"many_rows": 40.0, "dequantize": 30.0, "bitsandbytes": 60.0}
    ways = found.ways(4096, 1024, "fp16", False, lambda way, rows: True, "bitsandbytes")
    assert ways == [(1, "few_rows"), (8, "many_rows"), (64, "dequantize")]
    assert str(tmp_path / "products") in capsys.readouterr().out


def test_without_bitsandbytes_or_with_nothing_no_table_is_derived(run, tmp_path, capsys):
    assert derived(tmp_path, "--output", str(tmp_path / "x.json")) == 2
    run([r for r in timed([problem(4096, 1024, 1)]) if r["kernel"] != "bnb_gemm"])
    for name in ("simple", "nested", "bf16"):
        (tmp_path / f"{name}.json").unlink()
    assert derived(tmp_path, "--output", str(tmp_path / "x.json")) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {tmp_path}: has none of layers.json, simple.json, nested.json, bf16.json",
        f"error: {tmp_path}: has no times of bitsandbytes' own products; measure with PEER=",
    ]
    assert not (tmp_path / "x.json").exists()


def test_a_wrong_output_chooses_nothing(run, tmp_path):
    rows = timed([problem(4096, 1024, 1)])
    for r in rows:
        if r["kernel"] == "few_rows":
            r |= {"outcome": "mismatch", "reason": "wrong", "mismatches": 1, "metrics": []}
    run(rows)
    output = tmp_path / "x.json"
    assert derived(tmp_path, "--output", str(output)) == 0
    plain = next(x for x in choices.read(output).layers if x.type == "fp16" and not x.nested)
    assert "few_rows" not in plain.us[1] and "many_rows" in plain.us[1]

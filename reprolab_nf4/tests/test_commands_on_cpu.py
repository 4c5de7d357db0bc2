"""`make advise` and `make tune` on tiny models, really computed on a CPU. Skipped where there is no
torch.
"""

from types import SimpleNamespace

import checkpoints
import on_cpu
import pytest
import stand_in_product
from measured_on_cpu import put_command, put_timed_weights  # noqa: F401
from needs_torch import torch
from on_cpu import SMALL, stand_ins  # noqa: F401

import reprolab_nf4
from reprolab_nf4 import __main__ as products
from reprolab_nf4 import checkpoint, matmul, measuring, timing_table
from reprolab_nf4.advice import Shape
from reprolab_nf4.tests import cpu_as_gpu


@pytest.mark.parametrize(
    "words", [["tune"], ["advise", "x", "--a\u202e"], ["nothing\n"], ["tune", "--output=--"], []]
)
def test_wrong_usage_is_one_line(command, words, capsys):
    assert command(*words) == 2
    text = capsys.readouterr()
    (line,) = text.err.splitlines()
    assert line.startswith("error: reprolab-nf4") and line.isprintable() and not text.out


@pytest.fixture
def folder(tmp_path):
    return checkpoints.make(tmp_path, SMALL["llama-3.3-70b"])


def test_tune_measures_a_checkpoint_or_recorded_shapes(
    command, folder, tmp_path, capsys, monkeypatch
):
    output = f"--output={tmp_path}/table.json"
    assert command("tune", output, f"--model={folder}") == 0
    table = timing_table.read(tmp_path / "table.json")
    assert (table.gpu, table.compute_capability) == ("a CPU", "9.0")
    layers = {(x.n, x.k) for x in table.layers}
    assert layers == {(x.rows, x.columns) for x in checkpoint.read(folder)}
    for layer in table.layers:
        assert [*layer.us] == [1, 16]
        assert all([*us] == ["bitsandbytes", "dequantize"] for us in layer.us.values())
        assert all(time > 0 for us in layer.us.values() for time in us.values())
    assert f"install(table='{tmp_path}/table.json')" in capsys.readouterr().out
    # Without a checkpoint: each shape of the package's tables, once.
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path / "tables")
    formats = [(type, nested) for type in ("fp16", "bf16") for nested in (False, True)]
    recorded = [timing_table.Layer(64, 128, *how, {1: {"simple": 1.0}}) for how in formats]
    larger = timing_table.Layer(128, 128, "fp16", False, {1: {"simple": 1.0}})
    for name, layers in (("a", recorded), ("b", [*recorded[:2], larger])):
        table = timing_table.Table(name, "9.0", "made up", tuple(layers))
        timing_table.write(tmp_path / f"tables/{name}.json", table)
    assert command("tune", output) == 0
    tuned = timing_table.read(tmp_path / "table.json").layers
    assert (tuned[0].n, tuned[0].k) == (128, 128)
    assert [(x.n, x.k) for x in tuned[1:]] == [(64, 128)] * 4
    assert {(x.type, x.nested) for x in tuned[1:]} == set(formats)


@pytest.fixture
def kernel(monkeypatch):
    """Gives the library one kernel, whose weights `change` modifies."""

    def put(change):
        monkeypatch.setattr(matmul, "runs", lambda *given: True)
        monkeypatch.setattr(on_cpu.LIBRARY, "products", lambda: ["few_rows"])

        def multiply(library, kernel, A, B, n, absmax, blocksize, bias, *more):
            weight = stand_in_product.weights(A, B, n, absmax, blocksize, *more[:4])
            return torch.nn.functional.linear(A, change(weight), bias)

        monkeypatch.setattr(matmul, "multiply", multiply)

    return put


def test_a_loaded_model_is_tuned_and_advised(command, tmp_path, refused):
    model, path = (
        torch.nn.Sequential(cpu_as_gpu.layer(), cpu_as_gpu.layer(kind="fp4")),
        tmp_path / "t",
    )
    reprolab_nf4.tune(model, path)
    assert [(x.n, x.k, x.type) for x in timing_table.read(path).layers] == [(64, 128, "bf16")]
    assert reprolab_nf4.advise(model).startswith("Sequential: 1 layers in NF4, ")
    assert "cannot be written" in refused(reprolab_nf4.tune, model, tmp_path)


SHAPES = [
    Shape(128, 512, 64, nested, output)
    for nested in (False, True)
    for output in ("float16", "bfloat16")
]


def test_a_right_kernel_is_tuned(command, kernel):
    kernel(lambda weight: weight)
    table = measuring.tune(on_cpu.Cpu(), SHAPES, lambda shape: products.copies(on_cpu.Cpu(), shape))
    assert "left out" not in table.source
    assert all("few_rows" in us for layer in table.layers for us in layer.us.values())


def test_an_exported_program_does_not_use_ways_that_tune_tried(command, kernel, monkeypatch):
    kernel(lambda weight: weight)
    monkeypatch.setattr(matmul, "_dispatch", None)
    measuring.tune(on_cpu.Cpu(), SHAPES[:1], lambda shape: products.copies(on_cpu.Cpu(), shape))
    codes, state = products.copies(on_cpu.Cpu(), SHAPES[0])[0]
    given = (torch.ones(1, 512).half(), codes, 128, state.absmax, state.code, 64, torch.float16)
    with pytest.raises(reprolab_nf4.DropinError, match="not installed"):
        torch.ops.reprolab_nf4.matmul_4bit(*given)


def one_step_dropped(weight):
    return torch.cat([weight[:, :448], torch.zeros_like(weight[:, 448:])], 1)


def one_scale_halved(weight):
    weight = weight.clone()
    weight[3, 64:128] /= 2
    return weight


def wrong_in_fp16(weight):
    return one_scale_halved(weight) if weight.dtype == torch.float16 else weight


def test_a_kernel_that_is_wrong_for_a_later_layer_keeps_no_time(command, kernel):
    kernel(wrong_in_fp16)
    first, second = SHAPES[1], SHAPES[0]
    gpu = on_cpu.Cpu()
    table = measuring.tune(gpu, [first, second], lambda shape: products.copies(gpu, shape))
    assert "; left out: few_rows: " in table.source
    assert not any("few_rows" in us for layer in table.layers for us in layer.us.values())


@pytest.mark.parametrize("change", [one_step_dropped, one_scale_halved])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_kernel_is_left_out(shape, change, command, kernel):
    kernel(change)
    table = measuring.tune(
        on_cpu.Cpu(), [shape], lambda shape: products.copies(on_cpu.Cpu(), shape)
    )
    assert "; left out: few_rows: " in table.source
    assert not any("few_rows" in us for layer in table.layers for us in layer.us.values())


def refused(shape):
    weights = products.copies(on_cpu.Cpu(), shape)[0]
    return measuring.wrong_kernels(shape, weights, on_cpu.LIBRARY)


def test_one_wrong_weight_of_any_column_is_seen(command, kernel):
    columns = []

    def one_weight_wrong(weight):
        weight = weight.clone()
        weight[5, columns[-1]] += 0.1
        return weight

    kernel(one_weight_wrong)
    for column in range(0, 512, 5):
        columns.append(column)
        assert "output 5" in refused(SHAPES[0])["few_rows"], column


def test_kernels_are_verified_at_all_rows_that_they_take_from_eight(command, kernel, monkeypatch):
    kernel(lambda weight: weight)
    monkeypatch.setattr(measuring, "ROWS", (1, 4, 8, 16, 32))
    monkeypatch.setattr(matmul, "runs", lambda library, device, way, rows, *sizes: rows < 32)
    calls, multiply = [], matmul.multiply

    def counted(library, name, A, *others):
        calls.append(len(A))
        return multiply(library, name, A, *others)

    monkeypatch.setattr(matmul, "multiply", counted)
    assert refused(Shape(128, 576, 64, False, "float16")) == {}
    assert calls == [8] * 6 + [16] * 4  # once in the dense rows, then all 36 sparse ones


def test_advice_for_a_checkpoint(command, folder, capsys):
    assert command("advise", "--batch=3", "--", folder) == 0
    text = capsys.readouterr()
    assert text.out.startswith(f"{folder.name}: 14 layers in NF4, ")
    assert "one step at batch 3: " in text.out
    assert text.err.startswith("0 of 4 shapes, ")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["tune", "--output=x", "--model=none"], "MODEL: folder 'none' does not exist; give a "),
        (
            ["advise", "none"],
            "MODEL: folder 'none' does not exist; give a checkpoint's, downloaded ",
        ),
        (["advise", "x" * 300], f"MODEL: folder '{'x' * 300}' cannot be read: File name too long"),
        (["advise", "--batch=x", "FOLDER"], "BATCH: give one number, not 'x'"),
        (["advise", "--batch=-1", "FOLDER"], "BATCH: give one number, not '-1'"),
        (["advise", "--batch=0", "FOLDER"], "BATCH: 1 at least"),
    ],
)
def test_a_failed_measurement_is_one_line(command, folder, capsys, given, line):
    assert command(*(folder if word == "FOLDER" else word for word in given)) == 2
    text = capsys.readouterr().err
    assert text.startswith(f"error: {line}") and text.count("\n") == 1


def test_too_little_memory_is_one_line(command, folder, capsys, monkeypatch):
    def exhaust(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nMore of it")

    def last_line(*given):
        assert command(*given) == 2
        return capsys.readouterr().err.splitlines()[-1]

    advise = ("advise", "--batch=64", folder)
    smaller = "batch 64"
    with monkeypatch.context() as patch:
        patch.setattr(products, "copies", exhaust)
        assert smaller in last_line(*advise)
        assert "free some" in last_line("tune", "--output=x")
    # A kernel is not left out for it.
    monkeypatch.setitem(on_cpu.KERNELS, "streaming", exhaust)
    assert smaller in last_line(*advise)


@pytest.mark.parametrize("words", [["tune", "--output=t", "--model"], ["advise"]])
def test_a_library_without_code_for_the_gpu_is_one_line(
    words, command, folder, tmp_path, capsys, monkeypatch
):
    """Not advice, or a table, of bitsandbytes' own kernels."""

    def dequantize(weight):
        reprolab_nf4.give_up(reprolab_nf4.NoCodeError("no code for this GPU"))
        return weight

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reprolab_nf4, "_installed", SimpleNamespace(undo=lambda: True))
    for name in on_cpu.KERNELS:
        monkeypatch.setitem(on_cpu.KERNELS, name, dequantize)
    assert command(*words, folder) == 2
    assert "no code for this GPU" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "t").exists()


def test_advice_without_the_library(command, folder, capsys, monkeypatch):
    def refuse():
        raise reprolab_nf4.DropinError("none.so: no such file")

    monkeypatch.setattr(reprolab_nf4, "install", refuse)
    assert command("advise", folder) == 2
    assert "none.so" in capsys.readouterr().err

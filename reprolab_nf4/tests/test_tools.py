"""Tables of times and what they choose; advise() and tune() on a CPU; checkpoints; the commands."""

import json
from dataclasses import replace

import pytest
from cpu_as_gpu import K, N, bitsandbytes, torch

import reprolab_nf4
from reprolab_nf4 import DropinError, checkpoint, measuring, timing_table
from reprolab_nf4 import __main__ as command
from reprolab_nf4.checkpoint import Shape
from reprolab_nf4.timing_table import BITSANDBYTES, DEQUANTIZE, Layer, Table

OWN = BITSANDBYTES
SMALL = {1: {"few_rows": 5.0, OWN: 12.0}, 64: {"many_rows": 13.0, DEQUANTIZE: 18.0, OWN: 19.0}}
LARGE = {
    1: {"few_rows": 41.0, "few_rows_exact": 45.0, OWN: 100.0, DEQUANTIZE: 368.0},
    8: {"few_rows": 43.0, "few_rows_exact": 47.0, OWN: 370.0, DEQUANTIZE: 367.0},
    16: {"many_rows": 50.0, "many_rows_exact": 55.0, OWN: 370.0, DEQUANTIZE: 367.0},
    512: {"many_rows": 800.0, "many_rows_exact": 810.0, OWN: 760.0, DEQUANTIZE: 750.0},
}
LAYERS = (
    Layer(1024, 8192, "fp16", False, SMALL),
    Layer(28672, 8192, "fp16", False, LARGE),
    Layer(28672, 8192, "bf16", True, {8: {OWN: 1.0, "few_rows": 2.0}}),
)
TABLE = Table("NVIDIA H200", "9.0", "made up", LAYERS)
OF_SMALL = [(1, "few_rows"), (64, "many_rows"), (512, DEQUANTIZE)]  # the last from the large layer
OF_LARGE = [(8, "few_rows"), (16, "many_rows"), (512, DEQUANTIZE)]
FEW = lambda name, rows: name == "few_rows" and rows <= 1  # noqa: E731
ANY = lambda name, rows: True  # noqa: E731


@pytest.mark.parametrize(
    ("layer", "can", "expected"),
    [
        ((28672, 8192, "fp16", False), ANY, OF_LARGE),
        ((1024, 8192, "fp16", False), ANY, OF_SMALL),
        # The nearest by the ratio of sizes; among equals, that of the same type and scales.
        ((6000, 8192, "fp16", False), ANY, OF_LARGE),
        ((5000, 8192, "fp16", False), ANY, OF_SMALL),
        # As many weights as the small layer, but another shape.
        ((28672, 300, "fp16", False), ANY, OF_LARGE),
        ((28672, 8192, "bf16", True), ANY, [(8, OWN), *OF_LARGE[1:]]),
        ((28672, 8192, "fp16", False), FEW, [(1, "few_rows"), (512, OWN)]),
    ],
)
def test_the_fastest_possible_backend_of_the_nearest_layer_is_taken(layer, can, expected):
    assert TABLE.backends(*layer, can, OWN) == expected


def test_a_written_table_is_read_and_chosen_by_its_gpu(tmp_path, monkeypatch):
    path = tmp_path / "sm_90.json"
    timing_table.write(path, TABLE)
    assert timing_table.read(path) == TABLE and list(tmp_path.iterdir()) == [path]
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path)
    other = replace(TABLE, gpu="NVIDIA H100 PCIe")
    timing_table.write(path.with_name("sm_90_h100.json"), other)
    for gpu, table in (("NVIDIA H100 PCIe", other), ("NVIDIA H100", TABLE), (TABLE.gpu, TABLE)):
        assert timing_table.recorded(gpu, "9.0") == table
    assert timing_table.recorded(TABLE.gpu, "8.0") is None


def test_a_table_that_cannot_be_written_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "table.json"
    path.write_text("what was there")
    for wrong in (tmp_path, tmp_path / "none/table.json", "/dev/null", ""):
        with pytest.raises(DropinError):
            timing_table.writable(wrong)
    monkeypatch.setattr(timing_table, "text", lambda table: "half\ud800")
    with pytest.raises((DropinError, UnicodeError)):
        timing_table.write(path, TABLE)
    assert path.read_text() == "what was there"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"gpu": "", "layers": [{"n": 1}]}', "\xff", "[" * 9999]
)
def test_a_file_that_is_not_a_table_is_one_line(text, tmp_path):
    path = tmp_path / "table.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DropinError, match=r"table\.json: is not a table"):
        timing_table.read(path)
    with pytest.raises(DropinError, match="no such file"):
        timing_table.read(tmp_path / "none.json")
    with pytest.raises(DropinError, match="no kernel 'few_rows'"):
        timing_table.check(TABLE, ["many_rows"])


def test_every_recorded_table_is_of_the_architecture_that_its_name_says():
    for path in timing_table.RECORDED.glob("*.json"):
        table = timing_table.read(path)
        assert path.stem.split("_")[:2] == ["sm", table.compute_capability.replace(".", "")]
        assert timing_table.recorded(table.gpu, table.compute_capability) == table


@pytest.fixture
def cpu(bench):
    if bench.device != "cpu":
        pytest.skip("runs on the CPU")
    return bench


@pytest.mark.parametrize(("recorded", "taken"), [("9.0", "recorded"), ("8.6", "no")])
def test_a_table_of_another_architecture_is_not_used_and_warns(
    recorded, taken, cpu, monkeypatch, tmp_path
):
    timing_table.write(tmp_path / "sm_90.json", replace(TABLE, gpu="a GPU"))
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path)
    monkeypatch.setattr("reprolab_nf4.matmul.capability", lambda device: recorded)
    cpu._capability = "8.0"
    output = f"compute capability 8.0, this GPU of {recorded}: {taken} times are taken"
    with cpu.install(), torch.no_grad(), pytest.warns(UserWarning, match=output) as seen:
        one = cpu.layer()
        for _ in range(2):
            one(cpu.inputs())
        assert not cpu.counts_calls or (cpu.path() == "theirs") == (taken == "no")
    assert len(seen) == 1


def test_a_layer_that_computes_in_fp32_is_named_once(cpu, recwarn):
    one = cpu.layer(dtype=torch.float32)
    with cpu.install(), torch.no_grad():
        for _ in range(2):
            one(cpu.inputs(dtype=torch.float32))
    assert len([w for w in recwarn if "bnb_4bit_compute_dtype" in str(w.message)]) == 1


class Cpu(measuring.Gpu):
    kind, device = "cpu", torch.device("cpu")
    name, l2_bytes = (lambda self: "a GPU"), (lambda self: 1000)
    forget = new_pool = lambda self: None
    us = 6.0

    def time_us(self, run, times):
        for _ in range(min(times, 3)):
            run()
        return self.us * times

    def capture(self, step, pool, before=lambda: None):
        step()
        return step


@pytest.fixture
def tool(cpu, monkeypatch):
    """Runs a command, with layers of N x 128 weights."""
    monkeypatch.setattr(measuring, "Gpu", Cpu)
    monkeypatch.setattr(measuring, "ROWS", (1, 16))
    monkeypatch.setattr(measuring, "SAMPLES", 2)
    monkeypatch.setattr(measuring, "random_nf4", lambda gpu, shape: weights(cpu))
    monkeypatch.setattr("bitsandbytes.nn.modules.has_avx512bf16", lambda: False, raising=False)
    return lambda *given: command.main(list(map(str, given)))


def weights(bench):
    one = bench.layer(dtype=torch.float16)
    return one.weight.data, one.weight.quant_state


@pytest.fixture
def folder(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "float16", "shape": [N, 128]}
    state = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
    tensors = {f"a.{i}.weight.quant_state.bitsandbytes__nf4": state.clone() for i in range(2)}
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    how = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    config = {"quantization_config": how | {"bnb_4bit_compute_dtype": "bfloat16"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_checkpoints_layers_are_read(folder):
    shape = Shape(N, 128, 64, False, "float16", "bfloat16")
    assert checkpoint.read(folder) == [shape] * 2
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert checkpoint.read(folder) == [shape] * 2
    index.write_text("{")
    with pytest.raises(DropinError, match="JSON"):
        checkpoint.read(folder)
    index.unlink()
    with pytest.raises(DropinError, match="downloaded whole"):
        checkpoint.read(folder)
    (folder / "model.safetensors").write_bytes(b"\x08")
    with pytest.raises(DropinError, match="cannot be read"):
        checkpoint.read(folder)


def test_a_folder_that_is_not_an_nf4_checkpoint(folder):
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] |= {"bnb_4bit_quant_type": "fp4"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(DropinError, match="not quantized to NF4"):
        checkpoint.read(folder)


@pytest.mark.filterwarnings("ignore")
def test_advice_for_a_model(tool, cpu):
    one, two = cpu.layer(), cpu.layer(dtype=torch.float32)
    text = reprolab_nf4.advise(torch.nn.Sequential(one, two), 1)
    assert "Sequential: 2 layers" in text and "WARNING: 1 of them" in text
    assert "Nothing is gained here" in text  # all take as long on this GPU


def test_the_advice_names_the_fastest(cpu):
    ms = {measuring.GRAPH: {"": 4.0, "bitsandbytes": 3.0, "exact": 2.0, "fastest": 1.0}}
    text = measuring.text("mine", [Shape(1024, 1024, 64, False, "float16")] * 10, 2, ms)
    assert 'install(products="fastest")' in text and "(4.00 x)" in text


@pytest.mark.filterwarnings("ignore")
def test_tune_writes_a_table_for_install(tool, folder, cpu, tmp_path, capsys):
    path = tmp_path / "table.json"
    assert tool("tune", f"--model={folder}", f"--output={path}") == 0
    table = timing_table.read(path)
    (layer,) = table.layers
    assert (layer.n, layer.k, layer.type, list(layer.us)) == (N, 128, "bf16", [1, 16])
    assert layer.us[1].keys() == {OWN, DEQUANTIZE, "few_rows", "many_rows", "few_rows_exact"}
    assert str(path) in capsys.readouterr().out and "left out" not in table.source
    reprolab_nf4.tune(torch.nn.Sequential(cpu.layer()), path)
    with reprolab_nf4.install(table=path), torch.no_grad():
        cpu.layer()(cpu.inputs(1, 128))
    with pytest.raises(DropinError, match="bnb_4bit_compute_dtype"):
        reprolab_nf4.tune(torch.nn.Sequential(cpu.layer(dtype=torch.float32)), path)


@pytest.mark.parametrize("rows", [8, 16])
def test_a_wrong_kernel_is_left_out_of_a_table(rows, tool, folder, tmp_path, monkeypatch):
    """One output of any number of rows from 8 on."""
    own = reprolab_nf4.matmul.multiply

    def multiply(library, kernel, A, *given):
        output = own(library, kernel, A, *given)
        if kernel == "few_rows" and A.shape[0] == rows:
            output[0, -1] += 4
        return output

    monkeypatch.setattr(measuring, "ROWS", (1, 8, 16))
    monkeypatch.setattr(reprolab_nf4.matmul, "multiply", multiply)
    path = tmp_path / "table.json"
    assert tool("tune", f"--model={folder}", f"--output={path}") == 0
    table = timing_table.read(path)
    assert "left out: few_rows: 64 x 128 weights" in table.source
    assert all("few_rows" not in us for us in table.layers[0].us.values())


def test_dequantized_weights_of_other_bits_are_refused(tool, cpu, monkeypatch):
    layers = [cpu.layer(dtype=torch.float16)]
    measuring.check_bits(layers)
    own, calls = bitsandbytes.functional.dequantize_4bit, []
    change = lambda w: w + torch.eye(*w.shape).half() if len(calls) % 2 == 0 else w  # noqa: E731
    dequantize = lambda *given: (calls.append(1), change(own(*given)))[1]  # noqa: E731
    monkeypatch.setattr(bitsandbytes.functional, "dequantize_4bit", dequantize)
    with pytest.raises(DropinError, match="weights differ"):
        measuring.check_bits(layers)


def test_a_sample_is_the_time_of_one_matmul():
    found = measuring.interleave(Cpu(), {"a": lambda: None, "b": lambda: None}, products=3)
    assert found == {name: pytest.approx([2.0] * measuring.SAMPLES) for name in "ab"}


def test_a_cache_that_holds_all_layers_is_outgrown_by_copies(cpu):
    gpu, shape = Cpu(), Shape(1024, 1024, 64, False, "float16")
    gpu.l2_bytes = lambda: 50 << 20
    count = measuring.copies_needed(gpu, shape)
    assert count * 1024 * 512 > 3 * (50 << 20)
    assert measuring.copies_needed(gpu, replace(shape, rows=1)) <= 1024


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        ((), "required"),
        (("tune", "--model=none", "--output=x"), "'none' does not exist"),
        (("tune", "--model=.", "--output=x"), "config.json"),
        (("tune", "--output", "/dev/null"), "/dev/null"),
    ],
)
def test_wrong_usage_is_one_line(words, noun, capsys):
    assert command.main(list(words)) == 2
    error = capsys.readouterr().err
    assert noun in error and error.count("\n") == 1


def test_a_wrong_batch_or_model_is_one_line(cpu, monkeypatch):
    monkeypatch.setattr(measuring, "Gpu", Cpu)
    for batch in (0, 1.5, "2"):
        with pytest.raises(DropinError, match=r"^batch: "):
            reprolab_nf4.advise(torch.nn.Sequential(cpu.layer()), batch)
    for wrong in ("name", torch.nn.Linear(2, 2)):
        with pytest.raises(DropinError, match=r"^model: "):
            reprolab_nf4.advise(wrong)


@pytest.mark.filterwarnings("ignore")
def test_advice_and_a_table_on_a_gpu(bench, tmp_path, monkeypatch):
    if bench.device == "cpu":
        pytest.skip("the CPU has tests of its own")
    monkeypatch.setattr(measuring, "MOST_COPIES", 4)
    model = torch.nn.Sequential(bench.layer(nested=True), bench.layer(n=K, k=N))
    assert "Sequential: 2 layers in NF4" in reprolab_nf4.advise(model, 2)
    reprolab_nf4.tune(model, tmp_path / "table.json")
    with reprolab_nf4.install(table=tmp_path / "table.json"), torch.no_grad():
        model(bench.inputs())

"""Tables of measured times, and the way of a matmul that they choose. Needs no torch."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from reprolab_nf4 import DropinError, timing_table, whole_file
from reprolab_nf4.timing_table import DEQUANTIZE, OWN, Layer, Table

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


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ((28672, 8192, "fp16", False), OF_LARGE),
        ((1024, 8192, "fp16", False), OF_SMALL),
        # The nearest by the ratio of sizes; among equals, that of the same type and scales.
        ((6000, 8192, "fp16", False), OF_LARGE),
        ((5000, 8192, "fp16", False), OF_SMALL),
        ((1024, 64, "bf16", True), OF_SMALL),
        ((28672, 8192, "bf16", True), [(8, OWN), *OF_LARGE[1:]]),
    ],
)
def test_the_fastest_way_of_the_nearest_layer_is_taken(layer, expected):
    assert TABLE.ways(*layer, lambda way, rows: True, OWN) == expected


@pytest.mark.parametrize(("nested", "way"), [(False, "few_rows"), (True, "many_rows")])
def test_the_layer_of_the_same_scales_is_taken(nested, way):
    kinds = ((True, "many_rows"), (False, "few_rows"))
    layers = tuple(Layer(64, 64, "fp16", kind, {8: {name: 1.0}}) for kind, name in kinds)
    table = replace(TABLE, layers=layers)
    assert table.ways(64, 64, "fp16", nested, lambda way, rows: True, OWN) == [(8, way)]


@pytest.mark.parametrize(
    ("can", "expected"),
    [
        (
            lambda way, rows: way.endswith("_exact") or way == DEQUANTIZE,
            [(8, "few_rows_exact"), (16, "many_rows_exact"), (512, DEQUANTIZE)],
        ),
        (lambda way, rows: way == "few_rows" and rows <= 1, [(1, "few_rows"), (512, OWN)]),
    ],
)
def test_the_fastest_possible_way_is_chosen(can, expected):
    assert TABLE.ways(28672, 8192, "fp16", False, can, OWN) == expected


def test_a_written_table_is_read(tmp_path, monkeypatch):
    path = tmp_path / "new" / "sm_90.json"
    path.parent.mkdir()
    (path.parent / f"{whole_file.PREFIX}0").write_text("half of a table")  # of a killed process
    timing_table.write(path, TABLE)
    assert timing_table.read(path) == TABLE
    assert list(path.parent.iterdir()) == [path]
    # One line for each layer and number of rows, for readable diffs.
    lines = path.read_text().splitlines()
    assert len(lines) == 7 + sum(1 + len(x.us) for x in TABLE.layers)
    assert json.loads(path.read_text())["gpu"] == "NVIDIA H200"
    # A recorded table is chosen by its GPU, or else by its architecture.
    monkeypatch.setattr(timing_table, "RECORDED", path.parent)
    other = replace(TABLE, gpu="NVIDIA H100 PCIe")
    timing_table.write(path.with_name("sm_90_h100.json"), other)
    for gpu, table in (("NVIDIA H100 PCIe", other), ("NVIDIA H100", TABLE), (TABLE.gpu, TABLE)):
        assert timing_table.recorded(gpu, "9.0") == table
    assert timing_table.recorded(TABLE.gpu, "8.0") is None


def test_recorded_tables_are_read_once_in_a_process(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path)
    monkeypatch.setattr(timing_table, "read", lambda path: read.append(path.name) or TABLE)
    for name in ("sm_90.json", "sm_90_h100.json"):
        (tmp_path / name).touch()
    for gpu in (TABLE.gpu, "another", "another"):
        assert timing_table.recorded(gpu, "9.0") is TABLE
    assert sorted(read) == ["sm_90.json", "sm_90_h100.json"]


NO_TIMES = '{{"gpu": "", "compute_capability": "9.0", "source": "", "layers": [{}]}}'
TIMES = '{"1": {"few_rows": 1.5}}'
WRONG_TIMES = [
    f'{{"1": {{"few_rows": {us}}}}}' for us in ("null", "NaN", "-1", "0", "true", '"1"', "1" * 400)
]
WRONG_TIMES += [f'{{"{rows}": {{"few_rows": 1}}}}' for rows in ("01", " 1", "1_0", "1.0")]
WRONG_TIMES += ['{"1": {"few_rows": 1}, "1": {"few_rows": 2}}']
WRONG_TIMES += ['{"0": {"few_rows": 1}}', '{"x": {"few_rows": 1}}', '{"1": [1, 2]}', '{"1": 5}']
WRONG_FACTS = [('"n": 1', f'"n": {n}') for n in ("0", "-1", "1.0", '"1"', "null", f"1{'0' * 400}")]
WRONG_FACTS += [('"type": "fp16"', '"type": "fp32"'), ('"nested": false', '"nested": 0')]
WRONG_HEADS = [('"gpu": ""', '"gpu": 5')] + [('"9.0"', f'"{x}"') for x in ("", "sm_90", "9", "90")]
LAYER = '{{"n": 1, "k": 1, "type": "fp16", "nested": false, "us": {}}}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"layers": []}', '{"layers": [{"n": 1}]}', '{"layers": [{"us": {}}]}'),
        *(NO_TIMES.format(x) for x in ("", LAYER.format("{}"), LAYER.format('{"1": {}}'))),
        *(NO_TIMES.format(LAYER.format(us)) for us in WRONG_TIMES),
        *(NO_TIMES.format(LAYER.format(TIMES).replace(*wrong)) for wrong in WRONG_FACTS),
        *(NO_TIMES.format(LAYER.format(TIMES)).replace(*wrong) for wrong in WRONG_HEADS),
        "[" * 100_000,
    ],
)
def test_a_file_that_is_not_a_table_is_one_line(text, tmp_path):
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(DropinError, match=r"table\.json: is not a table"):
        timing_table.read(path)


def test_the_valid_table_of_these_tests_is_read(tmp_path):
    (tmp_path / "table.json").write_text(NO_TIMES.format(LAYER.format(TIMES)))
    assert timing_table.read(tmp_path / "table.json").layers[0].us == {1: {"few_rows": 1.5}}


def test_the_output_is_checked_before_measuring(tmp_path, refused):
    (tmp_path / "file").touch()
    for good in (tmp_path / "a/b.json", tmp_path / "file"):
        assert timing_table.writable(good) == good
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for wrong, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "file/b.json", "Not a directory"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / "pipe", "Not a regular file"),
        ("/dev/null", "Not a regular file"),
        ("x" * 256, "File name too long"),
    ):
        assert refused(timing_table.writable, wrong).endswith(f": {why}")
        assert "cannot be written" in refused(timing_table.write, Path(wrong), TABLE)
    assert Path("/dev/null").is_char_device()
    for wrong in (None, 5, b"table.json", ""):
        for function in (timing_table.writable, timing_table.read):
            assert refused(function, wrong).endswith(f" not {wrong!r}")


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_missing_table_is_one_line(name, tmp_path, refused):
    assert "no such file" in refused(timing_table.read, tmp_path / name)


def test_a_way_that_the_library_does_not_have_is_one_line(refused):
    kernels = ["few_rows", "few_rows_exact", "many_rows", "many_rows_exact"]
    timing_table.check(TABLE, kernels)
    assert "'many_rows_exact'" in refused(timing_table.check, TABLE, kernels[:3])


def test_a_table_that_cannot_be_written_keeps_the_old_file(tmp_path, monkeypatch, refused):
    path = tmp_path / "table.json"
    path.write_text("what was there")

    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_file.TemporaryFile, "write", full)
    assert "No space" in refused(timing_table.write, path, TABLE)
    assert path.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [path]


def test_every_recorded_table_is_of_the_architecture_that_its_name_says():
    for path in timing_table.RECORDED.glob("*.json"):
        table = timing_table.read(path)
        assert path.stem.split("_")[:2] == ["sm", table.compute_capability.replace(".", "")]
        assert timing_table.recorded(table.gpu, table.compute_capability) == table

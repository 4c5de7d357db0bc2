"""Figures of every experiment, of the recorded runs and of less."""

import pandas as pd
import pytest

import reprolab
from plots import style
from plots.frame import prepared
from plots.pictures import is_current
from reprolab.declared import FOLDER
from reprolab.json_files import ROOT

EXPERIMENTS = sorted(file.parent.name for file in FOLDER.glob("*/figures.py"))


@pytest.fixture(scope="module", params=EXPERIMENTS)
def recorded(request: pytest.FixtureRequest) -> tuple[str, pd.DataFrame]:
    folders = [f / request.param for f in (ROOT / "data/recorded").iterdir() if f.is_dir()]
    frames = [prepared(reprolab.load(f).records) for f in folders if f.exists()]
    return request.param, pd.concat(frames, ignore_index=True)


def test_figures_are_drawn_of_a_part_of_the_passes_kernels_and_gpus(recorded):
    name, rows = recorded
    assert style.figures(name, rows[:0]) == {}
    one_gpu = rows[rows.gpu == rows.gpu.iloc[0]]
    parts = [rows, one_gpu, one_gpu[one_gpu.origin == "ceiling"]]
    parts += [one_gpu[one_gpu["pass"] != one] for one in one_gpu["pass"].unique()]
    parts += [one_gpu[one_gpu.kernel != one] for one in ("branch_tree", "shared_lut", "copy")]
    for part in parts:
        assert all(style.numbers(figure) for figure in style.figures(name, part).values())


def test_a_picture_of_another_number_is_stale(tmp_path):
    rows = prepared(reprolab.load(ROOT / "data/recorded/h200/streaming").records)
    (tmp_path / "a.svg").write_bytes(style.svg(style.figures("streaming", rows)["layers"]))
    same = style.figures("streaming", rows)["layers"]
    assert is_current(tmp_path / "a.svg", same)
    assert (tmp_path / "a.svg").read_bytes() == style.svg(same)
    rows.loc[rows.kernel == "streaming", "of_copy"] *= 1.01
    assert not is_current(tmp_path / "a.svg", style.figures("streaming", rows)["layers"])


def test_kernels_of_a_figure_do_not_share_a_colour():
    names = "branch_tree tma_naive shared_lut tma_batched mine yours".split()
    given = style.colours(names)
    assert len(set(given.values())) == len(given)

"""Where partial results lie."""

from experiments.end_to_end import partial_results, plan
from experiments.end_to_end.plan import Cell


def test_two_checkpoints_of_one_name_have_files_of_their_own(tmp_path):
    folders = [tmp_path / name / "qwen3-32b" for name in "ab"]
    for folder in folders:
        folder.mkdir(parents=True)
    cells = [Cell("timing", str(x), 2) for x in folders] + [Cell("timing", "qwen3-32b", 2)]
    assert len({partial_results.file_of(tmp_path / "x.json", cell, "run") for cell in cells}) == 3
    assert [plan.plain(c.model) for c in cells] == ["qwen3-32b-checkpoint"] * 2 + ["qwen3-32b"]

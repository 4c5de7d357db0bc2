"""Generated blocks: filled, found stale, and the rendered folder checked."""

import pytest
from conftest import PUBLISHED

from plots import table2, transpose
from plots.cli import main
from plots.readme import NOTHING, known_blocks

MARKERS = "<!-- begin generated: {0} -->\n<!-- end generated: {0} -->\n"


@pytest.fixture(autouse=True)
def touch_figures(monkeypatch):
    """In the place of figures: that they are made is other tests' to see."""
    for experiment in (table2, transpose):

        def touch(inputs, directory, names=experiment.FIGURE_FILES):
            for name in names:
                (directory / name).touch()

        monkeypatch.setattr(experiment, "write_figures", touch)


@pytest.fixture
def place(replay, shapes, write, tmp_path):
    """A project with one recorded run and a README with two blocks."""
    write("recorded/h200/table2/replay.json", replay)
    write("recorded/h200/table2/shapes.json", shapes)
    text = "# Title\n\n" + MARKERS.format("table2") + "\nprose\n\n"
    (tmp_path / "README.md").write_text(text + MARKERS.format("table2-provenance") + "end\n")
    return tmp_path


def run(place, *options, readme="README.md"):
    arguments = ["--recorded-dir", str(place / "recorded"), "--readme", str(place / readme)]
    return main(["readme", *arguments, "--published", str(PUBLISHED), *options])


def test_fill_then_check(place, capsys):
    assert run(place) == 0
    text = (place / "README.md").read_text()
    assert "> **Recorded run of NVIDIA H200, 2026-11-20. Not measured on this machine.**" in text
    assert "| 8 | 2.19 | " in text
    assert "- Command: build/table2_replay --output=results/table2/replay.json" in text
    assert "- GPU: NVIDIA H200; ECC on; power limit 700 W" in text
    assert "\nprose\n" in text and text.endswith("end\n")
    capsys.readouterr()
    assert run(place, "--check") == 0
    assert capsys.readouterr().out == "generated blocks and tables are up to date\n"
    before = text
    assert run(place) == 0
    assert (place / "README.md").read_text() == before


def test_check_names_the_stale_block_and_the_cure(place, capsys):
    run(place)
    path = place / "README.md"
    path.write_text(path.read_text().replace("| 8 | 2.19 |", "| 8 | 3.19 |"))
    changed = path.read_text()
    capsys.readouterr()
    assert run(place, "--check") == 1
    assert capsys.readouterr().out == (
        f"{path}: block 'table2' is stale\n"
        f"mend with: python -m plots readme --recorded-dir {place}/recorded --readme {path}\n"
    )
    assert path.read_text() == changed


def test_check_finds_stale_and_missing_renderings(place, capsys):
    run(place)
    rendered = place / "recorded/h200/table2/rendered"
    (rendered / "table2.csv").write_text("old")
    (rendered / "speedup.png").unlink()
    (rendered / "share.svg").write_text("another matplotlib's bytes are fine")
    capsys.readouterr()
    assert run(place, "--check") == 1
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"{rendered}/table2.csv: is stale",
        f"{rendered}/speedup.png: is missing",
    ]
    assert run(place) == 0
    assert run(place, "--check") == 0


def test_every_block_of_both_experiments(place, write, matrix, sizes):
    write("recorded/h200/transpose/matrix.json", matrix)
    write("recorded/h200/transpose/sizes.json", sizes)
    path = place / "README.md"
    path.write_text("".join(MARKERS.format(name) for name in known_blocks()))
    assert run(place) == 0
    text = path.read_text()
    assert NOTHING not in text
    blocks = dict(part.split(" -->\n", 1) for part in text.split("<!-- begin generated: ")[1:])
    assert blocks["transpose"].startswith("**Transpose of a 32768 x 32768 fp32 matrix**")
    assert "| `tma_naive` |" in blocks["transpose-sizes"]
    assert blocks["transpose-claims"].startswith("**Verdicts on the post's claims**")
    assert blocks["table2-claims"].startswith("**Verdicts on other claims of the source**")
    assert "`sizes.json`, NVIDIA H200:" in blocks["transpose-provenance"]
    assert "`replay.json`, NVIDIA H200:" in blocks["table2-provenance"]
    assert run(place, "--check") == 0


def test_check_looks_at_every_experiments_folder(place, write, matrix, sizes, capsys):
    run(place)
    write("recorded/a100/transpose/matrix.json", matrix)
    write("recorded/a100/transpose/sizes.json", sizes)
    capsys.readouterr()
    assert run(place, "--check") == 1
    folder = place / "recorded/a100/transpose/rendered"
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"{folder}/{name}.{suffix}: is missing"
        for name in ("matrix", "sizes", "sizes_summary", "claims")
        for suffix in ("txt", "md", "csv", "tex")
    ] + [f"{folder}/{name}: is missing" for name in transpose.FIGURE_FILES]
    assert run(place) == 0
    assert run(place, "--check") == 0


def test_an_experiment_without_a_recorded_run(place):
    path = place / "README.md"
    path.write_text(MARKERS.format("table2-kernels") + MARKERS.format("transpose"))
    assert run(place) == 0
    kernels, ours = path.read_text().split("<!-- begin generated: transpose -->\n")
    assert ours == NOTHING + "<!-- end generated: transpose -->\n"
    assert NOTHING not in kernels


def test_half_a_recorded_run_names_the_missing_file(place, write, matrix, capsys):
    write("recorded/h200/transpose/matrix.json", matrix)
    assert run(place, "--check") == 2
    missing = f"{place}/recorded/h200/transpose/sizes.json"
    assert capsys.readouterr().err == (
        f"error: {missing}: cannot be read: No such file or directory\n"
    )


def test_no_recorded_run_yet(tmp_path, capsys):
    path = tmp_path / "README.md"
    path.write_text(MARKERS.format("table2"))
    assert run(tmp_path) == 0
    assert "_No recorded results yet._" in path.read_text()
    assert run(tmp_path, "--check") == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            MARKERS.format("table9"),
            "block 'table9' is not known; known are table2, table2-kernels, table2-shapes, "
            "table2-share, table2-claims, table2-provenance, transpose, transpose-sizes, "
            "transpose-claims, transpose-provenance",
        ),
        (
            "<!-- begin generated: table2 -->\n",
            "block 'table2' has no line '<!-- end generated: table2 -->'",
        ),
        (
            "<!-- begin generated: table2 -->\n"
            + MARKERS.format("table2-share")
            + MARKERS.format("table2"),
            "block 'table2' has no line '<!-- end generated: table2 -->'",
        ),
    ],
)
def test_wrong_markers(tmp_path, capsys, text, message):
    path = tmp_path / "README.md"
    path.write_text(text)
    assert run(tmp_path) == 2
    assert capsys.readouterr().err == f"error: {path}: {message}\n"
    assert path.read_text() == text


def test_no_readme(tmp_path, capsys):
    assert run(tmp_path) == 2
    expected = f"error: {tmp_path}/README.md: cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == expected

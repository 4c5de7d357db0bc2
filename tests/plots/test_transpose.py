"""The transpose: rows and sizes that are missing or wrong, and what is refused."""

import made
import pytest
import transpose_fixtures
from looking import line, markdown_row, rendered

from plots.cli import main

BIG = "32768x32768"


@pytest.fixture
def texts(matrix, sizes, write):
    """Renders both passes as they now are: file name -> text."""
    return lambda recorded=False: rendered("transpose", write("run", matrix, sizes), recorded)


@pytest.fixture
def refused(matrix, sizes, write, tmp_path, capsys):
    """The one line that the command answers the files with, as they now are."""

    def run() -> str:
        folder = write("run", matrix, sizes)
        output = tmp_path / "out"
        assert main(["render", "transpose", "--results", str(folder), "--output", str(output)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert not output.exists()
        return captured.err.removeprefix(f"error: {folder}/").rstrip("\n")

    return run


def test_no_theoretical_bandwidth(texts, matrix):
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = None
    text = texts()["matrix.md"]
    assert markdown_row(text, "`tiled`")[3:5] == ["-", "92.2"]
    assert "the driver does not say the theoretical bandwidth of this NVIDIA H200." in text


def test_a_gpu_without_tma(texts, matrix, sizes):
    for file in (matrix, sizes):
        for r in file["records"]:
            if r["kernel"].startswith("tma"):
                made.fail(r, "unsupported", transpose_fixtures.NEEDS_HOPPER)
    found = texts()
    assert "| **No time: unsupported** |" in found["matrix.md"]
    row = markdown_row(found["matrix.md"], "`tma_naive`")
    assert row[1:8] == ["-", "-", "-", "-", "875.46 (26.5)", "1056.08 (32.0)", "-"]
    assert row[8].startswith("unsupported <sup>")
    assert f"tma_naive: {transpose_fixtures.NEEDS_HOPPER}" in found["matrix.md"]
    assert markdown_row(found["sizes_summary.md"], "`tma_naive`")[1:] == ["-"] * 6
    assert transpose_fixtures.NEEDS_HOPPER in found["sizes.csv"]


def test_a_smaller_matrix_than_the_posts(write, sizes, texts):
    assert texts()["matrix.txt"].startswith("Transpose of a 32768 x 32768 fp32 matrix\n")
    folder = write("smaller", transpose_fixtures.matrix(rows=16384), sizes)
    assert rendered("transpose", folder)["matrix.txt"].startswith(
        "Transpose of a 16384 x 16384 fp32 matrix (smaller than the post's 32768 x 32768 fp32)\n"
    )


def test_sizes_that_did_not_fit(texts):
    found = texts()
    reason = "65536x65536: needs 34.4 GB of GPU memory, 25.0 GB are free"
    assert f"<sup>1</sup> {reason}" in found["sizes.md"]
    assert markdown_row(found["sizes.md"], "65536") == ["65536 <sup>1</sup>", *["-"] * 7]
    assert f"Did not fit: {reason}." in found["sizes_summary.md"]


def test_a_wrong_kernel_has_no_time(texts, matrix, sizes):
    for key in (f"{BIG}/tiled", f"{BIG}/constant/tiled"):
        made.fail(made.find(matrix, key), "mismatch", "first at row 1")
        made.find(matrix, key)["mismatches"] = 5
    made.fail(made.find(sizes, "5000x5000/tiled"), "mismatch", "first at row 1")
    found = texts()
    row = markdown_row(found["matrix.md"], "`tiled`")
    assert row[1:5] == ["-"] * 4
    assert [cell.split(" <sup>")[0] for cell in row[7:]] == ["fails", "5 of 1,073,741,824 wrong"]
    assert "| **No time: mismatch** |" in found["matrix.md"]
    assert "mismatch [2]" in line(found["sizes.txt"], "     5000")
    assert "mismatch" in markdown_row(found["sizes_summary.md"], "`tiled`")[5]


def test_without_the_constant_matrix_the_posts_check_was_not_run(texts, matrix):
    matrix["records"] = [r for r in matrix["records"] if r["problem"]["data"] == "random"]
    found = texts()["matrix.md"]
    assert markdown_row(found, "`tiled`")[7] == "not run"
    assert "| **Fails our check: left out of the ranking** |" in found


def test_problems_that_the_tables_cannot_place(sizes, refused):
    for r in sizes["records"]:
        if r["problem"]["rows"] == 1000:
            r["problem"]["columns"] = 500
    expected = "problem '1000x1000' is not square: one square per size"
    assert refused() == f"sizes.json: {expected}"
    for r in sizes["records"]:
        if r["problem"]["name"] == "1000x1000":
            r["problem"] |= {"rows": 256, "columns": 256}
    expected = "problem '1000x1000' has the size of another: one square per size"
    assert refused() == f"sizes.json: {expected}"


def test_no_random_matrix(matrix, refused):
    matrix["records"] = [r for r in matrix["records"] if r["problem"]["data"] == "constant"]
    assert refused() == "matrix.json: needs one problem whose data is 'random', but has 0"

"""The transpose from end to end: golden texts, every kind of row, and what is refused."""

import made
import pytest
import transpose_fixtures
from looking import BANNER, IN_FULL, line, markdown_row, rendered

from plots import transpose
from plots.cli import main
from plots.experiments import CLAIM_DETAILS, load_run

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


@pytest.mark.parametrize("name", ["matrix", "sizes", "sizes_summary", "claims"])
def test_golden(texts, golden, name):
    golden(f"transpose/{name}.md", texts()[f"{name}.md"])


def test_render(matrix, sizes, write, capsys, monkeypatch, tmp_path):
    write("run", matrix, sizes)
    monkeypatch.chdir(tmp_path)
    assert main(["render", "transpose", *IN_FULL]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    for title in (
        "Transpose of a 32768 x 32768 fp32 matrix",
        "share of the copy",
        "Claims that experiment transpose bears on",
    ):
        assert title in text
    assert text.endswith(
        "Fastest: column_walk; 4154 GB/s, 97.1 % of the copy.\n"
        "6 claims: 2 reproduced, 2 premise false, 2 not testable.\n"
        "Tables (txt, md, csv, tex) and figures (pdf, png, svg): out/\n"
    ), text[-300:]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    tables = ("matrix", "sizes", "sizes_summary", "claims")
    assert names == {f"{t}.{s}" for t in tables for s in ("txt", "md", "csv", "tex")} | {
        f"{figure}.{s}" for figure in transpose.FIGURES for s in ("pdf", "png", "svg")
    } | {CLAIM_DETAILS}


def test_as_published_passes_the_posts_check_and_fails_ours(texts):
    text = texts()["matrix.md"]
    names = [x.split(" |")[0] for x in text.splitlines() if x.startswith("| ")]
    heading = "| **Passes the post's check, fails ours: left out of the ranking**"
    place = names.index(heading)
    assert names[place + 1] == "| `tma_batched_as_published`"
    assert names.index("| `tma_naive`") < place < names.index("| **Ceilings**")
    row = markdown_row(text, "`tma_batched_as_published`")
    assert row[-2:] == ["passes", "939,524,096 of 1,073,741,824 wrong <sup>1</sup>"]
    assert "**" not in row[1]  # never the best
    note = f"left out of rankings: {transpose_fixtures.INDEXING}; at worst: 939524096 of "
    assert f"<sup>1</sup> tma_batched_as_published: {note}" in text
    assert "first at row 0, column 4 of the output: expected 0x3f8147ae" in texts()["matrix.csv"]


def test_without_a_count_it_is_just_different(texts, matrix):
    made.find(matrix, f"{BIG}/tma_batched_as_published")["mismatches"] = None
    row = markdown_row(texts()["matrix.md"], "`tma_batched_as_published`")
    assert row[-1] == "differs <sup>1</sup>"


def test_published_values_stand_beside_the_code_they_were_measured_with(texts):
    text = texts()["matrix.md"]
    rows = {k: markdown_row(text, f"`{k}`")[5:7] for k in transpose_fixtures.KERNELS}
    assert rows["tma_naive"] == ["875.46 (26.5)", "1056.08 (32.0)"]
    assert rows["tma_swizzle"] == ["1251.76 (37.9)", "1437.55 (43.6)"]
    assert rows["tma_batched"] == ["2771.35 (84.0)", "-"]
    assert rows["tma_batched_as_published"] == ["-", "2775.49 (84.1)"]
    assert rows["tiled"] == rows["column_walk"] == rows["cublas_sgeam"] == ["-", "-"]


def test_percentages_by_hand(texts, matrix):
    # 8 * 32768^2 bytes in 2 and in 4 ms
    for kernel, time_us in (("copy", 2000.0), ("tiled", 4000.0)):
        made.set_times(made.find(matrix, f"{BIG}/{kernel}"), [time_us] * 3)
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = 8589.934592
    row = markdown_row(texts()["matrix.md"], "`tiled`")
    assert row[1:5] == ["2147 (2147-2147)", "1085", "25.0", "50.0"]  # 1980 MHz


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


def test_sizes_are_grouped_by_what_they_are_multiples_of(texts):
    names = [x.split()[0] for x in texts()["sizes.txt"].splitlines() if x]
    groups = {"multiples", "other", "not"}
    order = [x for x in names if x in groups or x.isdigit()]
    assert order == ("multiples 256 1024 4096 16384 65536 other 1000 5000 not 1023 8191".split())


def test_unaligned_sizes_have_no_tma_and_say_why_in_the_csv(texts):
    found = texts()
    tma = [i for i, x in enumerate(markdown_row(found["sizes.md"], "rows")) if "tma" in x]
    row = markdown_row(found["sizes.md"], "1023")
    assert [row[i] for i in tma] == ["-"] * 3
    assert "1023x1023,tma_naive,project,,unsupported,a row of 4092 bytes" in found["sizes.csv"]


def test_summary_by_hand(texts, sizes):
    for size, time_us in ((1000, 10.0), (5000, 20.0)):
        made.set_times(made.find(sizes, f"{size}x{size}/copy"), [10.0] * 3)
        made.set_times(made.find(sizes, f"{size}x{size}/tiled"), [time_us] * 3)
    assert markdown_row(texts()["sizes_summary.md"], "`tiled`")[5] == "75.0 (50.0-100.0)"


def test_a_kernel_that_did_not_run_at_a_size(texts, sizes):
    sizes["records"].remove(made.find(sizes, "4096x4096/tiled"))
    found = texts()
    assert markdown_row(found["sizes_summary.md"], "`tiled`")[1:4] == ["103.7", "-", "92.7"]
    assert markdown_row(found["sizes.md"], "4096")[1:3] == ["**3957**", "-"]


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


def test_clocks_too_far_apart_are_marked(texts, matrix, sizes):
    made.find(matrix, f"{BIG}/tiled")["clocks"]["sm_mhz_during"] = 1800
    made.find(sizes, "4096x4096/tiled")["clocks"]["sm_mhz_during"] = 1800
    found = texts()
    for name in ("matrix", "sizes", "sizes_summary"):
        assert found[f"{name}.md"].count("Ran at an SM clock 9 % below the highest") == 1
    assert markdown_row(found["matrix.md"], "`tiled`")[1].endswith("<sup>1</sup>")
    tiled = markdown_row(found["sizes.md"], "rows").index("tiled")
    assert markdown_row(found["sizes.md"], "4096")[tiled].endswith("</sup>")
    assert markdown_row(found["sizes_summary.md"], "`tiled`")[2].endswith("</sup>")


def test_the_copys_bytes_per_cycle(texts, sizes):
    copy = made.find(sizes, "1024x1024/copy")
    made.set_times(copy, [8.388608] * 3)  # us, for 8 MiB
    copy["clocks"]["sm_mhz_during"] = 1000
    found = texts()
    rows = found["sizes_summary.md"].split("the copy itself, B/cycle")[1]
    assert markdown_row(rows, "`copy`")[1] == "1000"
    assert ",1000,1000," in line(found["sizes.csv"], "1024x1024,copy,")


def test_the_short_table_has_the_posts_kernels_and_the_fastest(matrix, sizes, write):
    table = transpose.SHORT_TABLE(load_run("transpose", write("run", matrix, sizes)))
    assert [row[0] for row in table.rows] == [
        "column_walk",
        "tma_batched",
        "tma_swizzle",
        "tma_naive",
        "tma_batched_as_published",
    ]
    assert table.footnotes() == []
    assert table.rows[-1][-1] == "939,524,096 of 1,073,741,824 wrong"


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


def test_a_pass_of_another_experiment(sizes, refused):
    sizes["experiment"] = "table2"
    assert refused() == "sizes.json: experiment is 'table2', but 'transpose' is needed here"


def test_what_the_schema_refuses(sizes, refused):
    sizes["records"][0]["outcome"] = "fine"
    assert refused().startswith("sizes.json: records[0].outcome must be one of bit_exact, ")

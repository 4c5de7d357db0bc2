"""The transpose from end to end: golden texts, every kind of row, and what is refused."""

import pytest
import transpose_fixtures as made
from conftest import PUBLISHED, find, line

from plots import transpose
from plots.cli import main
from plots.output import rendered
from plots.published import load_transpose_post

BANNER = "Recorded run of NVIDIA H200, 2026-11-20. Not measured on this machine."
BIG = "32768x32768"


@pytest.fixture
def texts(matrix, sizes, write):
    """Renders both passes as they now are: file name -> text."""

    def render(recorded: bool = False) -> dict[str, str]:
        files = {"matrix": write("matrix.json", matrix), "sizes": write("sizes.json", sizes)}
        inputs = transpose.read(**files, published=PUBLISHED, recorded=recorded)
        return rendered(transpose.tables(inputs))

    return render


@pytest.fixture
def refused(matrix, sizes, write, tmp_path, capsys):
    """The one line that the command answers the files with, as they now are."""

    def run(published=PUBLISHED) -> str:
        options = ["--matrix", str(write("matrix.json", matrix))]
        options += ["--sizes", str(write("sizes.json", sizes)), "--published", str(published)]
        assert main(["transpose", *options, "--output", str(tmp_path / "out")]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert not (tmp_path / "out").exists()
        return captured.err.removeprefix(f"error: {tmp_path}/").rstrip("\n")

    return run


def markdown_row(text: str, kernel: str) -> list[str]:
    return [cell.strip() for cell in line(text, f"| `{kernel}`").strip("|").split("|")]


@pytest.mark.parametrize("suffix", ["txt", "md", "csv", "tex"])
@pytest.mark.parametrize("name", ["matrix", "sizes", "sizes_summary", "claims"])
def test_golden(texts, golden, name, suffix):
    golden(f"transpose/{name}.{suffix}", texts()[f"{name}.{suffix}"])


def test_terminal(matrix, sizes, write, capsys, monkeypatch, tmp_path, golden):
    write("matrix.json", matrix)
    write("sizes.json", sizes)
    monkeypatch.chdir(tmp_path)
    options = ["--matrix", "matrix.json", "--sizes", "sizes.json", "--recorded"]
    options += ["--published", str(PUBLISHED), "--output", "out"]
    assert main(["transpose", *options]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    golden("transpose/terminal_recorded.txt", text)
    tables = {f"{name}.{kind}" for name in ("matrix", "sizes") for kind in ("md", "csv", "tex")}
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        *tables,
        *transpose.FIGURE_FILES,
    }


def test_banner_clocks_and_provenance_on_every_table(texts):
    for name, text in texts(recorded=True).items():
        flat = " ".join(text.replace("\\_", "_").split())
        assert BANNER in flat, name
        assert "Clocks not locked, SM 1980 MHz seen; no throttle reasons seen." in flat, name
        assert "commit 012345678; NVIDIA H200; driver 580.159.04" in flat, name
    assert not any("Recorded" in text for text in texts().values())


def test_as_published_passes_the_posts_check_and_fails_ours(texts):
    text = texts()["matrix.md"]
    heading = "| **Passes the post's check, fails ours: left out of the ranking** |"
    names = [x.split(" |")[0] for x in text.splitlines() if x.startswith("| ")]
    place = names.index(heading.removesuffix(" |"))
    assert names[place + 1] == "| `tma_batched_as_published`"
    assert names.index("| `tma_naive`") < place < names.index("| **Ceilings**")
    row = markdown_row(text, "tma_batched_as_published")
    assert row[-2:] == ["passes", "939,524,096 of 1,073,741,824 wrong <sup>1</sup>"]
    assert "**" not in row[1]  # never the best
    assert "<sup>1</sup> tma_batched_as_published: left out of rankings: " in text
    assert "first at row 0, column 4 of the output: expected 0x3f8147ae" in text


def test_without_a_count_it_is_just_different(texts, matrix):
    find(matrix, f"{BIG}/tma_batched_as_published")["mismatches"] = None
    assert markdown_row(texts()["matrix.md"], "tma_batched_as_published")[-1].startswith("differs ")


def test_published_values_stand_beside_the_code_they_were_measured_with(texts):
    rows = {k: markdown_row(texts()["matrix.md"], k)[4:6] for k in made.KERNELS}
    assert rows["tma_naive"] == ["875.46 (26.5)", "1056.08 (32.0)"]
    assert rows["tma_swizzle"] == ["1251.76 (37.9)", "1437.55 (43.6)"]
    assert rows["tma_batched"] == ["2771.35 (84.0)", "-"]
    assert rows["tma_batched_as_published"] == ["-", "2775.49 (84.1)"]
    assert rows["tiled"] == rows["column_walk"] == rows["cublas_sgeam"] == ["-", "-"]


def test_percentages_by_hand(texts, matrix):
    # 8 * 32768^2 bytes in 2 and in 4 ms
    for kernel, time_us in (("copy", 2000.0), ("tiled", 4000.0)):
        find(matrix, f"{BIG}/{kernel}")["samples_us"] = [time_us] * 3
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = 8589.934592
    row = markdown_row(texts()["matrix.md"], "tiled")
    assert row[1:4] == ["2147 (2147-2147)", "25.0", "50.0"]


def test_no_theoretical_bandwidth(texts, matrix):
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = None
    text = texts()["matrix.md"]
    assert markdown_row(text, "tiled")[2:4] == ["-", "92.2"]
    assert "the driver does not say the theoretical bandwidth of this NVIDIA H200." in text


def test_a_gpu_without_tma(texts, matrix, sizes):
    for results in (matrix, sizes):
        for r in results["records"]:
            if r["kernel"].startswith("tma"):
                r.update(outcome="unsupported", reason=made.NEEDS_HOPPER, samples_us=[])
    found = texts()
    assert "| **No time: unsupported** |" in found["matrix.md"]
    row = markdown_row(found["matrix.md"], "tma_naive")
    assert row[1:8] == ["-", "-", "-", "875.46 (26.5)", "1056.08 (32.0)", "-", row[-1]]
    assert f"tma_naive: {made.NEEDS_HOPPER}" in found["matrix.md"]
    assert markdown_row(found["sizes_summary.md"], "tma_naive")[1:] == ["-"] * 6
    assert made.NEEDS_HOPPER in found["sizes.csv"]


def test_a_smaller_matrix_than_the_posts(write, sizes, texts):
    assert "Transpose of a 32768 x 32768 fp32 matrix\n" in texts()["matrix.txt"]
    files = {"matrix": write("m.json", made.matrix(rows=16384)), "sizes": write("s.json", sizes)}
    inputs = transpose.read(**files, published=PUBLISHED, recorded=False)
    assert rendered(transpose.tables(inputs))["matrix.txt"].startswith(
        "Transpose of a 16384 x 16384 fp32 matrix (smaller than the post's 32768 x 32768)\n"
    )


def test_sizes_that_did_not_fit(texts):
    found = texts()
    reason = "65536x65536: needs 34.4 GB of GPU memory, 25.0 GB are free"
    assert f"[1] {reason}" in found["sizes.txt"]
    assert line(found["sizes.txt"], "65536").split() == ["65536", "[1]", *["-"] * 7]
    assert f"Did not fit: {reason}." in found["sizes_summary.txt"]


def test_sizes_are_grouped_by_what_they_are_multiples_of(texts):
    names = [x.split()[0] for x in texts()["sizes.txt"].splitlines() if x]
    groups = {"multiples", "other", "not"}
    order = [x for x in names if x in groups or x.isdigit()]
    assert order == ("multiples 256 1024 4096 16384 65536 other 1000 5000 not 1023 8191".split())


def test_unaligned_sizes_have_no_tma_and_say_why_in_the_csv(texts):
    found = texts()
    tma = [i for i, x in enumerate(found["sizes.md"].splitlines()[2].split("|")) if "tma" in x]
    row = line(found["sizes.md"], "| 1023 ").split("|")
    assert [row[i].strip() for i in tma] == ["-"] * 3
    assert "1023x1023,tma_naive,kernel,unsupported,a row of 4092 bytes" in found["sizes.csv"]


def test_summary_by_hand(texts, sizes):
    for size, time_us in ((1000, 10.0), (5000, 20.0)):
        find(sizes, f"{size}x{size}/copy")["samples_us"] = [10.0] * 3
        find(sizes, f"{size}x{size}/tiled")["samples_us"] = [time_us] * 3
    assert markdown_row(texts()["sizes_summary.md"], "tiled")[5] == "75.0 (50.0-100.0)"


def test_a_wrong_kernel_has_no_time(texts, matrix, sizes):
    wrong = {"outcome": "mismatch", "reason": "first at row 1", "mismatches": 5}
    for key in (f"{BIG}/tiled", f"{BIG}/constant/tiled"):
        find(matrix, key).update(wrong, samples_us=[98765.0] * 3)
    find(sizes, "5000x5000/tiled").update(wrong, samples_us=[98765.0] * 3)
    found = texts()
    row = markdown_row(found["matrix.md"], "tiled")
    assert row[1:4] == ["-", "-", "-"]
    assert [cell.split(" <sup>")[0] for cell in row[6:]] == ["fails", "5 of 1,073,741,824 wrong"]
    assert "| **No time: mismatch** |" in found["matrix.md"]
    assert "mismatch [2]" in line(found["sizes.txt"], "     5000")
    assert "mismatch" in markdown_row(found["sizes_summary.md"], "tiled")[5]
    assert not any("98765" in text for text in found.values())


def test_without_the_constant_matrix_the_posts_check_was_not_run(texts, matrix):
    matrix["records"] = [r for r in matrix["records"] if r["problem"]["data"] == "random"]
    found = texts()["matrix.md"]
    assert markdown_row(found, "tiled")[6] == "not run"
    assert "| **Fails our check: left out of the ranking** |" in found


def test_clocks_too_far_apart_from_the_copys_are_marked(texts, matrix):
    find(matrix, f"{BIG}/tiled")["clocks"]["sm_mhz_during"] = 1800
    flat = " ".join(texts()["matrix.txt"].split())
    assert "SM clocks differ by 9.1 % (more than 2 %): tiled at 1800 MHz, copy at 1980" in flat


def test_published_values():
    post = load_transpose_post(PUBLISHED)
    assert (post.rows, post.columns, post.peak_gb_s) == (32768, 32768, 3300)
    assert post.claim_value("84-percent") == (84.1056, "%")
    assert post.claim_value("swizzle") == (pytest.approx(1.3612, abs=1e-4), "x")
    assert post.claim_value("correct") is None
    assert post.percent_of_peak(2775.49) == pytest.approx(84.1, abs=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"source_value": 84.2},
            "84-percent: source_value is 84.2, but data/published has 84.1056; "
            "run the experiment again",
        ),
        ({"unit": "GB/s"}, "84-percent: unit is 'GB/s', but '%' is needed here"),
        ({"claim": "fast"}, "fast: is no claim of data/published's transpose_blog"),
        ({"source": "paper"}, "84-percent: is no claim of data/published's transpose_blog"),
        ({"claim": "correct"}, "correct: has a source_value, but data/published has none"),
    ],
)
def test_verdicts_of_another_source(matrix, refused, change, message):
    matrix["verdicts"][1] |= change
    assert refused() == f"matrix.json: {message}"


SEE = "(see experiments/harness/RESULTS.md)"


def test_problems_that_the_tables_cannot_place(matrix, sizes, refused):
    of_size = {size: p["problem"] for p in sizes["records"] for size in [p["problem"]["rows"]]}
    of_size[1000]["columns"] = 500
    expected = f"problem '1000x1000'.columns must be as rows, 1000, not 500 {SEE}"
    assert refused() == f"sizes.json: {expected}"
    for r in sizes["records"]:
        if r["problem"]["name"] == "1000x1000":
            r["problem"] |= {"rows": 256, "columns": 256}
    expected = f"problem '1000x1000'.rows comes a second time: 256 {SEE}"
    assert refused() == f"sizes.json: {expected}"
    for r in matrix["records"]:
        r["problem"]["data"] = "ramp"
    expected = f"problem '{BIG}'.data must be one of random, constant, not 'ramp' {SEE}"
    assert refused() == f"matrix.json: {expected}"


def test_no_random_matrix(matrix, refused):
    matrix["records"] = [r for r in matrix["records"] if r["problem"]["data"] == "constant"]
    matrix["verdicts"] = []
    assert refused() == "matrix.json: needs one problem whose data is 'random', but has 0"


def test_theoretical_bandwidth_must_be_said_or_null(matrix, refused):
    del matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"]
    field = "provenance.gpu.theoretical_bandwidth_gb_s"
    assert refused() == f"matrix.json: {field} is missing: a number is needed {SEE}"


def test_passes_of_two_runs(sizes, refused):
    sizes["provenance"]["commit"] = "9" * 40
    assert "give two passes of one run" in refused()


def test_a_pass_of_another_experiment(sizes, refused):
    sizes["experiment"] = "table2"
    assert refused() == "sizes.json: experiment is 'table2', but 'transpose' is needed here"


def test_published_file_without_the_post(write, refused):
    other = write("published.json", {"paper": {}})
    assert refused(other).startswith(
        "published.json: transpose_blog is missing: an object is needed"
    )


def test_missing_file(tmp_path, write, sizes, capsys):
    options = ["--matrix", str(tmp_path / "none.json"), "--sizes", str(write("s.json", sizes))]
    assert main(["transpose", *options, "--output", str(tmp_path / "out")]) == 2
    expected = f"error: {tmp_path}/none.json: cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == expected

"""Each command of `python -m plots` on small runs: what it writes, and whose numbers they are."""

import csv
import io
import json

import made
import pytest
from edited import RECORDED, write_few

from plots import pages
from plots.__main__ import main
from reprolab import declared

FAILED = ("branch_tree", "cub_sum", "read_only", "bitsandbytes")
TIMES = {"branch_tree": [20.0, 21.0, 22.0], "shared_lut": [10.0, 10.5, 11.0]}


@pytest.fixture
def own(write):
    """A run of this machine."""
    write("results/table2/replay.json", made.replay(TIMES))
    return lambda *words: main([*words])


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_render_writes_the_tables_of_a_run_of_this_machine(own, tmp_path, capsys):
    results, output = tmp_path / "results/table2", tmp_path / "out"
    assert own("render", "table2", f"--results={results}", f"--output={output}") == 0
    (lut,) = [r for r in rows_of(output / "gains.csv") if r["kernel"] == "shared_lut"]
    low, high = float(lut["ratio_low"]), float(lut["ratio_high"])
    # 4.8 % among three samples each: 2.78 x 4.8 % x sqrt(2 / 3) = 10.8 %, and 0.2 % between runs.
    assert (lut["ratio"], low, high) == (
        "2",
        pytest.approx(1.797, rel=1e-3),
        pytest.approx(2.226, rel=1e-3),
    )
    printed = capsys.readouterr().out
    assert "Not measured on this machine" not in printed and "Not measured: shapes" in printed
    assert (output / "table2.md").exists() and (output / "table2.tex").exists()


def test_a_recorded_run_is_never_shown_as_this_machines(tmp_path, capsys):
    words = ("render", "table2", f"--results={RECORDED}/table2", f"--output={tmp_path}")
    assert main([*words]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("Recorded run of NVIDIA H200,") and "Not measured on this" in first


def test_a_wrong_output_is_named_and_has_no_number(write, tmp_path, capsys):
    file = made.replay(TIMES | {"mine": [1.0, 1.0, 1.0]})
    made.fail(file["records"][2], "mismatch")
    results = write("table2/replay.json", file).parent
    assert main(["render", "table2", f"--results={results}", f"--output={tmp_path}/out"]) == 0
    assert "WRONG OUTPUT, hence no time: mine (1 rows)" in capsys.readouterr().out
    (wrong,) = [r for r in rows_of(tmp_path / "out/gains.csv") if r["kernel"] == "mine"]
    assert (wrong["median"], wrong["ratio"], wrong["outcome"]) == ("", "", "mismatch")


def test_every_experiment_of_a_folder_is_rendered(tmp_path, capsys):
    for name in ("puzzle", "counters"):
        write_few(name, tmp_path / "runs" / name)
    words = ["render", f"--results={tmp_path}/runs", f"--output={tmp_path}/out", "--recorded"]
    assert main(words) == 0
    written = {folder.name for folder in (tmp_path / "out").iterdir()}
    assert written == {"puzzle-recorded", "counters-recorded"}
    assert main(["render", f"--results={tmp_path}/none", f"--output={tmp_path}/x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "make reproduce-table2" in line and not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", declared.names())
def test_passes_and_kernels_may_be_missing(name, tmp_path):
    """An interrupted run, and kernels that failed: the baseline, a ceiling, libraries, or all."""
    passes = sorted(write_few(name, tmp_path / "full" / name).glob("*.json"))
    for kept, failed in ((passes, FAILED), (passes, ("",)), (passes[:1], ()), (passes[-1:], ())):
        folder = tmp_path / f"{kept[0].stem}-{len(kept)}-{len(failed)}" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in kept:
            content = json.loads(file.read_text())
            for row in content["records"]:
                if row["kernel"].startswith(failed):
                    row |= {"outcome": "not_measured", "reason": "x", "metrics": [], "launch": None}
            (folder / file.name).write_text(json.dumps(content))
        assert main(["render", name, f"--results={folder}", f"--output={tmp_path}/out"]) == 0


def test_results_of_two_gpus_in_one_folder_are_refused(write, capsys):
    write("table2/replay.json", made.replay(TIMES))
    shapes = made.on("Tesla T4", made.replay(TIMES)) | {"pass": "shapes"}
    results = write("table2/shapes.json", shapes).parent
    assert main(["render", "table2", f"--results={results}", f"--output={results}"]) == 2
    assert "results of 2 GPUs" in capsys.readouterr().err


def test_claims_are_counted_and_written_with_their_evidence(own, tmp_path, capsys):
    assert own("claims", f"--results={tmp_path}/results", f"--output={tmp_path}/out") == 0
    rows = rows_of(tmp_path / "out/claims.csv")
    cell = next(
        r for r in rows if r["claim"] == "kernel-speedup" and r["cell"] == "qwen3-32b, batch 2"
    )
    assert (cell["ours"], cell["published"]) == ("2", "2.2")
    assert cell["file"].endswith("results/table2/replay.json") and "shared_lut" in cell["keys"]
    assert f"{len({(r['source'], r['claim']) for r in rows})} claims: " in capsys.readouterr().out
    assert "kernel-speedup" in (tmp_path / "out/claims.md").read_text()


def test_bench_shows_times_or_counters(tmp_path, capsys):
    folder = write_few("ladder", tmp_path)
    assert main(["bench", f"--results={folder}/plain.json"]) == 0
    times = capsys.readouterr().out
    assert "GB/s" in times and "| streaming |" in times
    file = folder / "plain_counters.json"
    counted = json.loads(file.read_text())
    counted["provenance"]["metrics"] = ["l1_hit_rate"]  # of METRICS
    file.write_text(json.dumps(counted))
    assert main(["bench", f"--results={file}"]) == 0
    shown = capsys.readouterr().out
    assert "dram_utilisation" in shown and "l1_hit_rate" in shown


def test_list_names_kernels_and_compiled_code_is_no_bench(tmp_path, capsys):
    folder = write_few("counters", tmp_path)
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    (tree,) = [line for line in listed.splitlines() if line.startswith("| branch_tree |")]
    assert "| kernels/nf4/branch_tree.cu | bit-exact |" in tree
    (wrong,) = [line for line in listed.splitlines() if "shared_lut_algorithm1 |" in line]
    assert "| declared deviation |" in wrong
    assert main(["bench", f"--results={folder}/sass.json"]) == 2


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """The command `pages` with one template and experiment, and without pictures."""
    (tmp_path / "data/recorded/h200").mkdir(parents=True)
    (tmp_path / "data/recorded/h200/table2").symlink_to(RECORDED / "table2")
    monkeypatch.setattr(pages, "pictures", lambda rows: {})
    monkeypatch.setattr(pages, "ROOT", tmp_path)

    def fill(template, *words):
        (tmp_path / "README.md.j2").write_text(template)
        return main(["pages", *words])

    return fill


def test_a_page_is_filled_and_a_stale_one_is_named(filled, tmp_path, capsys):
    template = 'x {{ h200.claims["kernel-speedup"].ours }}\n'
    assert filled(template) == 0
    assert (tmp_path / "README.md").read_text() == "x 2.11-2.12x\n"
    assert filled(template, "--check") == 0
    (tmp_path / "README.md").write_text("x 2.50x\n")
    capsys.readouterr()
    assert filled(template, "--check") == 1
    assert "README.md: is stale" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("slot", "noun"),
    [
        ("h200.table2.gains(kernel='gone')", "no such cell"),
        ("h200.table2.gains('no_value')", "no column 'no_value'"),
        ("h200.no_experiment", "no_experiment"),
        ("h200.claims['no-claim'].ours", "no-claim"),
        ("h200.", "README.md.j2:1"),
    ],
)
def test_a_slot_that_is_not_there_is_one_line(filled, tmp_path, capsys, slot, noun):
    assert filled(f"{{{{ {slot} }}}}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert noun in line and not (tmp_path / "README.md").exists()

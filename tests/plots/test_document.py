"""Generated pages and blocks: writing, detection of stale ones, and errors."""

import json
import re
import shutil
from types import SimpleNamespace

import made
import pytest
from edited import RECORDED

from plots.cli import main
from plots.document import NOTHING, fullest
from plots.experiments import load_run
from reprolab.json_files import ROOT

pytestmark = pytest.mark.usefixtures("no_figures")
MARKERS = "<!-- begin generated: {0} -->\n<!-- end generated: {0} -->\n"
BEGIN = MARKERS.format("paper").splitlines(keepends=True)[0]
BLOCKS = ("paper", "modular_blog", "transpose_blog")


@pytest.fixture
def place(edited, tmp_path):
    """A project with one recorded run and a README with three blocks."""
    edited("table2", "recorded/h200/table2").write()
    text = "# Title\n\n" + "\nprose\n\n".join(MARKERS.format(name) for name in BLOCKS)
    (tmp_path / "README.md").write_text(text + "end\n")
    return tmp_path


def run(place, *options):
    readme = str(place / "README.md")
    arguments = ["--recorded-dir", str(place / "recorded"), "--readme", readme]
    return main(["document", *arguments, *options])


def test_write_then_check(place, capsys):
    assert run(place) == 0
    capsys.readouterr()
    assert run(place, "--check") == 0
    assert "up to date" in capsys.readouterr().out
    before = {path: path.read_bytes() for path in place.rglob("*.md")}
    assert len(before) == 5  # README, ledger, details, numbers and the experiment's page
    assert run(place) == 0
    assert before == {path: path.read_bytes() for path in place.rglob("*.md")}


def test_an_experiments_sentences(place, tmp_path):
    (place / "README.md").write_text(MARKERS.format("findings-table2"))
    assert run(place) == 0
    _, banner, _, *output, _ = (place / "README.md").read_text().splitlines()
    assert "of NVIDIA H200, 20" in banner and output[0].startswith("- ")
    empty = MARKERS.format("findings-product")  # not recorded
    (place / "README.md").write_text(empty)
    assert run(place) == 0
    assert (place / "README.md").read_text() == empty.replace(" -->\n", f" -->\n{NOTHING}", 1)
    (tmp_path / "README.md").write_text(MARKERS.format("paper"))
    (place / "recorded/h200").rename(place / "elsewhere")
    assert run(place) == 0 and NOTHING in (place / "README.md").read_text()


def test_one_table_of_an_experiment(place):
    (place / "README.md").write_text(MARKERS.format("table-table2-shapes"))
    assert run(place) == 0
    _, title, *rest, _ = (place / "README.md").read_text().splitlines()
    page = (place / "recorded/h200/table2/README.md").read_text()
    assert title.startswith("**") and title in page
    rows = [line for line in rest if line.startswith("| ")]
    assert len(rows) > 2 and all(row in page for row in rows)
    for name in ("table-product-layers", "table-table2-none"):  # not recorded, and no table
        (place / "README.md").write_text(MARKERS.format(name))
        assert run(place) == 0 and NOTHING in (place / "README.md").read_text()
    (place / "README.md").write_text(MARKERS.format("table-none-none"))
    assert run(place) == 2


def test_a_claim_has_one_verdict_on_every_page(tmp_path):
    """The evidence of the whole machine, because some claims need several experiments' files."""
    folder = tmp_path / "data/recorded/h200"
    for name in ("puzzle", "counters"):
        shutil.copytree(RECORDED / name, folder / name, ignore=shutil.ignore_patterns("*.png"))
    alone = load_run("puzzle", folder / "puzzle")  # as make render-recorded
    files = {f for d in alone.decisions for v in d.verdicts for f, _ in v.evidence}
    assert {f.parent.name for f in files} == {"puzzle", "counters"}


def test_a_gpu_and_folders_with_odd_names(place, edited, capsys):
    other = edited("table2", "recorded/h200/table2")
    other.provenance(gpu={"name": "GPU\n# forged <b> [x](y) #"})
    other.write()
    (place / "recorded/h200").rename(place / "recorded/a b)\n")
    assert run(place, "--check") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12 and all(line.isprintable() for line in lines)
    assert run(place) == 0
    shown = r"GPU\\n\# forged &lt;b> \[x\](y) \#"
    for path in ("README.md", "table2/README.md"):
        text = (place / "recorded/a b)\n" / path).read_text()
        assert text.splitlines()[0].endswith(f" on {shown}") and "<b>" not in text
    readme = (place / "README.md").read_text()
    assert f" claims on {shown}: " in readme and "](recorded/a%20b%29%0A/README.md)." in readme


def test_check_names_stale_and_missing_files(place, capsys):
    run(place)
    readme, folder = place / "README.md", place / "recorded/h200"
    readme.write_text(readme.read_text().replace("2.19", "3.19"))
    (folder / "table2/README.md").write_text("old")
    (folder / "README.md").unlink()
    (folder / "table2/speedup.png").unlink()
    (folder / "table2/samples.png").write_text("another matplotlib's bytes are fine")
    capsys.readouterr()
    before = readme.read_text()
    assert run(place, "--check") == 1
    assert capsys.readouterr().out.count("\n") == 5
    assert readme.read_text() == before
    assert run(place) == 0
    assert run(place, "--check") == 0


def test_findings_lead_to_the_pages_of_each_gpu(place):
    """The paper's answer before them; numbers of one run, on two GPUs."""
    for folder in ("h200", "other"):
        shutil.copytree(
            RECORDED / "table2", place / f"recorded/{folder}/table2", dirs_exist_ok=True
        )
    (place / "README.md").write_text(MARKERS.format("findings"))
    assert run(place) == 0
    _, answer, _, _, _, *rows, _ = (place / "README.md").read_text().splitlines()
    assert answer.startswith("**Is the paper right?** Its speed-up is: ")
    assert "<sub>Recorded run" in answer
    assert all(row.count(" | ") == 1 for row in rows) and rows[0].startswith("| 1. ")
    (row,) = [row for row in rows if "**Does the table's place matter?**" in row]
    for folder in ("h200", "other"):
        assert f"](recorded/{folder}/claims.md#shared-memory-makes-it)" in row


def test_kernels_of_several_gpus_have_their_dates_and_commits(place):
    """In short in README, for exactly the rows that are shown on the page of all GPUs."""
    shown, whole = [], []
    for name in ("h100", "h200"):
        folder = RECORDED.parent / name / "transpose"
        shutil.copytree(folder, place / f"recorded/{name}/transpose")
        origin = json.loads((folder / "matrix.json").read_text())["provenance"]
        when = f"{origin['started'][:10]}, commit {origin['commit'][:9]}"
        shown.append(f"{name.upper()} ({when})")
        whole.append(f"; {when.replace(',', ';')}.</sub>")
    (place / "README.md").write_text(MARKERS.format("transpose_blog"))
    assert run(place) == 0
    readme = (place / "README.md").read_text()
    assert f". Recorded runs of {' and '.join(shown)}. Not measured on this machine.**" in readme
    table = (place / "recorded/README.md").read_text().partition("GB/s on 32768x32768")[2]
    captions = [line for line in table.splitlines() if " rows of transpose/matrix: " in line]
    assert [line.endswith(end) for line, end in zip(captions, whole, strict=True)] == [True, True]


def test_a_result_file_of_an_experiment_that_cannot_be_shown(place, write):
    """It has no page, and the ledger does not name it, because it decides nothing."""
    row = made.record(made.forward_pass("qwen3-32b", 8), "branch_tree", [1.0])
    write("recorded/h200/figure4/decode.json", made.results("figure4", "decode", [row]))
    assert run(place) == 0
    assert "figure4/decode" not in (place / "recorded/h200/README.md").read_text()
    assert not (place / "recorded/h200/figure4/README.md").exists()


def test_a_gpu_on_which_nothing_decides_a_claim(place, edited):
    """It has a page, and a link from the page of all GPUs; claims are counted and shown without
    it."""
    readme = place / "README.md"
    run(place)
    before = readme.read_text()
    other = edited("ceilings", "recorded/a100/ceilings")
    other.provenance(gpu={"name": "NVIDIA A100"})
    other.write()
    assert run(place) == 0
    assert readme.read_text() == before
    every = (place / "recorded/README.md").read_text()
    assert "[A100](a100/README.md): [ceilings]" in every and "| claim | source | H200 |" in every


def test_the_fullest_is_the_gpu_that_decides_the_most_claims():
    def machine(passes, *verdicts):
        decisions = [SimpleNamespace(verdict=verdict) for verdict in verdicts]
        return SimpleNamespace(
            runs={"a": SimpleNamespace(passes=range(passes))}, decisions=decisions
        )

    decided, waiting = machine(1, "reproduced"), machine(9, "not_tested")
    more, host_was_slow = machine(2, "undecided"), machine(3, "not_testable")
    assert fullest([waiting, host_was_slow, decided]) is decided
    assert fullest([decided, more]) is more


@pytest.mark.parametrize(
    ("text", "block"),
    [
        (MARKERS.format("table9"), "table9"),
        (BEGIN, "paper"),
        (BEGIN + MARKERS.format("modular_blog") + MARKERS.format("paper"), "paper"),
    ],
    ids=["unknown", "open", "nested"],
)
def test_wrong_markers(tmp_path, capsys, text, block):
    path = tmp_path / "README.md"
    path.write_text(text)
    assert run(tmp_path) == 2
    assert "/recorded: " in capsys.readouterr().err
    (tmp_path / "recorded").mkdir()
    assert run(tmp_path) == 2
    assert f"/README.md: block '{block}'" in capsys.readouterr().err
    assert path.read_text() == text


def test_an_unreadable_page_is_one_line(place, capsys):
    (place / "recorded/h200/README.md").mkdir()
    assert run(place, "--check") == 2
    (place / "README.md").unlink()
    assert run(place) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_each_promise_of_a_percentage_is_kept():
    """The recorded runs' page: a product has no copy, only the read-only ceiling."""
    text = (ROOT / "data/recorded/README.md").read_text()
    tables = [t for t in text.split("\n\n**") if "percent of each GPU" in t]
    assert tables and all(re.search(r"\d+\.\d %\)", table) for table in tables)

"""The experiment that docs/adding-an-experiment.md shows whole, taken from there, run and rendered
as it stands in a copy of the tree; and a run that is recorded in one.
"""

import copy
import csv
import re
import shutil
from pathlib import Path

import made
import pytest
from edited import few
from make_targets import ROOT, make, program, run

EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
PASSES = ("plain", "nested", "counters")
TABLE_FILES = ("md", "csv", "tex")


@pytest.fixture
def tree(checkout, real):
    """The checkout with all that tables are made by, and the documented experiment alone."""
    shutil.rmtree(checkout / "experiments")
    (checkout / "reprolab_nf4").unlink()
    # With the modules that are compiled already; a file that another process writes may be gone.
    ignored = shutil.ignore_patterns("recorded", "*.pyc.*", "*.cu", "*.cpp", "*.lock")
    for name in ("data", "experiments", "plots", "reprolab_nf4"):
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored, dirs_exist_ok=True)
    text = (ROOT / "docs/adding-an-experiment.md").read_text()
    for file, content in EXAMPLE.findall(text):
        (checkout / file).parent.mkdir(exist_ok=True)
        (checkout / file).write_text(content)
    real("python")
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    return checkout


def csv_rows(file):
    lines = file.read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_it_is_listed_and_says_what_it_would_run(tree):
    listed = run(tree, "make", "help").stdout
    assert "reproduce-alignment  Whether a matrix that begins off its alignment costs" in listed
    done = run(tree, "make", "reproduce-alignment", "PRESET=gpu", "DRY_RUN=1", "PEER=old=a.so")
    assert done.returncode == 0, done.stderr
    check, *rest = done.stdout.splitlines()
    assert check.startswith("check: verify ")
    plain, nested, counters = " ".join(rest).split("<--dry-run>")[:3]
    assert plain == (
        "<--shape> <28672x8192> <--shape> <4096x14336> <--offset> <0,1,2,4,8> <--samples> <11> "
        "<--kernel> <streaming|branch_tree|old> <--peer> <old=a.so> "
    )
    assert "<--nested> <--kernel> " in nested and "<--instrument> <counters>" in counters
    dry = make(tree, "reproduce-alignment", "DRY_RUN=1").stdout
    assert "\nplain: bench --shape 28672x8192 --shape 4096x14336 --offset 0,1,2,4,8 " in dry
    done = make(tree, "reproduce-alignment", "RECORDED=none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("reproduce-alignment: ")


def test_it_has_its_tables_or_one_of_each_pass(tree, write):
    times = few("table2/shapes")
    for row in times["records"]:  # one of its two shapes
        row["problem"] |= {"offset": 1} if row["problem"]["columns"] == 8192 else {}
    still = copy.deepcopy(times)
    for row in still["records"]:
        row["bytes"] = {"read": 0, "written": 0}
        row["problem"]["family"] = "moves_nothing"
    metrics = [made.metric("warp_instructions", [9.0], "instructions")]
    rows = [made.record(made.layer(64, 64), "streaming", metrics=metrics)]
    where = times["provenance"] | {"instrument": "counters"}
    counted = {"records": rows, "provenance": where}
    for name, file in (("plain", times), ("nested", still), ("counters", times | counted)):
        write(
            f"{tree.name}/results/alignment/{name}.json",
            file | {"experiment": "alignment", "pass": name},
        )
    done = run(tree, "make", "render")
    assert done.returncode == 0, done.stderr
    by_offset = csv_rows(tree / "results/alignment/by_offset.csv")
    assert {row["offset"] for row in by_offset} == {"0", "1"} and len(by_offset) > 10
    aligned = [row for row in by_offset if (row["offset"], row["outcome"]) == ("0", "bit_exact")]
    assert {row["time_ratio"] for row in aligned} == {"1"}
    names = {path.name for path in (tree / "results/alignment").iterdir()}
    assert names == {f"{p}.json" for p in PASSES} | {f"by_offset.{k}" for k in TABLE_FILES}
    (tree / "experiments/alignment/tables.toml").unlink()  # then each pass has one
    assert run(tree, "make", "render").returncode == 0
    (row,) = csv_rows(tree / "results/alignment/counters.csv")
    assert (row["metric"], row["median"]) == ("warp_instructions", "9")
    assert {row["kernel"] for row in csv_rows(tree / "results/alignment/plain.csv")} > {"copy"}


def test_the_example_is_one_folder_and_a_source_of_60_lines_at_most():
    files = EXAMPLE.findall((ROOT / "docs/adding-an-experiment.md").read_text())
    assert sum(text.count("\n") for _, text in files) <= 60
    *folder, source = sorted((Path(name) for name, _ in files), key=lambda p: p.parts[0] == "data")
    assert {path.parent for path in folder} == {Path("experiments/alignment")}
    assert {path.name for path in folder} >= {"rules.py", "tables.toml"}
    assert source == Path("data/published/alignment.json")


@pytest.mark.parametrize(
    ("us", "verdict"), [(200.0, "reproduced"), (206.0, "undecided"), (240.0, "not_reproduced")]
)
def test_its_claim_is_decided_by_its_own_rule(tree, write, us, verdict):
    rows = []
    for name, times in (("", [200.0] * 3), ("/offset1", [us] * 3)):
        problem = made.layer(28672, 8192)
        problem["name"] += name
        rows.append(made.record(problem, "streaming", metrics=[made.metric("kernel_time", times)]))
    file = made.replay({}) | {"experiment": "alignment", "pass": "plain", "records": rows}
    write(f"{tree.name}/results/alignment/plain.json", file)
    (tree / "data/recorded").mkdir()
    done = run(tree, "make", "claims")
    assert done.returncode == 0, done.stderr
    rows = csv_rows(tree / "results/claims/claims.csv")
    (claim,) = [row for row in rows if row["claim"] == "any-address"]
    assert (claim["verdict"], claim["ours"]) == (verdict, f"{us / 200:g}")

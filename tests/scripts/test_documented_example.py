"""The experiment that docs/adding-a-kernel.md shows, run and rendered in a copy of the tree."""

import csv
import re
import shutil

import pytest
from edited import few
from make_targets import ROOT, run

EXAMPLE = re.compile(r"<!-- example: (experiments\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)


@pytest.fixture
def tree(checkout, real):
    """The checkout with all that tables are made by, and the documented experiment alone."""
    shutil.rmtree(checkout / "experiments")
    (checkout / "reprolab_nf4").unlink()
    # With the modules that are compiled already; a file that another process writes may be gone.
    ignored = shutil.ignore_patterns("recorded", "*.pyc.*", "*.cu", "*.cpp", "*.lock")
    for name in ("data", "experiments", "plots", "reprolab_nf4"):
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored, dirs_exist_ok=True)
    for file, content in EXAMPLE.findall((ROOT / "docs/adding-a-kernel.md").read_text()):
        (checkout / file).parent.mkdir(exist_ok=True)
        (checkout / file).write_text(content)
    real("python")
    return checkout


def csv_rows(file):
    return list(csv.DictReader(file.read_text().splitlines()))


def test_it_has_its_tables_or_one_of_each_pass(tree, write):
    times = few("table2/shapes") | {"experiment": "alignment", "pass": "plain"}
    for row in times["records"]:  # one of its two shapes
        row["problem"] |= {"offset": 1} if row["problem"]["rows"] == 1024 else {}
    write(f"{tree.name}/results/alignment/plain.json", times)
    done = run(tree, "make", "render")
    assert done.returncode == 0, done.stderr
    by_offset = csv_rows(tree / "results/alignment/by_offset.csv")
    assert {row["offset"] for row in by_offset} == {"0", "1"} and len(by_offset) > 10
    aligned = [row for row in by_offset if (row["offset"], row["outcome"]) == ("0", "bit_exact")]
    assert {row["time_ratio"] for row in aligned} == {"1"}
    (tree / "experiments/alignment/tables.toml").unlink()  # then each pass has one
    assert run(tree, "make", "render").returncode == 0
    assert {row["kernel"] for row in csv_rows(tree / "results/alignment/plain.csv")} > {"copy"}

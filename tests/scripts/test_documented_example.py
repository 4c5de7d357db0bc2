"""The family and the experiment of docs/adding-a-kernel.md, added to a copy of the tree by the
page's text alone: built, listed, and rendered."""

import csv
import json
import re
import shutil

import pytest
from edited import few
from make_targets import ROOT, run

EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
FAMILY = ("FAMILY=reverse", "PRESET=gpu", "ARCH=90")


@pytest.fixture
def tree(tmp_path):
    """The tree with the documented files."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    # With the modules that are compiled already; a file that another process writes may be gone.
    ignored = shutil.ignore_patterns(".*", "recorded", "*.pyc.*")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, folder)
        elif path.name[0] != "." and path.name not in ("build", "results", "dist"):
            shutil.copytree(path, folder / path.name, ignore=ignored)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    for file, content in EXAMPLE.findall((ROOT / "docs/adding-a-kernel.md").read_text()):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(content)
    return folder


def test_the_family_builds_alone_and_is_described(tree):
    if not shutil.which("nvcc") and not shutil.which("/usr/local/cuda/bin/nvcc"):
        pytest.skip("nvcc: not installed")
    listed = run(tree, "make", "list", *FAMILY, CCACHE_BASEDIR=str(tree))
    assert listed.returncode == 0, listed.stderr
    assert re.fullmatch(
        r"reverse\n  reverse_words +ours +kernels/reverse/reverse_words.cu\n", listed.stdout
    )
    bench = tree / "build/gpu/bin/bench_reverse"
    small = run(tree, bench, "--dry-run", "--json", "--small").stdout
    assert [p["name"] for p in json.loads(small)["problems"]] == ["1", "1000", "100003"]
    usual = run(tree, bench, "--dry-run", "--json").stdout
    assert [p["name"] for p in json.loads(usual)["problems"]] == ["16777216", "268435456"]
    before = json.loads((ROOT / "data/families.json").read_text())["families"]
    assert run(tree, "make", "describe", *FAMILY).returncode == 0
    after = json.loads((tree / "data/families.json").read_text())["families"]
    (added,) = [family for family in after if family not in before]
    assert len(after) == len(before) + 1 and added["size_option"] == "--words"
    assert [kernel["name"] for kernel in added["kernels"]] == ["reverse_words"]


def test_its_experiment_has_a_table_of_each_pass(tree, write):
    """Rows are checked by the families that their file describes."""
    times = few("table2/shapes") | {"experiment": "reverse", "pass": "sizes"}
    for row in times["records"]:
        n = row["problem"]["n"]
        row["problem"] = {"name": f"{n}", "family": "reverse", "n": n, "data": "distinct"}
        row["key"] = f"{n}/{row['kernel']}"
    rows = {row["key"]: row for row in times["records"]}
    described = {"name": "reverse", "size_option": "", "profiled_size": ""}
    described |= {"parts": [], "kernels": []}
    times |= {"records": list(rows.values()), "families": [described]}
    write(f"{tree.name}/results/reverse/sizes.json", times)
    done = run(tree, "make", "render")
    assert done.returncode == 0, done.stderr
    table = (tree / "results/reverse/sizes.csv").read_text().splitlines()
    assert {row["kernel"] for row in csv.DictReader(table)} > {"copy", "shared_lut"}

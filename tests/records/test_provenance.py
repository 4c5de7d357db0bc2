"""Whether a result file says that the sources differ from their commit."""

import ast
import shutil
import subprocess

import pytest

from records import provenance
from records.json_files import ROOT

# Of every top-level path, one file that rows depend on, and one that they do not.
DEPEND = [
    "CMakeLists.txt",
    "CMakePresets.json",
    "claims/end_to_end.py",
    "common/access.cuh",
    "data/counters.json",
    "data/families.json",
    "data/models/models.json",
    "data/published/paper.json",
    "dropin/reprolab_nf4.cpp",
    "experiments/end_to_end/measure.py",
    "experiments/table2/experiment.toml",
    "harness/measure.cpp",
    "kernels/nf4/streaming.cu",
    "languages/mojo.txt",
    "profiling/instrument.cpp",
    "profiling/sass/code.py",
    "programs/bench/main.cpp",
    "records/provenance.py",
    "reference/transpose/transpose.cpp",
    "reprolab_nf4/__init__.py",
]
INDEPENDENT = [
    ".ci/run",
    ".clang-format",
    ".dockerignore",
    ".gitignore",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "data/counters.schema.json",
    "data/experiment.schema.json",
    "data/families.schema.json",
    "data/ncu.schema.json",
    "data/published.schema.json",
    "data/products/README.md",
    "data/published/modular_blog.json",
    "data/recorded/h200/README.md",
    "data/recorded/h200/table2/shapes.json",
    "data/results.schema.json",
    "data/run_to_run.json",
    "docs/clocks.md",
    "experiments/table2/README.md",
    "plots/tables.py",
    "profiling/ncu/tool.py",
    "pyproject.toml",
    "reprolab.py",
    "requirements.lock",
    "requirements.txt",
    "scripts/render",
    "tests/claims/made.py",
]


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """A checkout with one commit of these files."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in (*DEPEND, *INDEPENDENT, "records/row_sources"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    return folder


@pytest.fixture(autouse=True)
def as_checkout(committed, monkeypatch):
    monkeypatch.setattr(provenance, "ROOT", committed)
    monkeypatch.delenv("REPROLAB_COMMIT", raising=False)
    yield
    git(committed, "reset", "--quiet", "--hard")
    git(committed, "clean", "--quiet", "-fd")


def test_what_rows_depend_on_makes_a_checkout_dirty(committed):
    for name in DEPEND:
        before = (committed / name).read_bytes()
        assert provenance.checkout()[1] is False, name
        (committed / name).write_bytes(before + b"\n")
        assert provenance.checkout()[1] is True, name
        (committed / name).write_bytes(before)


def test_documents_results_and_what_reads_them_do_not(committed):
    for name in INDEPENDENT:
        with (committed / name).open("a") as file:
            file.write("\n")
    assert provenance.checkout()[1] is False


def test_new_files_count_where_rows_depend_on_them(committed):
    for name in ("results/a.json", "my_results/b.json", "data/recorded/gh200/c.json", "notes.txt"):
        (committed / name).parent.mkdir(parents=True, exist_ok=True)
        (committed / name).touch()
    assert provenance.checkout()[1] is False
    (committed / "kernels/nf4/new.cu").touch()
    assert provenance.checkout()[1] is True


def test_every_path_of_the_project_is_decided():
    """A new one is to be added to one of the two lists here and, maybe, to row_sources."""
    tracked = git(ROOT, "ls-files").stdout.splitlines()
    decided = {name.partition("/")[0] for name in (*DEPEND, *INDEPENDENT)}
    assert {name.partition("/")[0] for name in tracked} == decided
    below_data = {"/".join(name.split("/")[:2]) for name in tracked if name.startswith("data/")}
    assert below_data == {"/".join(n.split("/")[:2]) for n in decided_below("data/")}


def decided_below(folder):
    return [name for name in (*DEPEND, *INDEPENDENT) if name.startswith(folder)]


def imported(file):
    """The project's modules that a module of it names."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module, *(f"{node.module}.{name}" for name in names)]
        for name in names:
            place = ROOT.joinpath(*name.split("."))
            files = (place.with_suffix(".py"), place / "__init__.py")
            yield from (file for file in files if file.is_file())


@pytest.mark.parametrize(
    "module",
    [
        "experiments/end_to_end/measure.py",
        "profiling/sass/result_file.py",
        "reprolab_nf4/__init__.py",
    ],
)
def test_every_module_that_makes_rows_is_covered(module):
    """But for plots/, which only writes what it is given."""
    found, left = set(), [ROOT / module]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left += imported(file)
    sources = [line for line in provenance.row_sources() if not line.startswith(":!")]
    names = {str(file.relative_to(ROOT)) for file in found}
    uncovered = {n for n in names if not n.startswith(tuple(sources))}
    assert {name for name in uncovered if not name.startswith("plots/")} == set()
    assert len(names) > len(uncovered)

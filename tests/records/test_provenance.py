"""Whether a result file says that the sources differ from their commit."""

import ast
import shutil
import subprocess

import pytest

from records import provenance
from records.json_files import ROOT

DEPEND = ["CMakeLists.txt", "data/published/paper.json", "kernels/nf4/streaming.cu"]
DEPEND += ["profiling/sass/code.py", "records/provenance.py"]
INDEPENDENT = ["README.md", "data/products/README.md", "data/published/modular_blog.json"]
INDEPENDENT += ["data/recorded/h200/README.md", "plots/tables.py", "profiling/ncu/tool.py"]
INDEPENDENT += ["tests/claims/made.py"]
# Every other path of the project is to be in row_sources.
NO_SOURCES = """.ci .clang-format .clang-tidy .dockerignore .github .gitignore
    .pre-commit-config.yaml .zenodo.json ARTIFACT.md CHANGELOG.md CITATION.cff CODE_OF_CONDUCT.md
    CONTRIBUTING.md Dockerfile LICENSES REUSE.toml SECURITY.md codemeta.json
    LICENSE Makefile README.md docs plots pyproject.toml reprolab.py requirements.lock
    requirements.txt scripts tests data/counters.schema.json data/experiment.schema.json
    data/families.schema.json data/ncu.schema.json data/published.schema.json data/recorded
    data/results.schema.json data/run_to_run.json data/published/modular_blog.json
    data/published/transpose_blog.json""".split()


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A checkout with one commit of a few files."""
    for name in (*DEPEND, *INDEPENDENT, "records/row_sources"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.delenv("REPROLAB_COMMIT", raising=False)
    return tmp_path


def test_what_rows_depend_on_makes_a_checkout_dirty(committed):
    assert provenance.checkout() == (git(committed, "rev-parse", "HEAD").stdout.strip(), False)
    for name in DEPEND:
        before = (committed / name).read_bytes()
        (committed / name).write_bytes(before + b"\n")
        assert provenance.checkout()[1] is True, name
        (committed / name).write_bytes(before)
    (committed / "kernels/nf4/new.cu").touch()
    assert provenance.checkout()[1] is True


def test_documents_results_and_what_reads_them_do_not(committed):
    for name in (*INDEPENDENT, "results/a.json", "data/recorded/gh200/c.json", "notes.txt"):
        (committed / name).parent.mkdir(parents=True, exist_ok=True)
        with (committed / name).open("a") as file:
            file.write("\n")
    assert provenance.checkout()[1] is False


def test_what_is_no_checkout_may_say_its_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.delenv("REPROLAB_COMMIT", raising=False)
    monkeypatch.setattr(provenance, "row_sources", list)
    assert provenance.checkout() == ("unknown", True)
    monkeypatch.setenv("REPROLAB_COMMIT", "abc")
    assert provenance.checkout() == ("abc", True)
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    assert provenance.checkout() == ("abc", False)


def test_every_path_of_the_project_is_a_source_or_is_none():
    """A new one is to be added to NO_SOURCES here or to row_sources."""
    sources = [line for line in provenance.row_sources() if not line.startswith(":!")]
    named = {*sources, *NO_SOURCES}
    tracked = git(ROOT, "ls-files").stdout.splitlines()
    parents = {path: {path, *map(str, (ROOT / path).relative_to(ROOT).parents)} for path in tracked}
    assert [path for path in tracked if not named & parents[path]] == []
    assert [name for name in sources if not any(name in found for found in parents.values())] == []


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


def test_every_module_that_makes_rows_is_covered():
    """But for plots/, which only writes what it is given."""
    makers = ("experiments/end_to_end/measure.py", "profiling/sass/result_file.py")
    found, left = set(), [ROOT / name for name in (*makers, "reprolab_nf4/__init__.py")]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left += imported(file)
    sources = tuple(line for line in provenance.row_sources() if not line.startswith(":!"))
    names = {str(file.relative_to(ROOT)) for file in found}
    covered = {name for name in names if name.startswith(sources)}
    assert covered and all(name.startswith("plots/") for name in names - covered)

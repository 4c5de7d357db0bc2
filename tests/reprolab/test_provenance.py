"""Whether a result file reports that the sources differ from their commit."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import made
import pytest

from reprolab import provenance, sources
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.results import SCHEMA
from reprolab.sources import Sources

DEPEND = ["CMakeLists.txt", "experiments/end_to_end/plan.py", "kernels/nf4/streaming.cu"]
DEPEND += ["profiling/sass/code.py", "reprolab/provenance.py"]
INDEPENDENT = ["README.md", "reprolab_nf4/tables/README.md", "data/published/modular_blog.json"]
INDEPENDENT += ["data/recorded/h200/README.md", "plots/documents.py", "profiling/ncu/tool.py"]
INDEPENDENT += ["tests/claims/made.py", "reprolab/claims/rules.py", "data/published/paper.json"]
INDEPENDENT += ["experiments/counters/rules/occupancy.py", "experiments/puzzle/rules.py"]
# Every other path of the project must be in row_sources.
NO_SOURCES = """.ci .clang-format .clang-tidy .dockerignore .gitattributes .github .gitignore
    .pre-commit-config.yaml .zenodo.json ARTIFACT.md CHANGELOG.md CITATION.cff CODE_OF_CONDUCT.md
    CONTRIBUTING.md Dockerfile LICENSE LICENSES Makefile README.md REUSE.toml SECURITY.md
    codemeta.json conftest.py docs plots pyproject.toml requirements.lock requirements.txt
    scripts tests data/counters.schema.json data/experiment.schema.json
    data/families.schema.json data/host_to_host.schema.json data/protocol.schema.json
    data/ncu.schema.json data/published.schema.json data/recorded
    data/host_to_host.json data/older_code.json data/older_code.schema.json
    data/models.schema.json data/repetitions data/results.schema.json data/run_to_run.json
    data/run_to_run.schema.json data/transformers.schema.json
    data/published""".split()


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)


@pytest.fixture(params=["sha1", "sha256"])  # of git's objects
def committed(tmp_path, monkeypatch, request):
    """A checkout with one commit of a few files."""
    for name in (*DEPEND, *INDEPENDENT, "reprolab/row_sources"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet", f"--object-format={request.param}")
    git(tmp_path, "add", "--all")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.delenv("REPROLAB_COMMIT", raising=False)
    sources.of_commit.cache_clear()
    return tmp_path


def head(folder):
    return git(folder, "rev-parse", "HEAD").stdout.strip()


def test_an_edited_source_of_rows_makes_a_checkout_dirty(committed):
    clean = provenance.checkout()
    assert clean == Sources(head(committed), False, sources.of_commit(head(committed)))
    fields = made.provenance(**clean.told())
    SCHEMA.check(committed, made.replay({"a": [1.0]}) | {"provenance": fields})
    for name in DEPEND:
        before = (committed / name).read_bytes()
        (committed / name).write_bytes(before + b"\n")
        assert provenance.checkout().dirty is True, name
        assert provenance.checkout().sha256 != clean.sha256
        (committed / name).write_bytes(before)
    assert provenance.checkout() == clean
    (committed / "kernels/nf4/new.cu").touch()
    assert provenance.checkout().dirty is True


HIDDEN = {
    "untracked files are not shown": ("config", "status.showUntrackedFiles", "no"),
    "assumed unchanged": ("update-index", "--assume-unchanged", "kernels/nf4/streaming.cu"),
    "left out of the work tree": ("update-index", "--skip-worktree", "kernels/nf4/streaming.cu"),
}


@pytest.mark.parametrize("words", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_change_that_git_overlooks_makes_it_dirty(committed, words):
    git(committed, *words)
    clean = provenance.checkout()
    assert clean.dirty is False
    name = "new.cu" if words[0] == "config" else "streaming.cu"
    (committed / "kernels/nf4" / name).write_text("other code")
    assert git(committed, "status", "--porcelain").stdout == ""
    assert provenance.checkout().dirty is True
    assert provenance.checkout().sha256 != clean.sha256


@pytest.mark.parametrize("where", [".git/info/exclude", ".gitignore"])
def test_an_ignored_file_is_compiled_and_counts(committed, where):
    with (committed / where).open("a") as file:
        file.write("new*\n")
    assert provenance.checkout().dirty is False
    (committed / "kernels/nf4/new.cu").touch()
    assert provenance.checkout().dirty is True
    (committed / "kernels/nf4/new.cu").unlink()
    (committed / "elsewhere").mkdir()
    (committed / "kernels/new").symlink_to("../elsewhere")  # a folder
    assert provenance.checkout().dirty is True


def test_python_caches_do_not_count(committed):
    (committed / "reprolab/__pycache__").mkdir()
    (committed / "reprolab/__pycache__/sources.cpython-312.pyc").touch()
    assert provenance.checkout().dirty is False


def test_a_program_of_other_sources_is_dirty(committed):
    """Compiled before a source was changed or checked out."""
    digest = sources.compiled_digest(sources.on_disk())
    assert sources.find(digest) == sources.find()
    (committed / "reprolab/provenance.py").write_text("# is not compiled\n")
    assert sources.compiled_digest(sources.on_disk()) == digest
    git(committed, "checkout", "--", ".")
    other = sources.find("0" * 64)
    assert (other.commit, other.dirty) == (head(committed), True)
    assert other.sha256 not in (sources.find().sha256, sources.find("1" * 64).sha256)


def test_a_refusal_of_git_is_said(committed, monkeypatch, capfd):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    checkout = provenance.checkout()
    assert (checkout.commit, checkout.dirty) == ("unknown", True)
    assert "dubious ownership" in capfd.readouterr().err


def test_only_this_folders_repository_is_asked(committed, tmp_path, monkeypatch):
    """GIT_DIR may name another; a tarball's folder may lie in another's."""
    clean = provenance.checkout()
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert provenance.checkout() == clean
    monkeypatch.delenv("GIT_DIR")
    inside = tmp_path / "unpacked"
    for name in (*DEPEND, "reprolab/row_sources"):
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, inside / name)
    monkeypatch.setattr(sources, "ROOT", inside)
    assert provenance.checkout().commit == "unknown"


def test_a_given_commit_that_is_known_is_compared(committed, monkeypatch):
    clean = provenance.checkout()
    monkeypatch.setenv("REPROLAB_COMMIT", clean.commit)
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    assert provenance.checkout() == clean
    (committed / "kernels/nf4/streaming.cu").write_text("other code")
    assert provenance.checkout().dirty is True


def test_documents_results_and_what_reads_them_do_not(committed):
    for name in (*INDEPENDENT, "results/a.json", "data/recorded/gh200/c.json", "notes.txt"):
        (committed / name).parent.mkdir(parents=True, exist_ok=True)
        with (committed / name).open("a") as file:
            file.write("\n")
    assert provenance.checkout().dirty is False


def test_the_commit_of_an_archive_may_be_given(committed, monkeypatch, capfd):
    shutil.rmtree(committed / ".git")
    checkout = provenance.checkout()
    assert (checkout.commit, checkout.dirty) == ("unknown", True)
    assert capfd.readouterr().err == ""
    for commit in ("a" * 40, "a" * 64):
        monkeypatch.setenv("REPROLAB_COMMIT", commit)
        monkeypatch.delenv("REPROLAB_DIRTY", raising=False)
        digest = sources.digest(sources.on_disk(commit))
        assert provenance.checkout() == Sources(commit, True, digest)
        monkeypatch.setenv("REPROLAB_DIRTY", "0")
        assert provenance.checkout() == Sources(commit, False, digest)
    assert sources.find("0" * 64).dirty is True  # a program that is of other sources than these
    monkeypatch.setenv("REPROLAB_COMMIT", "abc")
    with pytest.raises(InputError, match="REPROLAB_COMMIT"):
        provenance.checkout()


def patterns():
    return sources.patterns_of((ROOT / sources.LIST).read_text())


def test_every_path_of_the_project_is_a_source_or_is_none():
    """A new one must be added to NO_SOURCES here or to row_sources."""
    if not (ROOT / ".git").exists():
        pytest.skip("an archive of the sources does not say which files are tracked")
    listed = [line for line in patterns() if not line.startswith(":!")]
    named = {*listed, *NO_SOURCES}
    tracked = git(ROOT, "ls-files").stdout.splitlines()
    parents = {path: {path, *map(str, (ROOT / path).relative_to(ROOT).parents)} for path in tracked}
    assert [path for path in tracked if not named & parents[path]] == []
    assert [name for name in listed if not any(name in paths for paths in parents.values())] == []


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
    """Except plots/, which only writes its input."""
    makers = ("experiments/end_to_end/measure.py", "profiling/sass/result_file.py")
    files, left = set(), [ROOT / name for name in (*makers, "reprolab_nf4/__init__.py")]
    while left:
        file = left.pop()
        if file not in files:
            files.add(file)
            left += imported(file)
    listed = tuple(line for line in patterns() if not line.startswith(":!"))
    names = {str(file.relative_to(ROOT)) for file in files}
    covered = {name for name in names if name.startswith(listed)}
    assert covered and all(name.startswith("plots/") for name in names - covered)


def test_the_hosts_memory_is_in_bytes():
    (kb,) = re.findall(r"^MemTotal: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert provenance.host()["memory_bytes"] == pytest.approx(1024 * int(kb), rel=0.01)

"""Whether a result file reports that the sources differ from their commit."""

import shutil
import subprocess

import made
import pytest

from reprolab import result_file, sources
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.results import SCHEMA
from reprolab.sources import Sources

DEPEND = ["CMakeLists.txt", "experiments/end_to_end/plan.py", "kernels/nf4/streaming.cu"]
DEPEND += ["reprolab/result_file.py", "reprolab_nf4/layers.py", "harness/measure.cpp"]
INDEPENDENT = ["README.md", "docs/glossary.md", "data/published/paper.json", "tests/claims/made.py"]
INDEPENDENT += ["reprolab/claims/rules.py", "experiments/puzzle/rules.py", "plots/tables.py"]
INDEPENDENT += ["experiments/table2/experiment.toml", "reprolab_nf4/tests/test_layers_in_python.py"]


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A checkout with one commit of a few files."""
    for name in (*DEPEND, *INDEPENDENT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.delenv("REPROLAB_COMMIT", raising=False)
    return tmp_path


def test_an_edited_or_new_source_of_rows_makes_a_checkout_dirty(committed):
    clean = result_file.checkout()
    assert clean == Sources(git(committed, "rev-parse", "HEAD").stdout.strip(), False)
    fields = made.provenance(**clean._asdict())
    SCHEMA.check(committed, made.replay({"a": [1.0]}) | {"provenance": fields})
    for name in (*DEPEND, "kernels/nf4/new.cu"):
        before = (committed / name).read_text() if name in DEPEND else None
        (committed / name).write_text("other")
        assert result_file.checkout() == clean._replace(dirty=True), name
        if before is None:
            (committed / name).unlink()
        else:
            (committed / name).write_text(before)
    assert result_file.checkout() == clean


def test_documents_results_and_what_reads_them_do_not(committed):
    for name in (*INDEPENDENT, "results/a.json", "data/recorded/gh200/c.json", "notes.txt"):
        (committed / name).parent.mkdir(parents=True, exist_ok=True)
        (committed / name).write_text("other")
    assert result_file.checkout().dirty is False


def test_a_refusal_of_git_is_said(committed, monkeypatch, capfd):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")  # where safe.directory may allow all
    assert result_file.checkout() == Sources("unknown", True)
    assert "dubious ownership" in capfd.readouterr().err


def test_only_this_folders_repository_is_asked(committed, tmp_path, monkeypatch):
    """GIT_DIR may name another; a tarball's folder may lie in another's."""
    clean = result_file.checkout()
    git(tmp_path, "init", "--quiet", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    assert result_file.checkout() == clean
    monkeypatch.delenv("GIT_DIR")
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr(sources, "ROOT", tmp_path / "unpacked")
    assert result_file.checkout() == Sources("unknown", True)


def test_the_commit_of_an_archive_may_be_given(committed, monkeypatch, capfd):
    shutil.rmtree(committed / ".git")
    assert result_file.checkout() == Sources("unknown", True)
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("REPROLAB_COMMIT", "a" * 40)
    monkeypatch.delenv("REPROLAB_DIRTY", raising=False)
    assert result_file.checkout() == Sources("a" * 40, True)
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    assert result_file.checkout() == Sources("a" * 40, False)
    monkeypatch.setenv("REPROLAB_COMMIT", "abc")
    with pytest.raises(InputError, match="REPROLAB_COMMIT"):
        result_file.checkout()


def test_every_row_source_is_there():
    """A folder that was renamed would be left out of the comparison."""
    places = [name for name in sources.ROW_SOURCES if not name.startswith(":!")]
    assert [name for name in places if not (ROOT / name).exists()] == []

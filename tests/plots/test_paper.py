"""`make paper`: the write-up of the recorded runs."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reprolab.claims import findings
from plots import paper
from plots.cli import main
from plots.document import MachineResults, read_recorded
from plots.first_screen import compared
from plots.latex_text import markdown_latex, prose
from reprolab.json_files import ROOT

RECORDED = ROOT / "data/recorded"
TEMPLATE = ROOT / "plots/paper.tex.j2"
# Text that is not prose: expressions, comments, and arguments of layout commands.
NOT_PROSE = re.compile(
    r"<[<%#].*?[>%#]>|^%.*$|\\(?:ref|label|cite|begin|end)\{[^}]*\}", re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"(?<![A-Za-z\d.])\d[\d.,]*")
NAMES = ("4-bit",)


@pytest.fixture(scope="module")
def recorded() -> list[MachineResults]:
    return list(read_recorded(RECORDED))


@pytest.fixture(scope="module")
def drawn(recorded) -> dict[str, paper.Drawn]:
    return dict(paper.drawings(recorded))


@pytest.fixture
def text_alone(monkeypatch, recorded) -> None:
    """In the place of reading and drawing, which take long."""
    monkeypatch.setattr(paper, "read_recorded", lambda directory: recorded)
    monkeypatch.setattr(paper, "drawings", lambda recorded: iter(()))
    monkeypatch.setattr(paper, "tex", lambda recorded, drawn: "text")


@pytest.fixture(scope="module")
def made(tmp_path_factory, recorded, drawn) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patched:  # they take long, and once is enough
        patched.setattr(paper, "read_recorded", lambda directory: recorded)
        patched.setattr(paper, "drawings", lambda machines: drawn.items())
        assert main(["paper", "--recorded-dir", str(RECORDED), "--output", str(folder)]) == 0
    return folder


def test_the_template_types_no_number():
    body = TEMPLATE.read_text(encoding="utf-8").partition(r"\begin{document}")[2]
    body = re.sub(r"\\begin\{thebibliography\}.*", "", body, flags=re.DOTALL)
    body = NOT_PROSE.sub(" ", body)
    for name in NAMES:
        body = body.replace(name, "")
    assert NUMBER.findall(body) == []


def test_its_numbers_are_those_of_the_recorded_runs(made, recorded):
    text = (made / paper.TEX).read_text(encoding="utf-8")
    machine = paper.fullest(recorded)
    for each in paper.findings_of(recorded):
        assert prose(each["finding"].in_full) in text
    assert prose(findings.answer(compared(recorded))) in text
    for each in paper.sources(machine):
        assert prose(each["count"]) in text


def test_other_verdicts_give_another_text(recorded, drawn):
    def without_first(machine: MachineResults) -> MachineResults:
        return replace(machine, decisions=machine.decisions[1:])

    text = paper.tex([*map(without_first, recorded)], drawn)
    decisions = paper.fullest(recorded).decisions
    assert f"{len(decisions) - 1} claims" in text and f"{len(decisions)} claims" not in text


def test_every_reference_and_figure_is_there(made):
    text = (made / paper.TEX).read_text(encoding="utf-8")
    cited = {key for keys in re.findall(r"\\cite\{([^}]*)\}", text) for key in keys.split(",")}
    assert cited == set(re.findall(r"\\bibitem\{([^}]*)\}", text))
    labels = re.findall(r"\\label\{([^}]*)\}", text)
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"\\ref\{([^}]*)\}", text)) <= set(labels)
    floats = {label for label in labels if label.startswith(("fig:", "tab:"))}
    assert floats <= set(re.findall(r"\\ref\{([^}]*)\}", text))
    for figure in re.findall(r"\\includegraphics\[[^]]*\]\{([^}]*)\}", text):
        assert (made / figure).read_bytes().startswith(b"%PDF")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex: texlive-science")
def test_it_compiles_to_the_same_bytes_without_a_line_too_long(made):
    log = (made / "paper.log").read_text(encoding="utf-8")
    assert not re.search(r"Overfull|undefined|multiply defined|too large", log)
    pages = re.search(r"Output written on .*\((\d+) pages", log.replace("\n", " "))
    assert 6 <= int(pages[1]) <= 9
    assert paper.compiled(made) == (made / "paper.pdf").read_bytes()


@pytest.mark.usefixtures("text_alone")
def test_without_latex_there_is_the_text(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["paper", "--recorded-dir", str(RECORDED), "--output", str(tmp_path)]) == 0
    assert [file.name for file in tmp_path.iterdir()] == [paper.TEX]
    assert "pdflatex" in capsys.readouterr().out


@pytest.mark.usefixtures("text_alone")
def test_a_failing_latex_is_one_line_with_the_log(tmp_path, monkeypatch, capsys):
    failed = subprocess.CompletedProcess([], 1, b"! Undefined control sequence.\nl.1", b"")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    assert main(["paper", "--recorded-dir", str(RECORDED), "--output", str(tmp_path)]) == 2
    sentence = capsys.readouterr().err
    assert "paper.log" in sentence and "Undefined control sequence" in sentence
    assert (tmp_path / "paper.log").read_bytes() == failed.stdout


def test_a_folder_without_recorded_runs_is_refused(tmp_path, capsys):
    assert main(["paper", "--recorded-dir", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_experiment_is_named(tmp_path, capsys):
    (tmp_path / "runs/h100").mkdir(parents=True)
    (tmp_path / "runs/h100/end_to_end").symlink_to(RECORDED / "h100/end_to_end")
    arguments = ["--recorded-dir", str(tmp_path / "runs"), "--output", str(tmp_path / "out")]
    assert main(["paper", *arguments]) == 2
    assert "table2" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("4202 GB/s", "4202\u00a0GB/s"),
        ("shared_lut is 50 % faster", "\\texttt{shared\\_\\allowbreak{}lut} is 50\u00a0\\% faster"),
        ('a "word"', r"a \textquotedblleft{}word\textquotedblright{}"),
        ("since 2025-09", "since 2025-09"),
    ],
)
def test_prose(text, shown):
    assert prose(text) == shown


def test_a_page_of_markdown():
    page = "# A\n\nSee [b](c.md), `d_e`.\n\n## F\n- **g**: 1 %\n\n```sh\nmake h  # i\n```\n"
    latex = markdown_latex(page + "\n| j | k |\n| --- | --- |\n| l | m |\n", "n")
    for part in (
        r"\section{A}\label{sec:n}",
        "See b, ",
        r"\subsection{F}",
        "\\item \\textbf{g}: 1\u00a0\\%",
    ):
        assert part in latex.replace("\n", "")
    assert r"\texttt{make h} {\rmfamily\itshape i}" in latex and r"\ref{tab:n-1}" in latex

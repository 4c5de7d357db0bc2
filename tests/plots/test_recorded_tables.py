"""The recorded runs. The numbers of their tables, as CSV: code that is moved or written anew must
show what was shown before. New recordings change them: UPDATE_GOLDEN=1 writes the digests anew.
Their pages and what their figures show likewise, and what `make render` makes of each.
"""

import csv
import hashlib
import json

import pytest
from looking import RECORDED, recorded_names
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from claims.ledger import decide
from claims.published import load_sources
from plots import document, experiments
from plots.cli import main
from plots.documents import WRITERS, csv_text
from plots.experiments import CLAIM_DETAILS, all_tables, experiment
from plots.figures import FORMATS
from records.json_files import ROOT


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def digests(texts: dict[str, str]) -> dict[str, str]:
    return {n: hashlib.sha256(text.encode()).hexdigest()[:16] for n, text in texts.items()}


def described(figure: Figure) -> str:
    """What is drawn, with the numbers behind it; of what matplotlib makes of that, nothing."""
    shown: list[object] = [t.get_text() for t in figure.texts]
    shown += [t.get_text() for legend in figure.legends for t in legend.get_texts()]
    for axes in figure.axes:
        shown += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()]
        shown += [t.get_text() for t in axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), FixedLocator):
                shown += [t.get_text() for t in axis.get_ticklabels()]
        for x in axes.lines:
            shown += [x.get_gid(), x.get_label(), x.get_color(), x.get_marker()]
            shown += [f"{value:.6g}" for values in x.get_data() for value in values]
        for bar in axes.patches:
            shown += [bar.get_gid(), bar.get_facecolor(), bar.get_hatch()]
            shown += [f"{value:.6g}" for value in bar.get_bbox().bounds]
    return "\n".join(" ".join(str(x).split()) for x in shown)


@pytest.mark.parametrize("name", recorded_names())
def test_the_recorded_tables_are_the_same(name, golden, recorded_runs):
    run = recorded_runs[name]
    tables = all_tables(name, run, CLAIM_DETAILS, RECORDED / name)
    rows = {table.name: rows_of(csv_text(table)) for table in tables}
    assert all(rows.values())
    texts = {name: json.dumps(found, sort_keys=True) for name, found in rows.items()}
    golden(f"recorded-{name}.json", json.dumps(digests(texts), indent=1) + "\n")


@pytest.mark.parametrize("name", recorded_names())
def test_render(name, recorded_runs, golden, monkeypatch, capsys, tmp_path):
    """Every table in every format and every figure, and a terminal that is 100 columns wide."""
    monkeypatch.setattr(experiments, "load_run", lambda *_: recorded_runs[name])
    monkeypatch.setattr(experiments, "encode", lambda figure, kind: described(figure).encode())
    out = tmp_path / "out"
    folders = ["--results", str(RECORDED / name), "--output", str(out)]
    assert main(["render", name, *folders, "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("| Recorded run of NVIDIA H200, 20")
    assert max(map(len, lines[:-1])) <= 100
    claims = recorded_runs[name].decisions
    said = " ".join(" ".join(lines).split())
    assert (f" {len(claims)} claims: " in said) is bool(claims)
    found = {path.name for path in out.iterdir()}
    figures = {f"{f}.{kind}" for f in experiment(name).FIGURES for kind in FORMATS}
    tables = {file.rpartition(".")[0] for file in found - figures if file != CLAIM_DETAILS}
    assert "claims" in tables or not claims
    written = {f"{t}.{kind}" for t in tables for kind in WRITERS}
    assert found == written | figures | ({CLAIM_DETAILS} if claims else set())
    drawn = {path.stem: path.read_text() for path in sorted(out.glob("*.svg"))}
    golden(f"figures-{name}.json", json.dumps(digests(drawn), indent=1) + "\n")


def test_the_recorded_pages_are_the_same(recorded_runs, recorded_evidence, monkeypatch, capsys):
    """Those in data/recorded and the blocks of README; `python -m plots document` writes both."""
    decisions = decide(recorded_evidence, load_sources())
    machine = document.Machine(RECORDED, recorded_evidence, recorded_runs, decisions)
    monkeypatch.setattr(document, "read_recorded", lambda directory: [machine])
    readme = ["--readme", str(ROOT / "README.md")]
    status = main(["document", "--check", "--recorded-dir", str(RECORDED.parent), *readme])
    assert status == 0, capsys.readouterr().out

"""The recorded runs: the numbers of their tables as CSV, the contents of their figures, and the
output of `make render`. Refactored code must show the same as before. New recordings change them:
UPDATE_GOLDEN=1 rewrites the digests. (`make check` compares their pages.)
"""

import csv
import hashlib
import json
import re

import pytest
from edited import RECORDED, recorded_names, texts_of
from matplotlib.figure import Figure

from plots import experiments
from plots.cli import main
from plots.documents import WRITERS
from plots.experiments import CLAIM_DETAILS, experiment
from plots.figures import FORMATS


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def digests(texts: dict[str, str]) -> dict[str, str]:
    return {n: hashlib.sha256(text.encode()).hexdigest()[:16] for n, text in texts.items()}


def described(figure: Figure) -> str:
    """The drawn objects with their numbers, independent of matplotlib's rendering."""
    shown: list[object] = [*texts_of(figure)]
    for axes in figure.axes:
        shown.append(axes.get_xscale())
        for x in axes.lines:
            shown += [x.get_gid(), x.get_label(), x.get_color(), x.get_marker()]
            shown += [f"{value:.6g}" for values in x.get_data() for value in values]
        for bar in axes.patches:
            shown += [bar.get_gid(), bar.get_facecolor(), bar.get_hatch()]
            shown += [f"{value:.6g}" for value in bar.get_bbox().bounds]
    return "\n".join(map(str, shown))


@pytest.mark.parametrize("name", recorded_names())
def test_render(name, recorded_runs, golden, monkeypatch, capsys):
    """Every table in every format and every figure, and a terminal that is 100 columns wide."""
    run, files = recorded_runs[name], {}
    monkeypatch.setattr(experiments, "load_run", lambda *_: run)
    encode = lambda figure, kind: described(figure).encode() if kind == "svg" else b""  # noqa: E731
    monkeypatch.setattr(experiments, "encode", encode)
    monkeypatch.setattr(experiments, "write_files", files.update)
    folder = str(RECORDED / name)
    assert main(["render", name, "--results", folder, "--output", folder, "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"\| Recorded runs? of NVIDIA H200, 20", lines[1])
    assert max(map(len, lines[:-1])) <= 100
    sentence = " ".join(" ".join(lines).split())
    assert (f" {len(run.decisions)} claims: " in sentence) is bool(run.decisions)
    texts = {path.name: content.decode() for path, content in files.items()}
    tables = {file.removesuffix(".csv"): text for file, text in texts.items() if ".csv" in file}
    rows = {table: rows_of(text) for table, text in tables.items()}
    assert all(rows.values()) and ("claims" in rows) is bool(run.decisions)
    written = {f"{table}.{kind}" for table in tables for kind in WRITERS}
    written |= {f"{figure}.{kind}" for figure in experiment(name).FIGURES for kind in FORMATS}
    assert set(texts) - {CLAIM_DETAILS} == written
    as_json = {table: json.dumps(cells, sort_keys=True) for table, cells in rows.items()}
    golden(f"recorded-{name}.json", json.dumps(digests(as_json), indent=1) + "\n")
    drawn = {file.removesuffix(".svg"): texts[file] for file in sorted(texts) if ".svg" in file}
    golden(f"figures-{name}.json", json.dumps(digests(drawn), indent=1) + "\n")

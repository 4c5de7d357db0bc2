"""The report: one page of claims and tables, which loads nothing."""

import re

import made
from edited import Edited

from plots.__main__ import main


def test_the_page_has_claims_tables_no_script_and_no_dead_link(tmp_path):
    for name in ("table2", "counters", "transpose"):
        Edited(name, tmp_path / name).write()
    assert main(["report", f"--results={tmp_path}"]) == 0
    text = (tmp_path / "report.html").read_text()
    assert len(text) < 3e6 and "<script" not in text and "<link" not in text
    assert {*re.findall('href="#([^"]*)"', text)} <= {*re.findall('id="([^"]*)"', text)}
    assert "Table II: speed-up over branch_tree" in text and "2.0-2.2x on the" in text
    assert "Not measured on this machine" not in text


def test_each_machine_has_a_page_of_its_own(write, tmp_path, capsys):
    times = {"branch_tree": [20.0, 21.0, 22.0], "shared_lut": [10.0, 10.5, 11.0]}
    write("a/table2/replay.json", made.replay(times))
    write("b/table2/replay.json", made.on("Tesla T4", made.replay(times)))
    assert main(["report", f"--results={tmp_path}", f"--output={tmp_path}/r.html"]) == 0
    assert len(list(tmp_path.glob("r-*.html"))) == 2
    assert main(["report", f"--results={tmp_path}/none"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "none" in line


def test_texts_of_results_are_no_html(write, tmp_path):
    times = {"<b>mine</b>": [1.0, 2.0, 3.0], "branch_tree": [1.0, 2.0, 3.0]}
    file = made.replay(times, batch=8)
    results = write("table2/replay.json", file).parent
    assert main(["report", f"--results={results}"]) == 0
    text = (results / "report.html").read_text()
    assert "<b>mine" not in text and "&lt;b&gt;mine" in text

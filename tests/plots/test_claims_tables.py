"""`python -m plots claims`: the ledger as tables."""

import json
import re
from dataclasses import replace
from pathlib import Path

import made
import pytest
from edited import cells_of, line

from reprolab.claims.evidence import Evidence, machines
from reprolab.claims.ledger import decide
from reprolab.claims.prediction import validation
from reprolab.claims.published import FOLDER, load_sources
from plots import experiments, forest
from plots.claim_details import cell_evidence, numbers_table
from plots.cli import main
from plots.ledger import (
    MOST_WORDS,
    claim_row,
    gpu_names,
    machine_table,
    plain_text,
    used_by,
)
from plots.sentences import count_line
from reprolab.captions import clocks, origins
from reprolab.json_files import ROOT

RECORDED = ROOT / "data/recorded"
TABLES = ("claims", "published-numbers")


@pytest.fixture
def run(tmp_path, capsys):
    """Runs the command on folders and returns what it printed and the files it wrote."""

    def run(*folders):
        options = [option for folder in folders for option in ("--results", str(folder))]
        assert main(["claims", *options, "--output", str(tmp_path / "out")]) == 0
        files = {p.name: p for p in (tmp_path / "out").iterdir()}
        assert files.pop("claims.png").read_bytes().startswith(b"\x89PNG")
        return capsys.readouterr().out, {name: p.read_text() for name, p in files.items()}

    return run


def waiting():
    """Every claim of every source."""
    return [(source, claim) for source in load_sources() for claim in source.claims]


def names_of(suffix):
    files = {f"{t}{suffix}.{s}" for t in TABLES for s in ("txt", "md", "csv", "tex")}
    return files | {f"claim-details{suffix}.md"}


def ledger_rows(text):
    """Claim, verdict with reason, source, ours and difference of each claim, in Markdown."""
    return [cells_of(row) for row in text.splitlines() if row.startswith("| [")]


def row_of(text, claim):
    (row,) = [r for r in ledger_rows(text) if r[0].startswith(f"[{claim}: ")]
    return row


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The files that the command writes of a recorded run."""
    out, folder = tmp_path_factory.mktemp("ledger"), str(RECORDED / "h200/transpose")
    assert main(["claims", "--results", folder, "--output", str(out)]) == 0
    texts = (path for path in out.iterdir() if path.suffix != ".png")
    return {path.name.replace("-h200", ""): path.read_text() for path in texts}


def is_beyond(claim):
    """Whether nothing here can show it, as the source means it."""
    primary = (c for c in claim.comparisons if c.reading == claim.readings[0].name)
    return all(c.rule == "beyond_this_project" for c in primary)


def test_without_any_result_every_claim_waits_for_a_command(run, tmp_path):
    (tmp_path / "nothing").mkdir()
    text, files = run(tmp_path / "nothing")
    assert set(files) == names_of("")
    count = len(waiting())
    rows = ledger_rows(files["claims.md"])
    assert len(rows) == count
    verdicts = {row[0].split(":")[0][1:]: row[1] for row in rows}
    # By their sources' own words, and by documents.
    decided = {"thirty-to-forty", "tables-agree", "constant-cache", "tensor-cores", "accuracy"}
    decided |= {"severe-with-throughput", "figure-4-agrees", "layers-28-64"}
    decided |= {"environment", "nf4-error", "l2-sizes", "equal-mass", "table-latency"}
    decided |= {c.id for s in load_sources() for c in s.claims if is_beyond(c)}
    assert {c for c, v in verdicts.items() if not v.startswith("not tested yet")} == decided
    assert f"{count - len(decided)} not tested yet." in " ".join(text.split())
    assert "make reproduce-table2 (9)" in " ".join(text.split())
    row = row_of(files["claims.md"], "kernel-speedup")
    assert row[1:4] == ["not tested yet", "2.03 to 2.20 x", "-"]
    assert "table2/replay" in row[4]


def test_latex_prints_characters_and_no_escapes(recorded):
    for name in ("claims.tex", "published-numbers.tex"):
        assert "textbackslash{}u" not in recorded[name]
    assert r"Mojo\textemdash{}With" in recorded["claims.tex"]


def test_names_of_the_ledger_lead_to_headings_of_the_details(recorded):
    headings = re.findall("^### (.*)$", recorded["claim-details.md"], re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings]
    assert len(set(anchors)) == len(anchors) == len(waiting())
    links = re.findall(r"\]\(([^)]*)\) \|", recorded["claims.md"])
    assert links == [f"claim-details-h200.md#{anchor}" for anchor in anchors]


def replay(gpu):
    """One cell of Table II."""
    problem, times = made.forward_pass("qwen3-32b", 8), {"branch_tree": 9.0, "shared_lut": 1.0}
    records = [made.record(problem, kernel, [us]) for kernel, us in times.items()]
    file = made.results("table2", "replay", records)
    file["provenance"]["gpu"]["name"] = gpu
    return file


def test_own_runs_come_first_and_all_are_columns_of_one_table(run, write):
    write("results/a/replay.json", replay("NVIDIA L4"))
    folder = write("results/b/replay.json", replay("NVIDIA A100")).parents[1]
    text, files = run(RECORDED / "h200/transpose", folder)
    expected = names_of("") | names_of("-2") | names_of("-h200")
    assert set(files) == expected | {f"claims-by-gpu.{s}" for s in ("txt", "md", "csv", "tex")}
    assert "Recorded runs of H200. " in text
    (head,) = [x for x in files["claims-by-gpu.txt"].splitlines() if x.startswith("claim ")]
    assert head.split() == ["claim", "source", "A100", "L4", "H200"]
    of_all = files["claims-by-gpu.md"]
    _, *others, recorded = cells_of(line(of_all, "| swizzle: "))
    assert others == [
        "1.36 to 1.43 x",
        "[not tested yet](claim-details.md#swizzle)",
        "[not tested yet](claim-details-2.md#swizzle)",
    ]
    ratio = r"\d\.\d\d"
    ours = rf"reproduced: {ratio} to {ratio} x"
    assert re.fullmatch(rf"\[{ours}\]\(claim-details-h200\.md#swizzle\)", recorded)
    row = row_of(files["claims.md"], "kernel-speedup")
    assert row[1] == "not tested yet (1 of 28 cells reproduced)"
    assert row[2:4] == ["2.19 x", "9.00 x"]
    assert "Recorded" not in files["claims.md"]


@pytest.mark.parametrize(
    ("name", "spoil", "noun"),
    [
        ("transpose", lambda p: p["setup"].pop("peak_gb_s"), "'peak_gb_s'"),
        ("transpose", lambda p: p["setup"].pop("our_kernels"), "'our_kernels'"),
        ("table2", lambda p: p["setup"].pop("sm_clock_mhz"), "'sm_clock_mhz'"),
        (
            "table2",
            lambda p: p["claims"][0]["comparisons"][0]["cells"].append(
                {"at": {"batch": 8}, "value": 2}
            ),
            "'kernel-speedup'",
        ),
    ],
)
def test_a_source_without_a_tables_facts(edited, monkeypatch, tmp_path, name, spoil, noun, refused):
    for path in FOLDER.glob("*.json"):
        source = json.loads(path.read_text())
        if any(c["experiment"] == name for x in source["claims"] for c in x["comparisons"]):
            spoil(source)
            spoilt = path.name
        (tmp_path / path.name).write_text(json.dumps(source))
    monkeypatch.setattr(experiments, "load_sources", lambda: load_sources(tmp_path))
    error = refused(edited(name, "run").tables)
    assert f"/{spoilt}: " in error and noun in error


@pytest.fixture(scope="module")
def all_recorded():
    """The ledger of the recorded H200, with its evidence."""
    (evidence,) = machines([RECORDED / "h200"])
    return evidence, decide(evidence, load_sources())


def test_a_row_is_one_line_of_25_words_and_says_why_a_premise_is_false(all_recorded):
    for d in all_recorded[1]:
        row = claim_row(d, "")
        texts = [plain_text(row[name]) for name in ("claim", "verdict", "source", "ours", "why")]
        assert sum(len(text.split()) for text in texts) <= MOST_WORDS, d.claim.id
        numbers = d.primary[0].cell.value is not None
        assert d.verdict != "premise_false" or row["why"] or numbers, d.claim.id


def test_captions_are_of_the_rows_that_decide(all_recorded):
    """Only files that decide something, and only the clocks of those rows."""
    evidence, decisions = all_recorded
    sentence = " ".join(origin.text for origin in origins(used_by(evidence, decisions)))
    assert "ladder/" not in sentence and "ceilings/" not in sentence
    assert "table2/replay" in sentence and "sw_power_cap" in sentence
    table = machine_table(evidence, "claims", "claims.md", RECORDED)
    newest = max(r.provenance["started"] for r, _ in used_by(evidence, decisions))
    assert f"to {newest[:10]}" in table.banner
    (results,) = (r for r, _ in used_by(evidence, decisions) if r.pass_name == "replay")
    slow = next(r for r in results.records if r.kernel == "streaming")
    assert clocks(replace(results, records=(slow,))) != clocks(results)


def test_a_claim_decided_in_part_shows_its_decided_cells_too():
    (h100,) = machines([RECORDED / "h100"])
    by_id = {d.claim.id: d for d in decide(h100, load_sources())}
    row = claim_row(by_id["speeds"], "")
    assert row["verdict"] == "not testable (5 of 7 cells reproduced)"
    assert row["source"] == "875 to 2775 GB/s"
    row = claim_row(by_id["lut-by-gpu"], "")
    assert row["verdict"] == "reproduced (H100-80GB alone)"


def test_counts_hide_no_verdict(all_recorded):
    line = count_line(all_recorded[1])
    assert sum(map(int, re.findall(r"(\d+) (?:reproduced|not|premise|undecided)", line))) == len(
        all_recorded[1]
    )
    assert "in every reading" in line
    assert ", 2 in the document)" in line


def test_a_document_decides_without_a_value_of_ours(all_recorded):
    by_id = {d.claim.id: d for d in all_recorded[1]}
    for name in ("latency-12-15", "l2-sizes"):
        assert claim_row(by_id[name], "")["verdict"] == "reproduced (in the document)"
        assert claim_row(by_id[name], "")["ours"].text == "-"
    assert claim_row(by_id["constant-cache"], "")["ours"].text == "8 KB in the document"
    shown = [v for d in by_id.values() for v in d.verdicts if v.documented is not None]
    assert len(shown) == 7 and {v.ours for v in shown} == {None}
    texts = [cell_evidence(v).text for v in shown]
    assert all(" in the document: " in text and " here" not in text for text in texts)


def test_predictions_are_a_column_of_their_own(all_recorded):
    cells = {(d.claim.id, v.cell.text): v for d in all_recorded[1] for v in d.verdicts}
    share = cells["qmatmul-72", "qwen3-32b, batch 8"]
    assert share.predicted.gpu == "A100-80GB" and 71 < share.predicted.value < 75
    assert share.verdict == "not_testable"
    assert share.predicted.error_percent == abs(validation()["product_time"])
    of_whole_steps = cells["end-to-end-llama", "llama-3.3-70b, batch 2"].predicted
    assert "without the host" in of_whole_steps.what and of_whole_steps.error_percent < 2
    verdicts = [v for d in all_recorded[1] if d.claim.id == "seconds" for v in d.verdicts]
    seconds = next(v for v in verdicts if v.cell.gpu == "H100-PCIe").predicted
    assert seconds.error_percent == abs(validation()["seconds"]) and not seconds.what
    table = numbers_table("numbers", all_recorded[1])
    assert any(row.get("predicted") for row in table.rows)
    assert not cells["seconds", "T4, bitsandbytes_0.47.0"].predicted  # the model says nothing of it


def test_the_forest_plot_has_a_row_for_each_number(all_recorded):
    figure = forest.figure(["H200"], [all_recorded[1]])
    (axes,) = figure.axes
    names = {label.get_text() for label in axes.get_yticklabels()} - {""}
    assert {"kernel-speedup", "instructions-71", "swizzle"} <= names
    assert "seconds" not in names  # of other GPUs
    assert not names & {"latency-12-15", "l2-sizes", "constant-cache"}  # numbers of documents


def test_a_claim_that_is_not_tested_has_no_marker_though_one_cell_is_decided(all_recorded):
    (whole,) = (d for d in all_recorded[1] if d.claim.id == "end-to-end-llama")
    first, *others = whole.verdicts
    waiting = [replace(v, verdict="not_tested", ours=None, interval=None) for v in others]
    partly = replace(whole, verdicts=(first, *waiting))
    assert first.ours and partly.verdict == "not_tested"
    assert forest.points(whole) and forest.points(partly) == []


@pytest.mark.parametrize(
    "gpus, names",
    [
        (["NVIDIA H100 80GB HBM3", "NVIDIA H200"], ["H100", "H200"]),
        (["NVIDIA H100 80GB HBM3", "NVIDIA H100 94GB"], ["H100 80GB HBM3", "H100 94GB"]),
        (["NVIDIA H100 80GB HBM3"] * 2, ["H100, recorded as a", "H100, recorded as b"]),
        (["NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3"], ["H100 PCIe", "H100"]),
    ],
)
def test_names_of_gpus_are_short_where_that_distinguishes_them(gpus, names, all_recorded):
    newest = all_recorded[0].newest
    machines = []
    for gpu, folder in zip(gpus, "ab", strict=False):
        provenance = newest.provenance | {"gpu": newest.provenance["gpu"] | {"name": gpu}}
        results = {("table2", "replay"): replace(newest, provenance=provenance)}
        machines.append(Evidence(results, Path(folder)))
    assert gpu_names(machines) == names

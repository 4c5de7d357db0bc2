"""`python -m plots claims`: the ledger as tables."""

import json
import re

import made
import pytest
from edited import cells_of, line

from claims.published import FOLDER, load_sources
from plots import experiments
from plots.cli import main
from records.json_files import ROOT

RECORDED = ROOT / "data/recorded"
TABLES = ("claims", "published-numbers")


@pytest.fixture
def run(tmp_path, capsys):
    """Runs the command on folders and returns what it printed and the files it wrote."""

    def run(*folders):
        options = [option for folder in folders for option in ("--results", str(folder))]
        assert main(["claims", *options, "--output", str(tmp_path / "out")]) == 0
        return capsys.readouterr().out, {
            p.name: p.read_text() for p in (tmp_path / "out").iterdir()
        }

    return run


def waiting():
    """Every claim of every source."""
    return [(source, claim) for source in load_sources() for claim in source.claims]


def names_of(suffix):
    files = {f"{t}{suffix}.{s}" for t in TABLES for s in ("txt", "md", "csv", "tex")}
    return files | {f"claim-details{suffix}.md"}


def ledger_rows(text):
    """Claim, verdict and why, source, ours and difference of each claim, in Markdown."""
    return [cells_of(row) for row in text.splitlines() if row.startswith("| [")]


def row_of(text, claim):
    (row,) = [r for r in ledger_rows(text) if r[0].startswith(f"[{claim}: ")]
    return row


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The files that the command writes of a recorded run."""
    out, folder = tmp_path_factory.mktemp("ledger"), str(RECORDED / "h200/transpose")
    assert main(["claims", "--results", folder, "--output", str(out)]) == 0
    return {path.name.replace("-h200", ""): path.read_text() for path in out.iterdir()}


def test_without_any_result_every_claim_waits_for_a_command(run, tmp_path):
    (tmp_path / "nothing").mkdir()
    text, files = run(tmp_path / "nothing")
    assert set(files) == names_of("")
    count = len(waiting())
    rows = ledger_rows(files["claims.md"])
    assert len(rows) == count
    verdicts = {row[0].split(":")[0][1:]: row[1] for row in rows}
    # By their sources' own words.
    decided = {"thirty-to-forty", "tables-agree", "constant-cache", "tensor-cores", "accuracy"}
    assert {c for c, v in verdicts.items() if not v.startswith("Not tested yet")} == decided
    assert f"{count - len(decided)} not tested yet." in " ".join(text.split())
    assert "Waiting for make reproduce-table2: kernel-speedup, " in text
    row = row_of(files["claims.md"], "kernel-speedup")
    assert row[2:] == ["2.03 to 2.20 x", "-", "-"]
    assert row[1].startswith(
        "Not tested yet in 28 of 28 cells, read either way: no results of the pass table2/replay."
    )


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
    own = names_of("") | names_of("-2") | names_of("-h200")
    assert set(files) == own | {f"claims-by-gpu.{s}" for s in ("txt", "md", "csv", "tex")}
    assert "\nRecorded runs of H200. Not measured on this machine.\n" in text
    (head,) = [x for x in text.splitlines() if x.startswith("claim ")]
    assert head.split() == ["claim", "source", "A100", "L4", "H200"]
    of_all = files["claims-by-gpu.md"]
    _, *others, recorded = cells_of(line(of_all, "| swizzle: "))
    assert others == [
        "1.36 x",
        "[not tested yet](claim-details.md#swizzle)",
        "[not tested yet](claim-details-2.md#swizzle)",
    ]
    ratio = r"\d\.\d\d"
    ours = rf"reproduced: {ratio} x \({ratio}-{ratio}\)"
    assert re.fullmatch(rf"\[{ours}\]\(claim-details-h200\.md#swizzle\)", recorded)
    why = row_of(files["claims.md"], "kernel-speedup")[1]
    assert why.startswith("Not tested yet in 27 of 28 cells, read as tiles of 512 bytes: ")
    assert "; reproduced in the other: +311.0 % from the source's value, 10 % less allowed; " in why
    assert "Recorded" not in files["claims.md"]


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("transpose", lambda p: p["setup"].pop("peak_gb_s"), "setup has no 'peak_gb_s', which"),
        ("transpose", lambda p: p["setup"].pop("our_kernels"), "setup has no 'our_kernels', which"),
        ("table2", lambda p: p["setup"].pop("sm_clock_mhz"), "setup has no 'sm_clock_mhz', which"),
        (
            "table2",
            lambda p: p["claims"][0]["comparisons"][0]["cells"].append(
                {"at": {"batch": 8}, "value": 2}
            ),
            "claim 'kernel-speedup': each cell needs a model and a batch",
        ),
    ],
)
def test_what_tables_need_of_a_source(edited, monkeypatch, tmp_path, name, spoil, message, refused):
    for path in FOLDER.glob("*.json"):
        source = json.loads(path.read_text())
        if any(c["experiment"] == name for x in source["claims"] for c in x["comparisons"]):
            spoil(source)
            spoilt = tmp_path / path.name
        (tmp_path / path.name).write_text(json.dumps(source))
    monkeypatch.setattr(experiments, "load_sources", lambda: load_sources(tmp_path))
    assert refused(edited(name, "run").tables).startswith(f"{spoilt}: {message}")

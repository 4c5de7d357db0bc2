"""`python -m plots claims`: the ledger as tables."""

import csv
import html
import json
import re
import statistics
from pathlib import Path

import made
import pytest
from looking import line

from claims.errors import InputError
from claims.json_files import ROOT
from claims.published import FOLDER, load_sources, look_up, numbers_of
from claims.rules import DIRECTIONS, VERDICTS
from plots import experiments
from plots.cli import main
from plots.documents import latex_escape
from plots.ledger import spell

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


def rows_of_csv(text):
    return list(csv.DictReader(x for x in text.splitlines() if not x.startswith("# ")))


def waiting():
    """Every claim of every source."""
    return [(source, claim) for source in load_sources() for claim in source.claims]


def names_of(suffix):
    files = {f"{t}{suffix}.{s}" for t in TABLES for s in ("txt", "md", "csv", "tex")}
    return files | {f"claim-details{suffix}.md"}


def ledger_rows(text):
    """Claim, verdict and why, source, ours and difference of each claim, in Markdown."""
    rows = [x for x in text.splitlines() if x.startswith("| [")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def row_of(text, claim):
    (row,) = [r for r in ledger_rows(text) if r[0].startswith(f"[{claim}: ")]
    return row


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The files that the command writes of the recorded run."""
    out = tmp_path_factory.mktemp("ledger")
    assert main(["claims", "--results", str(RECORDED), "--output", str(out)]) == 0
    return {path.name.replace("-h200", ""): path.read_text() for path in out.iterdir()}


def test_without_any_result_every_claim_waits_for_a_command(run, tmp_path):
    (tmp_path / "nothing").mkdir()
    text, files = run(tmp_path / "nothing")
    assert set(files) == names_of("")
    count = len(waiting())
    rows = ledger_rows(files["claims.md"])
    assert len(rows) == count
    verdicts = {row[0].split(":")[0][1:]: row[1] for row in rows}
    decided = {"thirty-to-forty", "constant-cache", "accuracy"}  # by their sources' own words
    assert {c for c, v in verdicts.items() if not v.startswith("Not tested yet")} == decided
    assert f"{count - len(decided)} not tested yet." in " ".join(text.split())
    assert "Waiting for make reproduce-table2: kernel-speedup, " in text
    row = row_of(files["claims.md"], "kernel-speedup")
    assert row[2:] == ["2.03 to 2.20 x", "-", "-"]
    assert row[1].startswith(
        "Not tested yet in 28 of 28 cells, read either way: no results of the pass table2/replay."
    )


def test_the_recorded_run(run):
    text, files = run(RECORDED)
    assert set(files) == names_of("-h200")
    assert text.startswith("+--")
    assert "| Recorded run of NVIDIA H200, 2026-11-23. Not measured on this machine. |" in text
    assert max(map(len, text.splitlines()[:-1])) <= 100
    assert f"{len(waiting())} claims: " in text
    ledger = files["claims-h200.md"]
    _, why, published, ours, difference = row_of(ledger, "kernel-speedup")
    assert published == "2.03 to 2.20 x"
    assert re.fullmatch(r"2\.\d\d to 2\.\d\d x", ours)
    assert re.fullmatch(r"-\d\.\d to \+\d\.\d %", difference)
    bytes_, weights = why.split("; not reproduced ")
    begin = "Reproduced in 28 of 28 cells, read as tiles of 512 bytes: "
    assert bytes_ == f"{begin}{difference} from the source's values"
    assert re.match(r"in \d+ of 28 cells, read as tiles of 512 weights: -\d\d", weights)
    packed = row_of(ledger, "packed-stores")
    assert packed[1].startswith(
        "Not testable: a number of the source's T4, which only such a GPU can show."
    )
    assert packed[2] == "1.88 x" and packed[3] != "-" and packed[4] == "-"
    assert row_of(ledger, "smem-64-bytes")[2] == "64 bytes"


def plain(markdown):
    """What a reader sees of a cell of Markdown: no links, no escapes."""
    text = re.sub(r"\[(.*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"\\([^\w\s])", r"\1", text)
    return html.unescape(text.replace("\\_", "_"))


def test_every_claim_with_its_text_and_why_in_markdown_terminal_and_latex(recorded):
    rows = ledger_rows(recorded["claims.md"])
    assert len(rows) == len(waiting())
    terminal = "".join(recorded["claims.txt"].split())
    latex = recorded["claims.tex"].replace(r"\allowbreak{}", "")
    for (_, claim), row in zip(waiting(), rows, strict=True):
        assert plain(row[0]) == f"{claim.id}: {claim.text}"
        remark = f" {claim.remark}." if claim.remark else ""
        why = plain(row[1])
        assert why.endswith(remark), claim.id
        verdict = re.split("[:,]| in ", why.removesuffix(remark))[0].lower()
        assert verdict in map(spell, VERDICTS), claim.id
        assert ":" in why.removesuffix(remark), claim.id  # a reason follows the verdict
        assert latex_escape(f"{claim.id}: {claim.text}") in latex
        for text in (why, *map(plain, row[2:])):
            assert latex_escape(text) in latex, claim.id
        wrapped = "".join(f"{claim.id}:".split())
        assert wrapped in terminal, claim.id
    head = ["claim", "verdict, and why", "source", "ours", "difference"]
    assert [f" {c} " for c in head] == line(recorded["claims.md"], "| claim").split("|")[1:-1]


def test_a_cell_of_the_ledger_can_be_read_at_a_glance(recorded):
    for (_, claim), row in zip(waiting(), ledger_rows(recorded["claims.md"]), strict=True):
        assert max(len(plain(cell)) for cell in row) <= 480, claim.id
        remark = f" {claim.remark}." if claim.remark else ""
        assert len(plain(row[1]).removesuffix(remark)) <= 320, claim.id


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


def test_the_details_of_every_claim(recorded, tmp_path):
    sections = recorded["claim-details.md"].split("\n### ")[1:]
    for (_, claim), text in zip(waiting(), sections, strict=True):
        assert text.startswith(f"{claim.id}\n")
        assert claim.section in text
        heads = [x for x in text.splitlines() if x.startswith("- ")]
        assert len(heads) == len(claim.comparisons), claim.id
        for comparison, head in zip(claim.comparisons, heads, strict=True):
            assert re.match(r"- (Read as .*: r|R)eproduced if \w", head), claim.id
            assert comparison.reading in head
            direction = {"statement": "a statement without a number", **DIRECTIONS}
            scope = {"any_gpu": "of any GPU", "named_gpu": "a number of the named GPU alone"}
            wanted = f"({direction[comparison.direction]}; {scope[comparison.scope]})"
            assert head.endswith(wanted), claim.id
        cells = text.count("\n  - ")
        assert cells >= len(claim.comparisons)
        assert "Measured by `make reproduce-" in text


def test_the_details_link_to_evidence_that_is_there():
    """Of the page in the project: its links begin at its own folder."""
    page = RECORDED / "h200/claims.md"
    links = re.findall(r"\[([^\]]*)\]\(([^)]*\.json)\)", page.read_text())
    assert links
    for text, path in dict(links).items():
        assert (page.parent / path).is_file(), path
        assert re.fullmatch(r"(\d+ rows? of|provenance of) " + Path(path).name, text), text
    environment = page.read_text().split("\n### environment\n")[1].split("\n### ")[0]
    assert "[provenance of " in environment and " row" not in environment


def test_all_published_numbers_beside_ours(recorded):
    rows = rows_of_csv(recorded["published-numbers.csv"])
    for source in load_sources():
        found = [r for r in rows if r["source"] == source.id]
        without = {r["of_what"]: r for r in found if not r["claim"]}
        for path in numbers_of(source.tables):
            excuse = next((w for p, w in source.without_cell.items() if covers(p, path)), "")
            assert (path in without) == bool(excuse), path
            if excuse:
                assert without[path]["why"] == excuse
                assert float(without[path]["source_value"]) == look_up(source.tables, path, "")
        compared = [r for r in found if r["claim"]]
        for claim in source.claims:
            values = {f"{c.value:.6g}" for c in claim.cells if c.value is not None}
            assert {r["source_value"] for r in compared if r["claim"] == claim.id} == values
    text = recorded["published-numbers.md"]
    of_rows = [x for x in text.splitlines() if x.startswith("| ") and "| **" not in x]
    assert len(of_rows) == len(rows) + 2  # the head and the line under it
    for gpu in {r["only_on"] for r in rows} - {""}:
        only = [r for r in rows if r["only_on"] == gpu and r["verdict"] == "not_testable"]
        assert text.count(f"not testable ({gpu} only) |") == len(only) > 0, gpu
    named = {c.gpu for _, claim in waiting() for c in claim.cells} - {""}
    assert {r["only_on"] for r in rows} - {""} == named


def covers(path, number):
    return number == path or number.startswith(path + "/")


def test_the_csv_has_every_cell_with_its_evidence(recorded):
    rows = rows_of_csv(recorded["claims.csv"])
    assert len({(row["source"], row["claim"]) for row in rows}) == len(waiting())
    cells = [row for row in rows if row["claim"] == "kernel-speedup"]
    assert len(cells) == 2 * 28
    in_bytes = [row for row in cells if row["reading"] == "tiles of 512 bytes"]
    (row,) = [row for row in in_bytes if row["cell"] == "qwen3-32b, batch 8"]
    assert row["source_value"] == "2.19"
    ours = float(row["our_value"])
    replay = json.loads((RECORDED / "h200/table2/replay.json").read_text())
    times = {
        record["kernel"]: statistics.median(
            next(m["samples"] for m in record["metrics"] if m["name"] == "kernel_time")
        )
        for record in replay["records"]
        if record["key"] in row["evidence_keys"].split()
    }
    assert ours == pytest.approx(times["branch_tree"] / times["shared_lut"], rel=1e-5)
    assert row["reproduced_if"] == "ours is at least the source's value, 10 % allowed"
    assert (row["direction"], row["scope"], row["only_on"]) == ("at_least", "any_gpu", "")
    difference = f"{100 * (ours / 2.19 - 1):+.1f} %"
    assert row["reason"] == f"'{difference} from the source's value, 10 % less allowed"
    assert row["evidence_file"].endswith("data/recorded/h200/table2/replay.json")
    assert row["evidence_keys"] == (
        "qwen3-32b/batch8/fp16/b64/branch_tree qwen3-32b/batch8/fp16/b64/shared_lut"
    )


def replay(speed_ups, gpu="NVIDIA L4"):
    """One cell of Table II for each batch."""
    records = []
    for batch, speed_up in speed_ups.items():
        problem = made.forward_pass("qwen3-32b", batch)
        records.append(made.record(problem, "branch_tree", [speed_up]))
        records.append(made.record(problem, "shared_lut", [1.0]))
    file = made.results("table2", "replay", records)
    file["provenance"]["gpu"]["name"] = gpu
    return file


def test_own_runs_come_first_and_each_machine_has_its_table(run, write):
    write("results/a", replay({8: 9.0}, "NVIDIA L4"))
    folder = write("results/b", replay({8: 9.0}, "NVIDIA A100")).parent
    text, files = run(RECORDED, folder)
    assert set(files) == names_of("") | names_of("-2") | names_of("-h200")
    heads = [x for x in text.splitlines() if x.startswith("Every claim, and what was measured on")]
    assert [x.removeprefix("Every claim, and what was measured on ") for x in heads] == [
        *("NVIDIA A100", "NVIDIA L4", "NVIDIA H200")
    ]
    why = row_of(files["claims.md"], "kernel-speedup")[1]
    assert why.startswith("Not tested yet in 27 of 28 cells, read as tiles of 512 bytes: ")
    assert "; reproduced in the other: +311.0 % from the source's value, 10 % less allowed; " in why
    assert "Recorded" not in files["claims.md"]


def test_of_several_reasons_the_first_and_the_last_are_given(recorded):
    why = row_of(recorded["claims.md"], "batch-invariant")[1]
    assert re.fullmatch(
        r"Reproduced in 4 of 4 cells: median [^;]*; median [^;]*; and 2 more\.", why
    )


def test_a_damaged_file_is_one_line_and_nothing_is_written(tmp_path, capsys):
    (tmp_path / "bad.json").write_text('{"schema": "reprolab-results/2"}')
    options = ["--results", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main(["claims", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {tmp_path}/bad.json: the file lacks 'experiment', ")
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


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
def test_what_tables_need_of_a_source(monkeypatch, tmp_path, name, spoil, message):
    for path in FOLDER.glob("*.json"):
        source = json.loads(path.read_text())
        if any(c["experiment"] == name for x in source["claims"] for c in x["comparisons"]):
            spoil(source)
            spoilt = tmp_path / path.name
        (tmp_path / path.name).write_text(json.dumps(source))
    monkeypatch.setattr(experiments, "load_sources", lambda: load_sources(tmp_path))
    with pytest.raises(InputError) as error:
        run = experiments.load_run(name, RECORDED / "h200" / name)
        experiments.all_tables(name, run, experiments.CLAIM_DETAILS, tmp_path)
    assert str(error.value).startswith(f"{spoilt}: {message}")

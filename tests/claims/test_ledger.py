"""The whole ledger: which files count, how cells and readings decide a claim, and its frame."""

import csv
import re
from dataclasses import replace

import made
import pytest

import reprolab
from reprolab.claims import rules
from reprolab.claims.evidence import machines
from reprolab.claims.ledger import Decision, decide, is_on
from reprolab.claims.published import load_sources
from reprolab.json_files import ROOT, read_json
from reprolab.results import result_files

LEDGER = ROOT / "data/verdicts.csv"


def replay(started="2026-11-20T08:00:00Z", gpu="NVIDIA H200", us=2.19):
    """One cell of Table II: the baseline takes `us` and the paper's kernel 1 us."""
    file = made.replay({"branch_tree": [us], "shared_lut": [1.0]}, batch=8)
    file["provenance"] |= {"started": started, "gpu": made.GPU | {"name": gpu}}
    return file


def test_the_newest_of_several_files_counts(write, tmp_path):
    write("old/replay.json", replay("2026-11-20T08:00:00Z", us=9.0))
    write("new/replay.json", replay("2026-11-21T08:00:00Z", us=2.0))
    write("older/replay.json", replay("2026-11-19T08:00:00Z", us=9.0))
    (evidence,) = machines([*result_files(tmp_path)])
    assert evidence.newest.file == tmp_path / "new/replay.json"
    (decision,) = decide(evidence, made.with_claim("kernel-speedup"))
    assert [v.ours for v in decision.verdicts if v.ours] == [pytest.approx(2.0)]


def test_each_gpu_is_a_machine_and_so_is_each_recorded_folder(write, tmp_path):
    write("data/recorded/a100/table2/replay.json", replay(gpu="NVIDIA A100"))
    write("results/one.json", replay(gpu="NVIDIA H200"))
    write("results/two.json", replay(gpu="NVIDIA L4"))
    recorded_code = read_json(ROOT / "data/recorded/h200/counters/sass.json")
    code = write("results/sass.json", recorded_code)
    by_machine = machines([*result_files(tmp_path)])
    assert [(e.folder and e.folder.name, e.newest.gpu) for e in by_machine] == [
        (None, "NVIDIA H200"),
        (None, "NVIDIA L4"),
        ("a100", "NVIDIA A100"),
    ]
    with_code = [e for e in by_machine if ("counters", "sass") in e.results]
    assert with_code == by_machine[:2]  # code is every machine's of its folder
    (alone,) = machines([*result_files(code)])
    assert (alone.newest, list(alone.results)) == (None, [("counters", "sass")])


@pytest.mark.parametrize(
    ("whole", "readings"),
    [
        # Cells of one reading.
        ("not_tested", ["reproduced not_tested"]),
        ("not_testable", ["not_tested not_testable"]),  # a run would not make it testable
        ("undecided", ["reproduced undecided"]),
        ("premise_false", ["undecided premise_false not_testable contradicted"]),
        ("contradicted", ["undecided contradicted documented"]),
        ("not_reproduced", ["premise_false reproduced not_reproduced"]),
        ("reproduced", ["reproduced documented"]),
        ("documented", ["documented elsewhere"]),  # a citation is no measurement
        # Cells of other GPUs count only if there are no others.
        ("not_reproduced", ["elsewhere not_reproduced"]),
        ("not_testable", ["elsewhere elsewhere"]),
        # Only the primary reading decides; another one changes nothing.
        ("reproduced", ["reproduced", "not_reproduced"]),
        ("not_reproduced", ["not_reproduced", "reproduced"]),
        ("not_tested", ["not_tested", "reproduced"]),
    ],
)
def test_a_claims_verdict_from_cells_and_readings(whole, readings):
    source = made.all_sources()[0]
    names = tuple({"name": f"reading {i}"} for i in range(len(readings)))
    claim = replace(source.claims[0], readings=names)
    verdicts = []
    for i, cells in enumerate(readings):
        for batch, word in enumerate(cells.split()):
            cell = replace(claim.cells[0], at={"batch": batch}, reading=f"reading {i}", model="")
            kind, elsewhere = word.replace("elsewhere", "not_testable"), word == "elsewhere"
            verdicts.append(rules.Verdict(kind, cell=cell, elsewhere=elsewhere))
    assert Decision(source, claim, tuple(verdicts[::-1])).verdict == whole


def test_a_gpu_is_known_by_its_name():
    assert is_on("NVIDIA A100 80GB PCIe", "A100-80GB") and is_on("Tesla T4", "T4")
    others = {"NVIDIA H100 80GB HBM3": "H100-PCIe", "A100-SXM4-40GB": "A100-80GB"}
    others |= {"NVIDIA GH200 480GB": "H100", "NVIDIA H100 MIG 1g.10gb": "H100", "NVIDIA T4G": "T4"}
    assert not any(is_on(gpu, wanted) for gpu, wanted in others.items())


def test_one_of_two_models_that_stand_for_the_sources_is_enough():
    """gemma-2-27b and gemma-3-27b are both its gemma-27b."""
    for gone, verdict in (("gemma-2*", "reproduced"), ("gemma-*", "not_tested")):
        change = ("table2/replay", "*", gone, lambda row: False)
        decision = made.decision("kernel-speedup", "h200", change)
        missing = [v for v in decision.primary if v.kind == "not_tested"]
        assert decision.verdict == verdict and not missing[0].rows


@pytest.fixture(scope="module")
def recorded():
    return reprolab.load(ROOT / "data/recorded").claims


def test_the_frame_has_every_cell_of_every_claim_on_each_gpu(recorded):
    claims = [claim for source in load_sources() for claim in source.claims]
    assert set(recorded.recorded) == {"h100", "h200"}
    for _, rows in recorded.groupby("recorded"):
        assert list(dict.fromkeys(rows.claim)) == [claim.id for claim in claims]
    assert set(recorded.verdict) <= set(rules.VERDICTS)
    cell = recorded[(recorded.claim == "kernel-speedup") & (recorded.cell == "qwen3-32b, batch 8")]
    assert set(cell.published) == {2.19} and (cell.low < cell.ours).all()
    assert cell.file.str.contains("table2/replay").all()
    assert not recorded[recorded.verdict.isin(["documented", "contradicted"])].ours.gt(100).any()


def test_every_last_line_of_the_diary_is_the_verdict_of_today(recorded):
    verdicts = {(r.recorded.upper(), r.claim): r.claim_verdict for r in recorded.itertuples()}
    known, last = {claim for _, claim in verdicts}, {}
    for line in csv.DictReader(LEDGER.read_text().splitlines()):
        assert line["claim"] in known and line["why"] and line["date"] > "2026-11"
        for gpu in ("H100", "H200") if line["gpu"] == "both" else (line["gpu"],):
            if line["after"]:
                last[gpu, line["claim"]] = line["after"].replace(" ", "_")
    assert len(last) > 60
    assert {key: verdicts[key] for key in last} == last


def claims_on(page):
    """The claim, the GPU and the text of each cell of tables that begin with a claim's name."""
    header = []
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            header = []
            continue
        if named := re.match(r"`([a-z0-9.-]+)`", cells[0]):
            gpus = [(gpu, i) for i, gpu in enumerate(header) if gpu in ("H100", "H200")]
            yield from ((named[1], gpu, cells[i]) for gpu, i in gpus if i < len(cells))
        header = header or cells


UNITS = "x|%|times|[mu]?s|GB/s|passes"
MEASURED = rf"(?<![\w.,])(\d+(?:\.\d+)?)(?:(?: to |-)(\d+(?:\.\d+)?))? ?(?:{UNITS})(?!\w)"
# Targets of streaming, its number of rows, a level of confidence, a tolerance; of a fault that
# docs/upstream.md describes.
SETTINGS = {"0.96", "3.5", "2048", "99", "10", "6.4"}


def test_prose_has_no_number_that_was_measured_here():
    """Such a number is a slot; a source's stands in data/published, or in what it claims."""
    published = " ".join(file.read_text() for file in (ROOT / "data/published").glob("*.json"))
    templates = [*ROOT.glob("*.md.j2"), *ROOT.glob("docs/*.j2"), *ROOT.glob("experiments/*/*.j2")]
    written = {}
    for template in (*templates, *ROOT.glob("data/recorded/*.j2")):
        text = re.sub(r"^\*\*Claimed\*\*.*?\n\n", "", template.read_text(), flags=re.M | re.S)
        text = re.sub(r"```.*?```|`[^`]*`|\{[{%].*?[%}]\}|\]\([^)]*\)", "", text, flags=re.S)
        for number in filter(None, (n for pair in re.findall(MEASURED, text) for n in pair)):
            if number not in SETTINGS and not re.search(
                rf"(?<![\d.]){number}0*(?![\d.])", published
            ):
                written.setdefault(template.name, []).append(number)
    assert not written


def test_every_page_has_the_verdicts_and_the_numbers_of_the_frame(recorded):
    """A number of a claim is the value of its deciding cells, in their unit, wherever it stands."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("experiments/*/*.md")]
    pages += [*ROOT.glob("data/recorded/*.md"), *ROOT.glob("data/recorded/*/*.md")]
    seen = [(page, *cell) for page in pages for cell in claims_on(page)]
    for page, claim, gpu, text in seen:
        cells = recorded[(recorded.claim == claim) & (recorded.recorded == gpu.lower())]
        if cells.empty:  # a kernel
            continue
        decided = cells[cells.primary & (cells.verdict == cells.claim_verdict)]
        of_unit = decided[decided.unit == decided.unit.iloc[0]].ours.dropna()
        verdict = cells.claim_verdict.iloc[0].replace("_", " ")
        assert text.startswith(verdict), f"{page}: {claim} on {gpu}"
        if number := re.match(rf"{verdict}: (-?[\d.]+)(?:-(-?[\d.]+))?", text):
            ends = [float(end) for end in number.groups() if end]
            expected = of_unit.min(), of_unit.max()
            assert ends[0] == pytest.approx(expected[0], rel=6e-3), f"{page}: {claim} on {gpu}"
            assert ends[-1] == pytest.approx(expected[1], rel=6e-3), f"{page}: {claim} on {gpu}"
    assert len({claim for _, claim, _, _ in seen}) >= recorded.claim.nunique()

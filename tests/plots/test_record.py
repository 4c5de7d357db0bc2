"""`python -m plots record`: pages of several GPUs, and refused results."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from shutil import copytree

import pytest
from edited import Edited, scale

from plots import record as record_module
from plots.cli import main
from plots.sentences import spell
from reprolab.claims.evidence import collect
from reprolab.claims.ledger import decide
from reprolab.claims.published import load_sources
from reprolab.json_files import ROOT
from reprolab.output import lock
from reprolab.results import result_files

README = "".join(
    f"<!-- begin generated: {name} -->\n<!-- end generated: {name} -->\n"
    for name in ("paper", "transpose_blog", "modular_blog")
)
MEASURED = ("puzzle", "table2", "transpose")
# Fictitious GPUs by the name of their recording: architecture, and factor of the H200's time.
GPUS = {
    "a100": ("NVIDIA A100-SXM4-80GB", "sm_80", 2.4),
    "t4": ("Tesla T4", "sm_75", 16.0),
}


def make_up(name: str, results: Path, experiments: Iterable[str]) -> Path:
    """The folder `results` with some rows of these experiments, each slower by the GPU's factor."""
    gpu, target, factor = GPUS[name]
    unit = hashlib.sha256(name.encode()).hexdigest()[:16]
    for experiment in experiments:
        made = Edited(experiment, results / experiment)
        made.provenance(dirty=False)
        for file in made.files.values():
            if file["provenance"]["gpu"]:
                file["provenance"]["gpu"] |= {"name": gpu, "unit": unit}
        for row in made.rows():
            if "arch" in row["problem"]:
                continue
            scale([row], factor, "*_time*")
            if row.get("code"):
                row["code"]["target"] = target
        made.write()
    return results


@pytest.fixture
def project(no_figures, tmp_path):
    """With nothing recorded yet."""
    (tmp_path / "README.md").write_text(README)
    return tmp_path


@pytest.fixture
def with_h200(edited, project):
    for name in MEASURED:
        edited(name, f"data/recorded/h200/{name}").write()
    assert run(project, "document") == 0
    return project


def run(project, command, *options):
    readme = ("--readme", str(project / "README.md"))
    return main([command, *options, "--recorded-dir", str(project / "data/recorded"), *readme])


def record(project, name, results=None):
    results = results or make_up(name, project / "mine" / name, MEASURED)
    return run(project, "record", "--results", str(results), "--gpu", name)


def snapshot(project):
    files = [p for p in (project / "data").rglob("*") if p.is_file()]
    return {p: p.read_bytes() for p in (*files, project / "README.md")}


def cells(text, first):
    """The cells of the row that begins so, without links."""
    (row,) = [x for x in text.splitlines() if x.startswith(f"| {first}")]
    return [re.sub(r"\[(.*)\]\(.*\)", r"\1", x.strip()) for x in row.split("|")[1:-1]]


def test_several_gpus_are_columns_of_one_table(with_h200, capsys):
    project = with_h200
    alone = (project / "README.md").read_text().splitlines()
    for name in GPUS:
        assert record(project, name) == 0
    folder = project / "data/recorded"
    assert f"git add {folder} {project}/README.md && git commit" in capsys.readouterr().out
    assert run(project, "document", "--check") == 0
    readme, page = (project / "README.md").read_text(), (folder / "README.md").read_text()
    heads = "| kernel | A100-SXM4-80GB | H200 | Tesla T4 |"
    assert readme.count(heads) == 2 and len(readme.splitlines()) <= len(alone) + 16
    assert "paper \\| A100-SXM4-80GB \\| H200 \\| Tesla T4, by batch" in readme
    order = sorted([*GPUS, "h200"])  # of the columns
    # Absolute, and normalised to the GPU's own copy, which is slower by a known factor.
    (*_, copies) = [x for x in readme.splitlines() if x.startswith("| `copy` |")]
    gb_s = [float(x.split()[0]) for x in copies.split("|")[2:-1]]
    factors = [GPUS[name][2] if name in GPUS else 1 for name in order]
    assert [gb_s[order.index("h200")] / x for x in gb_s] == pytest.approx(factors, rel=0.01)
    for row in re.findall(r"^\| `(?!copy).*$", readme, re.MULTILINE):
        assert len(re.findall(r"\d+ \(\d+\.\d %\)", row)) == 3, row
    for column, name in enumerate(order, 2):
        for d in decide(collect(result_files(folder / name)), load_sources()):
            shown = cells(page, f"{d.claim.id}: ")[column]
            assert shown.startswith(spell(d.verdict)), (name, d.claim.id)
    # A claim about a device is decided on that device.
    *elsewhere, on_t4 = cells(page, "puzzle-target: ")[2:]
    assert elsewhere == ["not testable (only on T4)"] * 2 and on_t4.startswith("not reproduced: ")


def test_claims_about_two_gpus_are_decided_anew_on_both(project):
    for name in ("h200", "h100"):
        copytree(ROOT / f"data/recorded/{name}/end_to_end", project / f"mine/{name}/end_to_end")
        assert record(project, name, project / "mine" / name) == 0
    assert run(project, "document", "--check") == 0


def test_a_pass_that_a_run_need_not_have_is_on_its_page(edited, project):
    edited("product", "mine/product").write()
    assert record(project, "h200", project / "mine") == 0
    assert "humming" in (project / "data/recorded/h200/product/README.md").read_text()
    assert run(project, "document", "--check") == 0


def test_an_old_run_of_another_unit_is_replaced(project, capsys):
    assert record(project, "a100", make_up("a100", project / "mine", ["puzzle", "table2"])) == 0
    capsys.readouterr()
    again = make_up("a100", project / "again", ["table2"])
    edit(again / "table2/replay.json", lambda f: f["provenance"]["gpu"].update(unit="0" * 16))
    assert record(project, "a100", again) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("unit 0000000000000000 and 842f9e0295896e68")
    assert lines[1].startswith("recorded: table2; ")
    assert (project / "data/recorded/a100/puzzle/mlps.json.xz").exists()
    # A folder of a recorded run is not for a second GPU.
    assert record(project, "x2", project / "data/recorded/a100") == 2
    assert "recorded run" in capsys.readouterr().err
    # Two of one kind are distinguished by their names.
    assert record(project, "a100-b", again) == 0
    both = "A100-SXM4-80GB, recorded as a100 \\| A100-SXM4-80GB, recorded as a100-b"
    assert both in (project / "README.md").read_text()


def test_a_failed_check_is_reported(project, capsys):
    results = make_up("a100", project / "mine", ["table2"])

    def fail(content):
        keys = [row["key"] for row in content["records"][:3]]
        check = {"name": "events", "first": 102.0, "second": 100.0, "unit": "us"}
        content["checks"] = [check | {"keys": keys, "allowed_percent": 1}]

    edit(results / "table2/replay.json", fail)
    assert record(project, "a100", results) == 0
    assert re.search(r"^events: 2\.0 % .*1 % .* 3 rows", capsys.readouterr().out, re.MULTILINE)


def test_a_file_that_changes_meanwhile_is_not_recorded(project, capsys, monkeypatch):
    results, original = make_up("a100", project / "mine", ["table2"]), record_module.files
    file, before = results / "table2/replay.json", snapshot(project)

    def while_it_works(*args):
        file.write_text(file.read_text().replace("NVIDIA", "Nvidia"))
        return original(*args)

    monkeypatch.setattr(record_module, "files", while_it_works)
    assert record(project, "a100", results) == 2
    assert "changed" in capsys.readouterr().err and snapshot(project) == before


def test_a_run_that_is_recorded_meanwhile_is_on_the_pages(project):
    """Another process that holds the folder's lock adds its run, which is read only after that."""
    for name in GPUS:
        make_up(name, project / "mine" / name, ["streaming"])
    recorded = project / "data/recorded"
    recorded.mkdir(parents=True)
    words = ["--recorded-dir", str(recorded), "--readme", str(project / "README.md")]
    command = [sys.executable, "-m", "plots", "record", "--gpu=t4", *words]
    with lock(recorded):
        pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
        other = subprocess.Popen([*command, f"--results={project}/mine/t4"], cwd=ROOT, **pipes)
        assert other.stderr.readline().startswith("waiting for ")
        assert record(project, "a100", project / "mine/a100") == 0
    assert other.communicate()[1] == "" and other.returncode == 0
    check = [sys.executable, "-m", "plots", "document", "--check", *words]  # with real captions
    assert subprocess.run(check, cwd=ROOT, capture_output=True).returncode == 0


def edit(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def first_row(content):
    return next(row for row in content["records"] if row["kernel"] == "streaming")


FAILED = {"metrics": [], "launch": None}


def failed(outcome, reason):
    return lambda content: first_row(content).update(outcome=outcome, reason=reason, **FAILED)


def with_origin(part="", **facts):
    """Edits the provenance, or a part of it."""

    def change(content):
        origin = content["provenance"]
        (origin[part] if part else origin).update(facts)

    return change


def other_code(content):
    first_row(content)["code"]["sha256"]["kernels/nf4/streaming.cu"] = "0" * 64


@pytest.mark.parametrize(
    ("name", "damage", "noun"),
    [
        ("replay", failed("mismatch", "12 differ"), "mismatch (12 differ)"),
        ("shapes", failed("not_verified", ""), "not verified"),
        ("replay", lambda content: content["provenance"]["gpu"].pop("unit"), "gpu lacks 'unit'"),
        ("replay", with_origin("clocks", sm_mhz=None), "clocks.sm_mhz"),
        ("replay", with_origin("clocks", throttle_reasons=None), "clocks.throttle_reasons"),
        ("replay", with_origin(started="2999-01-01T00:00:00Z"), "provenance.started"),
        ("replay", with_origin(dirty=True), "provenance.commit"),
        ("shapes", other_code, "different code"),
    ],
)
def test_unreliable_results_are_not_recorded(project, capsys, name, damage, noun):
    results = make_up("a100", project / "mine", ["table2"])
    edit(results / f"table2/{name}.json", damage)
    before = snapshot(project)
    assert record(project, "a100", results) == 2
    assert noun in capsys.readouterr().err
    assert snapshot(project) == before


def test_other_gpus_and_empty_folders_are_refused(edited, project, capsys):
    edited("puzzle", "data/recorded/h200/puzzle").write()
    results = make_up("a100", project / "mine", ["table2"])
    before = snapshot(project)

    def refused(name, folder):
        capsys.readouterr()
        assert record(project, name, folder) == 2
        assert snapshot(project) == before
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "'A 100'" in refused("A 100", results)
    assert "NVIDIA A100-SXM4-80GB" in refused("h200", results)
    (project / "empty").mkdir()
    assert "/empty" in refused("a100", project / "empty")
    (project / "data/recorded/README.md").mkdir()  # where the page of both would be
    assert "README.md" in refused("a100", results)


@pytest.mark.parametrize("left_out", ["shapes", "replay"])
def test_a_run_that_lacks_a_pass_is_recorded_with_what_it_has(project, capsys, left_out):
    results = make_up("a100", project / "mine", ["table2"])
    (results / f"table2/{left_out}.json").unlink()
    assert record(project, "a100", results) == 0
    assert f"table2: not measured: {left_out}\n" in capsys.readouterr().out
    page = (project / "data/recorded/a100/table2/README.md").read_text()
    assert f"Not measured: {left_out}." in page
    titles = {
        "shapes": "Bandwidth per distinct shape",
        "replay": "dequantization per forward pass at batch",
    }
    for name, title in titles.items():
        assert (title in page) == (name != left_out)
    assert run(project, "document", "--check") == 0
    # With the other pass, the run is complete.
    assert record(project, "a100", make_up("a100", project / "all", ["table2"])) == 0
    page = (project / "data/recorded/a100/table2/README.md").read_text()
    assert "Not measured:" not in page and all(title in page for title in titles.values())


def test_an_older_run_replaces_a_newer_one_only_if_asked_to(project, capsys):
    def started(time):
        for file in (project / "mine/t4").rglob("*.json"):
            root = json.loads(file.read_text())
            root["provenance"]["started"] = time
            file.write_text(json.dumps(root))

    make_up("t4", project / "mine/t4", MEASURED)
    started("2026-11-20T10:00:00Z")
    assert record(project, "t4", project / "mine/t4") == 0
    before = snapshot(project)
    started("2026-11-20T09:59:59Z")
    capsys.readouterr()
    assert record(project, "t4", project / "mine/t4") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "OLDER=1" in error
    assert snapshot(project) == before
    options = ("--results", str(project / "mine/t4"), "--gpu", "t4", "--older")
    assert run(project, "record", *options) == 0
    assert snapshot(project) != before

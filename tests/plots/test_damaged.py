"""Files with one damaged field: all is as it should be, or an error of one line that names it.
A sample of all damages; FUZZ=all in the environment tries every one, which takes hours.
"""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import damaged
import pytest
from edited import few
from looking import RECORDED, look, recorded_names

from claims.evidence import machines
from claims.ledger import decide
from claims.published import FOLDER, load_source, load_sources
from plots import claim_details, published_numbers
from plots.bandwidth import bandwidth_table
from plots.counter_tables import asked_for_table, full_table, short_table
from plots.counter_values import by_family
from plots.counters.figures import roofline_figure, stalls_figure
from plots.documents import markdown, table_files
from plots.experiments import CLAIM_DETAILS, all_tables, experiment, figure_files, load_run
from plots.figures import house_style
from plots.ledger import claims_table, machine_table
from plots.neighbours import neighbour_notes
from plots.single_files import kernel_list
from records import counter_table
from records.counter_table import known
from records.errors import InputError
from records.json_files import ROOT
from records.results import load

EVERY = 20  # of the variants that have tables, one's figures are drawn too
PASSES = ("table2/replay", "table2/shapes", "transpose/matrix", "transpose/sizes")
COUNTED = ("counters/nf4_counters", "counters/nf4_launches")
# What tables calculate with comes first, and is damaged.
COUNTERS = ("active_warps", "achieved_occupancy", "warps_launched", "warp_instructions")
COUNTERS += ("stall_wait", "branches", "l2_hit_rate")


def small(name: str) -> dict:
    """Of each of two problems one row of each kind, and the two kernels that are compared; of
    counters two rows and few counters.
    """
    file, kept = copy.deepcopy(few(name)), {}
    problems = list(dict.fromkeys(r["problem"]["name"] for r in file["records"]))
    for row in file["records"]:
        compared = row["kernel"] in ("branch_tree", "shared_lut")
        kind = row["kernel"] if compared else (row["outcome"], row["origin"]["kind"])
        if row["problem"]["name"] in problems[: 1 + (name not in COUNTED)]:
            kept.setdefault((row["problem"]["name"], kind), row)
    rows = [row for (_, kind), row in kept.items() if name not in COUNTED or isinstance(kind, str)]
    for row in rows:
        if name == COUNTED[0]:
            row["metrics"] = [m for m in row["metrics"] if m["name"] in COUNTERS]
            row["metrics"].sort(key=lambda m: COUNTERS.index(m["name"]))
        for metric in row["metrics"]:
            metric["samples"] = metric["samples"][:3]
    keys = {row["key"] for row in rows}
    checks = [check for check in file["checks"] if keys >= set(check["keys"])]
    return file | {"records": rows, "checks": checks[:1]}


def try_all(
    found: Iterator[tuple[str, str]], file: Path, draw: Callable[[bool], None]
) -> tuple[int, int]:
    """How many of the texts were refused, and how many shown."""
    refused, shown = 0, 0
    for what, text in found:
        file.write_text(text, encoding="utf-8")
        try:
            draw(shown % EVERY == EVERY - 1)
            shown += 1
        except InputError as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 1000, what
            assert str(file.parent) in str(error), what
        except Exception as error:
            raise AssertionError(f"{file.name}: {what}") from error
    return refused, shown


def draw_run(folder: Path, name: str, with_figures: bool) -> None:
    """Every table that there is of the run in the folder."""
    experiment_name, pass_name = name.split("/")
    run = load_run(experiment_name, folder)
    tables = all_tables(experiment_name, run, CLAIM_DETAILS, folder)
    tables += [machine_table(e, "machine", CLAIM_DETAILS, folder) for e in machines([folder])]
    tables += [kernel_list([run[pass_name]]), bandwidth_table(run[pass_name], "bench", "")]
    look(table_files(tables, folder))
    if with_figures:
        for content in figure_files(experiment_name, run, folder, ("svg",)).values():
            ElementTree.fromstring(content)


def draw_counters(folder: Path, _: str, with_figures: bool) -> None:
    counters, launches = (load(folder / f"{Path(name).name}.json") for name in COUNTED)
    for family in by_family(counters):
        tables = [short_table(family, launches, "short", "title")]
        tables += [full_table(family, launches, "full", "title")]
        tables += [asked_for_table(family, COUNTERS, "title")]
        look(table_files(tables, folder))
    assert all(note.isprintable() for note in neighbour_notes(launches))
    if with_figures:
        with house_style():
            for figure in (stalls_figure, roofline_figure):
                figure({"": (counters, launches)}, False).savefig(folder / "figure.svg")


@pytest.mark.parametrize("name", (*PASSES, *COUNTED))
def test_every_field_of_a_result_file(name, tmp_path):
    draw = draw_counters if name in COUNTED else draw_run
    for other in (*PASSES, *COUNTED):
        if other.split("/")[0] == name.split("/")[0]:
            damaged.write(tmp_path, other, json.dumps(small(other)))
    draw(tmp_path, name, True)
    file = tmp_path / f"{Path(name).name}.json"
    refused, shown = try_all(damaged.damaged(small(name)), file, lambda f: draw(tmp_path, name, f))
    assert refused > 1000 / damaged.SAMPLED and shown > 100 / damaged.SAMPLED


def test_every_field_of_the_table_of_counters(tmp_path, monkeypatch):
    table = tmp_path / "table/counters.json"
    table.parent.mkdir()
    monkeypatch.setattr(counter_table, "TABLE", table)
    for name in COUNTED:
        damaged.write(tmp_path, name, json.dumps(small(name)))
    root = json.loads((ROOT / "data/counters.json").read_text())

    def draw(with_figures):
        known.cache_clear()
        draw_counters(tmp_path, "", False)

    try:
        assert all(try_all(damaged.sampled(root, 60), table, draw))
    finally:
        known.cache_clear()


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.json")))
def test_every_field_of_a_source(name, recorded_runs, recorded_evidence, tmp_path, monkeypatch):
    """Claims, numbers, and the tables of its experiments."""
    monkeypatch.setattr("plots.neighbours.counters_for", lambda times: None)  # of results alone
    root = json.loads((FOLDER / f"{name}.json").read_text())
    file, runs = tmp_path / f"{name}.json", {n: r for n, r in recorded_runs.items() if r.decisions}

    def draw(with_figures):
        spoilt = load_source(file)
        sources = [spoilt if source.id == spoilt.id else source for source in load_sources()]
        decisions = decide(recorded_evidence, [spoilt])
        tables = [claims_table("claims", "title", decisions, CLAIM_DETAILS, tmp_path)]
        tables.append(published_numbers.table("numbers", decisions))
        claim_details.page(decisions, tmp_path)
        for n, run in runs.items():
            if run.source.id == spoilt.id:
                again = replace(run, decisions=decide(recorded_evidence, sources, n))
                tables += all_tables(n, again, CLAIM_DETAILS, tmp_path)
                for _, figure in experiment(n).FIGURES.values() if with_figures else ():
                    figure(again)
        look({Path(f"{table.name}.md"): markdown(table).encode() for table in tables})

    refused, _ = try_all(damaged.sampled(root, 20), file, draw)
    assert refused
    if name == "paper":  # a share of no model is not drawn
        for claim in root["claims"]:
            if claim["id"] == "dequantization-overhead":
                del claim["comparisons"][0]["cells"][0]["at"]["model"]
        file.write_text(json.dumps(root))
        draw(True)


@pytest.mark.parametrize("name", recorded_names())
def test_no_bytes_at_all(name, recorded_evidence, tmp_path):
    """Of whatever was recorded: one line that names the file."""
    for file in (RECORDED / name).glob("*.json"):
        results = json.loads(file.read_text())
        for row in results.get("records", ()):
            row["bytes"] = {"read": 0, "written": 0}
        (tmp_path / file.name).write_text(json.dumps(results))
    if name == "end_to_end":  # whose tables need none
        load_run(name, tmp_path, evidence=recorded_evidence)
        return
    with pytest.raises(InputError, match=rf"^{tmp_path}/.*\.bytes are all 0") as error:
        load_run(name, tmp_path, evidence=recorded_evidence)
    assert "\n" not in str(error.value)

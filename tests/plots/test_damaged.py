"""Files with one damaged field: the output is valid, or an error of one line names the field. A
sample of all damages; FUZZ=all in the environment tests every one, which takes hours.
"""

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from edited import RECORDED, Edited, few, look, recorded_names

from reprolab.claims.evidence import collect, machines
from reprolab.claims.ledger import decide
from reprolab.claims.published import FOLDER, load_source, load_sources
from plots import claim_details
from plots.bandwidth import bandwidth_table
from plots.counter_tables import asked_for_table
from plots.documents import markdown, table_files
from plots.experiments import CLAIM_DETAILS, all_tables, experiment, figure_files, load_run
from plots.ledger import claims_table, machine_table
from plots.single_files import kernel_list
from reprolab import counter_table, declared
from reprolab.counter_table import known
from reprolab.errors import InputError
from reprolab.results import result_files
from reprolab.json_files import ROOT

ALL = os.environ.get("FUZZ") == "all"
EVERY = 20  # of the variants that have tables, one's figures are drawn too
PASSES = ("table2/replay", "transpose/matrix", "transpose/sizes")
PASSES += ("counters/nf4_counters", "counters/nf4_launches")
# Fields that tables calculate with are damaged first.
COUNTERS = ("active_warps", "achieved_occupancy", "warps_launched", "warp_instructions")
COUNTERS += ("stall_wait", "branches", "l2_hit_rate")

# As JSON text, because some of it has no Python value.
ODD = {
    "null": "null",
    "true": "true",
    "minus one": "-1",
    "zero": "0",
    "tiny": "5e-324",
    "huge": "1e308",
    "infinite": "1e999",
    "huge integer": "1" + "0" * 400,
    "long integer": "1" + "0" * 300,
    "NaN": "NaN",
    "an empty text": '""',
    # A new line, a terminal's commands, half a character, a column and raw HTML, mathematics.
    "an odd text": r'"=a\nb\u001b[31m\u0085\u202e\ud800 | `<b>` $\\frac$ \\"',
    "a long text": '"' + "x" * 100_000 + '"',
    "an empty list": "[]",
    "an empty object": "{}",
    "a list": "[null, 1]",
    "a list of texts": r'["\n"]',
    "an object": '{"name": 1}',
    "a deep list": "[" * 10_000 + "]" * 10_000,
    "a less deep list": "[" * 300 + "]" * 300,
}
PLACE = "@@the place@@"

Place = tuple[str | int, ...]


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Every field, and every item of a list; only the first of samples and similar lists."""
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, (*path, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            if i == 0 or isinstance(item, dict):
                yield from places(item, (*path, i))


def parent_of(file: Any, path: Place) -> Any:
    for step in path[:-1]:
        file = file[step]
    return file


def ways(file: dict[str, Any], path: Place) -> Iterator[tuple[str, str]]:
    """The damage to a field, and the file's text: odd, repeated, or missing."""
    where = ".".join(map(str, path)) or "the file"
    if not path:
        yield from ((f"{where}: {damage}", text) for damage, text in ODD.items())
        return
    spoilt = copy.deepcopy(file)
    parent_of(spoilt, path)[path[-1]] = PLACE
    text = json.dumps(spoilt)
    for damage, odd in ODD.items():
        yield f"{where}: {damage}", text.replace(f'"{PLACE}"', odd)
    if isinstance(path[-1], str):
        twice = f'"{path[-1]}": "{PLACE}"', f'"{path[-1]}": null, "{path[-1]}": null'
        assert twice[0] in text
        yield f"{where}: twice", text.replace(*twice)
    spoilt = copy.deepcopy(file)
    del parent_of(spoilt, path)[path[-1]]
    yield f"{where}: left out", json.dumps(spoilt)


def damaged(file: dict[str, Any], most: int) -> Iterator[tuple[str, str]]:
    """One damage of each of some fields, always the same ones; with FUZZ=all, every one of each."""
    paths, rng = list(places(file)), random.Random(1)
    for path in paths if ALL else rng.sample(paths, most):
        damages = list(ways(file, path))
        yield from damages if ALL else [rng.choice(damages)]


def small(name: str) -> dict:
    """For each of two problems one row of each kind, and the two compared kernels, with few
    counters.
    """
    file, kept = few(name), {}
    problems = list(dict.fromkeys(r["problem"]["name"] for r in file["records"]))[:2]
    for row in file["records"]:
        compared = row["kernel"] in ("branch_tree", "shared_lut")
        kind = row["kernel"] if compared else (row["outcome"], row["origin"]["kind"])
        if row["problem"]["name"] in problems:
            kept.setdefault((row["problem"]["name"], kind), row)
    for row in kept.values():
        if name.endswith("_counters"):
            row["metrics"] = [m for m in row["metrics"] if m["name"] in COUNTERS]
            row["metrics"].sort(key=lambda m: COUNTERS.index(m["name"]))
        for metric in [m for m in row["metrics"] if "samples" in m]:
            metric["samples"] = metric["samples"][:3]
    keys = {row["key"] for row in kept.values()}
    checks = [check for check in file["checks"] if keys >= set(check["keys"])]
    return file | {"records": list(kept.values()), "checks": checks[:1]}


def try_all(
    damages: Iterator[tuple[str, str]], file: Path, draw: Callable[[bool], None]
) -> tuple[int, int]:
    """The numbers of refused and of accepted texts."""
    refused, shown = 0, 0
    for damage, text in damages:
        file.write_text(text, encoding="utf-8")
        try:
            draw(shown % EVERY == EVERY - 1)
            shown += 1
        except InputError as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 1000, damage
            assert str(file.parent) in str(error), damage
        except Exception as error:
            raise AssertionError(f"{file.name}: {damage}") from error
    return refused, shown


def draw_run(folder: Path, name: str, with_figures: bool) -> None:
    """Every table of the run in the folder."""
    experiment_name, pass_name = name.split("/")
    run = load_run(experiment_name, folder)
    tables = all_tables(experiment_name, run, CLAIM_DETAILS, folder)
    tables += [machine_table(e, "machine", CLAIM_DETAILS, folder) for e in machines([folder])]
    tables += [kernel_list([run[pass_name]]), bandwidth_table(run[pass_name], "bench", "")]
    tables.append(asked_for_table(run[pass_name], COUNTERS, "title"))
    look(table_files(tables, folder))
    if with_figures:
        for content in figure_files(experiment_name, run, folder, ("svg",)).values():
            ElementTree.fromstring(content)


def write_small(folder: Path, name: str) -> None:
    """The passes of the experiment that a pass is of."""
    experiment_name, _ = name.split("/")
    passes, _ = declared.experiment(experiment_name).passes_in(RECORDED / experiment_name)
    for pass_name in passes:
        content = json.dumps(small(f"{experiment_name}/{pass_name}"))
        (folder / f"{pass_name}.json").write_text(content, encoding="utf-8")


@pytest.mark.parametrize("name", PASSES)
def test_every_field_of_a_result_file(name, tmp_path):
    write_small(tmp_path, name)
    draw_run(tmp_path, name, True)
    file = tmp_path / f"{Path(name).name}.json"
    refused, shown = try_all(damaged(small(name), 100), file, lambda f: draw_run(tmp_path, name, f))
    assert refused > 50 and shown


def test_every_field_of_the_table_of_counters(tmp_path, monkeypatch):
    table = tmp_path / "table/counters.json"
    table.parent.mkdir()
    monkeypatch.setattr(counter_table, "TABLE", table)
    write_small(tmp_path, "counters/nf4_counters")
    root = json.loads((ROOT / "data/counters.json").read_text())

    def draw(with_figures):
        known.cache_clear()
        draw_run(tmp_path, "counters/nf4_counters", with_figures)

    try:
        assert all(try_all(damaged(root, 60), table, draw))
    finally:
        known.cache_clear()


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """Some rows of every recorded experiment."""
    folder = tmp_path_factory.mktemp("evidence")
    for name in recorded_names():
        Edited(name, folder / name).write()
    return collect(result_files(folder))


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.json")))
def test_every_field_of_a_source(name, evidence, tmp_path, monkeypatch):
    """Claims, numbers, and the tables of its experiments."""
    monkeypatch.setattr("plots.neighbours.pass_for", lambda *_: None)  # of results alone
    root = json.loads((FOLDER / f"{name}.json").read_text())
    file, folder = tmp_path / f"{name}.json", evidence.newest.file.parents[1]
    runs = {n: load_run(n, folder / n, evidence=evidence) for n in recorded_names()}

    def draw(with_figures):
        spoilt = load_source(file)
        sources = [spoilt if source.id == spoilt.id else source for source in load_sources()]
        decisions = decide(evidence, [spoilt])
        tables = [claims_table("claims", "title", decisions, CLAIM_DETAILS, tmp_path)]
        tables.append(claim_details.numbers_table("numbers", decisions))
        claim_details.page(decisions, tmp_path)
        for n, run in runs.items():
            if run.decisions and run.source.id == spoilt.id:
                again = replace(run, decisions=decide(evidence, sources, n))
                tables += all_tables(n, again, CLAIM_DETAILS, tmp_path)
                for _, figure in experiment(n).FIGURES.values() if with_figures else ():
                    figure(again)
        look({Path(f"{table.name}.md"): markdown(table).encode() for table in tables})

    refused, _ = try_all(damaged(root, 20), file, draw)
    assert refused
    if name == "paper":  # a share of no model is not drawn
        for claim in root["claims"]:
            if claim["id"] == "dequantization-overhead":
                del claim["comparisons"][0]["cells"][0]["at"]["model"]
        file.write_text(json.dumps(root))
        draw(True)

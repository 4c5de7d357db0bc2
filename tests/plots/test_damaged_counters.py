"""Counters with one damaged field: tables and notes that hold, or an error of one line."""

import copy
import json
from pathlib import Path

import counters_fixtures
import damaged
import made
import pytest
from looking import look

from plots.counter_tables import asked_for_table, full_table, short_table
from plots.counter_values import by_family
from plots.counters.figures import roofline_figure, stalls_figure
from plots.documents import table_files
from plots.figures import house_style
from plots.neighbours import neighbour_notes
from records import counter_table
from records.counter_table import known
from records.errors import InputError
from records.json_files import ROOT
from records.results import load

KEPT = (  # what tables calculate with comes first, and is damaged
    "active_warps",
    "achieved_occupancy",
    "warps_launched",
    "warp_instructions",
    "stall_wait",
    "branches",
    "pipe_fp16",
    counters_fixtures.EXTRA,
)
EVERY = 20  # of the variants that have tables, one's figures are drawn too


def few(name):
    """One layer and two kernels, of which the first is damaged: once it is the baseline."""
    file = copy.deepcopy(counters_fixtures.whole_run()[name])
    kernels = ("branch_tree", "shared_lut")
    layer = counters_fixtures.layer(*counters_fixtures.LAYERS[-1])["name"]
    rows = [made.find(file, f"{layer}/{kernel}") for kernel in kernels]
    for row in rows:
        if name == "nf4_counters":
            row["metrics"] = [m for m in row["metrics"] if m["name"] in KEPT]
            row["metrics"].sort(key=lambda m: KEPT.index(m["name"]))
    file["records"] = rows
    return file


def draw(folder: Path, with_figures: bool) -> None:
    counters, launches = (load(folder / f"nf4_{name}.json") for name in ("counters", "launches"))
    for family in by_family(counters):
        tables = [short_table(family, launches, "short", "title")]
        tables += [
            full_table(family, launches, "full", "title"),
        ]
        tables += [asked_for_table(family, KEPT, "title")]
        look(table_files(tables, folder))
    assert all(note.isprintable() for note in neighbour_notes(launches))
    if with_figures:
        with house_style():
            for figure in (stalls_figure, roofline_figure):
                figure({"": (counters, launches)}, False).savefig(folder / "figure.svg")


def metric_fields(file):
    """The places of `damaged` in the file's metrics that no place of the first one stands for."""
    for i in range(1, len(KEPT)):
        for text in damaged.ODD.values():
            spoilt = copy.deepcopy(file)
            found = spoilt["records"][0]["metrics"]
            if i < len(found) and "samples" in found[i]:
                found[i]["samples"] = [damaged.PLACE] * 3
                yield f"{found[i]['name']}: {text}", made_text(spoilt, text)


def made_text(file, odd):
    return json.dumps(file).replace(f'"{damaged.PLACE}"', odd)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Where data/counters.json is read from."""
    monkeypatch.setattr(counter_table, "TABLE", tmp_path / "counters.json")
    yield tmp_path / "counters.json"
    known.cache_clear()


def test_every_field_of_the_table_of_counters(write, table):
    folder = write("counters", few("nf4_counters"), few("nf4_launches"))
    root = json.loads((ROOT / "data/counters.json").read_text())
    refused, shown = 0, 0
    for what, text in damaged.sampled(root, 60):
        table.write_text(text)
        known.cache_clear()
        try:
            draw(folder, False)
            shown += 1
        except InputError as error:
            refused += 1
            assert str(error).startswith(f"{table}: ") and len(str(error)) < 1000, what
        except Exception as error:
            raise AssertionError(what) from error
    assert refused and shown


@pytest.mark.parametrize("name", ["nf4_counters", "nf4_launches"])
def test_every_field(name, write):
    folder = write("counters", few("nf4_counters"), few("nf4_launches"))
    draw(folder, True)
    refused, shown = 0, 0
    file = few(name)
    for what, text in [*damaged.damaged(file), *metric_fields(file)]:
        damaged.write(folder, name, text)
        try:
            draw(folder, shown % EVERY == EVERY - 1)
            shown += 1
        except InputError as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 1000, what
        except Exception as error:
            raise AssertionError(f"{name}: {what}") from error
    assert refused > 1000 / damaged.SAMPLED and shown > 100 / damaged.SAMPLED

"""The sources' files: their contents, and the errors for invalid ones."""

import math
import re
from dataclasses import replace

import made
import pytest

from reprolab import declared
from reprolab.claims.evidence import Evidence
from reprolab.claims.ledger import decide
from reprolab.claims.published import is_below, load_sources, numbers_without_cell

SEE = "(see data/published.schema.json)"


@pytest.fixture(scope="module")
def sources():
    return {source.id: source for source in load_sources()}


def test_a_number_has_a_direction_and_a_statement_has_no_number(sources):
    wrong = {
        (claim.id, cell.text)
        for source in sources.values()
        for claim in source.claims
        for c in claim.comparisons
        for cell in c.cells
        # the order of two kernels in time is asked for, whatever the number
        if (cell.value is None) != (c.direction == "statement") and claim.id != "l2-explains-l4"
    }
    assert not wrong


def test_the_primary_reading_is_declared_once_and_its_reason_names_no_result(sources):
    """A reason that depends on a result would choose the verdict."""
    for claim in (claim for source in sources.values() for claim in source.claims):
        if len(claim.readings) > 1:
            first, *others = claim.readings
            assert first.primary_because and not first.own_measurement
            assert not re.search(r"\d+\.\d|reproduced|faster|slower", first.primary_because)
            assert not any(reading.primary_because for reading in others)


def test_measurements_of_our_own_are_no_readings_of_the_paper(sources):
    readings = [
        (claim.id, reading.name)
        for claim in sources["paper"].claims
        for reading in claim.readings
        if reading.own_measurement
    ]
    assert len({name for _, name in readings}) == 1
    assert len(readings) == 5


def test_a_remark_is_one_short_sentence(sources):
    for source in sources.values():
        for claim in source.claims:
            assert not re.search(r"[.!?] +[A-Z]", claim.remark), claim.remark
            assert not claim.remark.endswith(".") and len(claim.remark) <= 260


def test_no_reason_excuses_what_needs_none(sources):
    for source in sources.values():
        for path in source.without_cell:
            left = {k: v for k, v in source.without_cell.items() if k != path}
            unexcused = numbers_without_cell(replace(source, without_cell=left))
            assert any(is_below(p, path) for p in unexcused), f"{path}: compared, or excused twice"


def test_two_fills_may_differ_by_what_table_2_varies_by(sources):
    """The difference of a model's smallest speed-up from its largest, rounded up."""
    rows = [made.raw("paper")["tables"]["table2"][model] for model in sources["paper"].models]
    columns = [[row[str(batch)] for batch in sources["paper"].every("batch")] for row in rows]
    spread = max(100 * (1 - min(column) / max(column)) for column in columns)
    (fill,) = (c for c in sources["paper"].claims if c.id == "single-thread-fill")
    assert fill.comparisons[1].tolerance_percent == math.ceil(10 * spread) / 10 == 2.3


def test_the_posts_gb_per_s_are_601_gb_over_its_seconds(sources):
    results = sources["modular_blog"].tables["results"]
    moved = 123331584000 + 478150656000  # read and written, as our rows count it: 601.48 GB
    both = [
        (row[f"{k}_s"], row[f"{k}_gb_s"]) for row in results.values() for k in ("unsloth", "mojo")
    ]
    assert len(both) == 8
    assert [round(moved / 1e9 / gb_s, 2) for _, gb_s in both] == [seconds for seconds, _ in both]
    gains = [row["mojo_gb_s"] / row["unsloth_gb_s"] for row in results.values()]
    assert [round(gain, 2) for gain in gains] == [row["speedup"] for row in results.values()]


def test_the_layers_are_those_that_the_experiment_counts(sources):
    passes = declared.experiment("counters").passes.values()
    layers = sources["paper"].setup["layers"]
    counted = "|".join(f"{layer['rows']}x{layer['columns']}/*" for layer in layers)
    assert [counted in step.arguments for step in passes].count(True) == 2


def first(paper, name):
    """The claim's first comparison."""
    return made.claim_in(paper, name)["comparisons"][0]


CASES = {
    "tables has no 'figure5'": lambda p: first(p, "end-to-end")["cells"][0].update(
        each_of="figure5"
    ),
    "other levels": lambda p: first(p, "kernel-speedup")["cells"][0].update(names=["batch"]),
    "tolerance": lambda p: first(p, "kernel-speedup").update(tolerance_percent=-1),
    "no cell": lambda p: p["tables"].update(planted={"deep": 3.5}),
    # An argument names one number of Figure 4, which excuses no other.
    "no cell in a figure": lambda p: p["tables"]["figure4"]["qwen3-32b"]["32"].update(planted=3.5),
    "without_cell of nothing": lambda p: p["without_cell"].update(planted="why"),
    "no cycles": lambda p: p["setup"]["our_kernels"]["latency_cycles"].pop("shared_read"),
    "no time": lambda p: p["tables"]["figure4"]["llama-3.3-70b"]["2"].pop("optimized_s"),
    "two of one id": lambda p: p["claims"].append(p["claims"][0]),
    "model": lambda p: first(p, "qmatmul-72")["cells"][0]["at"].update(model="gpt-2"),
    "value_of": lambda p: first(p, "model-size")["cells"][0]["value"].update(
        value_of="figure4/nothing"
    ),
    "primary": lambda p: p["claims"][0]["readings"][0].pop("primary_because"),
    "reading": lambda p: first(p, "kernel-speedup").update(reading="tiles of 512 bits"),
    "batches": lambda p: p["setup"].pop("batches"),
    "rule": lambda p: first(p, "token-exact").update(rule="is_nice"),
    "an argument too few": lambda p: first(p, "kernel-speedup")["arguments"].pop("baseline"),
    "an argument too many": lambda p: first(p, "token-exact")["arguments"].update(baseline="a"),
}


@pytest.mark.parametrize("spoil", CASES.values(), ids=CASES.keys())
def test_a_wrong_source_is_one_line_that_names_the_file(write, spoil, refused):
    """The golden message of each names the claim or the number."""
    error = refused(lambda: decide(Evidence({}), [made.paper(write, spoil)]))
    assert "/paper.json: " in error


def test_a_folder_without_sources(tmp_path, refused):
    assert "source" in refused(load_sources, tmp_path)

"""The sources' files: their contents, and the errors for invalid ones."""

import math
import re
from dataclasses import replace

import made
import pytest

from claims.evidence import Evidence
from claims.ledger import decide
from claims.published import is_below, load_sources, numbers_without_cell
from records import declared
from records.errors import InputError

SEE = "(see data/published.schema.json)"


@pytest.fixture(scope="module")
def sources():
    return {source.id: source for source in load_sources()}


def test_a_number_has_a_direction_and_a_statement_has_no_number(sources):
    found = {
        (claim.id, cell.text)
        for source in sources.values()
        for claim in source.claims
        for c in claim.comparisons
        for cell in c.cells
        # the order of two kernels in time is asked for, whatever the number
        if (cell.value is None) != (c.direction == "statement") and claim.id != "l2-explains-l4"
    }
    assert not found


def test_the_primary_reading_is_declared_once_and_its_reason_names_no_result(sources):
    """A reason that depends on a result would choose the verdict."""
    for claim in (claim for source in sources.values() for claim in source.claims):
        if len(claim.readings) > 1:
            first, *others = claim.readings
            assert first.primary_because and not first.own_measurement
            assert not re.search(r"\d+\.\d|reproduced|faster|slower", first.primary_because)
            assert not any(reading.primary_because for reading in others)


def test_measurements_of_our_own_are_no_readings_of_the_paper(sources):
    own = [
        (claim.id, reading.name)
        for claim in sources["paper"].claims
        for reading in claim.readings
        if reading.own_measurement
    ]
    assert {name for _, name in own} == {"decoding steps in a CUDA graph"}
    assert len(own) == 5


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
    spread = max(100 * (1 - min(found) / max(found)) for found in columns)
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


CASES = [
    (
        lambda p: first(p, "end-to-end")["cells"][0].update(each_of="figure5"),
        "claim 'end-to-end': tables has no numbers below 'figure5'",
    ),
    (
        lambda p: first(p, "kernel-speedup")["cells"][0].update(names=["batch"]),
        "claim 'kernel-speedup': 'each_of' table2: 'table2/gemma-27b/2' has other levels",
    ),
    (
        lambda p: first(p, "kernel-speedup").update(tolerance_percent=-1),
        "claims[0].comparisons[0].tolerance_percent must be bigger than or equal to 0, not -1 "
        f"{SEE}",
    ),
    (
        lambda p: p["tables"].update(planted={"deep": 3.5}),
        "tables: no cell compares 'planted/deep': say why in without_cell",
    ),
    (  # an argument names one number of Figure 4, which excuses no other
        lambda p: p["tables"]["figure4"]["qwen3-32b"]["32"].update(planted=3.5),
        "tables: no cell compares 'figure4/qwen3-32b/32/planted': say why in without_cell",
    ),
    (
        lambda p: p["without_cell"].update(planted="why"),
        "without_cell: tables has no numbers below 'planted'",
    ),
    (
        lambda p: p["setup"]["our_kernels"]["latency_cycles"].pop("shared_read"),
        "setup.our_kernels.latency_cycles and tables do not both have 'shared_read'",
    ),
    (
        lambda p: p["tables"]["figure4"]["llama-3.3-70b"]["2"].pop("optimized_s"),
        "tables.figure4.llama-3.3-70b.2 ",
    ),
    (lambda p: p["claims"].append(p["claims"][0]), "claim 'kernel-speedup' comes a second time"),
    (
        lambda p: first(p, "qmatmul-72")["cells"][0]["at"].update(model="gpt-2"),
        "claim 'qmatmul-72': model 'gpt-2' is none of setup.models: gemma-27b, qwen3-32b, "
        "llama-3.3-70b",
    ),
    (
        lambda p: first(p, "model-size")["cells"][0]["value"].update(value_of="figure4/nothing"),
        "claim 'model-size': tables has no number 'figure4/nothing'",
    ),
    (
        lambda p: p["claims"][0]["readings"][0].pop("primary_because"),
        "claim 'kernel-speedup': readings: one of the source's must be primary",
    ),
    (
        lambda p: first(p, "kernel-speedup").update(reading="tiles of 512 bits"),
        "claim 'kernel-speedup': readings and comparisons do not agree on the reading 'tiles of",
    ),
    (
        lambda p: p["setup"].pop("batches"),
        "claim 'kernel-speedup': 'average' needs a list of every batch in setup",
    ),
    (
        lambda p: first(p, "token-exact").update(rule="is_nice"),
        "claim 'token-exact': there is no rule 'is_nice'; there are ratio_within, share_not_above",
    ),
    (
        lambda p: first(p, "kernel-speedup")["arguments"].pop("baseline"),
        "claim 'kernel-speedup': rule ratio_within: missing a required argument: 'baseline'",
    ),
    (
        lambda p: first(p, "token-exact")["arguments"].update(baseline="branch_tree"),
        "claim 'token-exact': rule output_equal: got an unexpected keyword argument 'baseline'",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), CASES, ids=[text[:50] for _, text in CASES])
def test_a_wrong_source_is_one_line_that_names_file_and_claim(write, spoil, message, refused):
    said = refused(lambda: decide(Evidence({}), [made.paper(write, spoil)]))
    assert said.startswith(f"{write('paper.json', {})}: {message}")


def test_a_folder_without_sources(tmp_path):
    with pytest.raises(InputError, match="holds no source"):
        load_sources(tmp_path)

"""The sources' files: what is in them, and what a wrong one is answered with."""

import copy
import json
import math
import re

import made
import pytest

from claims.errors import InputError
from claims.evidence import Evidence
from claims.json_files import ROOT
from claims.ledger import decide
from claims.published import (
    NAMED_GPU,
    command_of,
    load_source,
    load_sources,
    numbers_of,
    numbers_without_cell,
)
from claims.rules import DIRECTIONS, RULES

SEE = "(see data/published.schema.json)"
MAKERS = ("unsloth", "mojo")
NAMES = ("paper", "modular_blog", "transpose_blog")
PAPER = made.raw("paper")


@pytest.fixture(scope="module")
def sources():
    return {source.id: source for source in load_sources()}


def claim_of(source, name):
    return next(claim for claim in source.claims if claim.id == name)


def test_three_sources_and_53_claims(sources):
    counts = {name: len(source.claims) for name, source in sources.items()}
    assert counts == {"paper": 35, "modular_blog": 11, "transpose_blog": 7}


def test_every_comparison_declares_a_rule_a_direction_and_a_scope(sources):
    decide(Evidence({}), list(sources.values()))  # registers the rules that the claims name
    for source in sources.values():
        for claim in source.claims:
            assert claim.text and bool(claim.section) == (source.id == "paper")
            for c in claim.comparisons:
                assert c.rule in RULES and c.cells and c.experiment
                assert c.direction in (*DIRECTIONS, "statement")
                assert c.scope in ("any_gpu", NAMED_GPU)
                assert all(bool(cell.gpu) == (c.scope == NAMED_GPU) for cell in c.cells)


def test_a_number_has_a_direction_and_a_statement_has_no_number(sources):
    """An L1 hit's latency is asked for beside the source's two numbers."""
    found = {
        (claim.id, cell.text)
        for source in sources.values()
        for claim in source.claims
        for c in claim.comparisons
        for cell in c.cells
        # the order of two kernels in time is asked for, whatever the number
        if (cell.value is None) != (c.direction == "statement") and claim.id != "l2-explains-l4"
    }
    assert found == {("latency-12-15", "global_l1, shared_load")}


def test_every_reading_is_declared_for_all_of_a_claim_or_for_none(sources):
    """A verdict in one reading alone would stand beside one that has no reading."""
    for claim in (claim for source in sources.values() for claim in source.claims):
        readings = {c.reading for c in claim.comparisons}
        assert readings == {""} or ("" not in readings and len(readings) > 1)


def test_a_remark_is_one_short_sentence(sources):
    for source in sources.values():
        for claim in source.claims:
            assert not re.search(r"[.!?] +[A-Z]", claim.remark), claim.remark
            assert not claim.remark.endswith(".") and len(claim.remark) <= 260


@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_nothing_compares_is_found(name):
    root = made.raw(name)
    root["tables"]["planted"] = {"deep": {"inside": 3.5}}
    root["tables"] |= {"planted_alone": 2}
    assert numbers_without_cell(root) == ["planted/deep/inside", "planted_alone"]


def test_a_number_planted_in_a_table_that_claims_compare_is_found():
    """An argument names one number of Figure 4, which excuses no other."""
    paper = made.raw("paper")
    paper["tables"]["figure4"]["qwen3-32b"]["32"]["planted"] = 3.5
    paper["tables"]["latency_cycles"]["planted"] = 3.5
    assert numbers_without_cell(paper) == ["latency_cycles/planted", "figure4/qwen3-32b/32/planted"]
    post = made.raw("modular_blog")
    post["tables"]["results"]["L4"]["planted_s"] = 3.5
    assert numbers_without_cell(post) == ["results/L4/planted_s"]


@pytest.mark.parametrize("name", NAMES)
def test_no_reason_excuses_what_needs_none(name):
    root = made.raw(name)
    every = set(numbers_of(root["tables"]))
    for path in root.get("without_cell", {}):
        left = {k: v for k, v in root["without_cell"].items() if k != path}
        unexcused = numbers_without_cell(root | {"without_cell": left})
        below = {p for p in every if p == path or p.startswith(path + "/")}
        assert below, f"{path} is no number"
        assert below & set(unexcused), f"{path} is compared, or excused twice"


def test_every_model_is_one_that_we_know(sources):
    known = {m["id"] for m in json.loads((ROOT / "data/models/models.json").read_text())["models"]}
    ours = sources["paper"].every("model")
    assert ours == ["gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b"]
    assert set(ours) <= known


def test_the_replays_protocol(sources):
    setup = sources["paper"].setup
    assert setup["batches"] == [2, 4, 8, 16, 32, 64]
    assert (setup["warmup_passes"], setup["profiled_passes"]) == (1, 3)


def test_table_2_has_a_cell_for_each_of_our_models_in_each_reading(sources):
    readings = claim_of(sources["paper"], "kernel-speedup").comparisons
    assert [c.arguments["subject"] for c in readings] == ["shared_lut", "shared_lut_tile512"]
    assert readings[0].cells == readings[1].cells
    cells = readings[0].cells
    assert len(cells) == 28
    values = {(cell.at["model"], cell.at["batch"]): cell.value for cell in cells}
    assert values["gemma-2-27b", 64] == values["gemma-3-27b", 64] == 2.08
    assert values["qwen3-32b", 2] == 2.2
    assert values["llama-3.3-70b", "average"] == 2.04
    # All of one model, then all of the next, the average last.
    assert [cell.at["batch"] for cell in cells[:7]] == [2, 4, 8, 16, 32, 64, "average"]
    assert [cell.at["model"] for cell in cells[6:8]] == ["gemma-2-27b", "gemma-3-27b"]
    assert cells[7].model == "gemma-27b"


def test_two_fills_may_differ_by_what_table_2_varies_by(sources):
    """By so much the smallest of a model's speed-ups is below its largest, rounded up."""
    rows = [made.raw("paper")["tables"]["table2"][model] for model in sources["paper"].models]
    columns = [[row[str(batch)] for batch in sources["paper"].every("batch")] for row in rows]
    spread = max(100 * (1 - min(found) / max(found)) for found in columns)
    fill = claim_of(sources["paper"], "single-thread-fill").comparisons[1]
    assert fill.tolerance_percent == math.ceil(10 * spread) / 10 == 2.3


def test_the_posts_gb_per_s_are_601_gb_over_its_seconds(sources):
    results = sources["modular_blog"].tables["results"]
    moved = 123331584000 + 478150656000  # read and written, as our rows count it: 601.48 GB
    both = [(row[f"{k}_s"], row[f"{k}_gb_s"]) for row in results.values() for k in MAKERS]
    assert len(both) == 8
    assert [round(moved / 1e9 / seconds, 1) for seconds, _ in both] == [gb_s for _, gb_s in both]
    gains = [row["unsloth_s"] / row["mojo_s"] for row in results.values()]
    assert [round(gain, 2) for gain in gains] == [row["speedup"] for row in results.values()]


def test_merged_claims_are_no_claims_of_their_own(sources):
    names = [claim.id for source in sources.values() for claim in source.claims]
    assert len(set(names)) == len(names)
    gone = "algorithm-1 amortised-fill same-tokens qmatmul-72-generating"
    gone += " baseline-reads-lut-from-global latency-and-throughput"
    assert not {*gone.split()} & {*names}
    experiments = {c.id: c.experiments for c in sources["paper"].claims}
    assert experiments["qmatmul-72"] == experiments["token-exact"] == ["table2", "end_to_end"]
    assert experiments["single-thread-fill"] == ["table2", "counters"]


def test_a_likely_misprint_is_a_note(sources):
    notes = {note.about: note.text for note in sources["paper"].notes}
    assert "absmax[blockIdx]" in notes["Algorithm 1, line 12"]
    assert "not counted as a claim" in notes["Algorithm 1, line 12"]


def test_all_and_average_stand_for_every_batch_and_model(sources):
    paper = sources["paper"]
    average = claim_of(paper, "kernel-speedup").cells[6]
    assert [at["batch"] for at in average.places] == [2, 4, 8, 16, 32, 64]
    every = claim_of(paper, "single-thread-fill").cells[0]
    assert len(every.places) == 24
    assert every.places[0] == {"model": "gemma-2-27b", "batch": 2}
    assert (average.text, every.text) == ("gemma-2-27b, average", "model all, batch all")


def test_a_layer_is_found_by_its_rows_and_columns(sources):
    every = claim_of(sources["paper"], "memory-bound").cells[0]
    assert every.text == "layer all"
    assert [tuple(at.values()) for at in every.places] == [
        *((36864, 4608), (21504, 5376), (25600, 5120), (28672, 8192))
    ]
    assert {tuple(at) for at in every.places} == {("rows", "columns")}


def test_the_layers_are_those_that_the_experiment_counts(sources):
    passes = (ROOT / "experiments/counters/passes").read_text()
    layers = sources["paper"].setup["layers"]
    counted = "|".join(f"{layer['rows']}x{layer['columns']}/*" for layer in layers)
    assert passes.count(f"--problem {counted} ") == 2


def test_values_that_stand_in_tables(sources):
    post, blog = sources["transpose_blog"], sources["modular_blog"]
    assert claim_of(post, "swizzle").cells[0].value == 1437.55 / 1056.08
    assert claim_of(post, "mojo-is-cuda-like").cells[0].value == 2775.49 / 2771.35
    speedups = [found["speedup"] for found in blog.tables["results"].values()]
    assert claim_of(blog, "mojo-1.07-1.84").cells[0].value == min(speedups) == 1.07
    figure4 = {c.text: c.value for c in claim_of(sources["paper"], "end-to-end").cells}
    assert figure4["llama-3.3-70b, batch 2"] == 1.54


def test_the_command_says_where_an_experiment_is_not_there_yet():
    assert command_of("table2") == "make reproduce-table2"
    assert command_of("none") == "make reproduce-none (not in this version)"


def first(paper, name):
    """The claim's first comparison."""
    return made.claim_in(paper, name)["comparisons"][0]


def place_of(name):
    return f"claims[{[claim['id'] for claim in PAPER['claims']].index(name)}]"


CASES = [
    (lambda p: p.pop("title"), f"the file lacks 'title' {SEE}"),
    (
        lambda p: first(p, "token-exact").pop("direction"),
        f"{place_of('token-exact')}.comparisons[0] lacks 'direction' {SEE}",
    ),
    (
        lambda p: first(p, "token-exact").update(scope="some_gpu"),
        f"{place_of('token-exact')}.comparisons[0].scope must be one of any_gpu, named_gpu, not "
        f'"some_gpu" {SEE}',
    ),
    (
        lambda p: made.claim_in(p, "end-to-end").update(remark="a" * 261),
        f"{place_of('end-to-end')}.remark must be shorter than or equal to 260 characters, not ",
    ),
    (
        lambda p: first(p, "end-to-end")["cells"][0].update(each_of="figure5"),
        "claim 'end-to-end': tables has no numbers below 'figure5'",
    ),
    (
        lambda p: first(p, "kernel-speedup")["cells"][0].update(names=["batch"]),
        "claim 'kernel-speedup': 'each_of' table2: 'table2/gemma-27b/2' has other levels",
    ),
    (
        lambda p: first(p, "token-exact")["arguments"].pop("pass"),
        f"{place_of('token-exact')}.comparisons[0].arguments lacks 'pass' {SEE}",
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
        lambda p: p["setup"].pop("batches"),
        "claim 'kernel-speedup': 'average' needs a list of every batch in setup",
    ),
    (
        lambda p: first(p, "token-exact").update(rule="is_nice"),
        "claim 'token-exact': there is no rule 'is_nice'; there are ratio_within, gain_in_speed",
    ),
    (
        lambda p: first(p, "token-exact").update(rule="nowhere.is_nice"),
        "claim 'token-exact': there is no rule 'nowhere.is_nice'; there are ratio_within",
    ),
    (
        lambda p: first(p, "token-exact").update(rule="a.b.c"),
        "claim 'token-exact': there is no rule 'a.b.c'; there are ratio_within",
    ),
    (
        lambda p: first(p, "token-exact").update(rule="..x"),
        "claim 'token-exact': there is no rule '..x'; there are ratio_within",
    ),
    (
        lambda p: first(p, "kernel-speedup")["arguments"].pop("baseline"),
        "claim 'kernel-speedup': rule ratio_within: missing a required argument: 'baseline'",
    ),
    (
        lambda p: first(p, "kernel-speedup").pop("tolerance_percent"),
        "claim 'kernel-speedup': rule ratio_within: missing a required argument: "
        "'tolerance_percent'",
    ),
    (
        lambda p: first(p, "qmatmul-72")["cells"][0].pop("value"),
        "claim 'qmatmul-72': rule share_within: missing a required",
    ),
    (
        lambda p: first(p, "token-exact")["arguments"].update(baseline="branch_tree"),
        "claim 'token-exact': rule output_equal: got an unexpected keyword argument 'baseline'",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), CASES, ids=[text[:50] for _, text in CASES])
def test_a_wrong_source_is_one_line_that_names_file_and_claim(write, spoil, message):
    paper = copy.deepcopy(PAPER)
    spoil(paper)
    path = write("paper.json", paper)
    with pytest.raises(InputError) as error:
        decide(Evidence({}), [load_source(path)])
    text = str(error.value)
    assert text.removeprefix(f"{path}: ").startswith(message)
    assert text.startswith(f"{path}: ") and "\n" not in text


def test_a_folder_without_sources(tmp_path):
    with pytest.raises(InputError, match="holds no source"):
        load_sources(tmp_path)


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("paper", ("setup", "sm_clock_mhz"), [], "setup.sm_clock_mhz must be number"),
        (
            "paper",
            ("claims", 0, "comparisons", 0, "arguments", "metric"),
            ["x"],
            "claims[0].comparisons[0].arguments.metric must be",
        ),
        (
            "paper",
            ("claims", 0, "comparisons", 0, "rule"),
            "r" * 10**6,
            "claims[0].comparisons[0].rule must be shorter than or",
        ),
        ("transpose_blog", ("setup", "our_kernels"), True, "setup.our_kernels must be object"),
        ("transpose_blog", ("tables", "cuda_gb_s", "tma_naive"), 0, "tables.cuda_gb_s.tma_naive"),
        (
            "transpose_blog",
            ("tables", "mojo_gb_s", "tma_swizzle"),
            True,
            "tables.mojo_gb_s.tma_swizzle must be",
        ),
    ],
)
def test_a_number_or_a_name_of_a_wrong_kind(write, name, place, value, message):
    file = json.loads((made.PUBLISHED / f"{name}.json").read_text())
    *parents, last = place
    parent = file
    for step in parents:
        parent = parent[step]
    parent[last] = value
    path = write(f"{name}.json", file)
    with pytest.raises(InputError) as error:
        load_source(path)
    assert str(error.value).startswith(f"{path}: {message}") and len(str(error.value)) < 300

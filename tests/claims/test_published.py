"""The sources' files: what is in them, and what a wrong one is answered with."""

import copy
import json

import made
import pytest

from claims.errors import InputError
from claims.evidence import Evidence
from claims.json_files import ROOT
from claims.ledger import decide
from claims.published import command_of, load_source, load_sources
from claims.rules import RULES

SEE = "(see data/published.schema.json)"
PAPER = json.loads((made.PUBLISHED / "paper.json").read_text())


@pytest.fixture(scope="module")
def sources():
    return {source.id: source for source in load_sources()}


def claim_of(source, name):
    return next(claim for claim in source.claims if claim.id == name)


def test_three_sources_and_44_claims(sources):
    counts = {name: len(source.claims) for name, source in sources.items()}
    assert counts == {"paper": 30, "modular_blog": 8, "transpose_blog": 6}


def test_every_claim_has_a_rule(sources):
    claims = [claim for source in sources.values() for claim in source.claims]
    decide(Evidence({}), list(sources.values()))  # registers the rules that the claims name
    for claim in claims:
        assert claim.text and claim.experiment and claim.cells
        assert claim.rule in RULES
    for source in sources.values():
        assert all(bool(claim.section) == (source.id == "paper") for claim in source.claims)


def test_every_model_is_one_that_we_know(sources):
    known = {m["id"] for m in json.loads((ROOT / "data/models/models.json").read_text())["models"]}
    ours = sources["paper"].every("model")
    assert ours == ["gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b"]
    assert set(ours) <= known


def test_the_replays_protocol(sources):
    setup = sources["paper"].setup
    assert setup["batches"] == [2, 4, 8, 16, 32, 64]
    assert (setup["warmup_passes"], setup["profiled_passes"]) == (1, 3)


def test_table_2_has_a_cell_for_each_of_our_models(sources):
    cells = claim_of(sources["paper"], "kernel-speedup").cells
    assert len(cells) == 28
    values = {(cell.at["model"], cell.at["batch"]): cell.value for cell in cells}
    assert values["gemma-2-27b", 64] == values["gemma-3-27b", 64] == 2.08
    assert values["qwen3-32b", 2] == 2.2
    assert values["llama-3.3-70b", "average"] == 2.04
    # All of one model, then all of the next, the average last.
    assert [cell.at["batch"] for cell in cells[:7]] == [2, 4, 8, 16, 32, 64, "average"]
    assert [cell.at["model"] for cell in cells[6:8]] == ["gemma-2-27b", "gemma-3-27b"]
    assert cells[7].model == "gemma-27b"


def test_all_and_average_stand_for_every_batch_and_model(sources):
    paper = sources["paper"]
    average = claim_of(paper, "kernel-speedup").cells[6]
    assert [at["batch"] for at in average.places] == [2, 4, 8, 16, 32, 64]
    (every,) = claim_of(paper, "single-thread-fill").cells
    assert len(every.places) == 24
    assert every.places[0] == {"model": "gemma-2-27b", "batch": 2}
    assert (average.text, every.text) == ("gemma-2-27b, average", "model all, batch all")


def test_a_layer_is_found_by_its_rows_and_columns(sources):
    (every,) = claim_of(sources["paper"], "memory-bound").cells
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


def claim(paper, name):
    return next(c for c in paper["claims"] if c["id"] == name)


CASES = [
    (lambda p: p.pop("title"), f"the file lacks 'title' {SEE}"),
    (lambda p: claim(p, "environment").update(rule=None), f"claims[29] lacks 'needs' {SEE}"),
    (lambda p: claim(p, "token-exact").pop("arguments"), f"claims[17] lacks 'arguments' {SEE}"),
    (
        lambda p: claim(p, "token-exact")["arguments"].pop("pass"),
        f"claims[17].arguments lacks 'pass' {SEE}",
    ),
    (
        lambda p: claim(p, "kernel-speedup").update(tolerance_percent=-1),
        f"claims[0].tolerance_percent must be bigger than or equal to 0, not -1 {SEE}",
    ),
    (lambda p: p["claims"].append(p["claims"][0]), "claim 'kernel-speedup' comes a second time"),
    (
        lambda p: claim(p, "qmatmul-72")["cells"][0]["at"].update(model="gpt-2"),
        "claim 'qmatmul-72': model 'gpt-2' is none of setup.models: gemma-27b, qwen3-32b, "
        "llama-3.3-70b",
    ),
    (
        lambda p: claim(p, "end-to-end")["cells"][0]["value"].update(value_of="figure4/nothing"),
        "claim 'end-to-end': tables has no number 'figure4/nothing'",
    ),
    (
        lambda p: p["setup"].pop("batches"),
        "claim 'kernel-speedup': 'average' needs a list of every batch in setup",
    ),
    (
        lambda p: claim(p, "token-exact").update(rule="is_nice"),
        "claim 'token-exact': there is no rule 'is_nice'; there are ratio_within, ratio_at_least",
    ),
    (
        lambda p: claim(p, "token-exact").update(rule="nowhere.is_nice"),
        "claim 'token-exact': there is no rule 'nowhere.is_nice'; there are ratio_within",
    ),
    (
        lambda p: claim(p, "token-exact").update(rule="a.b.c"),
        "claim 'token-exact': there is no rule 'a.b.c'; there are ratio_within",
    ),
    (
        lambda p: claim(p, "token-exact").update(rule="..x"),
        "claim 'token-exact': there is no rule '..x'; there are ratio_within",
    ),
    (
        lambda p: claim(p, "kernel-speedup")["arguments"].pop("baseline"),
        "claim 'kernel-speedup': rule ratio_within: missing a required argument: 'baseline'",
    ),
    (
        lambda p: claim(p, "kernel-speedup").pop("tolerance_percent"),
        "claim 'kernel-speedup': rule ratio_within: missing a required argument: "
        "'tolerance_percent'",
    ),
    (
        lambda p: claim(p, "qmatmul-72")["cells"][0].pop("value"),
        "claim 'qmatmul-72': rule share_within: missing a required",
    ),
    (
        lambda p: claim(p, "token-exact")["arguments"].update(baseline="branch_tree"),
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


def test_a_claim_without_a_rule_says_what_it_needs(write):
    paper = copy.deepcopy(PAPER)
    claim(paper, "environment").update(rule=None, needs="another machine")
    decisions = decide(Evidence({}), [load_source(write("paper.json", paper))])
    assert (decisions[-1].claim.id, decisions[-1].criterion) == ("environment", "")
    assert decisions[-1].verdict == "not_tested"
    assert decisions[-1].verdicts[0].reason == "needs another machine"


def test_a_folder_without_sources(tmp_path):
    with pytest.raises(InputError, match="holds no source"):
        load_sources(tmp_path)


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("paper", ("setup", "sm_clock_mhz"), [], "setup.sm_clock_mhz must be number"),
        (
            "paper",
            ("claims", 0, "arguments", "metric"),
            ["x"],
            "claims[0].arguments.metric must be",
        ),
        ("paper", ("claims", 0, "rule"), "r" * 10**6, "claims[0].rule must be shorter than or"),
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

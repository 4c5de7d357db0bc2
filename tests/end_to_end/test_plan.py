"""What a user's choices come to: cells, rows, memory and minutes; nothing here needs torch."""

import json
import sys
from dataclasses import replace

import pytest

from experiments.end_to_end import plan, sizes
from experiments.end_to_end.plan import Cell, Row, choose
from records.errors import InputError
from records.json_files import ROOT

MODELS = json.loads((ROOT / "data/models/models.json").read_text())["models"]


def test_nothing_of_the_plan_needs_torch():
    code = "import sys; sys.modules['torch'] = None\n"
    code += "from experiments.end_to_end import __main__, host, protocol"
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_by_default_it_is_the_papers_experiment():
    found = choose()
    assert found.models == ("gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b")
    assert found.batches == (2, 4, 8, 16, 32, 64)
    assert [row.kernel for row in found.rows] == [
        *("branch_tree", "shared_lut", "streaming", "fused"),
        "as installed",
    ]
    assert (found.tokens, found.timed, found.profiled, plan.WARM_UP) == (32, 3, 3, 1)
    assert len(plan.cells(found, "timing")) == 24
    assert plan.cells(found, "profile")[0] == Cell("profile", "gemma-2-27b", 2)


def test_quick_has_the_papers_three_models_and_a_peer_in_ten_minutes():
    found = choose(quick=True)
    assert found.models == ("gemma-2-27b", "qwen3-32b", "llama-3.3-70b")
    assert (found.batches, found.tokens, found.timed, found.profiled) == ((2, 64), 4, 3, 1)
    found = replace(found, rows=(*found.rows, Row("a", "peer")))
    both = [plan.cells(found, name) for name in plan.PASSES]
    assert sum(plan.total_seconds(found, cells) for cells in both) < 600


def test_both_passes_of_all_models_with_a_peer_take_31_minutes_on_two_gpus():
    found = replace(choose(), rows=(*choose().rows, Row("a", "peer")))
    both = [plan.cells(found, name) for name in plan.PASSES]
    assert sum(plan.total_seconds(found, cells, 2) for cells in both) < 31 * 60


@pytest.mark.parametrize(
    ("tokens", "generated"), [("32", (32, 8, 4, 4)), ("4", (4, 4, 4, 4)), ("2", (2, 2, 2, 2))]
)
def test_only_what_waits_for_the_host_is_generated_as_a_whole(tokens, generated):
    found = choose(tokens=tokens)
    every = (("timing", "eager"), ("timing", "graph"), ("profile", "eager"), ("profile", "graph"))
    assert tuple(found.generated(*one) for one in every) == generated


def test_choices_are_taken_as_given(tmp_path):
    library = tmp_path / "site/bitsandbytes/libbitsandbytes_cuda129.so"
    library.parent.mkdir(parents=True)
    library.touch()
    (tmp_path / "site/bitsandbytes-0.47.0.dist-info").mkdir()
    found = choose(
        model="llama-3.1-8b",
        batches="8, 2 8",
        kernels="global_lut|streaming,",
        peers=[str(library), f"mine={library}"],
        tokens="4",
        quick=True,
    )
    assert (found.models, found.batches, found.tokens) == (("llama-3.1-8b",), (8, 2), 4)
    assert found.rows == (
        *map(Row, ("branch_tree", "shared_lut", "streaming", "global_lut")),
        Row("bitsandbytes_0.47.0", "peer", str(library)),
        Row("mine", "peer", str(library)),
        Row("fused", "fused"),
        Row("as installed", "installed"),
    )
    assert [row.lineage for row in found.rows[3:]] == [
        *("under bitsandbytes", "libbitsandbytes_cuda129.so", "libbitsandbytes_cuda129.so"),
        "products in the fastest way by measured times",
        "as installed",
    ]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"model": "nothing"}, "MODEL: there is no folder 'nothing'; give a checkpoint's"),
        ({"batches": "2,x"}, "BATCHES: give numbers such as 2,8,64, not '2,x'"),
        ({"model": "../typo"}, "MODEL: there is no folder '../typo'; give a checkpoint's"),
        ({"model": "a/b@"}, "MODEL: there is no folder 'a/b@'; give a checkpoint's"),
        ({"model": ".a/b"}, "MODEL: there is no folder '.a/b'; give a checkpoint's"),
        ({"batches": ","}, "BATCHES: give numbers such as 2,8,64, not ','"),
        ({"tokens": ","}, "TOKENS: give one number, not ','"),
        ({"tokens": "8,16"}, "TOKENS: give one number, not '8,16'"),
        ({"tokens": "३२"}, "TOKENS: give one number, not '३२'"),
        ({"batches": "२,4"}, "BATCHES: give numbers such as 2,8,64, not '२,4'"),
        ({"batches": "1"}, "BATCHES: 2 at least: at one row bitsandbytes does not dequantize"),
        ({"tokens": "1"}, "TOKENS: 2 at least: the first comes with the prompt"),
        ({"kernels": "a/b"}, "KERNELS: 'a/b' is no kernel's name"),
        ({"peers": ["gone.so"]}, "peer gone.so: no such file; give the path of libbitsandbytes"),
        ({"prompts_file": "gone.jsonl"}, "gone.jsonl: cannot be read"),
    ],
)
def test_what_cannot_be_is_one_line(given, line):
    with pytest.raises(InputError) as error:
        choose(**given)
    assert str(error.value).startswith(line)


def test_two_rows_of_one_name(tmp_path):
    library = tmp_path / "libbitsandbytes_cuda129.so"
    library.touch()
    with pytest.raises(InputError, match="there are two rows 'bitsandbytes_cuda129'; name one"):
        choose(peers=[str(library)] * 2)


@pytest.mark.parametrize("name", sizes.known())
def test_models_have_the_sizes_of_models_json(name):
    (theirs,) = (m for m in MODELS if m["id"] == name)
    found = sizes.known()[name]
    assert found.nf4_weights == theirs.get("nf4_weights", found.nf4_weights)
    assert found.launches == theirs.get("launches_per_forward", found.launches)
    assert found.config["hidden_size"] == theirs["hidden"]
    assert found.config["tie_word_embeddings"] is False


def test_memory_is_a_little_more_than_the_weights():
    model = sizes.known()["llama-3.3-70b"]
    weights = 68451041280 * 0.5625 + 2 * 2 * 128256 * 8192
    assert 1.05 * weights < model.bytes_needed(2, 50, 32) < 1.15 * weights
    more = model.bytes_needed(64, 181, 32) - model.bytes_needed(2, 181, 32)
    keys_and_values = 62 * (181 + 32) * 80 * 8 * 128 * 2 * 2
    assert more > keys_and_values


def test_several_gpus_share_the_minutes():
    found = choose()
    cells = plan.cells(found, "timing")
    assert plan.total_seconds(found, cells, 4) == plan.total_seconds(found, cells) / 4
    assert plan.total_seconds(found, cells[:2], 4) == plan.total_seconds(found, cells[:2]) / 2
    slow, fast = Cell("timing", "llama-3.3-70b", 64), Cell("timing", "gemma-2-27b", 2)
    assert plan.seconds(found, slow) > 1.5 * plan.seconds(found, fast)


def test_a_checkpoints_name_is_fit_for_files():
    assert plan.plain("some/where/My Model.v2") == "my-model.v2"
    assert plan.plain("unsloth/Qwen3-8B-bnb-4bit") == "qwen3-8b-bnb-4bit"
    assert plan.plain("unsloth/Qwen3-8B-bnb-4bit@a1b2c3") == "qwen3-8b-bnb-4bit-a1b2c3"
    assert choose(model="unsloth/Qwen3-8B-bnb-4bit@v1.0").models == (
        "unsloth/Qwen3-8B-bnb-4bit@v1.0",
    )
    assert Cell("timing", "a/B", 2).name == "b.timing.batch2"

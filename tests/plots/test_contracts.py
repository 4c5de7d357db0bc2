"""A kernel's contract, from what C++ registers to the list of kernels."""

from plots.single_files import kernel_list
from reprolab.families import CONTRACTS, SCHEMA
from reprolab.json_files import ROOT
from reprolab.results import load


def test_every_contract_of_the_schema_has_words():
    kernel = SCHEMA.definition["definitions"]["kernel"]["properties"]
    assert [*CONTRACTS] == kernel["contract"]["enum"]


def test_a_training_step_held_to_a_bound_leaves_its_kernel_bit_exact():
    training = load(ROOT / "data/recorded/h200/product/training.json")
    rows = {r.kernel: r for r in training.records}
    assert rows["streaming"].contract == "within_bound"
    assert training.kernel(rows["streaming"]).contract == "bit_exact"
    shown = {row["kernel"]: row["contract"] for row in kernel_list([training]).rows}
    assert shown["streaming"] == "bit-exact"

"""The sentence about kernels that follow the memory from one GPU to another."""

from plots.memory_gain import difference

SMS = {"A": 132, "B": 132}
A = {"copy": 3000.0, "streaming": 2900.0, "tree": 1100.0}
B = {"copy": 4200.0, "streaming": 4100.0, "tree": 1110.0}


def test_kernels_are_told_apart_by_half_of_the_memorys_gain():
    text = difference({"A": A, "B": B}, "copy", SMS)
    assert "1.40 x" in text and "multiprocessors (132)" in text
    follows, _, stays = text.partition(";")
    assert "streaming 1.41 x" in follows and "tree" not in follows
    assert "tree 1.01 x" in stays


def test_the_order_of_the_gpus_does_not_matter():
    assert difference({"B": B, "A": A}, "copy", SMS) == difference({"A": A, "B": B}, "copy", SMS)


def test_other_multiprocessors_are_not_called_as_many():
    text = difference({"A": A, "B": B}, "copy", {"A": 108, "B": 132})
    assert "multiprocessors" not in text and "1.40 x" in text


def test_more_than_three_kernels_are_counted():
    many = {f"k{i}": 1000.0 for i in range(5)}
    text = difference({"A": A | many, "B": B | many}, "copy", SMS)
    assert "k1 1.00 x and 3 more" in text


def test_nothing_is_said_of_equal_memories_one_gpu_or_three():
    assert difference({"A": A, "B": A | {"copy": 3100.0}}, "copy", SMS) == ""
    assert difference({"A": A}, "copy", SMS) == ""
    assert difference({"A": A, "B": B, "C": B}, "copy", SMS) == ""
    assert difference({"A": A, "B": {"tree": 1.0}}, "copy", SMS) == ""

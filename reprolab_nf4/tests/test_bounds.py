"""The width of the interval that outputs must lie in, against values worked out by hand."""

import pytest

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")

from reprolab_nf4 import bounds  # noqa: E402

UNIT = 2.0**-23
# Relative error of a rounding, and the smallest number that the type tells from 0.
TYPES = [(torch.float16, 2.0**-11, 2.0**-24), (torch.bfloat16, 2.0**-8, 2.0**-126)]


@pytest.mark.parametrize(("dtype", "rounding", "smallest"), TYPES)
@pytest.mark.parametrize(
    ("terms", "additions"),
    [
        (2, 1 + 1 + 5),
        # Enough for sums to weigh more than roundings, in the second order too.
        (65536, 65535 + 16384 + 5),
    ],
)
def test_it_is_four_roundings_and_the_additions_wide(terms, additions, dtype, rounding, smallest):
    """Inputs of 1 and -1 cancel out, so the interval is around 0 and its ends are its width."""
    x = torch.ones((1, terms), dtype=dtype)
    x[0, ::2] = -1
    weights = torch.ones((3, terms))
    weights[1:] = torch.tensor([[0.5], [0.25]])
    found = bounds.interval(x, weights, weights)
    relative = (1 + rounding) ** 4 / (1 - additions * UNIT) - 1
    small = 4 * smallest * 2 * terms
    for i, weight in enumerate((1, 0.5, 0.25)):
        wanted = relative * terms * weight + small
        assert found.high[0, i].item() == pytest.approx(wanted, rel=rounding)
        assert found.low[0, i].item() == -found.high[0, i].item()


def test_nested_scales_and_the_product_itself_widen_it():
    x, weights = torch.full((1, 1), 2.0**-10).half(), torch.full((1, 1), 2.0**-10)
    without = bounds.interval(x, weights, weights)
    found = bounds.interval(x, weights, weights, offset=2.0**12)
    wider = UNIT * 2.0**12 * 2.0**-10
    assert found.high.item() - without.high.item() == pytest.approx(wider, rel=2.0**-9)
    # Below the middle between two numbers by less than what the product and small numbers add.
    below = torch.tensor([[1 + 2.0**-11 - 5 * 2.0**-23]])
    found = bounds.interval(torch.ones((1, 1)).half(), below, torch.zeros((1, 1)))
    assert found.high.item() == 1 + 2.0**-10


def test_the_ends_are_inside_and_what_is_beyond_them_is_counted():
    low, high = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.5], [2.5], [3.5]])
    allowed = bounds.Interval(low, high)
    for found in (low, high):
        allowed.check(found[1:], 1)
    for outside in (2.75, 3.75, float("nan")):
        found = torch.tensor([[2.25], [outside]])
        with pytest.raises(bounds.Wrong, match="row 2, output 0") as wrong:
            allowed.check(found, 1)
        assert wrong.value.count == 1

"""The width of the interval of correct outputs, against values that were computed by hand."""

import pytest
from bitsandbytes_on_cpu import torch

from reprolab_nf4 import bounds

UNIT = 2.0**-23
# Relative error of a rounding, and the type's smallest positive number.
TYPES = [(torch.float16, 2.0**-11, 2.0**-24), (torch.bfloat16, 2.0**-8, 2.0**-126)]


@pytest.mark.parametrize(("dtype", "rounding", "smallest"), TYPES)
@pytest.mark.parametrize(
    ("terms", "additions"),
    [
        (2, 1 + 1 + 4),
        # Enough terms for sums to dominate roundings, also in the second order.
        (65536, 65535 + 16384 + 4),
    ],
)
def test_its_width_is_four_roundings_and_the_additions(terms, additions, dtype, rounding, smallest):
    """Inputs of 1 and -1 cancel out, so the interval is around 0 and its ends are its width."""
    x = torch.ones((1, terms), dtype=dtype)
    x[0, ::2] = -1
    weights = torch.ones((3, terms)) / 8
    weights[1:] /= torch.tensor([[2.0], [4.0]])
    interval = bounds.interval(x, weights, weights)
    relative = (1 + rounding) ** 4 / (1 - additions * UNIT) - 1
    small = 2 * smallest * 3 * terms
    for i, weight in enumerate((1 / 8, 1 / 16, 1 / 32)):
        wanted = relative * terms * weight + small
        assert interval.high[0, i].item() == pytest.approx(wanted, rel=rounding)
        assert interval.low[0, i].item() == -interval.high[0, i].item()


def test_nested_scales_widen_it():
    x, weights = torch.full((1, 1), 2.0**-10).half(), torch.full((1, 1), 2.0**-10)
    without = bounds.interval(x, weights, weights)
    interval = bounds.interval(x, weights, weights, offset=2.0**12)
    wider = 2 * UNIT * 2.0**12 * 2.0**-10
    assert interval.high.item() - without.high.item() == pytest.approx(wider, rel=2.0**-9)
    # Below the midpoint of two numbers by less than the errors of small numbers and the last step.
    below = torch.tensor([[1 + 2.0**-11 - 3 * 2.0**-23]])
    interval = bounds.interval(torch.ones((1, 1)).half(), below, torch.zeros((1, 1)))
    assert interval.high.item() == 1 + 2.0**-10


def test_weights_in_fp32_and_the_sum_in_fp64_are_rounded():
    """One input of 1 has no addition: in bf16 its weight is rounded four times."""
    row = bounds.RowBounds.of(torch.ones((1, 1)).bfloat16(), 0.0)
    kernel = (1 + 2.0**-8) ** 4 * (1 + 4 * UNIT / (1 - 4 * UNIT)) - 1 + 2.0**-52
    assert row.relative.item() == pytest.approx(kernel + (1 + kernel) * 2.0**-24, rel=1e-12)


def test_both_ends_are_a_step_of_fp32_further_outward():
    """The sum is a tie of bf16, and has no other error."""
    weights = torch.tensor([[1 + 2.0**-8]])
    found = bounds.interval(torch.ones((1, 1)).bfloat16(), weights, torch.zeros((1, 1)))
    assert (found.low.item(), found.high.item()) == (1.0, 1 + 2.0**-7)


def test_every_number_is_allowed_after_an_overflow():
    x, weights = torch.full((1, 2), 2.0**14).half(), torch.tensor([[1.0, -1.0], [0.5, -0.5]])
    interval = bounds.interval(x, weights, weights.abs())
    assert interval.high[0].isinf().tolist() == [True, False]
    assert interval.low[0, 0] == -torch.inf and interval.low[0, 1] > -100


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rounded", ["nothing", "weights", "entry and scale", "products"])
def test_a_right_product_lies_inside_and_a_wrong_weight_does_not(dtype, rounded):
    generator = torch.Generator().manual_seed(2)
    entries = torch.randint(1, 8, (40, 1024), generator=generator) / 7
    scales = torch.rand((40, 16), generator=generator).repeat_interleave(64, 1) / 16 + 0.01
    x, weights = bounds.activations(4, 1024, torch.device("cpu"), dtype), entries * scales
    allowed = bounds.interval(x, weights, weights.abs())
    used = weights
    if rounded == "entry and scale":
        used = entries.to(dtype).float() * scales.to(dtype).float()
    if rounded != "nothing":
        used = used.to(dtype).float()
    if rounded == "products":
        products = (x[:, None].float() * used).to(dtype).float()
        right = products.cumsum(2)[..., -1].to(dtype)
    else:
        right = (x.float() @ used.T).to(dtype)
    allowed.check(right, 0)
    wrong = used.clone()
    wrong[7, 300] *= 1.25  # one code further, at the least
    with pytest.raises(bounds.Wrong, match="output 7"):
        allowed.check((x.float() @ wrong.T).to(dtype), 0)


def test_the_ends_are_inside_and_outputs_beyond_them_are_counted():
    low, high = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.5], [2.5], [3.5]])
    allowed = bounds.Interval(low, high)
    for outputs in (low, high):
        allowed.check(outputs[1:], 1)
    for outside in (2.75, 3.75, float("nan")):
        outputs = torch.tensor([[2.25], [outside]])
        with pytest.raises(bounds.Wrong, match="row 2, output 0") as wrong:
            allowed.check(outputs, 1)
        assert wrong.value.count == 1

"""Advice for a checkpoint, from times of its products."""

from dataclasses import replace

import pytest

from reprolab_nf4 import advice
from reprolab_nf4.advice import INSTALLED, OWN, STATIC, Shape, Variant

LARGE, SMALL = (Shape(rows, 1 << 20, 64, False, "float16") for rows in (512, 256))
COUNTS = {LARGE: 2, SMALL: 10}
SAME_BITS = '    installed = reprolab_nf4.install(products="bitsandbytes")\n'
BY_TABLE = "With each product in the way that is the fastest by measured times,\nwhich sums"
STEP, PROMPT = "one step at batch 2", "the prompts"


def times(**us):
    """Times of each kernel, for the large and the small shape; `own` is bitsandbytes, `fastest` and
    `exact` are products by the table.
    """
    samples = {}
    for kernel, (large, small) in us.items():
        variant = OWN if kernel == "own" else Variant(kernel)
        if kernel in ("fastest", "exact"):
            variant = Variant(advice.FASTEST, kernel)
        samples |= {(variant, LARGE): [large] * 7, (variant, SMALL): [small] * 7}
    return samples


def text(
    step, prompt=None, kernels=("shared_lut", "streaming"), refused=(), fuses=False, eager=None
):
    """Without `eager`, the host takes no time."""
    step = {(INSTALLED, shape): us for (v, shape), us in step.items() if v == OWN} | step
    times_of = {STEP: step, PROMPT: prompt or step}
    phases = tuple(advice.Phase(what, samples, COUNTS) for what, samples in times_of.items())
    kernels = [k for k in kernels if (Variant(k), LARGE) in step]
    eager = advice.Phase(STEP, eager or step, COUNTS)
    given = (phases, eager, kernels, dict(refused), fuses)
    return advice.text("mine", "bitsandbytes 0.50.2", *given)


def test_layers_that_compute_in_fp32_are_counted():
    shapes = {replace(LARGE, compute="float32"): 3, SMALL: 10}
    samples = {(variant, shape): [1.0] * 7 for variant in (OWN, Variant()) for shape in shapes}
    phases = tuple(advice.Phase(what, samples, shapes) for what in (STEP, PROMPT))
    shown = advice.text("mine", "bitsandbytes", phases, phases[0], [], {}, False)
    assert "WARNING: 3 of them" in shown and "bnb_4bit_compute_dtype" in shown
    in_bf16 = {replace(shape, compute=""): n for shape, n in shapes.items()}
    times = {(v, s): [1.0] * 7 for v in (OWN, Variant()) for s in in_bf16}
    phases = tuple(advice.Phase(what, times, in_bf16) for what in (STEP, PROMPT))
    assert "WARNING" not in advice.text("mine", "bitsandbytes", phases, phases[0], [], {}, False)


def test_the_interval_of_a_gain_is_of_crossed_quartiles():
    samples = {OWN: [100.0, 200.0, 300.0], INSTALLED: [40.0, 50.0, 60.0]}
    phase = advice.Phase(STEP, {(v, LARGE): us for v, us in samples.items()}, {LARGE: 2})
    assert phase.gain(INSTALLED) == pytest.approx((200 / 50, 150 / 55, 250 / 45))


def test_a_gain_and_the_calls_that_give_it():
    shown = text(times(own=(1000, 200), shared_lut=(900, 150), streaming=(500, 100)))
    assert shown.startswith("mine: 12 layers in NF4, 3.76 billion weights\n")
    # 2 x 1 ms + 10 x 0.2 ms; 2 x 0.5 + 10 x 0.1
    assert f"  {STEP}: 4.00 -> 2.00 ms, 2.00 x (2.00-2.00)\n" in shown
    assert SAME_BITS in shown
    assert "installed.undo()" in shown


@pytest.mark.parametrize(
    ("us", "wanted"),
    [
        # The fastest over all layers is chosen.
        ({"own": (1000, 200), "shared_lut": (100, 190), "streaming": (500, 100)}, SAME_BITS),
        (
            {"own": (1000, 200), "shared_lut": (100, 100), "streaming": (500, 100)},
            'install(kernel="shared_lut", products="bitsandbytes")\n',
        ),
        # A difference within the spread between runs is ignored.
        ({"own": (1000, 200), "shared_lut": (498, 100), "streaming": (500, 100)}, SAME_BITS),
        ({"own": (502, 100), "shared_lut": (498, 100), "streaming": (500, 100)}, ""),
        ({"own": (502, 100), "streaming": (500, 100), "fastest": (498, 100)}, ""),
        ({"own": (100, 20), "shared_lut": (100, 20), "streaming": (101, 21)}, ""),
    ],
)
def test_the_advice(us, wanted):
    shown = text(times(**us))
    if wanted:
        assert wanted in shown
    else:
        assert "\n\nNothing is gained" in shown
        assert "reprolab_nf4.install" not in shown and STATIC not in shown


def test_a_bitsandbytes_that_fuses_gains_only_in_the_prompt():
    step = times(own=(100, 20), shared_lut=(100, 20), streaming=(100, 20))
    prompt = times(own=(1000, 200), shared_lut=(900, 150), streaming=(500, 100))
    shown = text(step, prompt, fuses=True)
    assert f"  {STEP}: 0.40 -> 0.40 ms, no difference seen\n" in shown
    assert f"  {PROMPT}: 4.00 -> 2.00 ms" in shown
    assert "few rows" in shown
    assert SAME_BITS in shown


def test_a_table_of_times_that_gains_more_is_offered():
    step = times(own=(100, 20), streaming=(100, 20), fastest=(80, 14), exact=(90, 15))
    prompt = times(own=(1000, 200), streaming=(500, 100), fastest=(400, 100), exact=(400, 100))
    shown = text(step, prompt, fuses=True)
    assert f"  {STEP}: 0.40 -> 0.40 ms, no difference seen\n" in shown
    assert BY_TABLE in shown
    assert f"  {STEP}: 0.40 -> 0.30 ms, 1.33 x (1.33-1.33)\n" in shown
    assert f"  {PROMPT}: 4.00 -> 1.80 ms, 2.22 x (2.22-2.22)\n" in shown
    assert f"  {STEP}: 0.40 -> 0.33 ms, 1.21 x (1.21-1.21)\n" in shown
    installs = """    installed = reprolab_nf4.install(products="exact")
    # or reprolab_nf4.install()
    # or reprolab_nf4.install(products="bitsandbytes")
"""
    assert installs in shown
    # It may be the only gain, and is offered only if there is a gain.
    shown = text(times(own=(100, 20), streaming=(100, 20), fastest=(80, 14)), fuses=True)
    assert "    installed = reprolab_nf4.install()\n" in shown and "Nothing is gained" not in shown
    for fastest in ((100, 20), (120, 20)):
        same = times(own=(200, 40), streaming=(100, 20), fastest=fastest)
        assert BY_TABLE not in text(same, fuses=True)


def test_the_share_of_the_host_and_the_line_that_ends_it():
    step = times(own=(100, 20), streaming=(100, 20), fastest=(80, 14))
    eager = times(own=(400, 80), fastest=(200, 70))
    shown = text(step, fuses=True, eager=eager)
    # 2 x 0.4 ms + 10 x 0.08 ms, of which 0.4 on the GPU; 1.1, of which 0.3
    assert "  bitsandbytes 0.50.2: 1.60 ms, 75% " in shown
    assert "  with install(): 1.10 ms, 73% " in shown
    assert "CUDA graph: 0.30 ms\n" in shown
    assert f"    installed = reprolab_nf4.install()\n    {STATIC}\n" in shown


def test_a_static_cache_may_be_the_only_gain():
    step = times(own=(100, 20), streaming=(100, 20), fastest=(100, 20))
    shown = text(step, fuses=True, eager=times(own=(150, 30), fastest=(150, 30)))
    assert f"    installed = reprolab_nf4.install()\n    {STATIC}\n" in shown
    # Ignored: a difference within the spread between runs, and a gain over only one of both.
    for own, ours in (((101, 20), (101, 20)), ((150, 30), (100, 20))):
        shown = text(step, fuses=True, eager=times(own=own, fastest=ours))
        assert STATIC not in shown and "Nothing is gained" in shown


@pytest.mark.parametrize(("eager", "gains"), [(107.0, True), (103.0, False)])
def test_a_graph_gains_beyond_the_quartiles(eager, gains):
    def phase(us):
        return advice.Phase(STEP, {(v, LARGE): us for v in (OWN, INSTALLED)}, {LARGE: 1})

    step = phase([90.0, 100.0, 110.0])  # quartiles of 95 and 105
    assert advice.Host(step, phase([eager] * 3)).gains_by_graph() is gains


def test_the_table_is_not_offered_with_a_kernel_that_was_left_out():
    """The kernel fails on the second shape."""
    step = times(own=(100, 20), shared_lut=(50, 10), streaming=(100, 20), fastest=(8, 1))
    del step[Variant("streaming", "fastest"), SMALL], step[Variant("streaming"), SMALL]
    shown = text(step, None, ["shared_lut"], {"streaming": "1 of 8 weights differ"}, fuses=True)
    assert 'kernel="shared_lut"' in shown and BY_TABLE not in shown


@pytest.mark.parametrize("kernels", [(), ("streaming",)])
def test_a_kernel_with_another_output_is_left_out(kernels):
    step = times(own=(1000, 200), streaming=(500, 100))
    shown = text(step, None, kernels, {"shared_lut": "1 of 8 weights differ"})
    assert "  shared_lut: left out: 1 of 8 " in shown
    assert (SAME_BITS in shown) is bool(kernels)
    assert ("keep what you have" in shown) is not bool(kernels)

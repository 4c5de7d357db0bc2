"""The gain of the library for one model, from times of its matmuls, as text."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import quantiles

import reprolab_nf4


@dataclass(frozen=True)
class Variant:
    """Arguments of reprolab_nf4.install(): the kernel that dequantizes, and how a matmul is
    computed, by default as bitsandbytes chooses, to the same bits.
    """

    kernel: str = ""  # bitsandbytes' own
    products: str = "bitsandbytes"

    def in_place(self) -> AbstractContextManager:
        """A context in which bitsandbytes computes as the variant says."""
        given = {"kernel": self.kernel, "products": self.products}
        return nullcontext() if self == OWN else reprolab_nf4.install(**given)


OWN = Variant()  # as it is installed
FASTEST = "streaming"  # the default of reprolab_nf4.install()
INSTALLED = Variant(FASTEST, "fastest")  # by reprolab_nf4.install()
# By the table of times. They sum in another order, so tokens may differ.
BY_TABLE = {
    INSTALLED: "each product in the way that is the fastest by measured times",
    Variant(FASTEST, "exact"): "the same, by exactly the weights that dequantization gives",
}
LEAST_GAIN = 1.01  # less than the spread between runs
STATIC = 'model.generate(**inputs, cache_implementation="static")'


@dataclass(frozen=True)
class Shape:
    """The shape and format of layers that are alike."""

    rows: int
    columns: int
    block_size: int
    nested: bool
    output: str  # of dequantization
    compute: str = ""  # the type of activations and outputs, if it differs

    @property
    def text(self) -> str:
        return f"{self.rows} x {self.columns}"


Times = dict[tuple[Variant, Shape], list[float]]  # of one matmul, in us


@dataclass(frozen=True)
class Phase:
    """A forward pass: the times of its matmuls, and the number of layers of each shape."""

    what: str  # such as 'one step at batch 2'
    times: Times
    counts: dict[Shape, int]

    def total(self, variant: Variant) -> list[float]:
        """All matmuls in ms: the quartiles of the samples."""
        parts = [
            [n * us / 1e3 for us in self.times[variant, shape]] for shape, n in self.counts.items()
        ]
        samples = [sum(sample) for sample in zip(*parts, strict=True)]
        return quantiles(samples, n=4, method="inclusive")

    def gain(self, variant: Variant, over: Variant = OWN) -> tuple[float, float, float]:
        """The ratio of the medians, and its interval from the quartiles."""
        (low, median, high), (our_low, our_median, our_high) = map(self.total, (over, variant))
        return median / our_median, low / our_high, high / our_low

    def gains(self, variant: Variant, over: Variant = OWN) -> bool:
        return self.gain(variant, over)[1] > LEAST_GAIN

    def fastest(self, kernels: Sequence[str]) -> Variant:
        """The variant with the default kernel, unless another kernel is faster; bitsandbytes
        chooses how a matmul is computed.
        """
        best = min(map(Variant, kernels), key=lambda variant: self.total(variant)[1])
        usual = Variant(FASTEST)
        return best if FASTEST not in kernels or self.gains(best, usual) else usual

    def gained_by_table(self, kernels: Sequence[str]) -> list[Variant]:
        """The variants that are faster than bitsandbytes and than any that keeps its bits."""
        variants = [v for v in BY_TABLE if v.kernel in kernels]
        variants = [v for v in variants if any(v == measured for measured, _ in self.times)]
        return [v for v in variants if all(self.gains(v, x) for x in (OWN, self.fastest(kernels)))]

    def line(self, variant: Variant) -> str:
        """'one step at batch 2: 41.2 -> 20.9 ms, 1.97 x (1.96-1.98)'"""
        own, ours = (self.total(each)[1] for each in (OWN, variant))
        gain, low, high = self.gain(variant)
        differs = low > 1 or high < 1
        speedup = f"{gain:.2f} x ({low:.2f}-{high:.2f})" if differs else "no difference seen"
        return f"  {self.what}: {own:.2f} -> {ours:.2f} ms, {speedup}"


@dataclass(frozen=True)
class Host:
    """A decoding step: on the GPU alone, and with its layers called one by one in Python."""

    step: Phase
    eager: Phase

    def share(self, variant: Variant) -> float:
        """The share of the eager time in which the GPU waits."""
        return max(0.0, 1 - self.step.total(variant)[1] / self.eager.total(variant)[1])

    def gains_by_graph(self) -> bool:
        """Whether a captured step is faster than both eager ones."""
        eager = [self.eager.total(variant)[0] for variant in (OWN, INSTALLED)]
        return min(eager) / self.step.total(INSTALLED)[2] > LEAST_GAIN

    def lines(self, own: str) -> list[str]:
        lines = [f"The same layers in {self.step.what}, called one by one as in eager generate():"]
        for name, variant in ((own, OWN), ("with install()", INSTALLED)):
            ms, share = self.eager.total(variant)[1], self.share(variant)
            lines += [f"  {name}: {ms:.2f} ms, {share:.0%} of it waiting for the host"]
        ms = self.step.total(INSTALLED)[1]
        return [*lines, f"  with install() and a static cache, in a CUDA graph: {ms:.2f} ms"]


def text(
    name: str,
    own: str,
    phases: tuple[Phase, Phase],
    eager: Phase,
    kernels: Sequence[str],
    refused: dict[str, str],
    fuses: bool,
) -> str:
    """The advice. `phases`: a decoding step and a prompt, on the GPU alone; `eager`: the step, with
    the host's time; `kernels`: with the same output as bitsandbytes, bit for bit; `refused`: the
    other kernels, and why.
    """
    step, prompt = phases
    layers = sum(step.counts.values())
    weights = sum(n * s.rows * s.columns for s, n in step.counts.items())
    lines = [f"{name}: {layers} layers in NF4, {weights / 1e9:.2f} billion weights"]
    if slow := sum(n for shape, n in step.counts.items() if shape.compute == "float32"):
        lines += [f"WARNING: {slow} of them compute in float32, in which bitsandbytes is slow, and"]
        lines += ["for which there is no matmul here: set bnb_4bit_compute_dtype=torch.bfloat16 in"]
        lines += ["BitsAndBytesConfig, or compute_dtype of the layers."]
    lines += [""]
    lines += [f"  {kernel}: left out: {why}" for kernel, why in refused.items()]
    if not kernels:
        lines += ["No kernel gives bitsandbytes' own output here: keep what you have."]
        return "\n".join(lines)
    # The prompt may gain even if a step does not.
    best = step.fastest(kernels)
    variant = best if step.gains(best) else prompt.fastest(kernels)
    every = "All quantized products of a forward pass"
    lines += [f"{every}, {own} -> with {variant.kernel}, on the GPU alone:"]
    lines += [phase.line(variant) for phase in phases]
    if fuses and not step.gains(variant):
        right = "multiplies a few rows right from the codes, which no kernel here speeds up."
        lines += [f"  {own} {right}"]
    installs = []
    if any(phase.gains(variant) for phase in phases):
        kernel = "" if variant == Variant(FASTEST) else f'kernel="{variant.kernel}", '
        installs += [f'reprolab_nf4.install({kernel}products="bitsandbytes")']
    for other in step.gained_by_table(kernels):
        lines += [f"With {BY_TABLE[other]},"]
        lines += ["which sums in another order, so that tokens may differ:"]
        lines += [phase.line(other) for phase in phases]
        products = "" if other.products == "fastest" else f'products="{other.products}"'
        installs += [f"reprolab_nf4.install({products})"]
    graph = False
    if FASTEST in kernels:
        host = Host(step, eager)
        graph = host.gains_by_graph()
        lines += host.lines(own)
        if graph and not step.gained_by_table(kernels):
            installs += ["reprolab_nf4.install()"]
    if not installs:
        return "\n".join([*lines, "", f"Nothing is gained here: keep {own} as it is."])
    lines += [
        "",
        "To have it, before or after the model is loaded:",
        "",
        "    import reprolab_nf4",
        *(f"    installed = {install}" for install in installs[-1:]),
        *(f"    # or {install}" for install in reversed(installs[:-1])),
        *[f"    {STATIC}"] * graph,
        "",
        "and installed.undo() takes it away again. All times are those of the 4-bit layers: the",
        "rest of a step, such as attention, gains by a static cache alone.",
    ]
    return "\n".join(lines)

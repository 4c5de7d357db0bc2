"""What the drop-in library gains for one checkpoint, from times of its products: sums and words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.end_to_end.checkpoint import Layer
from records.json_files import ROOT
from records.stats import Estimate, Summary, ratio, summarize


@dataclass(frozen=True)
class Variant:
    """What lies under bitsandbytes, and whether all its products dequantize."""

    kernel: str = ""  # bitsandbytes' own
    dequantizes: bool = False


OWN = Variant()  # as it is installed
FASTEST = "streaming"  # which dropin.install() takes by itself
LEAST_GAIN = 1.01  # what is less changes from run to run


@dataclass(frozen=True)
class Shape:
    """Layers that are alike, but for their names."""

    rows: int
    columns: int
    block_size: int
    nested: bool
    output: str

    @property
    def text(self) -> str:
        return f"{self.rows} x {self.columns}"


def shapes_of(layers: Sequence[Layer]) -> dict[Shape, int]:
    """How many layers have each shape, the largest first."""
    found = Counter(Shape(x.rows, x.columns, x.block_size, x.nested, x.output) for x in layers)
    return dict(sorted(found.items(), key=lambda item: -item[0].rows * item[0].columns))


Times = dict[tuple[Variant, Shape], list[float]]  # of one product, in us


def of_model(times: Times, counts: dict[Shape, int], variant: Variant) -> Summary:
    """All products of a forward pass in ms, sample by sample."""
    parts = [[n * us / 1e3 for us in times[variant, shape]] for shape, n in counts.items()]
    return summarize([sum(sample) for sample in zip(*parts, strict=True)])


def gain(times: Times, counts: dict[Shape, int], variant: Variant, over: Variant = OWN) -> Estimate:
    return ratio(of_model(times, counts, over), of_model(times, counts, variant))


def gains(times: Times, counts: dict[Shape, int], variant: Variant, over: Variant = OWN) -> bool:
    return gain(times, counts, variant, over).low > LEAST_GAIN


def fastest(times: Times, counts: dict[Shape, int], kernels: Sequence[str]) -> Variant:
    """Of the variants in which bitsandbytes chooses which products dequantize: that with the kernel
    that is installed without a name, unless another gains something over it.
    """
    usual = Variant(FASTEST)
    found = min(variants_of(kernels), key=lambda variant: of_model(times, counts, variant).median)
    return found if FASTEST not in kernels or gains(times, counts, found, usual) else usual


def line(what: str, times: Times, counts: dict[Shape, int], variant: Variant) -> str:
    """'one step at batch 2: 41.2 -> 20.9 ms, 1.97 x (1.96-1.98)'"""
    own, ours = (of_model(times, counts, each).median for each in (OWN, variant))
    found = gain(times, counts, variant)
    said = f"{found.value:.2f} x ({found.low:.2f}-{found.high:.2f})"
    said = said if found.differs_from_one else "no difference seen"
    return f"  {what}: {own:.2f} -> {ours:.2f} ms, {said}"


def dequantizing(times: Times, counts: dict[Shape, int], kernels: Sequence[str]) -> Variant | None:
    """All products dequantizing with our fastest kernel, if that beats bitsandbytes' own choice."""
    variant = Variant(FASTEST, True)
    if FASTEST not in kernels or all(variant != measured for measured, _ in times):
        return None
    wins = all(
        gains(times, counts, variant, over) for over in (OWN, fastest(times, counts, kernels))
    )
    return variant if wins else None


def variants_of(kernels: Sequence[str]) -> list[Variant]:
    """bitsandbytes chooses which products dequantize."""
    return [Variant(kernel) for kernel in kernels]


def text(
    name: str,
    own: str,
    batch: int,
    counts: dict[Shape, int],
    phases: dict[str, Times],
    kernels: Sequence[str],
    refused: dict[str, str],
    fuses: bool,
) -> str:
    """The advice. `phases`: times of a decoding step and of a prompt; `kernels`: those whose output
    is bit for bit bitsandbytes' own; `refused`: the others, and why.
    """
    layers, weights = sum(counts.values()), sum(n * s.rows * s.columns for s, n in counts.items())
    lines = [f"{name}: {layers} layers in NF4, {weights / 1e9:.2f} billion weights", ""]
    lines += [f"  {kernel}: left out: {why}" for kernel, why in refused.items()]
    if not kernels:
        return "\n".join(
            [*lines, "No kernel gives bitsandbytes' own output here: keep what you have."]
        )
    # Where a step gains nothing, the prompt still may.
    step, prompt = phases
    best = {what: fastest(times, counts, kernels) for what, times in phases.items()}
    variant = best[step] if gains(phases[step], counts, best[step]) else best[prompt]
    lines += [
        f"All quantized products of a forward pass, {own} -> with {variant.kernel}, "
        "on the GPU alone:"
    ]
    lines += [line(what, times, counts, variant) for what, times in phases.items()]
    if fuses and not gains(phases[step], counts, variant):
        lines += [
            f"  {own} multiplies a few rows right from the codes, which no kernel here speeds up."
        ]
    installs = []
    if any(gains(times, counts, variant) for times in phases.values()):
        kernel = "" if variant == Variant(FASTEST) else f'kernel="{variant.kernel}"'
        installs += [f"dropin.install({kernel})"]
    if other := dequantizing(phases[step], counts, kernels):
        lines += [
            f"With {other.kernel}, where all products of at least {batch} rows dequantize, which "
            "sums in another order,",
            "so that tokens may differ:",
        ]
        lines += [line(what, times, counts, other) for what, times in phases.items()]
        installs += [f"dropin.install(dequantize_from={batch})"]
    if not installs:
        return "\n".join([*lines, "", f"Nothing is gained here: keep {own} as it is."])
    lines += [
        "",
        "To have it, before or after the model is loaded:",
        "",
        f'    import sys; sys.path.append("{ROOT}/dropin")',
        "    import dropin",
        f"    installed = {'  # or '.join(installs)}",
        "",
        "and installed.undo() takes it away again. A whole step gains less, and less yet where it",
        "waits for the host; make reproduce-table1 MODEL=folder measures it.",
    ]
    return "\n".join(lines)

"""What the drop-in library gains for one checkpoint, from times of its products: sums and words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from claims.json_files import ROOT
from claims.stats import Estimate, Summary, ratio, summarize
from experiments.end_to_end.checkpoint import Layer

OWN = ""  # in the place of a kernel's name: bitsandbytes as it is installed


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


Times = dict[tuple[str, Shape], list[float]]  # of one product, in us; by kernel


def of_model(times: Times, counts: dict[Shape, int], kernel: str) -> Summary:
    """All products of a forward pass in ms, sample by sample."""
    parts = [[n * us / 1e3 for us in times[kernel, shape]] for shape, n in counts.items()]
    return summarize([sum(sample) for sample in zip(*parts, strict=True)])


def fastest(times: Times, counts: dict[Shape, int], kernels: Sequence[str]) -> str:
    return min(kernels, key=lambda kernel: of_model(times, counts, kernel).median)


def gain(times: Times, counts: dict[Shape, int], kernel: str) -> Estimate:
    return ratio(of_model(times, counts, OWN), of_model(times, counts, kernel))


def line(what: str, times: Times, counts: dict[Shape, int], kernel: str) -> str:
    """'one step at batch 2: 41.2 -> 20.9 ms, 1.97 x (1.96-1.98)'"""
    own, ours = (of_model(times, counts, k).median for k in (OWN, kernel))
    found = gain(times, counts, kernel)
    said = f"{found.value:.2f} x ({found.low:.2f}-{found.high:.2f})"
    said = said if found.differs_from_one else "no difference seen"
    return f"  {what}: {own:.2f} -> {ours:.2f} ms, {said}"


def text(
    name: str,
    own: str,
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
    best = {what: fastest(times, counts, kernels) for what, times in phases.items()}
    step, prompt = phases
    gains = {what: gain(phases[what], counts, best[what]) for what in phases}
    kernel = best[step] if gains[step].low > 1 else best[prompt]
    lines += [
        f"All quantized products of a forward pass, {own} -> with {kernel}, on the GPU alone:"
    ]
    lines += [line(what, times, counts, kernel) for what, times in phases.items()]
    if not any(gain(phases[what], counts, kernel).low > 1 for what in phases):
        lines += ["", f"Nothing is gained here: keep {own} as it is."]
        return "\n".join(lines)
    if fuses and gains[step].low <= 1:
        lines += [
            f"  {own} multiplies a few rows right from the codes, which no kernel here speeds up."
        ]
    lines += [
        "",
        "To have it, before or after the model is loaded:",
        "",
        f'    import sys; sys.path.append("{ROOT}/dropin")',
        "    import dropin",
        f'    installed = dropin.install(kernel="{kernel}")',
        "",
        "and installed.undo() takes it away again. A whole step gains less, and less yet where it",
        "waits for the host; make reproduce-table1 MODEL=folder measures it.",
    ]
    return "\n".join(lines)

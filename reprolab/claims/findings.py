"""The findings, in at most ten lines, and the answer to whether the paper is right. Every number is
computed from claims and recorded rows, and a sentence says no more than all GPUs show: where they
differ, it names them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from reprolab.claims import rules
from reprolab.claims.headlines import FINDINGS, from_global_memory, is_small
from reprolab.claims.ledger import is_on
from reprolab.claims.several_gpus import (
    MISSING,
    Machine,
    by_gpu,
    faster_or_slower,
    in_each,
    measured,
    on_each,
    require_no_other,
)
from reprolab.captions import capitalized, listed
from reprolab.stats import span

PAPER = "paper"
PAPER_IS_RIGHT = "Is the paper right?"


@dataclass(frozen=True)
class Headline:
    """One line. `numbers`: by GPU, of those that measured it; none where the source's own numbers
    show it. `link`: from the folder of a machine's pages. `question`: that the line answers.
    """

    statement: str
    result: str
    numbers: Mapping[str, str]
    link: str
    question: str = ""

    @property
    def gpus(self) -> dict[str, list[str]]:
        """By number."""
        by_number: dict[str, list[str]] = {}
        for gpu, number in self.numbers.items():
            by_number.setdefault(number, []).append(gpu)
        return by_number

    @property
    def in_full(self) -> str:
        """With its numbers: 'Reproduced. H100: 2.07 x; H200: 2.11 x.'"""
        numbers = [f"{listed(gpus)}: {number}" for number, gpus in self.gpus.items()]
        return ". ".join([self.result, "; ".join(numbers)] if numbers else [self.result]) + "."


def findings(machines: Sequence[Machine]) -> list[Headline]:
    """A finding without rows is left out."""
    lines = []
    for make, link, question in FINDINGS:
        with suppress(*MISSING):
            statement, result, numbers = make(machines)
            lines.append(Headline(statement, capitalized(result), numbers, link, question))
    return lines


def answer(machines: Sequence[Machine]) -> str:
    """To PAPER_IS_RIGHT: its speed-up, the causes that it names, and the counts of its claims; ''
    without a measurement of the speed-up.
    """
    with suppress(*MISSING):
        speed = on_each(machines, lambda m: measured(m.decisions["kernel-speedup"]))
        shown = [m for m in machines if m.gpu in speed]
        ours = span([v.ours for cells in speed.values() for v in cells])
        verdict = in_each(shown, "kernel-speedup")
        speed_up = "is" if verdict == "reproduced" else f"is {verdict}"
        parts = [f"Its speed-up {speed_up}: {ours} x on {listed([f'the {m.gpu}' for m in shown])}"]
        own = shown[0].decisions["kernel-speedup"].source.gpu
        if not any(is_on(m.evidence.newest.gpu, own) for m in shown):
            parts[0] += f"; its own {own} was not measured"
        with suppress(*MISSING):
            require_no_other(machines, "no-divergence", rules.REPRODUCED)
            parts.append("One of its reasons holds: no divergence")
        if wrong := list(wrong_reasons(machines)):
            parts.append(f"Its main reason does not hold: {'; '.join(wrong)}")
        return ". ".join([*parts, counts(shown)])
    return ""


def wrong_reasons(machines: Sequence[Machine]) -> Iterator[str]:
    """The causes that the paper names and no GPU shows."""
    for claim, verdict, result in (
        ("lut-traffic-64", rules.PREMISE_FALSE, "the baseline reads no table"),
        ("memory-bound", rules.NOT_REPRODUCED, "dequantization is not memory-bound"),
    ):
        with suppress(*MISSING):
            require_no_other(machines, claim, verdict)
            yield result
    with suppress(*MISSING):
        require_no_other(machines, "shared-memory-makes-it", rules.NOT_REPRODUCED, rules.UNDECIDED)
        ratios = from_global_memory(machines)
        words = {gpu: faster_or_slower(of_it) for gpu, of_it in ratios.items()}
        for m in machines:
            if m.gpu in words and m.decisions["shared-memory-makes-it"].verdict == rules.UNDECIDED:
                words[m.gpu] += f" ({rules.UNDECIDED})"
        if is_small(ratios):
            yield f"from global memory the kernel is {by_gpu(words)}"


def counts(machines: Sequence[Machine]) -> str:
    """The paper's claims by verdict, on each GPU."""
    shown = []
    for m in machines:
        verdicts = [d.verdict for d in m.decisions.values() if d.source.id == PAPER]
        known = (rules.REPRODUCED, rules.NOT_REPRODUCED, rules.PREMISE_FALSE)
        shown.append((m.gpu, len(verdicts), *map(verdicts.count, known)))
    (gpu, claims, reproduced, not_reproduced, false), *others = shown
    text = f"On the {gpu} {reproduced} of its {claims} claims are reproduced, "
    text += f"{not_reproduced} are not, and {false} have a false premise"
    also = (f"on the {gpu} {listed([str(n) for n in rest])}" for gpu, _, *rest in others)
    return f"{'; '.join([text, *also])}."


def lines(machines: Sequence[Machine]) -> Iterator[str]:
    """The findings as plain text."""
    if text := answer(machines):
        yield f"{PAPER_IS_RIGHT} {text}"
    for i, each in enumerate(findings(machines), 1):
        yield f"{i}. {each.statement}. {' '.join(filter(None, (each.question, each.in_full)))}"

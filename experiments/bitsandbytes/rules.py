"""Rules of the claims of bitsandbytes' pull requests: gains over every layer of a pass, between two
kernels or two releases of the library.
"""

from collections.abc import Container
from dataclasses import replace

from reprolab import stats
from reprolab.claims import rules
from reprolab.claims.evidence import Case, NotTested
from reprolab.claims.rules import WITHIN, Verdict, judge, rule
from reprolab.results import KERNEL_TIME
from reprolab.stats import Estimate, span

Gains = dict[str, Estimate]  # by problem, in ascending order


@rule(f"the {{which}} gain of {{fast}} over {{slow}} in any layer, {WITHIN}")
def gain_of_layers(case: Case, *, slow: str, fast: str, which: str) -> Verdict:
    """`which`: the smallest or the largest."""
    return judged(case, gains(case, slow, fast), which)


def judged(case: Case, found: Gains, which: str) -> Verdict:
    name = list(found)[0 if which == "smallest" else -1]
    ends = span([gain.value for gain in found.values()])
    return judge(case, found[name], f"{ends} x over {len(found)} problems, this one on {name}")


@rule(
    f"the largest gain of {{fast}} over {{slow}} from {{least:g}} to {{most:g}} rows, {WITHIN}; a "
    "smaller one decides nothing, as the source does not name the GPU of its largest"
)
def largest_gain_of_products(case: Case, *, slow: str, fast: str, least: int, most: int) -> Verdict:
    found = judged(case, gains(case, slow, fast, range(least, most + 1)), "largest")
    if found.kind != rules.NOT_REPRODUCED:
        return found
    return replace(found, kind=rules.NOT_TESTABLE, note="on another GPU it may be more")


@rule("the mean gain of {fast} over {slow} is larger with {least:g} rows than with {most:g}")
def larger_with_fewer_rows(case: Case, *, slow: str, fast: str, least: int, most: int) -> Verdict:
    few, many = (
        stats.mean(list(gains(case, slow, fast, [rows]).values())) for rows in (least, most)
    )
    ours = few.over(many)
    note = f"{few.value:.2f} x with {least} rows, {many.value:.2f} x with {most}"
    kind = rules.side_above(ours, 1, case.cell.family_size)
    return Verdict(kind, note, ours.value, ours.interval)


def gains(case: Case, slow: str, fast: str, batches: Container[int] | None = None) -> Gains:
    """The ratios on every problem at the cell's place; or only on those with this number of rows
    of activations.
    """
    problems = [p for p in case.results().problems() if case.place.items() <= p.items()]
    names = [p["name"] for p in problems if batches is None or p["batch"] in batches]
    if not names:
        raise NotTested("no such problem ran")
    ratios = case.at(*({"name": name} for name in names)).ratios(slow, fast, KERNEL_TIME)
    return dict(sorted(zip(names, ratios, strict=True), key=lambda one: one[1].value))

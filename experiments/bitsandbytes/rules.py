"""Rules of the claims of bitsandbytes' pull requests: gains over every layer of a pass, between two
kernels or two releases of the library.
"""

import re
from collections.abc import Container
from dataclasses import replace

from reprolab import stats
from reprolab.claims import rules
from reprolab.claims.evidence import Case, NotTested
from reprolab.claims.rules import WITHIN, Verdict, judge, rule
from reprolab.results import KERNEL_TIME, Results
from reprolab.stats import Estimate, span

VERSION = re.compile(r"bitsandbytes (\d+(?:\.\d+)*)")  # of a row's maker
RELEASE = re.compile(r"(before|from) (\d+(?:\.\d+)*)(?: (\w+))?")  # as an argument
Gains = dict[str, Estimate]  # by problem, in ascending order


@rule(f"the smallest gain of {{fast}} over {{slow}} in any layer, {WITHIN}")
def smallest_gain(case: Case, *, slow: str, fast: str, beside: str = "") -> Verdict:
    """`slow`, `fast`: a kernel, or a release as for `kernel_of`. `beside`: another pass, which
    decides if the claim's own has no such rows.
    """
    return judged(case, gains(case, slow, fast, beside), 0)


@rule(f"the largest gain of {{fast}} over {{slow}} in any layer, {WITHIN}")
def largest_gain(case: Case, *, slow: str, fast: str) -> Verdict:
    return judged(case, gains(case, slow, fast), -1)


def judged(case: Case, found: Gains, place: int) -> Verdict:
    """The gain with this rank among all decides."""
    name = list(found)[place]
    ends = span([gain.value for gain in found.values()])
    return judge(case, found[name], f"{ends} x over {len(found)} problems, this one on {name}")


@rule(
    f"the largest gain of {{fast}} over {{slow}} from {{least:g}} to {{most:g}} rows, {WITHIN}; a "
    "smaller one decides nothing, as the source does not name the GPU of its largest"
)
def largest_gain_of_products(
    case: Case, *, slow: str, fast: str, least: int, most: int, beside: str
) -> Verdict:
    found = judged(case, gains(case, slow, fast, beside, range(least, most + 1)), -1)
    if found.kind != rules.NOT_REPRODUCED:
        return found
    return replace(found, kind=rules.NOT_TESTABLE, note="on another GPU it may be more")


@rule("the mean gain of {fast} over {slow} is larger with {least:g} rows than with {most:g}")
def larger_with_fewer_rows(
    case: Case, *, slow: str, fast: str, least: int, most: int, beside: str
) -> Verdict:
    few, many = (
        stats.mean(list(gains(case, slow, fast, beside, [rows]).values())) for rows in (least, most)
    )
    ours = few.log.over(many.log).ratio
    note = f"{few.value:.2f} x with {least} rows, {many.value:.2f} x with {most}"
    kind = rules.above_one([ours], case.cell.family_size)
    return Verdict(kind, note, ours.value, ours.interval)


def gains(
    case: Case, slow: str, fast: str, beside: str = "", batches: Container[int] | None = None
) -> Gains:
    """The ratios on every problem at the cell's place, of the claim's own pass, or else of pass
    `beside`; or only on those with this number of rows of activations.
    """
    missing: list[NotTested] = []
    for pass_name in dict.fromkeys(("", beside)):
        try:
            results = case.results(pass_name)
            problems = [p for p in results.problems() if case.place.items() <= p.items()]
            names = [p["name"] for p in problems if batches is None or p["batch"] in batches]
            if not names:
                raise NotTested("no such problem ran")
            kernels = [kernel_of(results, said) for said in (slow, fast)]
            places = [{"name": name} for name in names]
            ratios = case.at(*places).ratios(*kernels, KERNEL_TIME, pass_name)
            found = zip(names, ratios, strict=True)
            return dict(sorted(found, key=lambda one: one[1].value))
        except NotTested as nothing:
            missing.append(nothing)
    raise missing[0]


def kernel_of(results: Results, said: str) -> str:
    """A kernel's name unchanged; for 'before 0.48' the newest library before that release; for
    'from 0.50 gemm' the first from that release on, by its kernel whose name ends in 'gemm'.
    """
    release = RELEASE.fullmatch(said)
    if not release:
        return said
    side, version, suffix = release[1], as_numbers(release[2]), f"_{release[3] or ''}".rstrip("_")
    found = {
        as_numbers(maker[1]): row.kernel
        for row in results.records
        if row.origin == "peer" and row.kernel.endswith(suffix)
        if (maker := VERSION.match(row.maker))
    }
    chosen = [v for v in sorted(found) if (v < version) == (side == "before")]
    if not chosen:
        raise NotTested(f"no bitsandbytes {said} ran: PEER=old.so:new.so, of make peer VERSION=...")
    return found[chosen[-1 if side == "before" else 0]]


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

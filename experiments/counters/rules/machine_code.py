"""Rules about compiled code, for the claims that experiment counters decides without a GPU."""

from reprolab import stats
from reprolab.claims import rules
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.rules import (
    COUNTS,
    WITHIN,
    Finding,
    Ours,
    over_places,
    percent_below,
    quotients,
    reproduced_if,
    rule,
    side_of_margins,
)
from reprolab.stats import significant, span

WEIGHT_BYTES = 2  # of fp16


def index_computation(
    case: Case, baseline: str, subject: str
) -> tuple[list[float], list[float], str]:
    """Instructions per weight of an architecture's code, before and after, in numbers and words.

    The tree's index computation has many paths, of which the shortest counts.
    """
    before, after = ([case.fact(k, "index_per_weight.least")] for k in (baseline, subject))
    longest = significant(case.fact(baseline, "index_per_weight.all"), 3)
    reason = (
        f"index computation per weight: {span(before)} instructions on the shortest way "
        f"through {baseline}, {longest} on all of its ways together, {span(after)} in {subject}"
    )
    return before, after, reason


@rule(f"of the instructions of the index computation, before over after, {WITHIN}")
def shorter_index(case: Case, *, baseline: str, subject: str) -> Ours:
    """The ratio of the two counts, which are in the reason."""
    before, after, reason = index_computation(case, baseline, subject)
    times = stats.summarize(quotients(before, after)).estimate
    short = f"{case.cell.text}: {span(before)} -> {span(after)} instructions per weight"
    return Ours(times, reason, short, spread_percent=0)


@rule("at most {value:g} instructions per weight, on the shortest way through {kernel}")
def index_count(case: Case, *, kernel: str) -> Finding:
    """The index computation in an architecture's code."""
    count = case.fact(kernel, "index_per_weight.least")
    short = f"{significant(count, 3)} instructions per weight in {kernel}"
    verdict = side_of_margins([percent_below(count, case.value)], COUNTS)
    return Finding(verdict, short, count, short=short)


@rule("{table} has less code than {literals}, and fewer instructions per weight")
def more_compact(case: Case, *, literals: str, table: str) -> Finding:
    facts = ("code_bytes", "instructions_per_weight.least")
    sizes, counts = ([case.fact(k, fact) for k in (literals, table)] for fact in facts)
    reason = (
        f"{case.cell.text}: {sizes[0]:g} -> {sizes[1]:g} bytes of code, "
        f"{significant(counts[0], 3)} -> {significant(counts[1], 3)} instructions per weight"
    )
    holds = sizes[1] < sizes[0] and counts[1] < counts[0]
    return over_places(reproduced_if(holds), reason, quotients(sizes[:1], sizes[1:]))


@rule("{table} takes fewer registers a thread than {literals}")
def fewer_registers(case: Case, *, literals: str, table: str) -> Finding:
    before, after = (case.fact(kernel, "registers") for kernel in (literals, table))
    said = f"{case.cell.text}: {after:g} registers a thread, {before:g} with literals"
    return over_places(reproduced_if(after < before), said, [after])


@rule("nothing: it is a judgement, shown with what a compiler makes of {kernel}")
def judgement_of_a_compiler(case: Case, *, kernel: str) -> Finding:
    """The compiled code of a kernel that names no widths and has no manually unrolled loop."""
    is_store = case.cell.at["what"] == "packed stores"
    fact = "widest_global_store_bytes" if is_store else "weights_per_trip"
    try:
        row = case.compiled(kernel, fact)
    except NotTested as nothing:
        raise NotTested(f"{nothing} (make triton compiles it)") from None
    counted = row.summary_of(f"sass_{fact}").median
    weights = counted / WEIGHT_BYTES if is_store else counted
    if weights < 1:
        raise NotTestable(f"{row.place}: {fact} is less than one weight")
    does = f"gives a thread {weights:g} weights to decode without a jump"
    if is_store:
        does = f"stores up to {counted:g} bytes at once from a thread, {weights:g} weights"
    short = f"{row.maker} {does}, unasked"
    reason = f"of the tiles of {kernel}, {short}"
    return Finding(rules.NOT_TESTABLE, reason, weights, short=short)

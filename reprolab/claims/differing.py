"""Why recorded GPUs have different verdicts on one claim."""

from collections.abc import Sequence

from reprolab.claims.evidence import Evidence
from reprolab.claims.ledger import Decision
from reprolab.claims.published import Differs
from reprolab.claims.rules import NOT_TESTABLE, NOT_TESTED
from reprolab.captions import listed
from reprolab.results import Record
from reprolab.stats import span

CLOCK = "sm_mhz"


def why(gpus: Sequence[str], machines: Sequence[Evidence], decisions: Sequence[Decision]) -> str:
    """A sentence without a full stop; '' unless two GPUs decide the claim differently."""
    decided = [
        (gpu, machine, d.verdict.replace("_", " "))
        for gpu, machine, d in zip(gpus, machines, decisions, strict=True)
        if d.verdict not in (NOT_TESTED, NOT_TESTABLE)
    ]
    if len({verdict for *_, verdict in decided}) < 2:
        return ""
    claim = decisions[0].claim
    text = listed([f"{verdict} on {gpu}" for gpu, _, verdict in decided])
    if claim.differs is None:
        return f"{claim.id} is {text}; why is not known"
    text = f"{claim.id} is {text}: {claim.differs.because}"
    shown = [
        shown_by(claim.differs, kernel, [m for _, m, _ in decided])
        for kernel in claim.differs.kernels
    ]
    return f"{text}: {', '.join(filter(None, shown))}"


def shown_by(differs: Differs, kernel: str, machines: Sequence[Evidence]) -> str:
    """'branch_tree 1987 to 2040 and 1965 to 1980 MHz'; '' if a GPU lacks the rows."""
    values = [of_kernel(differs, kernel, machine) for machine in machines]
    texts = [span(of_gpu, 4 if differs.metric == CLOCK else 3) for of_gpu in values if of_gpu]
    return f"{kernel} {listed(texts)} {differs.unit}" if len(texts) == len(machines) else ""


def of_kernel(differs: Differs, kernel: str, machine: Evidence) -> list[float]:
    experiment, _, pass_name = differs.rows.partition("/")
    results = machine.results.get((experiment, pass_name))
    rows = results.by_kernel.get(kernel, ()) if results else ()
    return [value for row in rows if (value := value_of(row, differs.metric)) is not None]


def value_of(row: Record, metric: str) -> float | None:
    if metric == CLOCK:
        return row.sm_mhz
    summary = row.shown(metric)
    return summary.median if summary else None

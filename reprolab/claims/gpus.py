"""Rules that compare two recorded GPUs which differ only in the speed of their memory."""

from contextlib import suppress

from reprolab import stats
from reprolab.claims.evidence import Case, Evidence, NotTested
from reprolab.claims.rules import Finding, rule, side_of
from reprolab.stats import Estimate, significant

ALIKE = ("compute_capability", "multiprocessors")  # what two GPUs have to have in common
APART_PERCENT = 20  # that their memories' bandwidths differ by at the least


@rule(
    "on the GPU with the slower memory it takes longer by the ratio of the bandwidths, "
    "{tolerance_percent:g} % less allowed"
)
def slower_with_slower_memory(case: Case, *, metric: str, kernel: str, controls: str) -> Finding:
    """Compares two GPUs with equally many multiprocessors of one kind. `controls`: kernels whose
    times are shown for comparison, separated by bars.
    """
    here = case.results().provenance["gpu"]
    alike = (e for e in other_gpus(case) if is_comparable(here, gpu_of(e, case)))
    other = next(alike, None)
    if other is None:
        raise NotTested("no run is recorded of such a GPU with another bandwidth")
    there = gpu_of(other, case)
    faster = here["theoretical_bandwidth_gb_s"] > there["theoretical_bandwidth_gb_s"]
    bandwidths = [gpu["theoretical_bandwidth_gb_s"] for gpu in (here, there)]

    def ratio(name: str) -> Estimate:
        own = case.measured(name, metric).summary_of(metric)
        others = case.on(other).measured(name, metric).summary_of(metric)
        return stats.ratio(others, own) if faster else stats.ratio(own, others)

    ours, wanted = ratio(kernel), max(bandwidths) / min(bandwidths)
    shown = []
    for name in controls.split("|"):
        with suppress(NotTested):
            shown.append(f"{name} {significant(ratio(name).value, 3)}")
    names = sorted((here["name"], there["name"]))
    said = f"{significant(ours.value, 3)} x the time with 1/{significant(wanted, 3)} the bandwidth"
    reason = f"{kernel} takes {said}, of {' and '.join(names)}; for comparison: {', '.join(shown)}"
    widened, bound = ours.widened(stats.SPREAD_PERCENT), wanted * (1 - case.tolerance_percent / 100)
    verdict = side_of(widened.low, widened.high, bound)
    return Finding(verdict, reason, ours.value, ours.interval, said)


def other_gpus(case: Case) -> list[Evidence]:
    """Recorded GPUs with this pass."""
    experiment, pass_name = case.comparison.experiment, case.comparison.arguments["pass"]
    recorded = case.evidence.recorded_beside(experiment)
    return [e for e in recorded if (experiment, pass_name) in e.results]


def gpu_of(evidence: Evidence, case: Case) -> dict:
    return case.on(evidence).results().provenance["gpu"]


def is_comparable(a: dict, b: dict) -> bool:
    bandwidths = [gpu["theoretical_bandwidth_gb_s"] for gpu in (a, b)]
    if None in bandwidths or any(a[name] != b[name] for name in ALIKE):
        return False
    return max(bandwidths) >= (1 + APART_PERCENT / 100) * min(bandwidths)

"""What stands beside every table and figure: machine, clocks, provenance, warnings."""

import shlex
from collections.abc import Sequence
from typing import Any

from plots.results import Check, Record, Results
from plots.stats import significant

CLOCK_TOLERANCE = 0.02  # beyond this, two compared variants did not run at one clock


def banner(results: Results) -> str:
    gpu = results.provenance["gpu"]["name"]
    return f"Recorded run of {gpu}, {date(results)}. Not measured on this machine."


def date(results: Results) -> str:
    return results.provenance["started"][:10]


def commit(results: Results) -> str:
    """Short commit, with '+dirty' where the tree had changes."""
    return results.provenance["commit"][:9] + "+dirty" * results.provenance["dirty"]


def span(values: dict[str, Any] | None, unit: str) -> str:
    """'1965-1980 MHz'; '' where it was not seen."""
    if not values or values.get("min") is None or values.get("max") is None:
        return ""
    low, high = f"{values['min']:.0f}", f"{values['max']:.0f}"
    return f"{low if low == high else f'{low}-{high}'} {unit}"


def clocks(results: Results) -> str:
    """The clock policy and what was seen of it."""
    found = results.provenance["clocks"]
    policy = "clocks not locked"
    if found["policy"] == "locked":
        policy = f"clocks locked at {found['locked_mhz']:.0f} MHz"
    probed = [r.sm_mhz for r in results.records if r.sm_mhz is not None]
    # Beside the rows' own batches where there are probes: NVML's range holds idle times as well.
    measured = {"min": min(probed), "max": max(probed)} if probed else found["sm_mhz"]
    seen = span(measured, "MHz")
    return f"{policy}, " + (f"SM {seen} seen" if seen else "SM clock not known (no NVML)")


def throttling(results: Results) -> str:
    found = results.provenance["clocks"]
    if found["throttle_reasons"] is None:
        return "throttle reasons not known"
    if found["throttle_reasons"]:
        return f"throttle reasons seen: {', '.join(found['throttle_reasons'])}"
    return "no throttle reasons seen"


def driver(results: Results) -> str:
    """'driver 580.159.04'; null in the file where NVML is not available."""
    version = results.provenance["gpu"]["driver"]
    return "driver not known" if version is None else f"driver {version}"


def machine_notes(results: Results) -> list[str]:
    """The lines under a table: the clocks, then where its numbers come from."""
    p = results.provenance
    clock_line = f"{clocks(results)}; {throttling(results)}."
    origin = (
        f"From {results.file.name}: {shlex.join(map(str, p['argv']))}; commit {commit(results)}; "
        f"{p['gpu']['name']}; {driver(results)}; "
        f"CUDA runtime {p['gpu']['cuda_runtime']}, nvcc {p['build']['nvcc']}; {date(results)}."
    )
    return [clock_line[0].upper() + clock_line[1:], origin]


def small_print(results: Results) -> list[str]:
    """The parts of the sentence on the machine at a figure's bottom."""
    p = results.provenance
    return [
        f"{p['gpu']['name']}, {driver(results)}, CUDA {p['gpu']['cuda_runtime']}",
        clocks(results),
        throttling(results),
        date(results),
        f"commit {commit(results)}",
    ]


def clock_warning(*records: Record) -> tuple[str, ...]:
    """A footnote with the numbers where compared variants ran at clocks too far apart."""
    seen = [(r.sm_mhz, r.kernel) for r in records if r.sm_mhz is not None]
    if len(seen) < 2:
        return ()
    (low, slow), (high, fast) = min(seen), max(seen)
    if high - low <= CLOCK_TOLERANCE * high:
        return ()
    return (
        f"SM clocks differ by {100 * (high - low) / high:.1f} % "
        f"(more than {100 * CLOCK_TOLERANCE:.0f} %): "
        f"{slow} at {low:.0f} MHz, {fast} at {high:.0f} MHz.",
    )


def check_notes(results: Results) -> list[str]:
    """How the instruments' own checks went: the count and the worst, and each that failed."""
    if not results.checks:
        return []
    worst = max(results.checks, key=lambda c: abs(c.difference_percent or 0.0))
    passed = sum(c.passed for c in results.checks)
    lines = [
        f"Instrument checks passed: {passed} of {len(results.checks)}; largest difference: "
        f"{describe_check(worst)}."
    ]
    return lines + [f"FAILED: {describe_check(c)}." for c in results.checks if not c.passed]


def describe_check(c: Check) -> str:
    change = "" if c.difference_percent is None else f", {c.difference_percent:+.2f} %"
    readings = f"{significant(c.first)} and {significant(c.second)} {c.unit}"
    return f"{c.name}, {readings}{change} (allowed: {c.allowed_percent:g} %)"


def first_warning(warnings: Sequence[str]) -> list[str]:
    """For a figure's caption: the first of the warnings, and how many more there are."""
    found = list(dict.fromkeys(warnings))
    more = f" ({len(found) - 1} more such pairs: see the table.)" if len(found) > 1 else ""
    return [found[0] + more] if found else []


OUTCOME_WORDS = {
    "bit_exact": "bit-exact",
    "deviation_as_declared": "declared deviation",
    "mismatch": "mismatch",
    "launch_failed": "launch failed",
    "unsupported": "unsupported",
    "not_verified": "not verified",
}


def outcome_words(record: Record) -> str:
    return "ceiling" if record.role == "ceiling" else OUTCOME_WORDS[record.outcome]


def outcome_notes(record: Record) -> tuple[str, ...]:
    """The footnote that an outcome needs: the reason, and how a kernel deviates."""
    text = record.reason
    if record.timed and record.outcome == "deviation_as_declared":
        declared = f"left out of rankings: {record.deviation}"
        text = f"{declared}; {text}" if text else declared
    elif not record.timed and not text:
        text = "no samples were taken" if record.outcome == "bit_exact" else "no reason given"
    return (f"{record.kernel}: {text}",) if text else ()

"""Captions of every table and figure: machine, clocks, provenance, warnings."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from reprolab.results import RIGHT, Check, Outcome, Record, Results
from reprolab.stats import is_within, significant
from reprolab.tables import Origin

CLOCK_PERCENT = 2  # further apart, two compared variants did not run at one clock
LOCK_PERCENT = 1  # further from its lock, a clock was not held


def banner(*files: Results) -> str:
    runs = "runs" if len({(r.gpu, date(r)) for r in files}) > 1 else "run"
    gpus = ", ".join(sorted({r.gpu for r in files}))
    return f"Recorded {runs} of {gpus}, {dates(files)}. Not measured on this machine."


def listed(names: Sequence[str]) -> str:
    """'T4, L4 and A100'"""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def date(results: Results) -> str:
    return results.provenance["started"][:10]


def dates(files: Iterable[Results]) -> str:
    """The first and the last, or the only one."""
    days = sorted(date(run) for r in files for run in r.runs())
    return " to ".join(dict.fromkeys((days[0], days[-1])))


def commit(results: Results) -> str:
    """Short commit; for uncommitted sources with '+dirty'."""
    origin = results.provenance
    return origin["commit"][:9] + "+dirty" * origin["dirty"]


def capitalized(text: str) -> str:
    """As the beginning of a sentence; the rest stays."""
    return text[0].upper() + text[1:]


def span(values: Sequence[float]) -> str:
    """'1965-1980', or '1980' if the two ends look the same."""
    return "-".join(dict.fromkeys(f"{end:.0f}" for end in (min(values), max(values))))


def clocks(results: Results) -> str:
    """The clock policy and the observed clocks."""
    recorded = results.provenance["clocks"]
    # From the probes next to the rows' own batches, if any: NVML's range includes idle times.
    seen = [r.sm_mhz for r in results.records if r.sm_mhz is not None]
    seen = seen or [recorded["sm_mhz"][end] for end in ("min", "max") if recorded["sm_mhz"]]
    if recorded["policy"] != "locked":
        sm = f"SM {span(seen)} MHz seen" if seen else "SM clock not known (no NVML)"
        return f"clocks not locked, {sm}"
    held = f"{span(seen)} MHz seen" if seen else "not known whether it was held"
    if not all(is_within(mhz, recorded["locked_mhz"], LOCK_PERCENT) for mhz in seen):
        held = f"but {held} (more than {LOCK_PERCENT} % off)"
    return f"SM clock locked at {recorded['locked_mhz']:.0f} MHz, {held}"


def throttling(results: Results) -> str:
    """The observed reasons; with them the highest power and temperature, which most of them are
    about."""
    clocks = results.provenance["clocks"]
    if clocks["throttle_reasons"] is None:
        return "throttle reasons not known"
    if not clocks["throttle_reasons"]:
        return "no throttle reasons seen"
    limit = results.provenance["gpu"]["power_limit_w"]
    parts = []
    if clocks["power_w"]:
        of_limit = "" if limit is None else f" of {limit:.0f}"
        parts.append(f"up to {clocks['power_w']['max']:.0f}{of_limit} W")
    if clocks["temperature_c"]:
        parts.append(f"{clocks['temperature_c']['max']:.0f} C")
    text = f"throttle reasons seen: {', '.join(clocks['throttle_reasons'])}"
    return text + (f" ({', '.join(parts)})" if parts else "")


def driver(results: Results) -> str:
    """'driver 580.159.04'; null in the file if NVML is not available."""
    version = results.provenance["gpu"]["driver"]
    return "driver not known" if version is None else f"driver {version}"


def machine(results: Results) -> list[str]:
    """The parts of the sentence about the machine of one run."""
    if results.gpu is None:
        build = results.provenance["build"]
        compiled = f"compiled by nvcc {build['nvcc']} for {build['architectures']}, not run"
        return [compiled, date(results), f"commit {commit(results)}"]
    return [
        f"{results.gpu}, {driver(results)}, CUDA {results.provenance['gpu']['cuda_runtime']}",
        clocks(results),
        throttling(results),
        date(results),
        f"commit {commit(results)}",
    ]


def machine_notes(*several: Results) -> list[Origin]:
    """The lines under a table: each run's machine and clocks, and the provenance of its
    numbers."""
    runs = [run for r in several for run in r.runs()]
    commands = [Origin(f"From {r.name}", in_words(r.provenance["argv"])) for r in runs]
    machines = [Origin("; ".join(machine(r))) for r in runs]
    return [origin for both in zip(machines, commands, strict=True) for origin in both]


Used = Sequence[tuple[Results, Sequence[Record]]]


def origins(used: Used) -> list[Origin]:
    """Date, commit, clocks and throttling of exactly these rows' runs, those with the same text
    together.
    """
    passes: dict[str, list[str]] = {}
    for run in (run for r, rows in used for run in r.runs(rows)):
        count = len(run.records)
        name = f"{count} row{'s' * (count != 1)} of {run.experiment}/{run.pass_name}"
        passes.setdefault("; ".join(machine(run)), []).append(name)
    return [Origin(f"{', '.join(names)}: {text}") for text, names in passes.items()]


def in_words(value: Any, within: bool = False) -> str:
    """Any value of a provenance: 'name NVIDIA H200, ecc True', or a command; '-' for null."""
    if isinstance(value, dict):
        text = ", ".join(f"{name} {in_words(inner, True)}" for name, inner in value.items())
        return f"({text})" if within else text
    if isinstance(value, list):
        return shlex.join(map(str, value)) or "none"
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def clock_mark(record: Record, highest_mhz: float | None) -> tuple[str, ...]:
    """A footnote for a row that ran at a lower clock than others of its problem. Rounded, so that
    many rows share one; CSV files have every clock.
    """
    if record.sm_mhz is None or not (percent := percent_apart(record.sm_mhz, highest_mhz)):
        return ()
    return (f"Ran at an SM clock {percent:.0f} % below the highest of the rows on its problem.",)


def clocks_apart(results: Results) -> list[str]:
    """A remark under a figure: the largest difference of the clocks of rows on one problem."""
    by_problem: dict[str, list[float]] = {}
    for r in results.records:
        if r.sm_mhz is not None and (r.is_verified or r.is_ceiling):
            by_problem.setdefault(r.problem["name"], []).append(r.sm_mhz)
    most = max((percent_apart(min(mhz), max(mhz)) for mhz in by_problem.values()), default=0.0)
    return [f"SM clocks of rows on one problem differ by up to {most:.1f} %."] * bool(most)


def percent_apart(low_mhz: float, high_mhz: float) -> float:
    """The difference by which the clock is lower; 0 if it is negligible."""
    percent = 100 * (high_mhz - low_mhz) / high_mhz
    return percent if percent > CLOCK_PERCENT else 0.0


def check_notes(results: Results) -> list[str]:
    """The instruments' own checks: the count, the worst, and each failed one."""
    worst = max(results.checks, key=lambda c: abs(c.difference_percent), default=None)
    if worst is None:
        return []
    count = f"{sum(c.passed for c in results.checks)} of {len(results.checks)}"
    lines = [f"Instrument checks passed: {count}; largest difference: {describe_check(worst)}."]
    return lines + [f"FAILED: {describe_check(c)}." for c in results.checks if not c.passed]


def describe_check(c: Check) -> str:
    readings = f"{significant(c.first)} and {significant(c.second)} {c.unit}"
    return f"{c.name}, {readings}, {c.difference_percent:+.2f} % (allowed: {c.allowed_percent:g} %)"


def outcome_words(record: Record) -> str:
    words = {Outcome.BIT_EXACT: "bit-exact", Outcome.WITHIN_BOUND: "within its bound"}
    words |= {Outcome.DEVIATION_AS_DECLARED: "declared deviation"}
    plain = words.get(record.outcome, record.outcome.replace("_", " "))
    return "ceiling" if record.is_ceiling else plain


def outcome_notes(results: Results, record: Record | None) -> tuple[str, ...]:
    """The footnote of an outcome: the reason, or the deviation of a kernel in all its rows."""
    if record is None:
        return ()
    text = record.reason
    if record.timed and record.deviates:
        text = f"left out of rankings: {record.deviation}{at_worst(results, record.kernel)}"
    elif not record.timed and not text:
        text = "no samples were taken" if record.outcome in RIGHT else "no reason given"
    return (f"{record.kernel}: {text}",) if text else ()


def at_worst(results: Results, kernel: str) -> str:
    """'; at worst: 910 of 1000 weights differ', over all deviating rows of a kernel."""
    rows = [r for r in results.records if r.kernel == kernel and r.deviates and r.reason]
    worst = max(rows, key=lambda r: r.mismatches or 0, default=None)
    if worst is None or worst.mismatches is None or "n" not in worst.problem:
        return f"; at worst: {worst.reason}" if worst else ""
    element = results.family_of(worst).element
    return f"; at worst: {worst.mismatches} of {worst.problem['n']} {element}s differ"

"""The hardware counters of a row as named values, with values derived from them and from its
launch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any

from reprolab.counter_table import NO_WAIT, WARP, Counter, known
from reprolab.families import Family
from reprolab.results import Record, Results
from reprolab.stats import Summary, difference_percent, significant
from reprolab.tables import NONE

ASKED_FOR = "asked for by METRICS"
PIPES, STALLS = "pipes", "stalls"  # groups of data/counters.json
PARTS_OF_FMA = ("pipe_fmaheavy", "pipe_fmalite")  # counted in pipe_fma too
LAUNCH = "launch"
MAX_WARPS = 1000  # more than any SM can hold
MANY_FOLD = 10  # larger changes are shown as a factor, not in percent


def by_family(results: Results) -> list[Results]:
    """A file with problems of several families, divided into one per family."""
    names = dict.fromkeys(record.problem["family"] for record in results.records)
    rows = {name: [r for r in results.records if r.problem["family"] == name] for name in names}
    return [replace(results, records=tuple(records)) for records in rows.values()]


@dataclass(frozen=True)
class Value:
    """One counter's value in one row: a number, a text for readers, or the reason for having
    neither."""

    counter: Counter
    number: float | None = None
    text: str = ""
    missing: str = ""
    samples: Summary | None = None

    @property
    def shown(self) -> str:
        if self.text or self.number is None:
            return self.text or NONE
        return f"{self.number:.1f}" if self.counter.unit == "%" else short(self.number)


Counts = dict[str, Value]  # by the counter's id


def counts_of(results: Results, record: Record, launched: Record | None) -> Counts:
    """All values of a row: derived values, its launch, then every counter, in the order of
    data/counters.json, and those that the user requested.

    `launched`: the same kernel and problem in a pass that recorded its launch. Empty if the output
    is wrong, because nothing was counted.
    """
    if not record.metrics:
        return {}
    measured = {}
    in_order = [name for name in known() if name in record.metrics]
    for name in dict.fromkeys([*in_order, *record.metrics]):
        metric = record.metrics[name]
        counter = known().get(name) or Counter(name, ASKED_FOR, name, metric.unit)
        s = metric.summary
        measured[name] = Value(counter, s and s.median, missing=metric.missing, samples=s)
    added = [*following(results, record, measured, launched), *launch_facts(launched)]
    return {v.counter.id: v for v in added} | measured


def following(
    results: Results, record: Record, measured: Counts, launched: Record | None
) -> Iterator[Value]:
    """Values calculated from several counters: `derived_notes` has the formulas."""
    element, n = results.family.element, record.problem.get("n")
    sms = results.multiprocessors
    per = Counter("instructions_per_element", "instructions", f"instructions per {element}", "")
    flight = Counter("bytes_in_flight", "occupancy and issue", "bytes in flight", "bytes")
    title = "theoretical occupancy"
    occupancy = Counter("theoretical_occupancy", "occupancy and issue", title, "%")
    resident = resident_warps(launched)

    def bytes_in_flight(active: float, warps: float) -> float | None:
        return active * sms * record.bytes_read / warps if warps else None

    def share_of_most(active: float, achieved: float) -> float | None:
        """The resident warps in percent of the maximum; `active` is `achieved` percent of it."""
        most = 100 * active / achieved if achieved > 0 else 0
        return 100 * resident / round(most) if 0.5 < most < MAX_WARPS else None

    why = "the row lacks it"
    needs = ("warp_instructions",)
    yield calculated(per, measured, needs, n and (lambda warp: WARP * warp / n), why)
    needs = ("active_warps", "warps_launched")
    yield calculated(flight, measured, needs, record.bytes_read and bytes_in_flight, why)
    needs = ("active_warps", "achieved_occupancy")
    why = "its launch was not recorded, or the number of blocks that fit is unknown"
    yield calculated(occupancy, measured, needs, resident and share_of_most, why)
    stalls = main_stalls(measured)
    counter = Counter("main_stalls", STALLS, "main stalls", "warps/issue")
    text = ", ".join(f"{stall_name(v)} {v.number:.1f}" for v in stalls)
    yield Value(counter, text=text, missing="" if text else "no stall was counted")


def calculated(
    counter: Counter, measured: Counts, needs: Sequence[str], formula: Any, without: str
) -> Value:
    """Applies a formula to counters; the reason of the first missing counter otherwise."""
    for name in needs:
        if name not in measured or measured[name].missing:
            why = measured[name].missing if name in measured else f"{name} was not counted"
            return Value(counter, missing=why)
    number = formula(*(measured[name].number for name in needs)) if formula else None
    if number is None or not isfinite(number):
        return Value(counter, missing=without)
    return Value(counter, number)


def main_stalls(measured: Counts) -> list[Value]:
    """The three reasons for which warps wait longest."""
    stalls = [v for v in measured.values() if v.counter.group == STALLS and v.number]
    stalls = [v for v in stalls if v.counter.id not in NO_WAIT]
    return sorted(stalls, key=lambda v: -v.number)[:3]


def stall_name(value: Value) -> str:
    return value.counter.title.removeprefix("stall: ")


def resident_warps(launched: Record | None) -> int | None:
    """The kernel's warps that fit on an SM; None if a call launches several kernels."""
    if launched is None or len(launched.launch) != 1:
        return None
    (kernel,) = launched.launch
    blocks = kernel["blocks_per_multiprocessor"]
    return blocks and blocks * -(-prod(kernel["block"]) // WARP)


LAUNCH_FACTS = (
    ("registers", "registers", "per thread"),
    ("static_shared_bytes", "static shared memory", "bytes"),
    ("dynamic_shared_bytes", "dynamic shared memory", "bytes"),
    ("threads_per_block", "threads per block", "threads"),
    ("blocks", "blocks", "blocks"),
    ("blocks_per_multiprocessor", "blocks that fit on an SM", "blocks"),
)


def launch_facts(launched: Record | None) -> Iterator[Value]:
    """CUPTI's record of the launch; one text for several kernels in one call."""
    sizes = {"threads_per_block": "block", "blocks": "grid"}
    for name, title, unit in LAUNCH_FACTS:
        counter = Counter(name, LAUNCH, title, unit)
        kernels = launched.launch if launched else ()
        values = [prod(k[sizes[name]]) if name in sizes else k[name] for k in kernels]
        if not values:
            yield Value(counter, missing="no pass of this run recorded its launch")
        elif None in values:
            yield Value(counter, missing="the occupancy calculator did not answer")
        else:
            number = values[0] if len(values) == 1 else None
            yield Value(counter, number, text=" + ".join(f"{n:,}" for n in values))


def short(number: float) -> str:
    """The number with four significant digits and k, M or G: '466.2 M', '19.58', '0'."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= factor:
            scale = 1e3 if letter == "k" else factor
            return f"{significant(number / scale)} {letter}"
    if number == int(number):
        return f"{number:.0f}"
    return significant(number) if abs(number) >= 1e-2 else f"{number:.2g}"


def change(value: Value, base: Value | None) -> str:
    """'-59%'; for percentages the points, '+1.1 pt'; from tenfold on the factor, 'x89'; '' if
    nothing changed, or there is no base.
    """
    if base is None or value.number is None or base.number in (None, value.number):
        return ""
    if value.counter.unit == "%":
        return f"{value.number - base.number:+.1f} pt"
    if not base.number or not isfinite(value.number / base.number):
        return ""
    if value.number >= MANY_FOLD * base.number > 0:
        return f"x{significant(value.number / base.number, 2)}"
    return f"{difference_percent(value.number, base.number):+.0f}%"


DERIVED_NOTES = (
    "Instructions per {element}: {warp} x warp instructions / {element}s, so that one instruction "
    "of a whole warp counts for each of its threads.",
    "Bytes in flight: warps resident on an SM on average x SMs x bytes read / warps launched: the "
    "bytes that the resident warps read.",
    "Theoretical occupancy: the warps of the blocks that fit on an SM (occupancy calculator), "
    "as a share of its maximum.",
    "Main stalls: the three reasons for which warps wait longest, and the cycles waited, of all "
    "warps together, per issued instruction (unit: warps/issue).",
)


def derived_notes(family: Family) -> list[str]:
    return [note.format(element=family.element, warp=WARP) for note in DERIVED_NOTES]

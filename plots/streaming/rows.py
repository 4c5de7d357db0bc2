"""What the passes of the experiment streaming measured, by what tells their problems apart."""

from collections.abc import Callable, Iterator
from typing import Any

from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.experiments import Run
from plots.tables import Noted, Values
from records.errors import InputError
from records.results import Results
from records.stats import difference_percent, significant

OURS = "streaming"
SCALES = {"": "plain", "_nested": "nested"}  # by how the name of a pass ends

Problem = dict[str, Any]
Rows = dict[str, Measured]  # of one problem, by kernel
Key = tuple[Any, ...]


def rows_by(results: Results, key: Callable[[Problem], Key]) -> dict[Key, Rows]:
    """Every row of a file; InputError where two problems have the same key."""
    found: dict[Key, Rows] = {}
    for p in results.problems():
        where = f"{results.file}: problem '{p['name']}'"
        if "model" in p:
            raise InputError(f"{where} is a forward pass, but single matrices are needed here")
        if key(p) in found:
            raise InputError(f"{where} has shape and format of another")
        found[key(p)] = {m.record.kernel: m for m in measure(results, p["name"])}
    return found


def shape(problem: Problem) -> Key:
    """Smaller matrices come first."""
    return problem["n"], problem["rows"], problem["columns"]


def place(problem: Problem) -> Key:
    """The shape, and by how many elements the arrays begin past an aligned address."""
    return *shape(problem), problem.get("offset", 0)


def shape_text(key: Key) -> str:
    """'28672x8192', of a key that begins with a shape."""
    return f"{key[1]}x{key[2]}"


def place_text(key: Key) -> str:
    """'28672x8192 at offset 1', of a key that is a place; without the offset where it is 0."""
    return shape_text(key) + f" at offset {key[3]}" * (key[3] > 0)


def speed(m: Measured | None) -> float | None:
    """GB/s of a row that takes part in comparisons."""
    return m.gb_s if m is not None and m.record.ranked else None


def change(m: Measured | None, base: Measured | None) -> float | None:
    """By how many percent its GB/s differ from another's; None where one has no time."""
    ours, theirs = speed(m), speed(base)
    return None if ours is None or theirs is None else difference_percent(ours, theirs)


def time_and_speed(m: Measured | None) -> Values:
    """What is shown of a row: what became of it where it has no time."""
    if m is None:
        return {"us": Noted(None, text="not run")}
    s, shares = m.record.summary, {"share_of_copy": m.of_copy, "share_of_ceiling": m.of_ceiling}
    if s is None:
        return {"us": m.no_number} | shares
    remark = () if m.record.ranked else m.outcome.notes
    speed = Noted(m.gb_s, m.marks, text=bandwidth.gb_text(m.gb_s) if m.gb_s else "")
    return {"us": Noted(s.median, remark, text=significant(s.median)), "gb_s": speed} | shares


def untimed(run: Run) -> Iterator[str]:
    """Where our kernel has no time, and why."""
    for results in run.passes.values():
        for r in results.records:
            if r.kernel == OURS and not r.ranked:
                why = r.reason or r.outcome.replace("_", " ")
                yield f"{results.name}: {r.problem['name']}: {why}"

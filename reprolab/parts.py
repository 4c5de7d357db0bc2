"""Result files of parts of a run: those that are done when the run is resumed, and their merger."""

from collections.abc import Collection, Sequence
from pathlib import Path

from reprolab import result_file
from reprolab.errors import NOT_MEASURED, WRONG_OUTPUT, InputError
from reprolab.result_file import Content
from reprolab.results import SCHEMA, WRONG, Outcome
from reprolab.sources import Sources

RETRIED = "out of memory"  # the next time there may be room


def folder_of(output: Path) -> Path:
    """The folder of a pass's parts, next to its file, which readers skip."""
    return output.parent / "parts"


def read(file: Path) -> Content | None:
    """None if there is no usable file: it is measured again."""
    try:
        return SCHEMA.read(file)
    except InputError:
        return None


def is_done(partial: Content | None, now: Sources, gpu: str) -> bool:
    """Whether this was already measured, from these sources, on the same GPU model.

    `gpu` is empty if unknown.
    """
    if partial is None:
        return False
    origin = partial["provenance"]
    if not Sources.of(origin).is_same(now) or (gpu and (origin["gpu"] or {}).get("name") != gpu):
        return False
    records = partial["records"]
    return not any(
        r["outcome"] == Outcome.NOT_MEASURED or r["reason"].startswith(RETRIED) for r in records
    )


def status_of(outcomes: Collection[str]) -> int:
    """The exit status of a program that measured rows with these outcomes."""
    if not set(WRONG).isdisjoint(outcomes):
        return WRONG_OUTPUT
    return NOT_MEASURED if Outcome.NOT_MEASURED in outcomes else 0


def join(partials: Sequence[Content]) -> Content:
    """One result file from several of one pass and the same sources: their rows, in this order."""
    runs = sorted((p["provenance"] for p in partials), key=lambda run: run["started"])
    units = dict.fromkeys(u for run in runs for u in run["gpu"].get("unit", "").split())
    provenance = runs[-1] | {
        "started": runs[0]["started"],
        "argv": command_of([run["argv"] for run in runs]),
        "gpu": runs[-1]["gpu"] | ({"unit": " ".join(units)} if units else {}),
        "runtime_s": round(sum(run["runtime_s"] for run in runs), 1),
        "clocks": join_clocks([run["clocks"] for run in runs]),
    }
    records = [record for partial in partials for record in partial["records"]]
    joined = result_file.content(
        partials[0]["experiment"], partials[0]["pass"], provenance, records
    )
    return joined | {"checks": [check for partial in partials for check in partial["checks"]]}


def command_of(commands: Sequence[list[str]]) -> list[str]:
    """The command that measures all of them: the last one, without the options that select cells if
    there are several."""
    *others, newest = commands
    if all(other == newest for other in others):
        return newest
    chosen = [i for i, word in enumerate(newest) if word in ("--model", "--batches")]
    return [word for i, word in enumerate(newest) if i not in chosen and i - 1 not in chosen]


def join_clocks(parts: Sequence[Content]) -> Content:
    """Merges the sensors' ranges of several processes, without a median, which cannot be
    computed."""
    joined = dict(parts[0])
    if len(parts) == 1:
        return joined
    for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
        ranges = [clocks[name] for clocks in parts if clocks[name]]
        ends = {end: [r[end] for r in ranges] for end in ("min", "max")}
        joined[name] = {"min": min(ends["min"]), "max": max(ends["max"])} if ranges else None
    reasons = [clocks["throttle_reasons"] for clocks in parts]
    known = [r for r in reasons if r is not None]
    joined["throttle_reasons"] = sorted({x for r in known for x in r}) if known else None
    return joined

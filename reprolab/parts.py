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
    """The folder of a pass's parts, next to its file; reprolab/folders.py skips it."""
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
    """One result file from several of one pass: their rows, in this order. If they are of several
    commits, their own provenances follow as `runs`, and each row has the index of its run.
    """
    runs, records = runs_of(partials)
    last = max(runs, key=lambda run: run["started"])
    units = dict.fromkeys(u for run in runs for u in (run["gpu"] or {}).get("unit", "").split())
    provenance = last | {
        "gpu": (last["gpu"] | {"unit": " ".join(units)}) if units else last["gpu"],
        "runtime_s": round(sum(run["runtime_s"] for run in runs), 1),
        "clocks": join_clocks([run["clocks"] for run in runs]),
    }
    if len({Sources.of(run) for run in runs}) > 1:
        provenance["runs"] = runs
    else:
        by_age = sorted(runs, key=lambda run: run["started"])
        provenance |= {"argv": command_of([run["argv"] for run in by_age])}
        provenance |= {"started": by_age[0]["started"]}
        records = [record for partial in partials for record in partial["records"]]
    families = joined_families(partials)
    joined = result_file.content(partials[0]["experiment"], partials[0]["pass"], provenance, [])
    joined |= {"families": families} if families else {}
    checks = [check for partial in partials for check in partial["checks"]]
    return joined | {"records": records, "checks": checks}


def runs_of(partials: Sequence[Content]) -> tuple[list[Content], list[Content]]:
    """The provenances of the files' runs, and the rows, each with the index of its run. The runs of
    a joined file whose rows were all replaced since are left out.
    """
    runs: list[Content] = []
    records = []
    for partial in partials:
        origins = partial["provenance"].get("runs", [partial["provenance"]])
        used = sorted({row.get("run", 0) for row in partial["records"]} or {0})
        index = {run: len(runs) + i for i, run in enumerate(used)}
        records += [row | {"run": index[row.get("run", 0)]} for row in partial["records"]]
        runs += [origins[run] for run in used]
    return runs, records


def joined_families(partials: Sequence[Content]) -> list[Content]:
    """Each family with the kernels of all files: a file describes only the kernels of its rows."""
    families: dict[str, Content] = {}
    for family in (f for partial in partials for f in partial.get("families", ())):
        before = families.get(family["name"], {"kernels": []})
        kernels = {kernel["name"]: kernel for kernel in before["kernels"] + family["kernels"]}
        families[family["name"]] = family | {"kernels": [kernels[name] for name in sorted(kernels)]}
    return list(families.values())


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

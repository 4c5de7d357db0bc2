"""The paper's Table II with ours beside it."""

from itertools import groupby

from claims.errors import InputError
from claims.ledger import Verdict
from claims.published import AVERAGE
from claims.results import Record
from claims.stats import INTERVAL_NOTE, significant
from plots import ledger
from plots.bandwidth import time_columns
from plots.captions import check_notes, clock_warning, machine_notes, outcome_notes
from plots.experiments import Run
from plots.neighbours import neighbour_notes
from plots.tables import NONE, Cell, Group, Row, Table, numbers, words

CLAIM = "kernel-speedup"
COMPARED = ("paper", "ours (interval)", "difference")


def compared_kernels(run: Run) -> tuple[str, str]:
    """The baseline and the kernel that the paper compares with it, as the claim names them."""
    arguments = run.decision(CLAIM).claim.arguments
    return arguments["baseline"], arguments["subject"]


def subject_of(verdict: Verdict) -> str:
    """The kernel that stands for the paper's, in one reading of its text."""
    return verdict.comparison.arguments["subject"]


def rows_of(run: Run, verdict: Verdict) -> tuple[Record | None, ...]:
    """The two rows that a cell compares, as far as the file has them."""
    at, replay = verdict.cell.at, run["replay"]
    name = next((p["name"] for p in replay.problems() if at.items() <= p.items()), "")
    kernels = (compared_kernels(run)[0], subject_of(verdict))
    return tuple(replay.find(name, kernel) for kernel in kernels)


def by_model(run: Run) -> list[list[Verdict]]:
    """One list for each reading of the paper's text, and in it for each model."""
    verdicts = run.decision(CLAIM).verdicts
    if any(not {"model", "batch"} <= v.cell.at.keys() for v in verdicts):
        raise InputError(f"{run.source.file}: claim '{CLAIM}': each cell needs a model and a batch")
    together = groupby(verdicts, lambda v: (v.comparison.reading, v.cell.at["model"]))
    return [list(found) for _, found in together]


def title_of(verdict: Verdict) -> str:
    """'gemma-2-27b (paper: gemma-27b)', where the paper calls it something else."""
    ours, papers = verdict.cell.at["model"], verdict.cell.model
    return ours + (f" (paper: {papers})" if papers != ours else "")


def reading_of(verdict: Verdict) -> str:
    """'shared_lut: tiles of 512 bytes'."""
    return f"{subject_of(verdict)}: {verdict.comparison.reading}"


def speedup_table(run: Run) -> Table:
    """Per reading, model and batch: the paper's value, ours, their difference and the verdict."""
    decision, replay, (baseline, _) = run.decision(CLAIM), run["replay"], compared_kernels(run)
    columns = [*numbers("batch", *COMPARED), *words("verdict")]
    columns += numbers(f"{baseline} ms", "its ms", "n")
    rows: list[Row | Group] = []
    for verdicts in by_model(run):
        rows.append(Group(f"{reading_of(verdicts[0])}; {title_of(verdicts[0])}"))
        rows += [[str(v.cell.at["batch"]), *values(run, v), *times(run, v)] for v in verdicts]
    source, subjects = run.source, list(dict.fromkeys(map(subject_of, decision.verdicts)))
    notes = [
        f"Reproduced if {decision.verdicts[0].criterion}; both readings of the paper's text are "
        "shown.",
        "ms: median time of all dequantizations of one forward pass, over n passes; "
        "intervals, minima and bytes per SM cycle are in table2.csv. average: mean of a model's "
        f"rows and of their interval ends. {INTERVAL_NOTE}",
        f"Paper: {source.gpu} at {source.fact('sm_clock_mhz')} MHz. {decision.claim.remark}.",
    ]
    data = [csv_row(run, v) for v in decision.verdicts]
    title = f"Table II: speed-up over {baseline} in dequantization, per forward pass"
    notes += [*check_notes(replay), *neighbour_notes(replay, (baseline, *subjects))]
    return Table("table2", title, columns, rows, data, notes, machine_notes(replay))


def short_table(run: Run) -> Table:
    """The averages alone, one row per model, with every reading of the paper's text."""
    averages = [v for v in run.decision(CLAIM).verdicts if v.cell.at["batch"] == AVERAGE]
    readings = list(dict.fromkeys(map(reading_of, averages)))
    columns = [*words("model"), *numbers("paper")]
    for reading in readings:
        columns += [*numbers(reading, "difference"), *words("verdict")]
    by_title: dict[str, list[Verdict]] = {}
    for v in averages:
        by_title.setdefault(title_of(v), []).append(v)
    rows: list[Row | Group] = [
        [title, f"{found[0].cell.value:.2f}", *(c for v in found for c in values(run, v)[1:])]
        for title, found in by_title.items()
    ]
    title = f"Average speed-up over {compared_kernels(run)[0]}, over the batches"
    return Table("short", title, columns, rows)


def values(run: Run, v: Verdict) -> list[Cell | str]:
    """The paper's value, ours, the difference and the verdict."""
    ours = NONE if v.ours is None else f"{v.ours:.2f}"
    if v.interval:
        ours += " ({:.2f}-{:.2f})".format(*v.interval)
    change = v.difference_percent
    return [
        f"{v.cell.value:.2f}",
        Cell(ours, clock_warning(*rows_of(run, v))),
        NONE if change is None else f"{change:+.1f} %",
        Cell(ledger.spell(v.verdict), (v.reason,) if v.verdict == "not_testable" else ()),
    ]


def times(run: Run, v: Verdict) -> list[Cell | str]:
    """Of the two kernels, in milliseconds, and the number of samples."""
    found: list[Cell | str] = []
    records = rows_of(run, v)
    for r in records:
        why = Cell(NONE, outcome_notes(run["replay"], r))
        found.append(significant(r.times.median / 1e3) if r and r.timed else why)
    counts = [str(r.times.n) for r in records if r and r.timed]
    return [*found, counts[-1] if counts else NONE]


def csv_row(run: Run, v: Verdict) -> dict[str, object]:
    low, high = v.interval or (None, None)
    found: dict[str, object] = {"reading": v.comparison.reading, "kernel": subject_of(v)}
    found |= v.cell.at | {"paper": v.cell.value, "ours": v.ours}
    found |= {"ours_low": low, "ours_high": high, "difference_percent": v.difference_percent}
    found |= {"verdict": v.verdict, "reason": v.reason}
    for name, r in zip(("baseline", "kernel"), rows_of(run, v), strict=True):
        found |= time_columns(r.summary if r else None, f"{name}_")
        found |= {f"{name}_bytes_per_cycle": r.bytes_per_cycle if r else None}
    n = times(run, v)[-1]
    return found | {"n": None if n == NONE else n, "reproduced_if": v.criterion}

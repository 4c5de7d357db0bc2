"""The paper's Table II with ours beside it."""

from itertools import groupby

from claims.ledger import Verdict
from claims.published import AVERAGE
from plots import ledger
from plots.bandwidth import time_values
from plots.captions import check_notes, clock_warning, machine_notes, outcome_notes
from plots.experiments import Run
from plots.tables import WORDS, Column, Noted, Table, Values
from records.errors import InputError
from records.results import Record
from records.stats import INTERVAL_NOTE, significant

CLAIM = "kernel-speedup"


def subject_of(verdict: Verdict) -> str:
    """The kernel that stands for the paper's, in one reading of its text."""
    return verdict.comparison.arguments["subject"]


def rows_of(run: Run, verdict: Verdict) -> tuple[Record | None, ...]:
    """The two rows that a cell compares, as far as the file has them."""
    at, replay = verdict.cell.at, run["replay"]
    name = next((p["name"] for p in replay.problems() if at.items() <= p.items()), "")
    kernels = (run.compared[0], subject_of(verdict))
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
    decision, replay, (baseline, _) = run.decision(CLAIM), run["replay"], run.compared
    columns = [
        Column("batch", "batch"),
        Column("paper", "paper", PLAIN),
        Column("ours (interval)", "ours"),
        Column("difference", "difference_percent", DIFFERENCE),
        Column("verdict", "verdict", **WORDS),
        Column(f"{baseline} ms", "_baseline", in_ms),
        Column("its ms", "_kernel", in_ms),
        Column("n", "n"),
    ]
    groups = {
        f"{reading_of(found[0])}; {title_of(found[0])}": [values(run, v) for v in found]
        for found in by_model(run)
    }
    source = run.source
    notes = [
        f"Reproduced if {decision.verdicts[0].criterion}; both readings of the paper's text are "
        "shown.",
        "ms: median time of all dequantizations of one forward pass, over n passes; "
        "intervals, minima and bytes per SM cycle are in table2.csv. average: mean of a model's "
        f"rows and of their interval ends. {INTERVAL_NOTE}",
        f"Paper: {source.gpu} at {source.fact('sm_clock_mhz')} MHz. {decision.claim.remark}.",
    ]
    title = f"Table II: speed-up over {baseline} in dequantization, per forward pass"
    notes += check_notes(replay)
    return Table("table2", title, columns, groups, notes, machine_notes(replay))


def short_table(run: Run) -> Table:
    """The averages alone, one row per model, with every reading of the paper's text."""
    averages = [v for v in run.decision(CLAIM).verdicts if v.cell.at["batch"] == AVERAGE]
    columns = [Column("model", "model", **WORDS), Column("paper", "paper", PLAIN)]
    for reading in dict.fromkeys(map(reading_of, averages)):
        columns.append(Column(reading, f"ours {reading}"))
        columns.append(Column("difference", f"difference_percent {reading}", DIFFERENCE))
        columns.append(Column("verdict", f"verdict {reading}", **WORDS))
    rows: dict[str, Values] = {}
    for v in averages:
        found = values(run, v)
        row = rows.setdefault(title_of(v), {"model": title_of(v), "paper": found["paper"]})
        shown = ("ours", "difference_percent", "verdict")
        row |= {f"{name} {reading_of(v)}": found[name] for name in shown}
    title = f"Average speed-up over {run.compared[0]}, over the batches"
    return Table("short", title, columns, {"": list(rows.values())})


PLAIN, DIFFERENCE = "{:.2f}".format, "{:+.1f} %".format


def in_ms(us: float) -> str:
    return significant(us / 1e3)


def values(run: Run, v: Verdict) -> Values:
    """The paper's value, ours, the difference and the verdict, and the times of both kernels."""
    records = rows_of(run, v)
    ours = ledger.ours_text(v, "{:.2f}")
    why = (v.reason,) if v.verdict == "not_testable" else ()
    low, high = v.interval or (None, None)
    found: Values = {"reading": v.comparison.reading, "kernel": subject_of(v)}
    found |= v.cell.at | {"paper": v.cell.value}
    found |= {"ours": Noted(v.ours, clock_warning(*records), text=ours)}
    found |= {"ours_low": low, "ours_high": high, "difference_percent": v.difference_percent}
    found |= {"verdict": Noted(v.verdict, why, text=ledger.spell(v.verdict)), "reason": v.reason}
    for name, r in zip(("baseline", "kernel"), records, strict=True):
        found |= time_values(r.summary if r else None, f"{name}_")
        found |= {f"{name}_bytes_per_cycle": r.bytes_per_cycle if r else None}
        missing = Noted(None, outcome_notes(run["replay"], r))
        found |= {f"_{name}": r.times.median if r and r.timed else missing}
    counts = [r.times.n for r in records if r and r.timed]
    return found | {"n": counts[-1] if counts else None, "reproduced_if": v.criterion}

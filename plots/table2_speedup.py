"""The paper's Table II with ours beside it."""

from itertools import groupby

from claims.errors import InputError
from claims.ledger import Decision, Verdict
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


def speed_up(run: Run) -> str:
    """'speed-up of shared_lut over branch_tree'."""
    return "speed-up of {1} over {0}".format(*compared_kernels(run))


def rows_of(run: Run, verdict: Verdict) -> tuple[Record | None, ...]:
    """The two rows that a cell compares, as far as the file has them."""
    at, replay = verdict.cell.at, run["replay"]
    name = next((p["name"] for p in replay.problems() if at.items() <= p.items()), "")
    return tuple(replay.find(name, kernel) for kernel in compared_kernels(run))


def by_model(run: Run) -> list[list[Verdict]]:
    verdicts = run.decision(CLAIM).verdicts
    if any(not {"model", "batch"} <= v.cell.at.keys() for v in verdicts):
        raise InputError(f"{run.source.file}: claim '{CLAIM}': each cell needs a model and a batch")
    return [list(found) for _, found in groupby(verdicts, lambda v: v.cell.at["model"])]


def title_of(verdict: Verdict) -> str:
    """'gemma-2-27b (paper: gemma-27b)', where the paper calls it something else."""
    ours, papers = verdict.cell.at["model"], verdict.cell.model
    return ours + (f" (paper: {papers})" if papers != ours else "")


def speedup_table(run: Run) -> Table:
    """Per model and batch: the paper's value, ours, their difference and the verdict."""
    decision, replay, kernels = run.decision(CLAIM), run["replay"], compared_kernels(run)
    columns = [*numbers("batch", *COMPARED), *words("verdict")]
    columns += numbers(*(f"{kernel} ms" for kernel in kernels), "n")
    rows: list[Row | Group] = []
    for verdicts in by_model(run):
        rows.append(Group(title_of(verdicts[0])))
        rows += [[str(v.cell.at["batch"]), *values(run, v), *times(run, v)] for v in verdicts]
    source = run.source
    notes = [
        f"Reproduced if {decision.criterion}.",
        "ms: median time of all dequantizations of one forward pass, over n passes; "
        "intervals, minima and bytes per SM cycle are in table2.csv. average: mean of a model's "
        f"rows and of their interval ends. {INTERVAL_NOTE}",
        f"Paper: {source.gpu} at {source.fact('sm_clock_mhz')} MHz; {decision.claim.remark}.",
    ]
    data = [csv_row(run, decision, v) for v in decision.verdicts]
    title = f"Table II: {speed_up(run)} in dequantization, per forward pass"
    notes += [*check_notes(replay), *neighbour_notes(replay, kernels)]
    return Table("table2", title, columns, rows, data, notes, machine_notes(replay))


def short_table(run: Run) -> Table:
    """The averages alone, one row per model."""
    columns = [*words("model"), *numbers(*COMPARED), *words("verdict")]
    averages = [v for v in run.decision(CLAIM).verdicts if v.cell.at["batch"] == AVERAGE]
    rows: list[Row | Group] = [[title_of(v), *values(run, v)] for v in averages]
    return Table("short", f"Average {speed_up(run)}, over the batches", columns, rows)


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


def csv_row(run: Run, decision: Decision, v: Verdict) -> dict[str, object]:
    low, high = v.interval or (None, None)
    found: dict[str, object] = v.cell.at | {"paper": v.cell.value, "ours": v.ours}
    found |= {"ours_low": low, "ours_high": high, "difference_percent": v.difference_percent}
    found |= {"verdict": v.verdict, "reason": v.reason}
    for kernel, r in zip(compared_kernels(run), rows_of(run, v), strict=True):
        found |= time_columns(r.summary if r else None, f"{kernel}_")
        found |= {f"{kernel}_bytes_per_cycle": r.bytes_per_cycle if r else None}
    n = times(run, v)[-1]
    return found | {"n": None if n == NONE else n, "reproduced_if": decision.criterion}

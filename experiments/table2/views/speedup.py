"""The paper's Table II next to ours, as tables and as a figure."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter

from reprolab.claims.ledger import Verdict
from reprolab.claims.published import AVERAGE
from reprolab.claims.rules import NOT_TESTED, REPRODUCED
from plots import figures as draw
from plots import sentences
from plots.bandwidth import Measured, measure, time_values
from plots.experiments import MAIN_CLAIM, Run
from reprolab.captions import check_notes, machine_notes, outcome_notes
from reprolab.errors import InputError
from reprolab.stats import INTERVAL_NOTE, Estimate, significant
from reprolab.tables import NONE, WORDS, Column, Noted, Table, Values

MIN_SPAN = 0.4  # of the speed-up axis, so that small differences stay small
PLAIN, DIFFERENCE = "{:.2f}".format, "{:+.1f} %".format


def subject_of(verdict: Verdict) -> str:
    """The kernel that represents the paper's, in one reading of its text."""
    return verdict.comparison.arguments["subject"]


def rows_of(run: Run, verdict: Verdict) -> list[Measured | None]:
    """The two rows that a cell compares, if the file has them."""
    at, replay = verdict.cell.at, run["replay"]
    name = next((p["name"] for p in replay.problems() if at.items() <= p.items()), "")
    rows = measure(replay, name)
    return [rows.get(kernel) for kernel in (run.compared[0], subject_of(verdict))]


def cells(run: Run) -> list[Verdict]:
    """Verdicts by reading of the paper's text, each for a model and a batch, or a model's
    average."""
    verdicts = run.decision(MAIN_CLAIM).verdicts
    if any(not {"model", "batch"} <= v.cell.at.keys() for v in verdicts):
        where = f"{run.source.file}: claim '{MAIN_CLAIM}'"
        raise InputError(f"{where}: each cell needs a model and a batch")
    return list(verdicts)


def title_of(verdict: Verdict) -> str:
    """'gemma-2-27b (paper: gemma-27b)', if the paper's name differs."""
    ours, papers = verdict.cell.at["model"], verdict.cell.model
    return ours + (f" (paper: {papers})" if papers != ours else "")


def reading_of(verdict: Verdict) -> str:
    """'shared_lut: tiles of 512 bytes'."""
    return f"{subject_of(verdict)}: {verdict.comparison.reading}"


def speedup_table(run: Run) -> Table:
    """Per reading, model and batch: the paper's value, ours, their difference and the verdict."""
    decision, replay, (baseline, _) = run.decision(MAIN_CLAIM), run["replay"], run.compared
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
    rows = [values(run, v) for v in cells(run)]
    source = run.source
    notes = [
        f"Reproduced if {decision.verdicts[0].criterion}; both readings of the paper's text are "
        "shown.",
        "ms: median time of all dequantizations of one forward pass, over n passes; "
        "intervals, minima and bytes per SM cycle are in table2.csv. average: mean of a model's "
        f"rows and of their interval ends. {INTERVAL_NOTE}",
        f"Paper: {source.gpu} at {source.fact('sm_clock_mhz')} MHz. {decision.claim.remark}.",
    ]
    measured = f"Speed-up over {baseline} in dequantization, per forward pass"
    title = f"{measured}: the paper's Table II"
    notes += check_notes(replay)
    return Table("table2", title, columns, rows, notes, machine_notes(replay))


def paper_and_ours(run: Run) -> Table:
    return paper_and({"ours": run})


def paper_and(runs: Mapping[str, Run]) -> Table:
    """Table II itself, models by batches, in the deciding reading; ours of each run, by name."""
    (first, *_) = runs.values()
    batches = [*first.source.every("batch"), AVERAGE]
    columns = [Column("model", "model", **WORDS)]
    columns += [Column(str(batch), f"batch {batch}") for batch in batches]
    rows: dict[str, Values] = {}
    for cells in zip(*(r.decision(MAIN_CLAIM).primary for r in runs.values()), strict=True):
        at = cells[0].cell.at
        row = rows.setdefault(at["model"], {"model": at["model"]})
        row[f"batch {at['batch']}"] = "|".join([PLAIN(cells[0].cell.value), *map(ours, cells)])
    title = f"Table II: {' | '.join(['paper', *runs])}, by batch, "
    title += "with ! where a cell is not reproduced"
    return Table("table2-brief", title, columns, list(rows.values()))


def ours(v: Verdict) -> str:
    wrong = "" if v.verdict in (REPRODUCED, NOT_TESTED) else " !"
    return (NONE if v.ours is None else PLAIN(v.ours)) + wrong


def in_ms(us: float) -> str:
    return significant(us / 1e3)


def values(run: Run, v: Verdict) -> Values:
    """The paper's value, ours, the difference and the verdict, and the times of both kernels."""
    rows = rows_of(run, v)
    why = (v.reason,) if v.verdict == "not_testable" else ()
    low, high = v.interval or (None, None)
    row: Values = {"_under": f"{reading_of(v)}; {title_of(v)}"}
    row |= {"reading": v.comparison.reading, "kernel": subject_of(v)}
    row |= v.cell.at | {"paper": v.cell.value}
    row |= {"ours": Noted(v.ours, text=sentences.ours_text(v, PLAIN))}
    row |= {"ours_low": low, "ours_high": high, "difference_percent": v.difference_percent}
    row |= {"verdict": Noted(v.verdict, why, text=sentences.spell(v.verdict)), "reason": v.reason}
    for name, m in zip(("baseline", "kernel"), rows, strict=True):
        r = m and m.record
        row |= time_values(r.summary if r else None, f"{name}_")
        row |= {f"{name}_bytes_per_cycle": r.bytes_per_cycle if r else None}
        missing = Noted(None, outcome_notes(run["replay"], r))
        row |= {f"_{name}": Noted(r.times.median, m.time_marks) if r and r.timed else missing}
    counts = [m.record.times.n for m in rows if m and m.record.timed]
    return row | {"n": counts[-1] if counts else None, "reproduced_if": v.criterion}


def cells_by_model(run: Run) -> list[list[list[Verdict]]]:
    """Without the averages: for each model, the cells in each reading of the text."""
    by_title: dict[str, dict[str, list[Verdict]]] = {}
    for v in cells(run):
        if v.cell.at["batch"] != AVERAGE:
            readings = by_title.setdefault(title_of(v), {})
            readings.setdefault(v.comparison.reading, []).append(v)
    return [list(readings.values()) for readings in by_title.values()]


def speedup_figure(run: Run) -> Figure:
    """Per model and batch: our speed-ups in every reading of the paper's text, and the paper's."""
    models = cells_by_model(run)
    figure, panels = draw.panels(3.3, len(models), sharey=True)
    for axes, readings in zip(panels, models, strict=True):
        draw_papers(axes, run, readings[0])
        for k, verdicts in enumerate(readings):
            draw_ours(axes, verdicts, k)
    every = [v for readings in models for verdicts in readings for v in verdicts]
    extremes = [v.cell.value for v in every] + [end for v in every for end in v.interval or ()]
    middle, span = (max(extremes) + min(extremes)) / 2, max(extremes) - min(extremes)
    half = max(span * 1.25, MIN_SPAN) / 2
    panels[0].set_ylim(middle - half, middle + half)
    panels[0].yaxis.set_major_formatter(FormatStrFormatter("%.2f"))
    panels[0].set_ylabel(f"speed-up over\n{run.compared[0]} (x)")
    draw.legend_above(figure, panels, last="paper")
    notes = [f"The axis does not start at 0. {INTERVAL_NOTE}"]
    draw.add_caption(figure, run["replay"], notes, run.recorded)
    return figure


def draw_papers(axes: Axes, run: Run, verdicts: list[Verdict]) -> None:
    """The panel, with the paper's value at the left of each batch's place."""
    source = run.source
    papers = [(x - 0.2, v.cell.value) for x, v in enumerate(verdicts)]
    label = f"paper ({source.gpu}, {source.fact('sm_clock_mhz')} MHz)"
    draw.mark(axes, papers, label=label, gid="paper")
    model = title_of(verdicts[0]).replace(" (", "\n(")
    axes.set_title(model if "\n" in model else model + "\n")
    axes.set_xticks(range(len(verdicts)), [str(v.cell.at["batch"]) for v in verdicts])
    axes.set_xlim(-0.6, len(verdicts) - 0.4)
    axes.set_xlabel("batch (sequences)")
    axes.grid(axis="x", visible=False)


def draw_ours(axes: Axes, verdicts: list[Verdict], k: int) -> None:
    """The k-th reading, at the right of each batch's place."""
    ours = [
        (x + 0.2, Estimate(v.ours, *(v.interval or (v.ours, v.ours))))
        for x, v in enumerate(verdicts)
        if v.ours is not None
    ]
    if ours:
        look = draw.look(subject_of(verdicts[0])) | {"linestyle": "none", "capsize": 3}
        draw.whiskers(axes, ours, label=reading_of(verdicts[0]), gid=f"ours-{k}", **look)
    elif k == 0:
        was_run = any(v.verdict != NOT_TESTED for v in verdicts)
        draw.annotate_empty(axes, "no value: see the table" if was_run else "not run", 0.92)

"""The latencies for which the paper has 290, 23 and 19 cycles."""

from matplotlib.figure import Figure

from plots import figures as draw
from plots.bandwidth import with_interval
from plots.experiments import Run
from plots.sentences import ours_text, spell
from reprolab.captions import machine_notes, outcome_notes, outcome_words
from reprolab.results import Record
from reprolab.stats import INTERVAL_NOTE, difference_percent
from reprolab.tables import KERNEL, WORDS, Column, Noted, Table, Values, rounded

PASS = METRIC = "latency"
CLAIMS = ("latency-12-15", "latency-15", "table-latency")
PUBLISHED = "latency_cycles"  # the paper's table
METHOD = (
    "Cycles (clock64) of one step of a chain, each step waiting for the previous one, by one "
    "thread on an otherwise idle GPU; one sample is the mean of {steps} steps. Nothing is "
    "subtracted: empty_chain is the time of the loop and the clock."
)
STORES = (
    "shared_store is not a latency: a store returns nothing to wait for, so this is the "
    "interval between two stores of a thread. shared_store_to_load is a store and the load "
    "that reads it back."
)
CHANGED = "Its first part was changed when the numbers were known."
CYCLES = [digit * power for power in (1, 10, 100, 1000) for digit in (1, 2, 5)]  # marked
PLACES = (
    "global_l2_one_line stays in one line, another in each sample, so that its interval shows "
    "the spread over distances from the SM; global_l2 averages over lines. global_dram enters "
    "another 2 MiB page with nearly every step, global_dram_by_page with few: they differ in the "
    "translation of addresses and the order of DRAM accesses."
)


def published(run: Run) -> dict[str, float]:
    """The paper's cycles by our kernel."""
    ours = run.source.fact("our_kernels").get(PUBLISHED, {})
    return {kernel: run.source.table(PUBLISHED)[name] for name, kernel in ours.items()}


def latency_table(run: Run) -> Table:
    """One row per memory, then the ratios in the claim."""
    results = run[PASS]
    verdicts = [v for name in CLAIMS for v in run.decision(name).verdicts if "slow" in v.cell.at]
    columns = [
        KERNEL,
        Column("one step", "what", detail=True, **WORDS),
        Column(f"paper ({run.source.gpu})", "paper_cycles", "{:g}".format, wrap=1),
        Column("ours (interval)", "median_cycles", wrap=1),
        Column("difference", "_difference", "{:+.0f} %".format, wrap=1),
        Column("ns", "_ns", rounded, wrap=1),
        Column("verdict", "_verdict", spell, **WORDS),
    ]
    rows = [cycles_row(run, record) for record in results.records]
    ratios = [
        {
            "_under": "Ratios of cycles",
            "kernel": "{slow} / {fast}".format(**v.cell.at),
            "paper_cycles": v.cell.value and Noted(v.cell.value, text=f"{v.cell.value:.1f}"),
            "median_cycles": Noted(v.ours, text=ours_text(v, "{:.2f}".format)),
            "_difference": v.difference_percent,
            "_verdict": Noted(v.verdict, (v.reason,)),
        }
        for v in verdicts
    ]
    steps = max(record.problem["timed_steps"] for record in results.records)
    notes = [METHOD.format(steps=steps), STORES, PLACES]
    notes.append(f"ns: at the SM clock seen with the samples. {INTERVAL_NOTE}")
    notes.append(f"Reproduced if {verdicts[0].criterion}. {CHANGED}")
    title = "Latency of memory, by one dependent access after another"
    return Table(PASS, title, columns, rows + ratios, notes, machine_notes(results), rows)


def cycles_row(run: Run, record: Record) -> Values:
    s, paper = record.shown(METRIC), published(run).get(record.kernel)
    row: Values = {"_under": "Cycles per step", "kernel": record.kernel}
    row |= {"what": record.problem["what"]}
    row |= {"outcome": record.outcome, "reason": record.reason}
    for name in ("median", "low", "high", "min", "max"):
        row[f"{name}_cycles"] = getattr(s, name, None)
    row |= {"n": getattr(s, "n", None), "paper_cycles": paper, "sm_mhz": record.sm_mhz}
    row |= {name: record.problem.get(name) for name in ("nodes", "memory_bytes", "timed_steps")}
    if s is None:
        notes = outcome_notes(run[PASS], record)
        return row | {"median_cycles": Noted(None, notes, text=outcome_words(record))}
    row["median_cycles"] = Noted(s.median, text=with_interval(s.estimate, "{:.1f}".format))
    row["_difference"] = None if paper is None else difference_percent(s.median, paper)
    return row | {"_ns": 1e3 * s.median / record.sm_mhz if record.sm_mhz else None}


def latency_figure(run: Run) -> Figure:
    """Ours with its interval and the paper's value, one memory per row."""
    timed = [(r, s) for r in run[PASS].records if (s := r.shown(METRIC))]
    figure, (axes,) = draw.panels(1.4 + 0.3 * max(3, len(timed)))
    for row, (_, s) in enumerate(timed):
        label = f"ours ({run[PASS].gpu}) with its interval"
        look = {"color": draw.BLUE, "fmt": "o", "capsize": 3, "label": label, "gid": "ours"}
        draw.whiskers(axes, [(row, s.estimate)], upright=False, **look)
        draw.write_right(axes, row, f"{s.median:.1f}")
    papers = [
        (value, row) for row, (r, _) in enumerate(timed) if (value := published(run).get(r.kernel))
    ]
    draw.mark(axes, papers, label=f"paper ({run.source.gpu})", gid="paper")
    if not timed:
        draw.annotate_empty(axes, "no row was measured: see the table")
    draw.kernel_rows(axes, [r.kernel for r, _ in timed])
    draw.logarithmic(axes.xaxis, CYCLES, "cycles per step")
    draw.legend_above(figure, [axes], last="paper")
    draw.add_caption(figure, run[PASS], [STORES, INTERVAL_NOTE], run.recorded)
    return figure

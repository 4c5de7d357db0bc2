"""The latencies behind the paper's 290, 23 and 19 cycles."""

from matplotlib.figure import Figure

from claims.ledger import Verdict
from claims.results import Record
from claims.stats import INTERVAL_NOTE, Summary, difference_percent, significant
from plots import figures as draw
from plots.captions import machine_notes, outcome_notes, outcome_words
from plots.experiments import Run
from plots.ledger import spell
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers, words

PASS = METRIC = "latency"
CLAIM = "latency-12-15"
PUBLISHED = "latency_cycles"  # the paper's table
METHOD = (
    "Cycles (clock64) of one step of a chain, each step waiting for the one before it, by one "
    "thread on an otherwise idle GPU; one sample is the mean of {steps} steps. Nothing is "
    "subtracted: empty_chain is what the loop and the clock take."
)
STORES = (
    "shared_store is no latency: a store returns nothing to wait for, and this is how soon its "
    "thread can store again. shared_store_to_load is a store and the load that reads it back."
)
CHANGED = "Its first part was changed when the numbers were known."
PLACES = (
    "global_l2_one_line stays in one line, another in each sample, so that its interval shows how "
    "far lines lie from the SM; global_l2 averages over them. global_dram enters another 2 MiB "
    "page with nearly every step, global_dram_by_page with few: what differs is the translation of "
    "addresses and the order in which DRAM is met."
)


def cycles(record: Record) -> Summary | None:
    metric = record.metric(METRIC)
    return metric.summary if metric and record.is_verified else None


def published(run: Run) -> dict[str, float]:
    """The paper's cycles by our kernel."""
    ours = run.source.fact("our_kernels").get(PUBLISHED, {})
    return {kernel: run.source.table(PUBLISHED)[name] for name, kernel in ours.items()}


def latency_table(run: Run) -> Table:
    """One row per memory, then the ratios that the claim is about."""
    results, decision = run[PASS], run.decision(CLAIM)
    columns = [KERNEL, *words("one step", detail=True)]
    columns += numbers(f"paper ({run.source.gpu})", "ours (interval)", "difference", "ns", wrap=1)
    columns += words("verdict")
    rows: list[Row | Group] = [Group("Cycles per step")]
    rows += [cycles_row(run, record) for record in results.records]
    rows += [Group("Ratios of cycles"), *(ratio_row(v) for v in decision.verdicts)]
    data = [csv_row(run, record) for record in results.records]
    steps = max(record.problem["timed_steps"] for record in results.records)
    notes = [METHOD.format(steps=steps), STORES, PLACES]
    notes.append(f"ns: at the SM clock seen with the samples. {INTERVAL_NOTE}")
    notes.append(f"Reproduced if {decision.verdicts[0].criterion}. {CHANGED}")
    title = "Latency of memory, by one dependent access after another"
    return Table(PASS, title, columns, rows, data, notes, machine_notes(results))


def cycles_row(run: Run, record: Record) -> list[Cell | str]:
    s, paper = cycles(record), published(run).get(record.kernel)
    quoted = NONE if paper is None else f"{paper:g}"
    if s is None:
        why = Cell(outcome_words(record), outcome_notes(run[PASS], record))
        return [record.kernel, record.problem["what"], quoted, why, NONE, NONE, NONE]
    ours = f"{s.median:.1f} ({s.low:.1f}-{s.high:.1f})"
    change = NONE if paper is None else f"{difference_percent(s.median, paper):+.0f} %"
    ns = significant(1e3 * s.median / record.sm_mhz, 3) if record.sm_mhz else NONE
    return [record.kernel, record.problem["what"], quoted, ours, change, ns, NONE]


def ratio_row(v: Verdict) -> list[Cell | str]:
    paper = NONE if v.cell.value is None else f"{v.cell.value:.1f}"
    ours = NONE if v.ours is None else f"{v.ours:.2f}"
    ours += " ({:.2f}-{:.2f})".format(*v.interval) if v.interval else ""
    change = NONE if v.difference_percent is None else f"{v.difference_percent:+.0f} %"
    what = "{slow} / {fast}".format(**v.cell.at)
    return [what, NONE, paper, ours, change, NONE, Cell(spell(v.verdict), (v.reason,))]


def csv_row(run: Run, record: Record) -> dict[str, object]:
    s = cycles(record)
    found: dict[str, object] = {"kernel": record.kernel, "what": record.problem["what"]}
    found |= {"outcome": record.outcome, "reason": record.reason}
    values = (s.median, s.low, s.high, s.min, s.max, s.n) if s else (None,) * 6
    names = ("median", "low", "high", "min", "max")
    found |= dict(zip([*(f"{name}_cycles" for name in names), "n"], values, strict=True))
    found |= {"paper_cycles": published(run).get(record.kernel), "sm_mhz": record.sm_mhz}
    places = ("nodes", "memory_bytes", "timed_steps")
    return found | {name: record.problem.get(name) for name in places}


def latency_figure(run: Run) -> Figure:
    """Ours with its interval and the paper's value, one memory per row."""
    timed = [(r, s) for r in run[PASS].records if (s := cycles(r))]
    figure = draw.new_figure(7.5, 1.4 + 0.3 * max(3, len(timed)))
    axes = figure.subplots()
    for row, (_, s) in enumerate(timed):
        label = f"ours ({run[PASS].gpu}) with its interval"
        look = {"color": draw.BLUE, "fmt": "o", "capsize": 3, "label": label, "gid": "ours"}
        axes.errorbar(s.median, row, xerr=[[s.median - s.low], [s.high - s.median]], **look)
        draw.write_right(axes, row, f"{s.median:.1f}")
    papers = [
        (value, row) for row, (r, _) in enumerate(timed) if (value := published(run).get(r.kernel))
    ]
    if papers:
        look = {
            "markerfacecolor": "none",
            "markersize": 11,
            "markeredgecolor": draw.ORANGE,
            "gid": "paper",
        }
        draw.mark(axes, *zip(*papers, strict=True), "D", label=f"paper ({run.source.gpu})", **look)
    if timed:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    else:
        draw.annotate_empty(axes, "no row was measured: see the table")
    draw.kernel_rows(axes, [r.kernel for r, _ in timed])
    axes.set_xlabel("cycles per step")
    draw.legend_above(figure, [axes], last="paper")
    draw.add_caption(figure, run[PASS], [STORES, INTERVAL_NOTE], run.recorded)
    return figure

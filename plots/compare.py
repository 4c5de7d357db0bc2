"""`make compare`: two runs side by side, row by row and kernel by kernel."""

import argparse
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import figures as draw
from plots.bandwidth import estimate_values, with_interval
from plots.documents import table_files
from plots.sides import Side, by_gpu, load_side
from reprolab import comparison, console, run_to_run
from reprolab.comparison import FASTER, SAME, SLOWER, UNDECIDED, VERDICTS, Key, Pair, Pool
from reprolab.errors import WRONG_OUTPUT, InputError
from reprolab.json_files import ROOT
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.results import Record
from reprolab.stats import CONFIDENCE, FALSE_SHARE, Estimate, significant
from reprolab.tables import KERNEL, WORDS, Column, Noted, Origin, Table, Values

NAME = "compare"
FINDINGS = 3  # of a verdict on the terminal
ROWS = 40  # of the figure
NAMED = 4  # kernels with rows in one side alone
TICKS = (0.01, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 5)
TICKS += (10, 100)
LOST = "lost"
ALLOWED = (UNDECIDED, LOST)  # what does not fail where the user says so
COLOURS = {SLOWER: draw.ORANGE, FASTER: draw.BLUE, SAME: draw.GREY, UNDECIDED: draw.AMBER}
RATIO_NOTE = (
    "A us, B us: geometric means of all samples. B / A: their ratio, above 1 if B takes longer, "
    f"with its {100 * CONFIDENCE:g} % interval: Welch's t on the samples' logarithms, "
    "widened by the spread between runs that samples of one run do not show."
)
VERDICT_NOTE = (
    f"{SLOWER}, {FASTER}: by more than the threshold, by Benjamini and Hochberg's procedure "
    f"over all rows: on average {100 * FALSE_SHARE:g} % of these verdicts at most are "
    f"wrong. Therefore one row's interval may be beyond it and decide nothing. {SAME}: the whole "
    f"interval is within the threshold, or both sides have the same samples of one run. "
    f"{UNDECIDED}: neither. Why: docs/comparing-runs.md."
)
CODE_NOTE = (
    "code: whether both rows ran the same machine code; if so, a difference is due to the "
    "machine, its driver or its clocks. -: unknown, or two architectures."
)
COPY_NOTE = (
    "A and B ran on different GPUs: B / A is the ratio of times divided by those of each "
    "side's own copy (cudaMemcpy, device to device) on the same problem, or else on the largest "
    "that both copied. A us, B us and the measured B / A are not divided."
)
KERNELS_NOTE = (
    "B / A: the geometric mean over the kernel's problems, weighted by the inverse of each ratio's "
    "variance. It shows a small difference that no single row shows. A deviation that is common "
    "to all problems of a kernel in a run widens its interval."
)
RATIO = Column("B / A", "_ratio", partial(with_interval, show="{:.3f}".format))
RAW = Column("B / A as measured", "ratio_raw", "{:.3f}".format)
VERDICT = Column("verdict", "verdict", align="l")
METRIC = Column("metric", "metric", **WORDS)
COLUMNS = [
    KERNEL,
    METRIC,
    Column("A us", "a_us", significant),
    Column("B us", "b_us", significant),
    RATIO,
    VERDICT,
    Column("code", "_code", align="l"),
]


@dataclass(frozen=True)
class Comparison:
    """`wrong`: B's rows that were verified in A; `lost`, `added`: rows that only A or only B
    has."""

    a: Side
    b: Side
    threshold: float  # percent
    pairs: list[Pair]
    pools: list[Pool]
    wrong: list[Record]
    lost: list[Key]
    added: list[Key]

    @property
    def over_copy(self) -> bool:
        return any(pair.over_copy for pair in self.pairs)

    @property
    def counts(self) -> Counter[str]:
        return Counter(pair.verdict for pair in self.pairs) + Counter({LOST: len(self.lost)})

    def of(self, verdict: str) -> tuple[list[Pair], list[Pool]]:
        """Rows and kernels, the farthest apart first."""
        both = self.pairs, self.pools
        sides = ([one for one in side if one.verdict == verdict and one.mean] for side in both)
        rows, kernels = (sorted(side, key=lambda x: -abs(x.mean.value)) for side in sides)
        return rows, kernels


def compared(a: Side, b: Side, threshold: float) -> Comparison:
    several = by_gpu(a, b)
    times_a, times_b = (comparison.times(side.files, by_gpu=several) for side in (a, b))
    budgets = run_to_run.recorded_budgets()
    pairs = comparison.compare(times_a, times_b, budgets, threshold)
    pools = comparison.pools(pairs, budgets, threshold)
    wrong = comparison.wrong_rows(a.files, b.files, several)
    lost = [key for key in times_a if key not in times_b and key.place not in wrong]
    added = [key for key in times_b if key not in times_a]
    return Comparison(a, b, threshold, pairs, pools, [*wrong.values()], lost, added)


def failures(result: Comparison, is_bound: bool, allowed: Sequence[str]) -> list[str]:
    """Why B fails; `is_bound`: the user gave a threshold."""
    texts = []
    if wrong := len(result.wrong):
        texts.append(f"{counted(wrong, 'row')} verified in A {is_are(wrong)} wrong in B")
    if is_bound:
        rows, kernels = result.of(SLOWER)
        texts += [f"{counted(len(rows), 'row')} {SLOWER}"] * bool(rows)
        texts += [f"{counted(len(kernels), 'kernel')} {SLOWER}"] * bool(kernels)
        left = [name for name in ALLOWED if name not in allowed]
        texts += [f"{result.counts[name]} {name}" for name in left if result.counts[name]]
    return texts


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def is_are(count: int) -> str:
    return "is" if count == 1 else "are"


def tables_of(result: Comparison) -> list[Table]:
    """The tables of kernels and of rows."""
    file = run_to_run.RUN_TO_RUN
    repeated = "; ".join(one["source"] for one in run_to_run.recorded().values())
    repeated += f" ({file.relative_to(ROOT)})"
    bounds = f"Threshold: {result.threshold:g} %. From run to run: {repeated}."
    sides = (("A", result.a), ("B", result.b))
    banner = " ".join(f"{name}: {side.banner}" for name, side in sides if side.banner)
    title = f"Times of B, {result.b.name}, against those of A, {result.a.name}"
    over = [COPY_NOTE] * result.over_copy
    columns = list(COLUMNS)
    if result.over_copy:
        columns[4:5] = [RAW, Column("B / A over copies", RATIO.of, RATIO.show)]
    notes = [RATIO_NOTE, VERDICT_NOTE, bounds, CODE_NOTE, *over, *one_sided(result)]
    rows = [values_of(pair) for pair in result.pairs]
    where = origins(result)
    by_row = Table(NAME, title, columns, rows, notes, where, banner=banner)
    heads = [KERNEL, METRIC, Column("problems", "problems"), columns[-3], VERDICT]
    notes = [KERNELS_NOTE, VERDICT_NOTE, bounds, *over]
    rows = [pool_values(pool) for pool in result.pools]
    name = f"{NAME}-kernels"
    by_kernel = Table(name, f"{title}: kernels", heads, rows, notes, where, banner=banner)
    return [by_kernel, by_row]


def pool_values(pool: Pool) -> Values:
    experiment, pass_name, gpu, kernel, metric = pool.kernel
    values: Values = {"_under": f"{experiment}/{pass_name}" + f" on {gpu}" * bool(gpu)}
    values |= {"experiment": experiment, "pass": pass_name, "kernel": kernel, "metric": metric}
    values |= {"gpu": gpu or None, "problems": len(pool.pairs), "verdict": pool.verdict}
    return values | estimate_values("ratio", pool.mean.ratio) | {"_ratio": pool.mean.ratio}


def values_of(pair: Pair) -> Values:
    key, a, b = pair.key, pair.a, pair.b
    ratio = pair.mean.ratio if pair.mean else None
    values: Values = {"_under": under_of(key)}
    values |= {"experiment": key.experiment, "pass": key.pass_name, "problem": key.problem}
    values |= {"kernel": key.kernel, "metric": key.metric, "a_us": a.us, "b_us": b.us}
    values |= {"gpu": key.gpu or None, "ratio_raw": pair.raw}
    values |= estimate_values("ratio", ratio) | {"_ratio": ratio}
    values["verdict"] = Noted(pair.verdict, (f"No interval: {pair.missing}.",) * bool(pair.missing))
    same = pair.same_code
    values |= {"same_code": None if same is None else int(same)}
    values |= {"_code": None if same is None else "same" if same else "changed"}
    values |= {"a_samples": len(a.metric.samples), "b_samples": len(b.metric.samples)}
    return values | {"a_sm_mhz": a.record.sm_mhz, "b_sm_mhz": b.record.sm_mhz}


def under_of(key: Key) -> str:
    return f"{key.experiment}/{key.pass_name}: {key.problem}" + f" on {key.gpu}" * bool(key.gpu)


def one_sided(result: Comparison) -> list[str]:
    """The rows that one side lacks, or has with a wrong output: their number and kernels."""
    lines = []
    if result.wrong:
        rows = kernels_of(row.kernel for row in result.wrong)
        count = counted(len(result.wrong), "row")
        is_wrong = f"that {'was' if len(result.wrong) == 1 else 'were'} verified in A"
        lines.append(f"Wrong: {count} {is_wrong} {is_are(len(result.wrong))} wrong in B: {rows}.")
    for name, keys in (("A", result.lost), ("B", result.added)):
        if keys:
            kernels = kernels_of(key.kernel for key in keys)
            lines.append(f"Only in {name}: {counted(len(keys), 'row')}, of {kernels}.")
    return lines


def kernels_of(names: Iterable[str]) -> str:
    rows_by_kernel = Counter(names)
    counts = sorted(rows_by_kernel.items(), key=lambda item: (-item[1], item))
    named = ", ".join(f"{kernel} ({count})" for kernel, count in counts[:NAMED])
    return named + f" and {len(counts) - NAMED} more kernels" * (len(counts) > NAMED)


def origins(result: Comparison) -> list[Origin]:
    recorded = ", a recorded run"
    return [
        Origin(f"{name}: {side.name}{recorded * bool(side.banner)}: {side.machine}")
        for name, side in (("A", result.a), ("B", result.b))
    ]


def figure_of(result: Comparison) -> Figure:
    """One row per kernel and metric: its ratio on every problem, and their mean."""
    pools = sorted(result.pools, key=lambda pool: -abs(pool.mean.value))[:ROWS]
    pools.sort(key=lambda pool: -pool.mean.value)
    figure, (axes,) = draw.panels(1.0 + 0.16 * max(4, len(pools)))
    edge = 1 + result.threshold / 100
    axes.axvspan(1 / edge, edge, color=draw.GREY, alpha=0.15, linewidth=0)
    axes.axvline(1, color=draw.BLACK, linewidth=0.8)
    for name in VERDICTS:
        dots = [
            (pair.mean.ratio.value, row)
            for row, pool in enumerate(pools)
            for pair in pool.pairs
            if pair.verdict == name
        ]
        if dots:
            style = {"color": COLOURS[name], "markersize": 4, "alpha": 0.7, "label": name}
            axes.plot(*zip(*dots, strict=True), "o", gid=name, **style)
    style = {"fmt": "|", "color": draw.BLACK, "linewidth": 0.8, "label": "mean, with its interval"}
    means = enumerate(pool.mean.ratio for pool in pools)
    draw.whiskers(axes, means, upright=False, gid="pooled", **style)
    draw.kernel_rows(axes, labels_of(pools))
    scale_ratios(axes, result)
    axes.set_xlabel("time of B over time of A" + ", each over its copy's" * result.over_copy)
    draw.legend_above(figure, [axes], columns=5)
    left_out = len(result.pools) - len(pools)
    notes = [f"Grey: the threshold of {result.threshold:g} %. Each dot is one problem."]
    notes[0] += " The axis is logarithmic beyond the threshold, also in the differences."
    notes[0] += f" Left out: {left_out} kernels that differ less." * bool(left_out)
    draw.write_caption(figure, [f"{origin.text}." for origin in origins(result)] + notes)
    return figure


def labels_of(pools: Sequence[Pool]) -> list[str]:
    """With the pass if several have a kernel of that name."""
    names = Counter(pool.label for pool in pools)
    return [
        pool.label + f" ({'/'.join(filter(None, pool.kernel[:3]))})" * (names[pool.label] > 1)
        for pool in pools
    ]


def scale_ratios(axes: Axes, result: Comparison) -> None:
    """The inverse hyperbolic sine of the ratio's logarithm: linear about 1, logarithmic far from
    it, so that an outlier leaves room for small differences.
    """
    unit = math.log1p((result.threshold or comparison.THRESHOLD_PERCENT) / 100)
    forward = lambda x: np.arcsinh(np.log(np.maximum(x, 1e-9)) / unit)  # noqa: E731
    axes.set_xscale("function", functions=(forward, lambda y: np.exp(np.sinh(y) * unit)))
    ratios = [pair.mean.ratio.value for pair in result.pairs if pair.mean]
    ratios += [end for pool in result.pools for end in pool.mean.ratio.interval]
    ends = forward(np.array([min([*ratios, math.exp(-unit)]), max([*ratios, math.exp(unit)])]))
    room = 0.05 * (ends[1] - ends[0])
    axes.set_xlim(*np.exp(np.sinh(ends + [-room, room]) * unit))
    ticks: list[float] = []
    for tick in sorted(TICKS, key=lambda tick: abs(math.log(tick))):
        at = forward(tick)
        if ends[0] <= at <= ends[1] and all(abs(at - forward(t)) > room for t in ticks):
            ticks.append(tick)
    axes.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    axes.minorticks_off()


def lines_of(result: Comparison, is_bound: bool, allowed: Sequence[str]) -> list[str]:
    """The text for the terminal: the verdict and the counts, the largest differences, the reasons
    for undecided rows, and the origin of the times.
    """
    lines = [first_line(result, is_bound, allowed), *one_sided(result)]
    for verdict in (SLOWER, FASTER):
        rows, kernels = result.of(verdict)
        for texts in ([*map(pool_text, kernels)], [*map(row_text, rows)]):
            lines += [f"{verdict}: {text}" for text in texts[:FINDINGS]]
            lines += [f"{verdict}: and {len(texts) - FINDINGS} more"] * (len(texts) > FINDINGS)
    lines += undecided_lines(result)
    return [*lines, *(f"{origin.text}." for origin in origins(result))]


def first_line(result: Comparison, is_bound: bool, allowed: Sequence[str]) -> str:
    why = failures(result, is_bound, allowed)
    status = f"Failed: {'; '.join(why)}. " if why else "Passed. " if is_bound else ""
    over = ", each time over that of its own GPU's copy" * result.over_copy
    gpus = " and ".join(", ".join(side.gpus) for side in (result.b, result.a))
    over += f" ({gpus})" * result.over_copy
    verdicts = ", ".join(f"{result.counts[name]} {name}" for name in (*VERDICTS, LOST))
    kernels = Counter(pool.verdict for pool in result.pools)
    pooled = ", ".join(f"{kernels[name]} {name}" for name in VERDICTS)
    return (
        f"{status}B, {result.b.name}, against A, {result.a.name}{over}: {len(result.pairs)} rows, "
        f"threshold {result.threshold:g} %: {verdicts}; {len(result.pools)} kernels: {pooled}."
    )


def row_text(pair: Pair) -> str:
    code = ", same machine code" * bool(pair.same_code)
    ratio = with_interval(pair.mean.ratio, "{:.3f}".format)
    ratio += f" over copies, {pair.raw:.3f} as measured" * pair.over_copy
    return f"{pair.key.kernel} on {pair.key.problem}, {pair.key.metric}: B / A {ratio}{code}"


def pool_text(pool: Pool) -> str:
    where = "/".join(filter(None, pool.kernel[:3]))
    problems = counted(len(pool.pairs), "problem")
    return f"{pool.label} {percent(pool.mean.ratio)} over {problems}, {where}"


def percent(ratio: Estimate) -> str:
    """'+3.0 % (+2.2 to +3.8 %)'"""
    value, low, high = (100 * (x - 1) for x in (ratio.value, *ratio.interval))
    return f"{value:+.1f} % ({low:+.1f} to {high:+.1f} %)"


def undecided_lines(result: Comparison) -> list[str]:
    """The reasons, and the rows without an interval that differ most."""
    rows = [pair for pair in result.pairs if pair.verdict == UNDECIDED]
    reasons = Counter(pair.undecided_why(result.threshold) for pair in rows)
    lines = [f"{UNDECIDED}: {count}: {why}" for why, count in reasons.most_common()]
    margin = math.log1p(result.threshold / 100)
    apart = lambda pair: abs(math.log(pair.raw))  # noqa: E731
    unknown = sorted((p for p in rows if p.mean is None and apart(p) > margin), key=apart)
    for pair in unknown[: -FINDINGS - 1 : -1]:
        where = f"{pair.key.kernel} on {pair.key.problem}, {pair.key.metric}"
        lines.append(f"{UNDECIDED}: {where}: B / A {pair.raw:.3f}, no interval: {pair.missing}")
    return lines


def threshold_of(given: str | None) -> float:
    try:
        percent = comparison.THRESHOLD_PERCENT if given is None else float(given)
    except ValueError:
        percent = math.nan
    if not 0 <= percent < 100:
        raise InputError(f"the threshold is '{given}', but a percentage from 0 to 100 is needed")
    return percent


def allowed_of(given: str) -> tuple[str, ...]:
    words = tuple(filter(None, re.split(r"[,\s]+", given)))
    if unknown := [word for word in words if word not in ALLOWED]:
        raise InputError(f"allow: '{unknown[0]}' is none of {', '.join(ALLOWED)}")
    return words


def run(args: argparse.Namespace) -> int:
    threshold, allowed = threshold_of(args.threshold), allowed_of(args.allow)
    is_bound = args.threshold is not None
    result = compared(load_side(args.a), load_side(args.b), threshold)
    if not result.pairs and not result.wrong:
        raise InputError(f"{result.a.name} and {result.b.name} have no common row with times")
    tables = tables_of(result)
    files = table_files(tables, args.output)
    with draw.figure_style():
        figure = figure_of(result)
        files |= {args.output / f"{NAME}.{k}": draw.encode(figure, k) for k in draw.FORMATS}
    write_files(files)
    first, *lines = lines_of(result, is_bound, allowed)
    place = printable(str(args.output))
    lines.append(f"Tables (txt, md, csv, tex) and figure (pdf, png, svg): {place}/")
    lines[-1] += "" if args.verbose else " (VERBOSE=1 shows the tables here)"
    console.show("", [], [first])
    console.show(tables[0].banner, tables if args.verbose else [], lines)
    return WRONG_OUTPUT if failures(result, is_bound, allowed) else 0

"""`make compare`: two runs side by side, row by row; and how often that is wrong."""

import argparse
import io
import math
import subprocess
import tarfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure

from claims.evidence import collect
from plots import figures as draw
from plots.bandwidth import estimate_values, with_interval
from plots.documents import table_files
from records import comparison, console
from records.captions import banner, clocks, commit, dates, driver
from records.comparison import FASTER, SAME, SLOWER, UNDECIDED, VERDICTS, Pair
from records.errors import InputError
from records.folders import recorded_folder, result_files
from records.interruption import held
from records.json_files import ROOT, read_json
from records.output import write_files
from records.printable import printable
from records.result_file import as_json
from records.results import KERNEL_TIME, Results
from records.sources import git
from records.stats import pool, significant
from records.tables import KERNEL, WORDS, Column, Noted, Origin, Table, Values

NAME = "compare"
FINDINGS = 3  # rows of a verdict on the terminal
ROWS = 40  # of the figure
MIN_RUNS = 4  # to repeat: the two that are compared are judged by what the others differ by
NAMED = 4  # kernels with rows in one side alone
COLOURS = {SLOWER: draw.ORANGE, FASTER: draw.BLUE, SAME: draw.GREY, UNDECIDED: draw.AMBER}
RATIO_NOTE = (
    "A us, B us: geometric means of all samples. B / A: their ratio, above 1 where B takes longer, "
    f"with its {100 * comparison.CONFIDENCE:g} % interval: Welch's t on the samples' logarithms, "
    "widened by what runs differ by beyond what the samples of one run show."
)
VERDICT_NOTE = (
    f"{SLOWER}, {FASTER}: by more than the threshold, as Benjamini and Hochberg's procedure has it "
    f"over all rows: on average {100 * comparison.FALSE_SHARE:g} % of these verdicts at most are "
    f"wrong. So one row's interval may lie beyond it and decide nothing. {SAME}: the whole "
    f"interval is within the threshold. {UNDECIDED}: neither. Why: docs/comparing-runs.md."
)
CODE_NOTE = (
    "code: whether both rows ran the same machine code; where they did, a difference is the "
    "machine's, its driver's or its clocks'. -: not known, or two architectures."
)
COPY_NOTE = (
    "A and B ran on different GPUs: B / A is of times over those of each side's own copy "
    "(cudaMemcpy, device to device) on the same problem, or else on the largest that both copied. "
    "A us and B us are as measured."
)
COLUMNS = [
    KERNEL,
    Column("metric", "metric", **WORDS),
    Column("A us", "a_us", significant),
    Column("B us", "b_us", significant),
    Column("B / A", "_ratio", partial(with_interval, show="{:.3f}".format)),
    Column("verdict", "verdict", align="l"),
    Column("code", "_code", align="l"),
]


@dataclass(frozen=True)
class Side:
    """One of the two: the newest file of each pass, of what ran on a GPU."""

    name: str  # as the user gave it
    files: tuple[Results, ...]

    @cached_property
    def times(self) -> comparison.Times:
        return comparison.times(self.files)

    @property
    def banner(self) -> str:
        return banner(*self.files) if recorded_folder(self.files[0].file) else ""

    @property
    def machine(self) -> str:
        """GPU, driver, clocks, dates and commits, each once."""
        by_policy: dict[tuple[str, float | None], list[Results]] = {}
        for r in self.files:
            found = r.provenance["clocks"]
            by_policy.setdefault((found["policy"], found["locked_mhz"]), []).append(r)
        parts = list(dict.fromkeys(f"{r.gpu}, {driver(r)}" for r in self.files))
        for files in by_policy.values():
            records = [record for r in files for record in r.records]
            parts.append(clocks(replace(files[0], records=tuple(records))))
        commits = ", ".join(dict.fromkeys(commit(r) for r in self.files))
        return "; ".join([*parts, dates(self.files), f"commit {commits}"])


def load_side(given: str) -> Side:
    """Of a result file, a folder of them, or REV:PATH, either of them in a commit."""
    revision, colon, path = given.partition(":")
    if Path(given).exists() or not colon:
        return side_of(given, Path(given))
    found = git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    if not found:
        raise InputError(f"{revision}: names no commit of this repository")
    command = ["git", "archive", "--format=tar", found, "--", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    if done.returncode or Path(path).is_absolute():
        raise InputError(f"{revision}:{path}: is not in that commit")
    with held(), TemporaryDirectory() as folder:  # which a signal would leave behind
        try:
            with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
                archive.extractall(folder, filter="data")
            return side_of(given, Path(folder, path))
        except tarfile.TarError as error:
            raise InputError(f"{given}: cannot be taken out of that commit: {error}") from None
        except InputError as error:
            raise InputError(str(error).replace(f"{folder}/", f"{revision}:")) from None


def side_of(given: str, path: Path) -> Side:
    found = collect(result_files(path)).results.values()
    side = Side(printable(given), tuple(results for results in found if results.gpu))
    if not side.times:
        raise InputError(f"{given}: holds no times")
    return side


def table_of(a: Side, b: Side, pairs: Sequence[Pair], threshold: float) -> Table:
    rows = [values_of(pair) for pair in pairs]
    title = f"Times of B, {b.name}, beside those of A, {a.name}"
    file = comparison.RUN_TO_RUN
    spread = f"{read_json(file)['source']} ({file.relative_to(ROOT)})"
    said = f"Threshold: {threshold:g} %. From run to run: {spread}."
    notes = [RATIO_NOTE, VERDICT_NOTE, said, CODE_NOTE]
    notes += [COPY_NOTE] * any(pair.over_copy for pair in pairs)
    notes += one_sided(a, b)
    banner = " ".join(f"{n}: {s.banner}" for n, s in (("A", a), ("B", b)) if s.banner)
    return Table(NAME, title, COLUMNS, rows, notes, origins(a, b), banner=banner)


def values_of(pair: Pair) -> Values:
    key, a, b = pair.key, pair.a, pair.b
    ratio = pair.mean.ratio if pair.mean else None
    found: Values = {"_under": f"{key.experiment}/{key.pass_name}: {key.problem}"}
    found |= {"experiment": key.experiment, "pass": key.pass_name, "problem": key.problem}
    found |= {"kernel": key.kernel, "metric": key.metric, "a_us": a.us, "b_us": b.us}
    found |= estimate_values("ratio", ratio) | {"_ratio": ratio}
    found["verdict"] = Noted(pair.verdict, (f"No interval: {pair.missing}.",) * bool(pair.missing))
    same = pair.same_code
    found |= {"same_code": None if same is None else int(same)}
    found |= {"_code": None if same is None else "same" if same else "changed"}
    found |= {"a_samples": len(a.metric.samples), "b_samples": len(b.metric.samples)}
    return found | {"a_sm_mhz": a.record.sm_mhz, "b_sm_mhz": b.record.sm_mhz}


def one_sided(a: Side, b: Side) -> list[str]:
    """The rows that the other side lacks: how many, and of which kernels."""
    keys = {"A": a.times.keys(), "B": b.times.keys()}
    lines = []
    for name, other in (("A", "B"), ("B", "A")):
        found = Counter(key.kernel for key in keys[name] - keys[other])
        counts = sorted(found.items(), key=lambda item: (-item[1], item))
        named = ", ".join(f"{kernel} ({count})" for kernel, count in counts[:NAMED])
        more = f" and {len(counts) - NAMED} more kernels" * (len(counts) > NAMED)
        if found:
            lines.append(f"Only in {name}: {found.total()} rows, of {named}{more}.")
    return lines


def origins(a: Side, b: Side) -> list[Origin]:
    recorded = ", a recorded run"
    return [
        Origin(f"{name}: {side.name}{recorded * bool(side.banner)}: {side.machine}")
        for name, side in (("A", a), ("B", b))
    ]


def figure_of(a: Side, b: Side, pairs: Sequence[Pair], threshold: float) -> Figure:
    """One row per kernel and metric: its ratio on every problem, and their median."""
    kernels: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.mean:
            is_usual = pair.key.metric == KERNEL_TIME
            label = pair.key.kernel + f", {pair.key.metric}" * (not is_usual)
            kernels.setdefault(label, []).append(pair)
    pooled = {label: pool([p.mean.ratio for p in found]) for label, found in kernels.items()}
    labels = sorted(pooled, key=lambda label: -abs(math.log(pooled[label].value)))[:ROWS]
    labels.sort(key=lambda label: -pooled[label].value)
    figure, (axes,) = draw.panels(1.0 + 0.16 * max(4, len(labels)))
    edge = 1 + threshold / 100
    axes.axvspan(1 / edge, edge, color=draw.GREY, alpha=0.15, linewidth=0)
    axes.axvline(1, color=draw.BLACK, linewidth=0.8)
    for name in VERDICTS:
        found = [(p, row) for row, label in enumerate(labels) for p in kernels[label]]
        dots = [(p.mean.ratio.value, row) for p, row in found if p.verdict == name]
        if dots:
            style = {"color": COLOURS[name], "markersize": 4, "alpha": 0.7, "label": name}
            axes.plot(*zip(*dots, strict=True), "o", gid=name, **style)
    style = {"fmt": "|", "color": draw.BLACK, "linewidth": 0.8, "label": "median, widest interval"}
    medians = enumerate(pooled[label] for label in labels)
    draw.whiskers(axes, medians, upright=False, gid="pooled", **style)
    draw.kernel_rows(axes, labels)
    axes.set_xlabel("time of B over time of A" + ", each over its copy's" * pairs[0].over_copy)
    draw.legend_above(figure, [axes], columns=5)
    left_out = len(kernels) - len(labels)
    notes = [f"Grey: the threshold of {threshold:g} %. Each dot is one problem."]
    notes[0] += f" Left out: {left_out} kernels that differ less." * bool(left_out)
    draw.write_caption(figure, [f"{origin.text}." for origin in origins(a, b)] + notes)
    return figure


def lines_of(a: Side, b: Side, pairs: Sequence[Pair], threshold: float) -> list[str]:
    """What the terminal says: the counts, the largest differences, and where they come from."""
    counts = Counter(pair.verdict for pair in pairs)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    lines = [
        f"B, {b.name}, beside A, {a.name}: {len(pairs)} rows, threshold {threshold:g} %: {said}."
    ]
    for verdict in (SLOWER, FASTER):
        found = [pair for pair in pairs if pair.verdict == verdict]
        for pair in sorted(found, key=lambda pair: -abs(pair.mean.value))[:FINDINGS]:
            key, ratio = pair.key, with_interval(pair.mean.ratio, "{:.3f}".format)
            code = ", same machine code" * bool(pair.same_code)
            where = f"{key.kernel} on {key.problem}, {key.metric}"
            lines.append(f"{verdict}: {where}: B / A {ratio}{code}")
    return [*lines, *one_sided(a, b), *(f"{origin.text}." for origin in origins(a, b))]


def threshold_of(given: str | None) -> float:
    try:
        percent = comparison.THRESHOLD_PERCENT if given is None else float(given)
    except ValueError:
        percent = math.nan
    if not 0 <= percent < 100:
        raise InputError(f"the threshold is '{given}', but a percentage from 0 to 100 is needed")
    return percent


def run(args: argparse.Namespace) -> int:
    threshold = threshold_of(args.threshold)
    a, b = load_side(args.a), load_side(args.b)
    pairs = comparison.compare(a.times, b.times, comparison.recorded_spread(), threshold)
    if not pairs:
        raise InputError(f"{a.name} and {b.name} have no row in common that has times")
    table = table_of(a, b, pairs, threshold)
    files = table_files([table], args.output)
    with draw.house_style():
        figure = figure_of(a, b, pairs, threshold)
        files |= {args.output / f"{NAME}.{k}": draw.encode(figure, k) for k in draw.FORMATS}
    write_files(files)
    lines = lines_of(a, b, pairs, threshold)
    place = printable(str(args.output))
    lines.append(f"Table (txt, md, csv, tex) and figure (pdf, png, svg): {place}/")
    lines[-1] += "" if args.verbose else " (VERBOSE=1 shows the table here)"
    console.show(table.banner, [table] * args.verbose, lines)
    return int(args.threshold is not None and any(pair.verdict == SLOWER for pair in pairs))


def repeat(args: argparse.Namespace) -> int:
    """How often `make compare` is wrong: repetitions of one run, each compared with each other."""
    sides = [load_side(given) for given in args.runs]
    check_repetitions(sides)
    runs = [comparison.times(side.files, args.kernel) for side in sides]
    rows: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    affected = 0
    for pair in combinations(range(len(runs)), 2):
        others = comparison.spread_of([run for i, run in enumerate(runs) if i not in pair])
        found = comparison.compare(*(runs[i] for i in pair), others, comparison.THRESHOLD_PERCENT)
        found = [p for p in found if p.mean and p.same_code is not False]
        false = [p for p in found if p.verdict in (SLOWER, FASTER)]
        rows.update(p.a.kind for p in found)
        wrong.update(p.a.kind for p in false)
        affected += bool(false)
    if not rows:
        raise InputError("these runs have no row in common that has times")
    count = len(runs) * (len(runs) - 1) // 2
    for kind in rows:
        share = 100 * wrong[kind] / rows[kind]
        print(f"{kind}: {wrong[kind]} of {rows[kind]} rows ({share:.2f} %) slower or faster")
    compared = f"{affected} of {count} comparisons of {len(runs)} runs"
    print(f"In {compared}, threshold {comparison.THRESHOLD_PERCENT:g} %.")
    files = [r for side in sides for r in side.files]
    source = f"{len(sides)} runs on {files[0].gpu}, {dates(files)}"
    spread = {
        kind: [c._asdict() for c in found] for kind, found in comparison.spread_of(runs).items()
    }
    columns = [
        Column("metric", "metric", **WORDS),
        Column("rows that take (us)", "from_us", "{:g} and more".format),
        Column("standard deviation %", "percent", "{:.2f}".format),
        Column("rows", "rows"),
    ]
    title = f"What one row differs by from run to run: {source}"
    values = [{"metric": kind} | c for kind, found in spread.items() for c in found]
    print()
    console.show("", [Table("repetitions", title, columns, values)])
    if args.write:
        about = {"source": source, "runs": args.runs, "kernels": args.kernel}
        write_files({args.write: as_json(about | {"spread": spread})})
    return 0


def check_repetitions(sides: list[Side]) -> None:
    """InputError unless they are several measurements on one kind of GPU."""
    if len(sides) < MIN_RUNS:
        raise InputError(f"give {MIN_RUNS} runs or more, not {len(sides)}")
    if len(gpus := {r.gpu for side in sides for r in side.files}) > 1:
        raise InputError(f"the runs are of {len(gpus)} kinds of GPU: {', '.join(sorted(gpus))}")
    seen: dict[tuple[str, ...], Side] = {}
    for side in sides:
        for r in side.files:
            when = (r.provenance["started"], r.provenance["gpu"].get("unit", ""))
            first = seen.setdefault((r.experiment, r.pass_name, *when), side)
            if first is not side:
                both = f"{first.name} and {side.name}"
                raise InputError(f"{both} hold the same measurement of {r.name}")

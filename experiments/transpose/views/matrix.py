"""The post's matrix: each kernel's bandwidth next to the post's, the results of two checks, and the
kernels in Mojo next to their counterparts in CUDA.
"""

from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import bandwidth
from plots import figures as draw
from plots.bandwidth import Measured, Rows, measure
from plots.experiments import Run, one_problem
from plots.neighbours import neighbour_notes
from plots.sample_figures import BANDWIDTH_LABEL
from reprolab.captions import check_notes, machine_notes
from reprolab.families import in_cuda
from reprolab.results import COPY, Outcome, Record, Results
from reprolab.stats import INTERVAL_NOTE, Estimate, ratio
from reprolab.tables import CODE, KERNEL, NONE, WORDS, Column, Noted, Table, Values, columns_of

RANDOM, CONSTANT = "random", "constant"  # what the matrix is filled with
SHIFTS = (-0.17, 0.17)  # off the row, of the post's values in CUDA and in Mojo
DIFFERS = (Outcome.MISMATCH, Outcome.DEVIATION_AS_DECLARED)


def random_matrix(run: Run) -> dict[str, Any]:
    """The only problem that is timed and ranked."""
    name = one_problem(run["matrix"], data=RANDOM)
    return next(p for p in run["matrix"].problems() if p["name"] == name)


def random_rows(run: Run) -> Rows:
    return measure(run["matrix"], random_matrix(run)["name"])


def size_text(matrix: dict[str, Any]) -> str:
    return f"{matrix['rows']} x {matrix['columns']} fp32"


def posts_matrix(run: Run) -> dict[str, Any]:
    return {name: run.source.fact(name) for name in ("rows", "columns")}


def published_gb_s(run: Run) -> dict[str, dict[str, float]]:
    """By language, the post's GB/s of our kernels, which its setup names."""
    source, by_language = run.source, {}
    timed = {r.kernel for r in run["matrix"].records if r.timed}
    for language, table in (("CUDA", "cuda_gb_s"), ("Mojo", "mojo_gb_s")):
        ours, theirs = source.fact("our_kernels").get(table, {}), source.tables.get(table, {})
        ours = {name: k if k in timed else in_cuda(k) for name, k in ours.items()}
        by_language[language] = {ours[name]: gb_s for name, gb_s in theirs.items() if name in ours}
    return by_language


def matrix_table(run: Run) -> Table:
    """One row per kernel, in groups: ranked, left out of the ranking, without a time, ceilings."""
    results, measured, source = run["matrix"], random_rows(run), run.source
    columns = [
        KERNEL,
        Column("GB/s (interval)", "gb_per_s"),
        bandwidth.CYCLE,
        Column("peak %", "share_of_peak", bandwidth.percent),
        bandwidth.COPY_SHARE,
        *(Column(f"post's {name} GB/s (%)", f"_post {name}", wrap=1) for name in ("CUDA", "Mojo")),
        Column("post's check", "_posts_check", **WORDS),
        Column("our check", "_our_check", **WORDS),
    ]
    names = [p["name"] for p in results.problems() if p["data"] == CONSTANT]
    constants = measure(results, names[0]) if names else {}
    rows = [values_of(run, m, constants.get(kernel)) for kernel, m in measured.items()]
    counts = sorted({r.summary.n for r in results.records if r.summary})
    peak = f"the driver does not say the theoretical bandwidth of this {results.gpu}."
    if results.peak_gb_s is not None:
        share = f"share of this {results.gpu}'s theoretical bandwidth"
        peak = f"{share}, {results.peak_gb_s:.0f} GB/s."
    ours, posts = random_matrix(run), posts_matrix(run)
    notes = [
        f"Samples per row: {', '.join(map(str, counts)) or NONE}.",
        bandwidth.GB_NOTE,
        bandwidth.CYCLE_NOTE,
        bandwidth.BEST_NOTE,
        f"Peak %: {peak}",
        bandwidth.COPY_NOTE,
        f"Post: {source.author}, {source.gpu}, {size_text(posts)}; its % are of the "
        f"{source.fact('peak_gb_s')} GB/s that it takes as that GPU's peak. Its "
        "batched kernel is two kernels here: one with right indices, as in its CUDA, and one with "
        "those of its Mojo.",
        "Post's check: a matrix filled with one constant, where elements in the wrong place look "
        "right. Our check: random values, every element compared by its bits.",
        *check_notes(results),
        *neighbour_notes(results),
    ]
    title = f"Transpose of a {size_text(ours)} matrix"
    if ours["rows"] * ours["columns"] < posts["rows"] * posts["columns"]:
        title += f" (smaller than the post's {size_text(posts)})"
    return Table("matrix", title, columns, rows, notes, machine_notes(results))


def values_of(run: Run, m: Measured, constant: Measured | None) -> Values:
    r, peak, values = m.record, run["matrix"].peak_gb_s, bandwidth.values_of(m)
    low, high = r.bandwidth.interval if r.bandwidth else (None, None)
    values |= {"_under": standing(m, constant)}
    values |= {"gb_per_s": Noted(m.gb_s, m.marks, m.best, text=speed_text(m))}
    values |= {"gb_per_s_low": low, "gb_per_s_high": high}
    values |= {"outcome_on_constant": constant.record.outcome if constant else "not_run"}
    values |= {"wrong_elements": r.mismatches, "elements": r.problem["n"]}
    values |= {"share_of_peak": m.gb_s / peak if m.gb_s and peak else None}
    for name, speeds in published_gb_s(run).items():
        gb_s = speeds.get(r.kernel)
        values |= {f"post_{name.lower()}_gb_s": gb_s, f"_post {name}": published(run, gb_s)}
    if r.is_ceiling:
        return values
    return values | {"_posts_check": posts_check(constant), "_our_check": our_check(m)}


def standing(m: Measured, constant: Measured | None) -> str:
    """The heading of a row's group."""
    if m.record.is_ceiling:
        return "Ceilings"
    if m.record.ranked:
        return "Bit-exact on random data: ranked by bandwidth"
    if m.record.timed:
        passes = constant is not None and constant.record.outcome == Outcome.BIT_EXACT
        verdict = "Passes the post's check, fails ours" if passes else "Fails our check"
        return f"{verdict}: left out of the ranking"
    return f"No time: {m.outcome.text}"


def speed_text(m: Measured) -> str:
    return bandwidth.with_interval(m.record.bandwidth, bandwidth.gb_text)


def published(run: Run, gb_s: float | None) -> str | None:
    """'2775.49 (84.1)': GB/s, and percent of the post's peak."""
    of_peak = 100 * (gb_s or 0) / run.source.fact("peak_gb_s")
    return None if gb_s is None else f"{gb_s:.2f} ({of_peak:.1f})"


def posts_check(constant: Measured | None) -> Noted:
    """On the constant matrix; a kernel that is unsupported there is also unsupported on random
    data, whose row has the reason."""
    if constant is None:
        return Noted(None, text="not run")
    texts = {Outcome.BIT_EXACT: "passes"} | dict.fromkeys(DIFFERS, "fails")
    outcome = constant.record.outcome
    if outcome in (Outcome.BIT_EXACT, Outcome.UNSUPPORTED):
        return Noted(outcome, text=texts.get(outcome, NONE))
    return Noted(outcome, constant.outcome.notes, text=texts.get(outcome, constant.outcome.text))


def our_check(m: Measured) -> Noted:
    wrong, elements = m.record.mismatches, m.record.problem["n"]
    if m.record.outcome not in DIFFERS:
        return replace(m.outcome, value=wrong)
    text = "differs" if wrong is None else f"{wrong:,} of {elements:,} wrong"
    return Noted(wrong, m.outcome.notes, text=text)


def brief(run: Run) -> list[Measured]:
    """The post's correct kernels, and the fastest."""
    names = {kernel for gb_s in published_gb_s(run).values() for kernel in gb_s}
    rows = random_rows(run).items()
    return [m for kernel, m in rows if m.best or (m.record.ranked and kernel in names)]


def short_table(run: Run) -> Table:
    """The post's kernels and the fastest one; a kernel and its counterpart in Mojo are one row."""
    gb_s = published_gb_s(run)
    pairs: dict[str, dict[str, Measured]] = {}
    for kernel, m in random_rows(run).items():
        counterpart = run["matrix"].kernel(m.record).counterpart
        pairs.setdefault(counterpart or kernel, {})["Mojo" if counterpart else "CUDA"] = m
    ours = Column("{} GB/s (interval)", "ours", wrap=1)
    posts = Column("post's {} GB/s (%)", "post", wrap=1)
    columns = [KERNEL, *columns_of(gb_s, ours, posts), Column("our check", "check", **WORDS)]
    rows: list[Values] = []
    for name, pair in pairs.items():
        row = {"kernel": name, "check": our_check(next(iter(pair.values()))).text}
        for language, posts in gb_s.items():
            m = pair.get(language)
            kernel = m.record.kernel if m else name
            row[f"{language} post"] = published(run, posts.get(kernel))
            if m:
                row[f"{language} ours"] = Noted(m.gb_s, best=m.best, text=speed_text(m))
        if any(row[f"{language} post"] for language in gb_s) or any(m.best for m in pair.values()):
            rows.append(row)
    return Table("short", matrix_table(run).title, columns, rows)


def languages_table(run: Run) -> Table | None:
    """One row per kernel in Mojo, next to the same one in CUDA; None if none ran."""
    results, measured = run["matrix"], random_rows(run)
    pairs = [
        (measured[counterpart], m)
        for m in measured.values()
        if (counterpart := results.kernel(m.record).counterpart) in measured
    ]
    if not pairs:
        return None
    columns = [
        Column("kernel", "cuda", **CODE),
        Column("in CUDA GB/s (interval)", "cuda_gb_per_s", wrap=1),
        Column("in Mojo GB/s (interval)", "mojo_gb_per_s", wrap=1),
        Column("Mojo over CUDA (interval)", "_over", over_text, wrap=1),
        Column("post's Mojo over CUDA", "post_mojo_over_cuda", "{:.3f}".format),
        Column("output", "outcome", **WORDS),
    ]
    makers = dict.fromkeys(m.record.maker for _, m in pairs)
    notes = [
        "The same tiles, swizzle, indices and threads in both languages. In Mojo: "
        f"{', '.join(makers)}, loaded as PTX.",
        bandwidth.GB_NOTE,
        "Mojo over CUDA: ratio of bandwidths. Where the intervals of the two overlap, no "
        "difference was seen.",
        "The post times Mojo by the host's clock around launches that are each waited for, CUDA by "
        "events around all of them. Its batched kernel in Mojo has the published indices.",
    ]
    title = f"Transpose of a {size_text(random_matrix(run))} matrix in CUDA and in Mojo"
    rows = [values_of_pair(run, *pair) for pair in pairs]
    return Table("languages", title, columns, rows, notes, machine_notes(results))


def values_of_pair(run: Run, cuda: Measured, mojo: Measured) -> Values:
    values: Values = {"cuda": cuda.record.kernel}
    values |= {"cuda_gb_per_s": Noted(cuda.gb_s, cuda.marks, text=speed_text(cuda))}
    values |= {"mojo": mojo.record.kernel, "maker": mojo.record.maker}
    values |= {"mojo_gb_per_s": Noted(mojo.gb_s, mojo.marks, text=speed_text(mojo))}
    # The ratio, if both are timed; a declared deviation moves as many bytes.
    timed = cuda.record.timed and mojo.record.timed
    over = ratio(cuda.record.times, mojo.record.times) if timed else None
    ends = (over.value, *over.interval, int(over.differs_from_one)) if over else (None,) * 4
    names = ("mojo_over_cuda", "low", "high", "difference_seen")
    values |= {"_over": over} | dict(zip(names, ends, strict=True))
    # The post's two numbers for the kernel.
    named = run.source.fact("our_kernels").get("cuda_gb_s", {})
    theirs = {ours: name for name, ours in named.items()}.get(cuda.record.kernel)
    tables = [run.source.tables.get(f"{language}_gb_s", {}) for language in ("mojo", "cuda")]
    posts = [table.get(theirs) for table in tables]
    values |= {"post_mojo_over_cuda": posts[0] / posts[1] if all(posts) else None}
    return values | {"outcome": mojo.outcome, "reason": mojo.record.reason or mojo.record.deviation}


def over_text(speedup: Estimate) -> str:
    text = bandwidth.with_interval(speedup, "{:.3f}".format)
    return text if speedup.differs_from_one else f"{text}: no difference seen"


def kernels_figure(run: Run) -> Figure:
    """One bar per kernel, the post's values on the same rows, the copy and the peak as lines."""
    results, posts_gb_s = run["matrix"], published_gb_s(run)
    names = {k for values in posts_gb_s.values() for k in values}
    every = [m.record for m in random_rows(run).values() if not m.record.is_ceiling]
    rows = beside_counterparts([r for r in every if r.bandwidth or r.kernel in names], results)
    figure, (axes,) = draw.panels(1.5 + 0.36 * max(3, len(rows)))
    posts = posts_kernels(run, rows)
    for row, record in enumerate(rows):
        draw_bar(axes, row, record, record.kernel in posts)
    for which, (language, values) in enumerate(posts_gb_s.items()):
        places = enumerate(rows)
        points = [(values[r.kernel], y + SHIFTS[which]) for y, r in places if r.kernel in values]
        look = {"label": f"post, {language} ({run.source.gpu})", "gid": language}
        draw.mark(axes, points, which, markerfacecolor="white", **look)  # on a bar
    copy, peak = results.find(random_matrix(run)["name"], COPY), results.peak_gb_s
    if copy is not None and copy.bandwidth is not None:
        gb_s = copy.bandwidth.value
        text = f"copy (cudaMemcpy): {gb_s:.0f}"
        axes.axvline(gb_s, color=draw.BLACK, linewidth=1.6, label=text, gid=COPY)
    if peak is not None:
        text = f"theoretical peak: {peak:.0f}"
        axes.axvline(peak, color=draw.GREY, linewidth=1.6, linestyle="--", label=text, gid="peak")
    if not rows:
        draw.annotate_empty(axes, "no timed row")
    draw.kernel_rows(axes, [label(r) for r in rows])
    axes.set_xlim(left=0)
    axes.set_xlabel(BANDWIDTH_LABEL)
    draw.legend_above(figure, [axes], columns=3, last="post")
    ours, posts = size_text(random_matrix(run)), size_text(posts_matrix(run))
    note = (
        f"Matrix: {ours}; the post's: {posts}. Bars: medians; whiskers: intervals; right of each "
        f"row: its median. {INTERVAL_NOTE}"
    )
    draw.add_caption(figure, results, [note], run.recorded)
    return figure


def posts_kernels(run: Run, rows: list[Record]) -> set[str]:
    """The post's kernels, in either language."""
    named = {k for table in run.source.fact("our_kernels").values() for k in table.values()}
    pairs = [(r.kernel, run["matrix"].kernel(r).counterpart) for r in rows]
    beside = {one for pair in pairs if named & set(pair) for one in pair if one}
    return named | beside


def beside_counterparts(rows: list[Record], results: Results) -> list[Record]:
    """Each kernel of another language directly below its counterpart in CUDA."""
    there = [r.kernel for r in rows]

    def place(record: Record) -> tuple[int, bool]:
        counterpart = results.kernel(record).counterpart
        below = counterpart in there
        return there.index(counterpart if below else record.kernel), below

    return sorted(rows, key=place)


def label(record: Record) -> str:
    if record.ranked:
        return record.kernel
    remark = "wrong on random data, unranked" if record.timed else "no time: see the table"
    return f"{record.kernel}\n({remark})"


def draw_bar(axes: Axes, row: int, record: Record, of_post: bool) -> None:
    bandwidth = record.bandwidth
    if bandwidth is None:
        return
    edge, whose = (draw.PINK, "a library's") if record.origin == "peer" else (draw.BLUE, "ours")
    if of_post:
        edge, whose = draw.GREEN, "the post's"
    look = {"color": "white", "hatch": "////", "label": "wrong on random data"}
    if record.ranked:
        look = {"color": edge, "label": whose}
    gid = "measured" if record.ranked else "deviation"
    axes.barh(row, bandwidth.value, 0.62, edgecolor=edge, linewidth=1, gid=gid, **look)
    look = {"ecolor": draw.BLACK, "elinewidth": 1, "capsize": 4, "capthick": 0.8}
    draw.whiskers(axes, [(row, bandwidth)], upright=False, fmt="none", **look)
    draw.write_right(axes, row, f"{bandwidth.value:.0f} GB/s")

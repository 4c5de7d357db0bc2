"""The post's matrix: each kernel's bandwidth beside the post's, what two checks say of it,
and the kernels in Mojo beside their counterparts in CUDA.
"""

from dataclasses import replace
from typing import Any

from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import check_notes, machine_notes
from plots.experiments import Run
from plots.neighbours import neighbour_notes
from plots.tables import CODE, KERNEL, NONE, WORDS, Column, Noted, Table, Values
from records.errors import InputError
from records.results import Results
from records.stats import Estimate, ratio

RANDOM, CONSTANT = "random", "constant"  # what the matrix is filled with


def random_matrix(results: Results) -> dict[str, Any]:
    """The problem that is timed and ranked: there is one."""
    found = [p for p in results.problems() if p["data"] == RANDOM]
    if len(found) != 1:
        raise InputError(
            f"{results.file}: needs one problem whose data is '{RANDOM}', but has {len(found)}"
        )
    return found[0]


def size_text(matrix: dict[str, Any]) -> str:
    return f"{matrix['rows']} x {matrix['columns']} fp32"


def posts_matrix(run: Run) -> dict[str, Any]:
    return {name: run.source.fact(name) for name in ("rows", "columns")}


def on_constant(results: Results) -> dict[str, Measured]:
    """The kernels' rows on the matrix of one constant, which is the post's own check."""
    names = [p["name"] for p in results.problems() if p["data"] == CONSTANT]
    return {m.record.kernel: m for name in names[:1] for m in measure(results, name)}


def published_gb_s(run: Run) -> dict[str, dict[str, float]]:
    """By language, the post's GB/s of our kernels (its setup says which is which).

    Of those in the post's own language, where they were timed.
    """
    source, found = run.source, {}
    timed = {r.kernel for r in run["matrix"].records if r.timed}
    for language, table in (("CUDA", "cuda_gb_s"), ("Mojo", "mojo_gb_s")):
        ours, theirs = source.fact("our_kernels").get(table, {}), source.tables.get(table, {})
        own = source.setup.get("own_language", {}).get(table, {})
        ours = ours | {name: kernel for name, kernel in own.items() if kernel in timed}
        found[language] = {ours[name]: gb_s for name, gb_s in theirs.items() if name in ours}
    return found


def matrix_table(run: Run) -> Table:
    """One row per kernel, in groups: ranked, left out of the ranking, without a time, ceilings."""
    results = run["matrix"]
    problem = random_matrix(results)
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
    groups: dict[str, list[Values]] = {}
    constants = on_constant(results)
    for m in measure(results, problem["name"]):
        constant = constants.get(m.record.kernel)
        groups.setdefault(standing(m, constant), []).append(values_of(run, m, constant))
    counts = sorted({r.summary.n for r in results.records if r.summary})
    notes = [f"Samples per row: {', '.join(map(str, counts)) or NONE}.", bandwidth.GB_NOTE]
    notes += [bandwidth.CYCLE_NOTE, bandwidth.BEST_NOTE, peak_note(results), bandwidth.COPY_NOTE]
    notes += [*post_notes(run), *check_notes(results), *neighbour_notes(results)]
    posts, title = posts_matrix(run), f"Transpose of a {size_text(problem)} matrix"
    if problem["rows"] * problem["columns"] < posts["rows"] * posts["columns"]:
        title += f" (smaller than the post's {size_text(posts)})"
    return Table("matrix", title, columns, groups, notes, machine_notes(results))


def values_of(run: Run, m: Measured, constant: Measured | None) -> Values:
    r, peak, found = m.record, run["matrix"].peak_gb_s, bandwidth.values_of(m)
    low, high = r.bandwidth.interval if r.bandwidth else (None, None)
    found |= {"gb_per_s": Noted(m.gb_s, m.marks, m.best, text=speed_text(m))}
    found |= {"gb_per_s_low": low, "gb_per_s_high": high}
    found |= {"outcome_on_constant": constant.record.outcome if constant else "not_run"}
    found |= {"wrong_elements": r.mismatches, "elements": r.problem["n"]}
    found |= {"share_of_peak": m.gb_s / peak if m.gb_s and peak else None}
    for name, values in published_gb_s(run).items():
        gb_s = values.get(r.kernel)
        found |= {f"post_{name.lower()}_gb_s": gb_s, f"_post {name}": published(run, gb_s)}
    if r.is_ceiling:
        return found
    return found | {"_posts_check": posts_check(constant), "_our_check": our_check(m)}


def brief(run: Run) -> list[Measured]:
    """The post's kernels as far as they are right, and the fastest."""
    names = {kernel for found in published_gb_s(run).values() for kernel in found}
    rows = measure(run["matrix"], random_matrix(run["matrix"])["name"])
    return [m for m in rows if m.best or (m.record.ranked and m.record.kernel in names)]


def short_table(run: Run) -> Table:
    """The post's kernels and the fastest one; a kernel and its counterpart in Mojo are one row."""
    gb_s = published_gb_s(run)
    pairs: dict[str, dict[str, Measured]] = {}
    for m in measure(run["matrix"], random_matrix(run["matrix"])["name"]):
        counterpart = run["matrix"].kernel(m.record).counterpart
        language = "Mojo" if counterpart else "CUDA"
        pairs.setdefault(counterpart or m.record.kernel, {})[language] = m
    columns = [KERNEL]
    for language in gb_s:
        columns.append(Column(f"{language} GB/s (interval)", f"{language} ours", wrap=1))
        columns.append(Column(f"post's {language} GB/s (%)", f"{language} post", wrap=1))
    columns.append(Column("our check", "check", **WORDS))
    rows: list[Values] = []
    for name, pair in pairs.items():
        ours = {language: pair[language].record.kernel for language in gb_s if language in pair}
        posts = {language: found.get(ours.get(language, name)) for language, found in gb_s.items()}
        if not (any(posts.values()) or any(m.best for m in pair.values())):
            continue
        row = {"kernel": name, "check": our_check(next(iter(pair.values()))).text}
        for language, value in posts.items():
            row[f"{language} post"] = published(run, value)
            if m := pair.get(language):
                row[f"{language} ours"] = Noted(m.gb_s, best=m.best, text=speed_text(m))
        rows.append(row)
    return Table("short", matrix_table(run).title, columns, {"": rows})


def standing(m: Measured, constant: Measured | None) -> str:
    """The heading of the group that a row belongs to."""
    if m.record.is_ceiling:
        return "Ceilings"
    if m.record.ranked:
        return "Bit-exact on random data: ranked by bandwidth"
    if m.record.timed:
        passes = constant is not None and constant.record.outcome == "bit_exact"
        verdict = "Passes the post's check, fails ours" if passes else "Fails our check"
        return f"{verdict}: left out of the ranking"
    return f"No time: {m.outcome.text}"


def speed_text(m: Measured) -> str:
    return bandwidth.with_interval(m.record.bandwidth, "{:.0f}")


def published(run: Run, gb_s: float | None) -> str | None:
    """'2775.49 (84.1)': GB/s, and percent of what the post takes as the peak."""
    of_peak = 100 * (gb_s or 0) / run.source.fact("peak_gb_s")
    return None if gb_s is None else f"{gb_s:.2f} ({of_peak:.1f})"


def posts_check(constant: Measured | None) -> Noted:
    """On the constant matrix; what is unsupported there is so on random data, which says why."""
    if constant is None:
        return Noted(None, text="not run")
    texts = {"bit_exact": "passes", "mismatch": "fails", "deviation_as_declared": "fails"}
    outcome = constant.record.outcome
    if outcome in ("bit_exact", "unsupported"):
        return Noted(outcome, text=texts.get(outcome, NONE))
    return Noted(outcome, constant.outcome.notes, text=texts.get(outcome, constant.outcome.text))


def our_check(m: Measured) -> Noted:
    wrong, elements = m.record.mismatches, m.record.problem["n"]
    if m.record.outcome not in ("mismatch", "deviation_as_declared"):
        return replace(m.outcome, value=wrong)
    text = "differs" if wrong is None else f"{wrong:,} of {elements:,} wrong"
    return Noted(wrong, m.outcome.notes, text=text)


def peak_note(results: Results) -> str:
    peak = results.peak_gb_s
    if peak is None:
        return f"Peak %: the driver does not say the theoretical bandwidth of this {results.gpu}."
    return f"Peak %: share of this {results.gpu}'s theoretical bandwidth, {peak:.0f} GB/s."


def post_notes(run: Run) -> list[str]:
    source = run.source
    return [
        f"Post: {source.author}, {source.gpu}, {size_text(posts_matrix(run))}; its % are of the "
        f"{source.fact('peak_gb_s')} GB/s that it takes as that GPU's peak. Its "
        "batched kernel is two kernels here: one with right indices, as in its CUDA, and one with "
        "those of its Mojo.",
        "Post's check: a matrix filled with one constant, where elements in the wrong place look "
        "right. Our check: random values, every element compared by its bits.",
    ]


def languages_table(run: Run) -> Table | None:
    """One row per kernel in Mojo, beside the one with the same tiles, indices and launch in CUDA;
    None where no kernel of another language ran.
    """
    results = run["matrix"]
    problem = random_matrix(results)
    measured = {m.record.kernel: m for m in measure(results, problem["name"])}
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
    title = f"Transpose of a {size_text(problem)} matrix in CUDA and in Mojo"
    rows = [values_of_pair(run, *pair) for pair in pairs]
    return Table("languages", title, columns, {"": rows}, notes, machine_notes(results))


def values_of_pair(run: Run, cuda: Measured, mojo: Measured) -> Values:
    found, r = over(cuda, mojo), mojo.record
    ends = (found.value, *found.interval, int(found.differs_from_one)) if found else (None,) * 4
    names = ("mojo_over_cuda", "low", "high", "difference_seen")
    return {
        "cuda": cuda.record.kernel,
        "cuda_gb_per_s": Noted(cuda.gb_s, cuda.marks, text=speed_text(cuda)),
        "mojo": r.kernel,
        "maker": r.maker,
        "mojo_gb_per_s": Noted(mojo.gb_s, mojo.marks, text=speed_text(mojo)),
        "_over": found,
        **dict(zip(names, ends, strict=True)),
        "post_mojo_over_cuda": posts_ratio(run, cuda.record.kernel),
        "outcome": mojo.outcome,
        "reason": r.reason or r.deviation,
    }


def over_text(found: Estimate) -> str:
    text = bandwidth.with_interval(found, "{:.3f}")
    return text if found.differs_from_one else f"{text}: no difference seen"


def over(cuda: Measured, mojo: Measured) -> Estimate | None:
    """Mojo's bandwidth over CUDA's, where both are timed; a declared deviation moves as much."""
    if not (cuda.record.timed and mojo.record.timed):
        return None
    return ratio(cuda.record.times, mojo.record.times)


def posts_ratio(run: Run, cuda: str) -> float | None:
    """The post's two numbers for the kernel that is `cuda` here."""
    named = run.source.fact("our_kernels").get("cuda_gb_s", {})
    theirs = {ours: name for name, ours in named.items()}
    tables = [run.source.tables.get(f"{language}_gb_s", {}) for language in ("mojo", "cuda")]
    values = [table.get(theirs.get(cuda)) for table in tables]
    return values[0] / values[1] if all(values) else None

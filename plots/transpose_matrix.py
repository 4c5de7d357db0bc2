"""The post's matrix: each kernel's bandwidth beside the post's, and what two checks say of it."""

from dataclasses import replace
from typing import Any

from claims.errors import InputError
from claims.results import Results
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import check_notes, machine_notes
from plots.experiments import Run
from plots.neighbours import neighbour_notes
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers, words

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
    columns = [KERNEL, *numbers("GB/s (interval)", "B/cycle", "peak %", "copy %")]
    columns += numbers("post's CUDA GB/s (%)", "post's Mojo GB/s (%)", wrap=1)
    columns += words("post's check", "our check")
    groups: dict[str, list[Row]] = {}
    data: list[dict[str, object]] = []
    constants = on_constant(results)
    for m in measure(results, problem["name"]):
        constant = constants.get(m.record.kernel)
        groups.setdefault(standing(m, constant), []).append(display(run, m, constant))
        data.append(matrix_csv(run, m, constant))
    rows = [row for name, group in groups.items() for row in (Group(name), *group)]
    counts = sorted({r.summary.n for r in results.records if r.summary})
    notes = [f"Samples per row: {', '.join(map(str, counts)) or NONE}.", bandwidth.GB_NOTE]
    notes += [bandwidth.CYCLE_NOTE, bandwidth.BEST_NOTE, peak_note(results), bandwidth.COPY_NOTE]
    notes += [*post_notes(run), *check_notes(results), *neighbour_notes(results)]
    posts, title = posts_matrix(run), f"Transpose of a {size_text(problem)} matrix"
    if problem["rows"] * problem["columns"] < posts["rows"] * posts["columns"]:
        title += f" (smaller than the post's {size_text(posts)})"
    return Table("matrix", title, columns, rows, data, notes, machine_notes(results))


def short_table(run: Run) -> Table:
    """The post's kernels and the fastest one; a kernel and its twin in Mojo are one row."""
    gb_s = published_gb_s(run)
    pairs: dict[str, dict[str, Measured]] = {}
    for m in measure(run["matrix"], random_matrix(run["matrix"])["name"]):
        language = "Mojo" if m.record.origin == "compiler" else "CUDA"
        name = m.record.kernel if language == "CUDA" else m.record.kernel.partition("_")[2]
        pairs.setdefault(name, {})[language] = m
    columns = [KERNEL]
    for language in gb_s:
        columns += numbers(f"{language} GB/s (interval)", f"post's {language} GB/s (%)", wrap=1)
    columns += words("our check")
    kept: list[Row | Group] = []
    for name, pair in pairs.items():
        ours = {language: pair[language].record.kernel for language in gb_s if language in pair}
        posts = {language: found.get(ours.get(language, name)) for language, found in gb_s.items()}
        if not (any(posts.values()) or any(m.best for m in pair.values())):
            continue
        cells: list[Cell | str] = [name]
        for language, value in posts.items():
            m = pair.get(language)
            cells += [Cell(speed_text(m), (), m.best) if m else NONE, published(run, value)]
        kept.append([*cells, our_check(next(iter(pair.values()))).text])
    return Table("short", matrix_table(run).title, columns, kept)


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


def display(run: Run, m: Measured, constant: Measured | None) -> list[Cell | str]:
    kernel, found, peak = m.record.kernel, m.record.bandwidth, run["matrix"].peak_gb_s
    of_peak = f"{100 * found.value / peak:.1f}" if found and peak else NONE
    posts = [published(run, values.get(kernel)) for values in published_gb_s(run).values()]
    checks = [NONE, NONE] if m.record.is_ceiling else [posts_check(constant), our_check(m)]
    values = [Cell(speed_text(m), m.marks, m.best), bandwidth.cycle_text(m), of_peak]
    return [kernel, *values, bandwidth.share_text(m), *posts, *checks]


def speed_text(m: Measured) -> str:
    found = m.record.bandwidth
    return f"{found.value:.0f} ({found.low:.0f}-{found.high:.0f})" if found else NONE


def published(run: Run, gb_s: float | None) -> str:
    """'2775.49 (84.1)': GB/s, and percent of what the post takes as the peak."""
    of_peak = 100 * (gb_s or 0) / run.source.fact("peak_gb_s")
    return NONE if gb_s is None else f"{gb_s:.2f} ({of_peak:.1f})"


def posts_check(constant: Measured | None) -> Cell | str:
    """On the constant matrix; what is unsupported there is so on random data, which says why."""
    if constant is None:
        return "not run"
    texts = {"bit_exact": "passes", "mismatch": "fails", "deviation_as_declared": "fails"}
    if constant.record.outcome in ("bit_exact", "unsupported"):
        return texts.get(constant.record.outcome, NONE)
    return replace(constant.outcome, text=texts.get(constant.record.outcome, constant.outcome.text))


def our_check(m: Measured) -> Cell:
    wrong, elements = m.record.mismatches, m.record.problem["n"]
    if m.record.outcome not in ("mismatch", "deviation_as_declared"):
        return m.outcome
    text = "differs" if wrong is None else f"{wrong:,} of {elements:,} wrong"
    return replace(m.outcome, text=text)


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


def matrix_csv(run: Run, m: Measured, constant: Measured | None) -> dict[str, object]:
    r, peak = m.record, run["matrix"].peak_gb_s
    low, high = r.bandwidth.interval if r.bandwidth else (None, None)
    found = bandwidth.csv_row(m) | {"gb_per_s_low": low, "gb_per_s_high": high}
    found |= {"outcome_on_constant": constant.record.outcome if constant else "not_run"}
    found |= {"wrong_elements": r.mismatches, "elements": r.problem["n"]}
    found |= {"share_of_peak": m.gb_s / peak if m.gb_s and peak else None}
    languages = published_gb_s(run).items()
    return found | {f"post_{name.lower()}_gb_s": values.get(r.kernel) for name, values in languages}

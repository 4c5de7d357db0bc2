"""The post's matrix: each kernel's bandwidth beside the post's, and what two checks say of it."""

from collections.abc import Sequence
from typing import Any

from plots.bandwidth import (
    BEST_NOTE,
    COPY_NOTE,
    GB_NOTE,
    NONE,
    Measured,
    bandwidth_interval,
    measure,
    sample_counts,
    share_cell,
)
from plots.captions import check_notes, machine_notes, outcome_notes, outcome_words
from plots.errors import InputError
from plots.published import TransposePost
from plots.results import Record, Results
from plots.tables import Cell, Column, Group, Row, Table

RANDOM, CONSTANT = "random", "constant"  # what the matrix is filled with
PASSES, FAILS = "passes", "fails"


def random_matrix(results: Results) -> dict[str, Any]:
    """The problem that is timed and ranked: there is one."""
    found = [p for p in results.problems() if p["data"] == RANDOM]
    if len(found) != 1:
        raise InputError(
            f"{results.file}: needs one problem whose data is '{RANDOM}', but has {len(found)}"
        )
    return found[0]


def constant_record(results: Results, kernel: str) -> Record | None:
    """The kernel's record on the matrix of one constant, which is the post's own check."""
    names = [p["name"] for p in results.problems() if p["data"] == CONSTANT]
    return results.find(names[0], kernel) if names else None


def peak_gb_s(results: Results) -> float | None:
    """The GPU's theoretical bandwidth; None where the driver does not say."""
    return results.provenance["gpu"]["theoretical_bandwidth_gb_s"]


def matrix_table(results: Results, post: TransposePost) -> Table:
    """A row a kernel, in groups: ranked, left out of the ranking, without a time, ceilings."""
    problem = random_matrix(results)
    peak = peak_gb_s(results)
    columns = [
        Column("kernel", "l", wrap=True, code=True),
        Column("GB/s (interval)"),
        Column("peak %"),
        Column("copy %"),
        Column("post's CUDA GB/s (%)", wrap=True),
        Column("post's Mojo GB/s (%)", wrap=True),
        Column("post's check", "l", wrap=True),
        Column("our check", "l", wrap=True),
    ]
    groups: dict[str, list[Row]] = {}
    data: list[Sequence[object]] = [CSV_HEADER]
    for m in measure(results, problem["name"], None):
        constant = constant_record(results, m.record.kernel)
        row = display(m, constant, peak, post)
        groups.setdefault(standing(m.record, constant), []).append(row)
        data.append(csv_row(m, constant, peak, post))
    rows = [row for name, group in groups.items() for row in (Group(name), *group)]
    return Table(
        "matrix",
        title(problem, post),
        columns,
        rows,
        data,
        [*count_note(results), GB_NOTE, BEST_NOTE, peak_note(results), COPY_NOTE]
        + [*post_notes(post), *check_notes(results)],
        machine_notes(results),
    )


def title(problem: dict[str, Any], post: TransposePost) -> str:
    text = f"Transpose of a {problem['rows']} x {problem['columns']} fp32 matrix"
    if problem["rows"] * problem["columns"] < post.rows * post.columns:
        text += f" (smaller than the post's {post.rows} x {post.columns})"
    return text


def standing(record: Record, constant: Record | None) -> str:
    """The heading of the group that a row belongs to."""
    if record.role == "ceiling":
        return "Ceilings"
    if record.ranked:
        return "Bit-exact on random data: ranked by bandwidth"
    if record.timed:
        passes = constant is not None and constant.outcome == "bit_exact"
        verdict = "Passes the post's check, fails ours" if passes else "Fails our check"
        return f"{verdict}: left out of the ranking"
    return f"No time: {outcome_words(record)}"


def display(
    m: Measured, constant: Record | None, peak: float | None, post: TransposePost
) -> list[Cell | str]:
    r = m.record
    speed: Cell | str = NONE
    if m.gb_s is not None:
        low, high = bandwidth_interval(r)
        speed = Cell(f"{m.gb_s:.0f} ({low:.0f}-{high:.0f})", best=m.best)
    return [
        r.kernel,
        speed,
        NONE if m.gb_s is None or peak is None else f"{100 * m.gb_s / peak:.1f}",
        share_cell(m),
        published(post, post.cuda_gb_s.get(r.kernel)),
        published(post, post.mojo_gb_s.get(r.kernel)),
        NONE if r.role == "ceiling" else posts_check(constant),
        NONE if r.role == "ceiling" else our_check(r),
    ]


def published(post: TransposePost, gb_s: float | None) -> str:
    """'2775.49 (84.1)': GB/s, and percent of what the post takes as the peak."""
    return NONE if gb_s is None else f"{gb_s:.2f} ({post.percent_of_peak(gb_s):.1f})"


def posts_check(constant: Record | None) -> Cell | str:
    if constant is None:
        return "not run"
    if constant.outcome == "bit_exact":
        return PASSES
    if constant.outcome == "unsupported":
        return NONE  # as on random data, where the row says why
    wrong = constant.outcome in ("mismatch", "deviation_as_declared")
    return Cell(FAILS if wrong else outcome_words(constant), outcome_notes(constant))


def our_check(record: Record) -> Cell:
    text = outcome_words(record)
    if record.outcome in ("mismatch", "deviation_as_declared"):
        text = "differs"
        if record.mismatches is not None:
            text = f"{record.mismatches:,} of {record.problem['n']:,} wrong"
    return Cell(text, outcome_notes(record))


def count_note(results: Results) -> list[str]:
    counts = sample_counts(results)
    if not counts:
        return []
    text = f"n = {counts[0]} samples in every row."
    return [text if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]} samples: matrix.csv."]


def peak_note(results: Results) -> str:
    peak, gpu = peak_gb_s(results), results.provenance["gpu"]["name"]
    if peak is None:
        return f"Peak %: the driver does not say the theoretical bandwidth of this {gpu}."
    return f"Peak %: share of this {gpu}'s theoretical bandwidth, {peak:.0f} GB/s."


def post_notes(post: TransposePost) -> list[str]:
    return [
        f"Post: {post.author}, {post.gpu}, {post.rows} x {post.columns}; its % are of the "
        f"{post.peak_gb_s:.0f} GB/s that it takes as that GPU's peak. Its batched kernel is two "
        "here: its CUDA value belongs to tma_batched, and its Mojo value was measured with the "
        "indexing of tma_batched_as_published.",
        "Post's check: a matrix filled with one constant, where elements in the wrong place look "
        "right. Our check: random values, every element compared by its bits.",
    ]


CSV_HEADER = (
    "kernel,role,outcome,outcome_on_constant,reason,wrong_elements,elements,median_us,low_us,"
    "high_us,min_us,n,bytes,gb_per_s,gb_per_s_low,gb_per_s_high,share_of_peak,share_of_copy,best,"
    "post_cuda_gb_s,post_mojo_gb_s,sm_mhz,source_file"
).split(",")


def csv_row(
    m: Measured, constant: Record | None, peak: float | None, post: TransposePost
) -> list[object]:
    r, s = m.record, m.record.summary
    return [
        r.kernel,
        r.role,
        r.outcome,
        constant.outcome if constant else "not_run",
        r.reason or r.deviation,
        r.mismatches,
        r.problem["n"],
        *((s.median, s.low, s.high, s.min, s.n) if s else (None,) * 5),
        r.bytes_moved,
        m.gb_s,
        *(bandwidth_interval(r) if s else (None, None)),
        m.gb_s / peak if m.gb_s and peak else None,
        m.of_copy,
        int(m.best),
        post.cuda_gb_s.get(r.kernel),
        post.mojo_gb_s.get(r.kernel),
        r.sm_mhz,
        r.source_file,
    ]

"""The kernels in other languages beside their twins in CUDA: the same tiles, indices and launch."""

from claims.results import Record, Results
from claims.stats import Estimate, ratio
from plots import bandwidth
from plots.bandwidth import Measured, measure
from plots.captions import machine_notes
from plots.experiments import Run
from plots.tables import KERNEL, NONE, Cell, Row, Table, numbers, words
from plots.transpose_matrix import random_matrix, size_text, speed_text


def twin_of(record: Record, results: Results) -> Record | None:
    """In CUDA: mojo_tma_naive is tma_naive in Mojo."""
    if record.origin != "compiler":
        return None
    return results.find(record.problem["name"], record.kernel.partition("_")[2])


def languages_table(run: Run) -> Table | None:
    """One row per pair, in the order of speed; None where no kernel of another language ran."""
    results = run["matrix"]
    problem = random_matrix(results)
    measured = {m.record.kernel: m for m in measure(results, problem["name"])}
    pairs = [
        (measured[twin.kernel], m)
        for m in measured.values()
        if (twin := twin_of(m.record, results)) is not None
    ]
    if not pairs:
        return None
    columns = [KERNEL, *numbers("in CUDA GB/s (interval)", "in Mojo GB/s (interval)", wrap=1)]
    columns += numbers("Mojo over CUDA (interval)", wrap=1)
    columns += [*numbers("post's Mojo over CUDA"), *words("output")]
    rows: list[Row] = [display(run, *pair) for pair in pairs]
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
    data = [csv_row(run, *pair) for pair in pairs]
    return Table("languages", title, columns, rows, data, notes, machine_notes(results))


def display(run: Run, cuda: Measured, mojo: Measured) -> Row:
    found = over(cuda, mojo)
    text = NONE
    if found:
        text = f"{found.value:.3f} ({found.low:.3f}-{found.high:.3f})"
        text = text if found.differs_from_one else f"{text}: no difference seen"
    post = posts_ratio(run, cuda.record.kernel)
    speeds = [Cell(speed_text(m), m.marks) for m in (cuda, mojo)]
    return [cuda.record.kernel, *speeds, text, f"{post:.3f}" if post else NONE, mojo.outcome]


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


def csv_row(run: Run, cuda: Measured, mojo: Measured) -> dict[str, object]:
    found = over(cuda, mojo)
    ends = (found.value, *found.interval, int(found.differs_from_one)) if found else (None,) * 4
    names = ("mojo_over_cuda", "low", "high", "difference_seen")
    post = posts_ratio(run, cuda.record.kernel)
    return {
        "cuda": cuda.record.kernel,
        "cuda_gb_per_s": cuda.gb_s,
        "mojo": mojo.record.kernel,
        "maker": mojo.record.maker,
        "mojo_gb_per_s": mojo.gb_s,
        **dict(zip(names, ends, strict=True)),
        "post_mojo_over_cuda": post,
        "outcome": mojo.record.outcome,
        "reason": mojo.record.reason or mojo.record.deviation,
    }

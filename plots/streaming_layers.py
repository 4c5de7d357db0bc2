"""The kernel on every layer of the paper's models, with plain scales and with nested ones."""

from claims.results import Results
from claims.stats import Estimate
from plots import bandwidth
from plots.bandwidth import Measured, compared
from plots.captions import machine_notes
from plots.experiments import Run
from plots.streaming_rows import (
    OURS,
    Key,
    Rows,
    ceiling_text,
    rows_by,
    shape,
    shape_text,
    time_and_speed,
)
from plots.tables import NONE, Cell, Column, Group, Row, Table, numbers, words

LARGE = 100_000_000  # weights from which on bandwidth alone should count
LARGE_NESTED = 58_000_000  # weights from which on nested scales should cost nothing
BASES = {"layers": ("branch_tree", "shared_lut"), "layers_nested": ("two_launches", "branch_tree")}
OVER_NOTE = (
    "Over a kernel: how many times as fast as that kernel, in one shuffled run. "
    + bandwidth.RATIO_NOTE
)
NESTED_NOTE = (
    "Of plain: the time over that of the same layer with plain scales, which another pass of this "
    "run measured; ~ where the intervals of the two overlap, so that no difference was seen."
)


def peers(results: Results) -> list[str]:
    """The user's libraries."""
    return list(dict.fromkeys(r.kernel for r in results.records if r.origin == "peer"))


def compared_with(run: Run, name: str) -> list[str]:
    """What stands beside our kernel in a pass."""
    return [*BASES[name], *peers(run[name])]


def layers(run: Run, name: str) -> dict[Key, Rows]:
    """By shape, the smallest first."""
    return dict(sorted(rows_by(run[name], shape).items()))


def is_large(key: Key, name: str) -> bool:
    return key[0] >= (LARGE_NESTED if name == "layers_nested" else LARGE)


def plain_table(run: Run) -> Table:
    return layers_table(run, "layers")


def nested_table(run: Run) -> Table:
    return layers_table(run, "layers_nested")


def layers_table(run: Run, name: str) -> Table:
    """One row per layer; the CSV has every kernel and ceiling in full."""
    results, nested = run[name], name == "layers_nested"
    kernels, plain = compared_with(run, name), layers(run, "layers") if nested else {}
    columns = [*words("layer"), *numbers("million weights", "us", "GB/s", "copy %")]
    columns += [*numbers("of fastest ceiling %"), *numbers(*["of plain x"] * nested)]
    for kernel in kernels:
        is_second = kernel == BASES[name][1]  # for which the terminal has no room
        columns.append(Column(f"over {heading(kernel, results)}", wrap=1, detail=is_second))
    columns += words("used by", detail=True)
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for is_shown_large in (True, False):
        found = {k: r for k, r in layers(run, name).items() if is_large(k, name) == is_shown_large}
        limit = f"{(LARGE_NESTED if nested else LARGE) / 1e6:.0f} million weights"
        text = f"{limit} and more" if is_shown_large else f"less than {limit}"
        rows += [Group(text)] * bool(found)
        for key, by_kernel in found.items():
            m = by_kernel.get(OURS)
            beside = [times_as_long(compared(m, plain.get(key, {}).get(OURS)))] * nested
            cells = [*time_and_speed(m), NONE if m is None else bandwidth.share_text(m)]
            cells += [ceiling_text(m), *beside]
            cells += [over_cell(by_kernel.get(kernel), m) for kernel in kernels]
            users = next(iter(by_kernel.values())).record.problem.get("models", [])
            rows.append([shape_text(key), f"{key[0] / 1e6:.1f}", *cells, ", ".join(users) or NONE])
            for other in by_kernel.values():
                row = {"layer": shape_text(key)} | bandwidth.csv_row(other)
                data.append(row | over_columns(compared(other, m)))
    notes = [bandwidth.GB_NOTE, bandwidth.COPY_NOTE, bandwidth.CEILING_NOTE]
    notes += [*[NESTED_NOTE] * nested, OVER_NOTE]
    scales = "nested scales, in one kernel" if nested else "plain scales"
    title = f"{OURS} on every layer of the paper's models: {scales}"
    return Table(name, title, columns, rows, data, notes, machine_notes(results))


def over_columns(found: Estimate | None) -> dict[str, object]:
    """For a CSV: how many times as fast as its row our kernel is."""
    ends = (found.value, *found.interval) if found else (None,) * 3
    names = (f"{OURS}_speedup{end}" for end in ("", "_low", "_high"))
    return dict(zip(names, ends, strict=True))


def heading(kernel: str, results: Results) -> str:
    """A library's version under its name, because it is long."""
    return kernel.replace("_", " ") if kernel in peers(results) else kernel


def over_cell(base: Measured | None, m: Measured | None) -> Cell | str:
    """The speed-up; what became of the other kernel where it has no time."""
    if base is not None and not base.record.ranked:
        return base.outcome
    return bandwidth.over_text(compared(base, m))


def times_as_long(found: Estimate | None) -> str:
    if found is None:
        return NONE
    return ("" if found.differs_from_one else "~") + f"{found.value:.3f}"

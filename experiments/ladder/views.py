"""Experiment ladder: the change and effect of each step, and bandwidth by the output's size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import bandwidth, sample_figures
from plots import figures as draw
from plots.bandwidth import Measured, compared, measure, rows_by, speed_or_outcome
from plots.counter_values import Value, change, counts_of
from plots.experiments import Run, one_problem
from reprolab.captions import machine_notes
from reprolab.errors import InputError
from reprolab.results import COPY, Record
from reprolab.stats import Estimate
from reprolab.tables import KERNEL, NONE, WORDS, Column, Noted, Table, Values, rounded

# Each ladder is a pass, with two more passes whose names end in _counters and _launches. Its steps,
# with the change of each from the previous one; for the first, a description.
LADDERS = {
    "plain": (
        ("branch_tree", "a tree of branches for the 16 values"),
        ("global_lut", "a table in global memory for the tree"),
        ("shared_lut", "the table in shared memory"),
        ("scalar_store", "no CUB transpose: a byte per thread"),
        ("packed_store", "both weights in one 4-byte store"),
        ("wide_store", "4 bytes per thread, one 16-byte store"),
        ("wide_store_hints", "cache hints: nothing need be kept"),
        ("wide_store_unrolled", "unrolled: two words per thread"),
        ("streaming", "reads asked for ahead, in bursts"),
    ),
    "nested": (
        ("two_launches", "nested scales in a launch before"),
        ("streaming", "nested scales in the same kernel"),
    ),
}


INSTRUCTIONS = "instructions_per_element"
WEIGHTS_PER_WORD = 8  # of codes that a thread loads at once
HEADS = {
    "cold": "cold: no launch finds its memory in the cache",
    "warm": "warm: all launches use the same memory, which is in the cache as far as it fits",
}
STEP_NOTE = (
    "Each step is compared with the one above it, from which it differs in one thing, besides "
    "the block size: scalar_store has blocks of 256 threads, those before it of 64, and "
    "wide_store and the two after it of 512. Step: speed-up over the step above; total: over "
    "branch_tree. Ratios of medians of one shuffled run; ~ if the two intervals overlap, so that "
    "no difference was seen."
)
INSTRUCTIONS_NOTE = (
    "Instructions per weight: 32 x warp instructions / weights, and the change from the step above."
)
WARM_NOTE = (
    "Warm rows may be faster than memory. They rank only with warm rows, their copy is also "
    "warm, and they decide no claim."
)
COLUMNS = [
    KERNEL,
    Column("what changed", "change", **WORDS),
    bandwidth.MEDIAN,
    Column("step x", "_step", bandwidth.times_text),
    Column("total x", "_total", bandwidth.times_text, wrap=1),
    Column("instr. per weight", "instructions_per_weight", wrap=1),
    replace(bandwidth.GB_S, wrap=1),
    replace(bandwidth.COPY_SHARE, wrap=1),
    Column("registers", "registers", wrap=1),
]
TIMED = (
    "outcome reason median_us low_us high_us min_us n bytes gb_per_s bytes_per_cycle "
    "share_of_copy share_of_ceiling sm_mhz source_file"
).split()
FACTORS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8)
STRESSED = ("streaming", "branch_tree")
MARKED_MIB = (1 / 16, 1, 16, 256, 3072)


@dataclass(frozen=True)
class Step:
    """The ladder, if it was measured."""

    kernel: str
    change: str
    measured: Measured | None
    instructions: Value | None  # per weight
    instructions_before: Value | None  # of the step before
    launches: tuple[dict[str, Any], ...]  # each kernel that a call launches, as far as it was seen
    over_before: Estimate | None
    over_first: Estimate | None

    @property
    def factor(self) -> float | None:
        """Over the first step; 1 of the first itself."""
        if self.over_first is not None:
            return self.over_first.value
        is_ranked = self.measured is not None and self.measured.record.ranked
        return 1.0 if self.over_before is None and is_ranked else None


Steps = dict[str, list[Step]]  # by ladder


def steps_of(run: Run) -> Steps:
    """The steps in order; InputError if the passes of a ladder are of different problems."""
    by_ladder: Steps = {}
    for ladder, changes in LADDERS.items():
        times, counters, launches = (
            run[f"{ladder}{end}"] for end in ("", "_counters", "_launches")
        )
        problem = one_problem(times)
        for other in (counters, launches):
            if one_problem(other) != problem:
                raise InputError(
                    f"{other.file}: is of {one_problem(other)}, but {times.name} of {problem}"
                )
        by_kernel = measure(times, problem)
        steps = by_ladder.setdefault(ladder, [])
        for kernel, text in changes:
            this, launched = by_kernel.get(kernel), launches.find(problem, kernel)
            counted = counters.find(problem, kernel)
            values = counts_of(counters, counted, launched) if counted else {}
            over_first = compared(steps[0].measured, this) if steps else None
            over_before = compared(steps[-1].measured, this) if steps else None
            before = steps[-1].instructions if steps else None
            seen = launched.launch if launched else ()
            facts = (values.get(INSTRUCTIONS), before, seen, over_before, over_first)
            steps.append(Step(kernel, text, this, *facts))
    return by_ladder


def steps_table(run: Run) -> Table:
    """One row per step, with its change and effect."""
    by_ladder = steps_of(run)
    rows = [
        {"_under": f"{one_problem(run[ladder])}: {ladder} scales", "ladder": ladder}
        | values_of(step, ladder)
        for ladder, steps in by_ladder.items()
        for step in steps
    ]
    notes = [STEP_NOTE, shape_note(run, by_ladder), INSTRUCTIONS_NOTE]
    notes += [bandwidth.GB_NOTE, bandwidth.COPY_NOTE]
    for ladder, steps in by_ladder.items():
        # The fastest ceiling for as many bytes, and the last step's share of its bandwidth.
        m = steps[-1].measured
        if m is not None and m.ceiling is not None and m.of_ceiling is not None:
            notes.append(
                f"The fastest ceiling with {ladder} scales is {m.ceiling.kernel}, at "
                f"{m.ceiling.bandwidth.value:.0f} GB/s; {m.record.kernel} reaches "
                f"{100 * m.of_ceiling:.1f} % of it."
            )
    (problem,) = run["nested"].problems()
    extra = 8 * problem["n"] // problem["block_size"]
    names = [run[f"{ladder}{end}"].name for ladder in LADDERS for end in ("_counters", "_launches")]
    notes += [
        "Nested scales: the launch before writes an fp32 scale for each block of "
        f"{problem['block_size']} weights, and the kernel reads it, {extra / 1e6:.1f} MB together, "
        "mostly in the L2 cache. GB/s counts what one kernel needs, in both rows.",
        "Instructions and registers come from runs without times of their own: "
        f"{', '.join(names)}. Two numbers of registers: two kernels in one call.",
    ]
    first, *_, last = by_ladder["plain"]
    title = f"From {first.kernel} to {last.kernel}, one change at a time"
    provenance = machine_notes(*(run[ladder] for ladder in LADDERS))
    return Table("ladder", title, COLUMNS, rows, notes, provenance)


def values_of(step: Step, ladder: str) -> Values:
    registers = " + ".join(str(kernel["registers"]) for kernel in step.launches)
    values: Values = {"kernel": step.kernel, "change": step.change}
    values |= {"instructions_per_weight": instructions(step), "registers": registers or NONE}
    values |= bandwidth.estimate_values("step_speedup", step.over_before)
    values |= bandwidth.estimate_values("over_first_speedup", step.over_first)
    row = bandwidth.values_of(step.measured) if step.measured else {}
    values |= {name: row.get(name) for name in TIMED}
    if step.measured is None or step.measured.record.summary is None:
        not_run = Noted(None, text="not run")
        return values | {"median_us": step.measured.no_number if step.measured else not_run}
    total = step.over_first if ladder == "plain" else None
    return values | {"_step": step.over_before, "_total": total}


def instructions(step: Step) -> Noted | None:
    """Per weight: '6.65 (-46%)'."""
    value = step.instructions
    if value is None or value.number is None:
        return value and Noted(None, (value.missing,))
    changed = change(value, step.instructions_before)
    return Noted(value.number, text=rounded(value.number) + f" ({changed})" * bool(changed))


def shape_note(run: Run, by_ladder: Steps) -> str:
    """Other changes of the last step: streaming's launch shape."""
    parts = []
    for ladder, steps in by_ladder.items():
        (problem,) = run[f"{ladder}_launches"].problems()
        for kernel in steps[-1].launches:
            threads = prod(kernel["block"])
            count = ceil(problem["n"] / WEIGHTS_PER_WORD / threads / prod(kernel["grid"]))
            each = f"{count} word{'s' * (count > 1)} each"
            parts.append(f"{threads} threads with {each} for {ladder} scales")
    here = f": here {', '.join(parts)}" if parts else ""
    return f"streaming chooses its blocks and the words of 8 weights per thread by the size{here}."


def output_mib(problem: dict[str, Any]) -> float:
    return 2 * problem["n"] / 2**20


def size_text(mib: float) -> str:
    if mib < 1:
        return f"{1024 * mib:g} KiB"
    return f"{mib / 1024:g} GiB" if mib >= 1024 else f"{mib:g} MiB"


def sizes_table(run: Run) -> Table:
    """One row per size and one column per kernel; the CSV has every row in full."""
    by_cache = {cache: rows_by(run[cache], output_mib) for cache in HEADS}
    # The fastest on the largest output first.
    every = [m.record for rows in reversed(by_cache["cold"].values()) for m in rows.values()]
    kernels = list(dict.fromkeys(r.kernel for r in every if not r.is_ceiling))
    columns = [Column("output", "output_mib", size_text)]
    columns += [Column(name, name, bandwidth.gb_text, wrap=1) for name in kernels]
    columns += [Column(f"{COPY} (cudaMemcpy)", COPY, bandwidth.gb_text, wrap=1)]
    by_size = [
        (cache, size, rows) for cache, sizes in by_cache.items() for size, rows in sizes.items()
    ]
    rows = [
        {"_under": HEADS[cache], "output_mib": size}
        | {name: speed_or_outcome(m) for name, m in of_size.items()}
        for cache, size, of_size in by_size
    ]
    data = [
        {"cache": cache, "output_mib": size, "problem": m.record.problem["name"]}
        | bandwidth.values_of(m)
        for cache, size, of_size in by_size
        for m in of_size.values()
    ]
    notes = [bandwidth.GB_NOTE, bandwidth.BEST_NOTE, WARM_NOTE]
    provenance = machine_notes(*(run[cache] for cache in HEADS))
    title = "Bandwidth by the size of the output, GB/s"
    return Table("sizes", title, columns, rows, notes, provenance, data)


def highlights(run: Run) -> list[str]:
    """The product of the steps, if all of them have a time."""
    lines = []
    for ladder, (first, *others) in steps_of(run).items():
        last = others[-1]
        if last.over_first is None or any(step.over_before is None for step in others):
            continue
        parts = [f"{step.kernel} {step.over_before.value:.2f}" for step in others]
        product = f" = {' x '.join(parts)}" * (len(parts) > 1)
        lines.append(
            f"With {ladder} scales, {last.kernel} is {last.over_first.value:.2f} times as "
            f"fast as {first.kernel}{product}."
        )
    return lines


def steps_figure(run: Run) -> Figure:
    """A waterfall of factors on a logarithmic axis, so that equal factors have equal lengths; next
    to it, if there is room, the instructions per weight. The nested step has its own axis below.
    """
    by_ladder = steps_of(run)
    heights = [len(steps) + 0.6 for steps in by_ladder.values()]
    width = draw.width_of_figures()
    figure = draw.new_figure(1.3 + 0.42 * sum(heights), width)
    ratios = {"height_ratios": heights, "width_ratios": (2.1, 1)[: 1 + (width > draw.WIDTHS[1])]}
    shape = (len(by_ladder), len(ratios["width_ratios"]))
    panels = figure.subplots(*shape, gridspec_kw=ratios, sharex="col", squeeze=False)
    ends = [1.0, 1.2]
    for (factors, *beside), (ladder, steps) in zip(panels, by_ladder.items(), strict=True):
        ends += draw_factors(factors, steps)
        draw.kernel_rows(factors, [f"{step.change}\n{step.kernel}" for step in steps])
        for label in factors.get_yticklabels():
            label.set_fontsize(7 if beside else 5.5)
        factors.set_title(f"{ladder} scales, over {steps[0].kernel}", loc="left")
        for instructions in beside:
            draw_instructions(instructions, steps)
    panels[0][0].set_xlim(min(ends) / 1.06, max(ends) * 1.06)
    for axes in panels[:, 0]:
        is_last = axes is panels[-1][0]
        draw.logarithmic(axes.xaxis, FACTORS, "times as fast as the first step" * is_last)
    for axes in panels[-1][1:]:
        axes.set_xlim(left=0)
        axes.set_xlabel("instructions per weight")
    draw.legend_above(figure, panels[:, 0], columns=3, last="fastest ceiling")
    notes = [
        "A bar goes from the speed of the step above to that of its own; right of the row: their "
        "factor, and what the steps so far come to."
    ]
    draw.add_caption(figure, run["plain"], notes, run.recorded)
    return figure


def draw_instructions(axes: Axes, steps: Sequence[Step]) -> None:
    for row, step in enumerate(steps):
        number = step.instructions.number if step.instructions else None
        if number is not None:
            axes.barh(row, number, 0.62, color="#B0B0B0", gid=step.kernel)
        draw.write_right(axes, row, "not counted" if number is None else rounded(number))
    draw.kernel_rows(axes, [""] * len(steps))


def draw_factors(axes: Axes, steps: Sequence[Step]) -> list[float]:
    """Draws the steps' bars and the fastest ceiling, over the first step; returns the axis'
    values."""
    first, limit = steps[0].measured, None
    if first is not None and first.record.ranked and first.ceiling and first.of_ceiling:
        limit = 1 / first.of_ceiling
    reached = 1.0  # by the last step that has a time
    for row, step in enumerate(steps):
        factor = step.factor
        if factor is None:
            draw.write_right(axes, row, "no time: see the table")
            continue
        if row == 0:
            axes.plot([1], [row], "o", color=draw.BLACK, gid=step.kernel)
            continue
        look = {"color": draw.GREY, "label": "faster"}
        look = look if factor >= reached else {"color": "#B0B0B0", "label": "slower"}
        axes.barh(row, factor - reached, 0.62, reached, gid=step.kernel, **look)
        axes.plot([reached, reached], [row - 1, row + 0.31], color=draw.GREY, linewidth=0.8)
        own = f"x{step.over_before.value:.2f}: " if step.over_before else ""
        draw.write_right(axes, row, f"{own}{factor:.2f}")
        reached = factor
    if limit is not None:
        text = f"fastest ceiling: {first.ceiling.kernel}"
        axes.axvline(limit, color=draw.BLACK, linewidth=1.6, label=text, gid="ceiling")
    return [end for end in (limit, *(step.factor for step in steps)) if end]


def sizes_figure(run: Run) -> Figure:
    """GB/s against the size of the output, cold and warm; the only ceiling is the copy."""
    texts = {
        "cold": "cold: every launch in other memory",
        "warm": "warm: all launches in the same memory",
    }
    panels = {
        text: [r for r in run[name].records if not r.is_ceiling or r.kernel == COPY]
        for name, text in texts.items()
    }

    def size(record: Record) -> float:
        return output_mib(record.problem)

    axis = (MARKED_MIB, "size of the output", size_text)
    figure = sample_figures.bandwidth_figure(panels, STRESSED, size, *axis)
    l2_mib = run["cold"].provenance["gpu"]["l2_bytes"] / 2**20
    for axes, records in zip(figure.axes, panels.values(), strict=True):
        of_all = [r.bytes_moved / (2 * r.problem["n"]) for r in records]
        if of_all:
            axes.axvline(l2_mib / max(of_all), color=draw.GREY, linestyle=":", gid="l2")
    notes = [
        "Dotted: where codes, scales and output together are as large as the L2 cache, "
        f"{l2_mib:.0f} MiB. Warm rows rank only with warm rows. Medians; intervals: the table."
    ]
    draw.add_caption(figure, run["cold"], notes, run.recorded)
    return figure


TABLES = (steps_table, sizes_table)
ON_TERMINAL = ("ladder", "sizes")
FIGURES = {
    "steps": ("Speed-up step by step, and instructions per weight", steps_figure),
    "sizes": ("Bandwidth by the size of the output, cold and warm", sizes_figure),
}

"""The findings of the first screen, a function for each: the source's statement, the finding, and
its number on every GPU that has the rows. A function without rows raises one of MISSING.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import permutations
from statistics import geometric_mean
from typing import Any

from reprolab.claims import gpus, prediction, rules
from reprolab.claims.evidence import Case, Evidence
from reprolab.claims.ledger import Verdict, verdict_on
from reprolab.claims.prediction import PROFILE, STEP
from reprolab.claims.published import Source
from reprolab.claims.several_gpus import (
    MISSING,
    Machine,
    all_of,
    by_gpu,
    decided,
    faster_or_slower,
    in_each,
    measured,
    on_each,
    only,
    replay,
    require_no_other,
    times,
)
from reprolab.captions import capitalized, listed
from reprolab.results import COPY, KERNEL_TIME, PRODUCT_TIME, Record, Results
from reprolab.stats import is_within, out_of, significant, span

SMALL_PERCENT = 5  # beyond it, the place of the table does matter
AGREE_PERCENT = 10  # as the tolerance for ratios of two kernels
Line = tuple[str, str, Mapping[str, str]]  # the source's statement, the finding, its numbers


def newest_library(results: Results) -> str:
    """LookupError if no library of a known version ran."""
    peers = {r.kernel for r in results.records if r.origin == "peer" and version_of(r.kernel)}
    if not peers:
        raise LookupError(f"{results.file}: no library of a known version")
    return max(peers, key=version_of)


def version_of(kernel: str) -> list[int]:
    return [int(n) for n in kernel.rpartition("_")[2].split(".") if n.isdecimal()]


def kernel_speedup(machines: Sequence[Machine]) -> Line:
    cells = on_each(machines, lambda m: measured(m.decisions["kernel-speedup"]))
    numbers = {gpu: f"{span([v.ours for v in verdicts])} x" for gpu, verdicts in cells.items()}
    reproduced = {gpu: share_reproduced(verdicts) for gpu, verdicts in cells.items()}
    every = max(cells.values(), key=len)
    theirs, ours = ({v.cell.model for v in every}, {v.cell.at["model"] for v in every})
    result = f"reproduced in {by_gpu(reproduced)}"
    result += f" ({len(every)} cells, with {len(ours)} models for its {len(theirs)})"
    result += read_otherwise([m for m in machines if m.gpu in cells], "kernel-speedup")
    with suppress(*MISSING):
        more = on_each(
            machines,
            lambda m: (times(m.evidence, "branch_tree", "streaming"), share_of_copy(m.evidence)),
        )
        shares = span([share for _, share in more.values()], 2)
        result += f"; streaming, at {shares} % of a copy's speed, gains more"
        numbers |= {
            gpu: f"{numbers[gpu]}, streaming {span(gains)} x"
            for gpu, (gains, _) in more.items()
            if gpu in numbers
        }
    return "The paper's kernel is 2.0-2.2x as fast as its baseline", result, numbers


def share_reproduced(cells: Sequence[Verdict]) -> str:
    """'all 21 numbers': of the source, of which each may have several cells."""
    numbers: dict[str, list[Verdict]] = {}
    for v in cells:
        numbers.setdefault(v.cell.as_published, []).append(v)
    count = sum(verdict_on(of_it) == rules.REPRODUCED for of_it in numbers.values())
    return f"all {count} numbers" if count == len(numbers) else f"{count} of {len(numbers)} numbers"


def read_otherwise(machines: Sequence[Machine], claim: str) -> str:
    """'; read as tiles of 512 weights 1.79 to 1.84 x: not reproduced', for each other reading."""
    text = ""
    for reading in machines[0].decisions[claim].claim.readings[1:]:
        cells = {m.gpu: m.decisions[claim].readings[reading.name] for m in machines}
        ours = [v.ours for of_gpu in cells.values() for v in of_gpu if v.ours is not None]
        if ours and not reading.own_measurement:
            verdicts = {gpu: verdict_on(of_gpu).replace("_", " ") for gpu, of_gpu in cells.items()}
            text += f"; read as {reading.name} {span(ours)} x: {by_gpu(verdicts)}"
    return text


def share_of_copy(evidence: Evidence) -> float:
    """The largest layer's, in percent."""
    results = evidence.results["streaming", "layers"]
    rows = [(r, results.find(r.problem["name"], COPY)) for r in results.records]
    both = [(r, copy) for r, copy in rows if r.kernel == "streaming" and copy and r.timed]
    if not both:
        raise LookupError("streaming")
    row, copy = max(both, key=lambda pair: pair[0].bytes_moved)
    return 100 * row.bandwidth.value / copy.bandwidth.value


def from_global_memory(machines: Sequence[Machine]) -> dict[str, list[float]]:
    """By GPU, the ratios of its time to that with the table in shared memory."""
    return on_each(machines, lambda m: times(m.evidence, "global_lut", "shared_lut"))


def is_small(ratios: Mapping[str, Sequence[float]]) -> bool:
    return all(abs(100 * (geometric_mean(r) - 1)) < SMALL_PERCENT for r in ratios.values())


def tables_place(machines: Sequence[Machine]) -> Line:
    ratios = from_global_memory(machines)
    words = by_gpu({gpu: faster_or_slower(of_it) for gpu, of_it in ratios.items()})
    matters = "hardly" if is_small(ratios) else "yes"
    result = f"between shared and global memory {matters}: from global memory it is {words}"
    with suppress(*MISSING):
        constant = on_each(machines, lambda m: times(m.evidence, "constant_lut", "shared_lut"))
        matters = "hardly" if is_small(constant) else "it does"
        result += f". In constant memory {matters}: {span(all_of(constant), 2)} x the time"
    gains = on_each(
        machines,
        lambda m: [times(m.evidence, "branch_tree", k) for k in ("global_lut", "shared_lut")],
    )
    numbers = {
        gpu: "gain over the branches {:.2f} x from global, {:.2f} x from shared memory".format(
            *map(geometric_mean, both)
        )
        for gpu, both in gains.items()
    }
    return "The gain comes from the table's place in shared memory", result, numbers


def todays_library(machines: Sequence[Machine]) -> Line:
    known = on_each(machines, lambda m: newest_library(replay(m.evidence)))
    newest = max(known.values(), key=version_of)
    ratios = on_each(machines, lambda m: times(m.evidence, newest, "shared_lut"))
    decisions = next(m.decisions for m in machines if m.gpu in ratios)
    paper, library = (decisions[name].source for name in ("kernel-speedup", "lut-1.36-2.07"))
    pull, merged, of_paper = table_merged(paper, library)
    words = by_gpu({gpu: faster_or_slower([1 / r for r in of_it]) for gpu, of_it in ratios.items()})
    result = (
        f"{months_between(merged, of_paper)} months before the paper ({of_paper}) bitsandbytes "
        f"merged a table (pull request {pull}, {merged}); against today's "
        f"{newest.rpartition('_')[2]} the paper's kernel is {words}"
    )
    numbers = {gpu: f"{span(of_it)} x as fast" for gpu, of_it in ratios.items()}
    return f"The paper's baseline is bitsandbytes {paper.setup['bitsandbytes']}", result, numbers


def table_merged(paper: Source, library: Source) -> tuple[str, date, date]:
    """The library's pull request with a table, its date, and the paper's."""
    (pull, dates), *_ = library.setup["dates"].items()
    match = re.search(r"merged (\d{4}-\d\d-\d\d)", dates)
    if not match:
        raise LookupError(dates)
    return pull, date.fromisoformat(match[1]), date.fromisoformat(paper.setup["date"])


def months_between(first: date, last: date) -> int:
    """Whole months."""
    return 12 * (last.year - first.year) + last.month - first.month - (last.day < first.day)


def reads_no_table(machines: Sequence[Machine]) -> Line:
    require_no_other(machines, "lut-traffic-64", rules.PREMISE_FALSE)

    def fewer(m: Machine) -> str:
        decided(m.decisions["lut-traffic-64"], rules.PREMISE_FALSE)
        return f"{only(measured(m.decisions['no-divergence'])).ours:.0f} % fewer divergent branches"

    result = "it reads none: it is a tree of branches; the paper's kernel removes their divergence"
    return "The baseline reads its table 64x too often", result, on_each(machines, fewer)


def memory_bound(machines: Sequence[Machine]) -> Line:
    def busy(m: Machine) -> str:
        cells = measured(m.decisions["memory-bound"])
        share = next(v.ours for v in cells if v.cell.at == {"layer": "all"})
        return f"memory {share:.0f} % busy"

    shares = on_each(machines, busy)
    verdict = in_each([m for m in machines if m.gpu in shares], "memory-bound")
    result = "it is not" if verdict == "not reproduced" else verdict
    with suppress(*MISSING):
        result += f": {with_less_bandwidth(machines)}"
    return "The baseline dequantization is memory-bound", result, shares


def with_less_bandwidth(machines: Sequence[Machine]) -> str:
    """Compares the first two GPUs that differ in bandwidth alone."""
    steps = [m for m in machines if PROFILE in m.evidence.results]
    slow, fast = next(
        (a, b)
        for a, b in permutations(steps, 2)
        if gpus.is_comparable(gpu_of(a), gpu_of(b)) and bandwidth(a) < bandwidth(b)
    )
    at = next(v for v in slow.decisions["memory-bound"].primary if "way" in v.cell.at).cell.at

    def ratio(kernel: str, metric: str = KERNEL_TIME) -> str:
        rows = [row_at(m.evidence.results[PROFILE], kernel, at) for m in (slow, fast)]
        longer, shorter = (row.summary_of(metric + STEP).median for row in rows)
        return significant(longer / shorter, 3)

    less = significant(bandwidth(fast) / bandwidth(slow), 3)
    return (
        f"with 1/{less} the bandwidth ({slow.gpu} against {fast.gpu}) the baseline takes "
        f"{ratio('branch_tree')} and the paper's kernel {ratio('shared_lut')} times as long, "
        f"streaming {ratio('streaming')}, cuBLAS products {ratio('branch_tree', PRODUCT_TIME)}"
    )


def gpu_of(m: Machine) -> dict[str, Any]:
    return m.evidence.results[PROFILE].provenance["gpu"]


def bandwidth(m: Machine) -> float:
    return gpu_of(m)["theoretical_bandwidth_gb_s"]


def row_at(results: Results, kernel: str, at: Mapping[str, Any]) -> Record:
    return next(r for r in results.by_kernel.get(kernel, ()) if at.items() <= r.problem.items())


def end_to_end(machines: Sequence[Machine]) -> Line:
    def gains(claim: str) -> tuple[dict[str, str], str]:
        """By GPU, and the verdict."""
        cells = on_each(machines, lambda m: measured(m.decisions[claim]))
        verdict = in_each([m for m in machines if m.gpu in cells], claim)
        return {gpu: f"{span([v.ours for v in of_it])} x" for gpu, of_it in cells.items()}, verdict

    numbers, verdict = gains("end-to-end-llama")
    result = f"{verdict} for Llama 70B"
    with suppress(*MISSING):
        others, of_others = gains("end-to-end")
        result += " and" if of_others == verdict else f"; {of_others}"
        result += " for 27-32B models, which wait for the host"
        result += f" ({listed(list(others))} alone)" * (len(others) < len(numbers))
        numbers |= {gpu: f"{numbers[gpu]}, 27-32B {text}" for gpu, text in others.items()}
    return "Text is generated up to 1.54x as fast", result, numbers


def passes(machines: Sequence[Machine]) -> Line:
    def implied(m: Machine) -> tuple[float, float, float]:
        source = m.decisions["kernel-latency"].source
        return prediction.implied_passes(source, m.evidence, "branch_tree")

    implied_by = on_each(machines, implied)
    seconds = span([s for s, _, _ in implied_by.values()])
    ms = span([ms for _, ms, _ in implied_by.values()])
    source = machines[0].decisions["kernel-latency"].source
    statement = f"Dequantization takes {seconds} s of a run, whatever the batch"
    result = f"a forward pass of its {source.gpu} would take {ms} ms, as predicted from ours"
    with suppress(*MISSING):
        saved = all_of(on_each(machines, passes_saved))
        result += f"; the seconds that Figure 4 saves are {span(saved)} passes"
        both = [(n, s) for _, _, n in implied_by.values() for s in saved]
        result += ", which agrees" * all(is_within(n, s, AGREE_PERCENT) for n, s in both)
    with suppress(*MISSING):
        shares = all_of(on_each(machines, predicted_share))
        its = source.number("qmatmul_percent")
        result += f"; dequantization would take {span(shares, 2)} % of its quantized products "
        result += f"(paper: {its:g} %)"
    return (
        statement,
        result,
        {
            gpu: f"about {n:.0f} passes (predicted, not measured)"
            for gpu, (_, _, n) in implied_by.items()
        },
    )


def passes_saved(m: Machine) -> list[float]:
    """The passes in which the source's kernel saves the seconds of its Figure 4."""
    d = m.decisions["kernel-latency"]
    case = Case(d.source, d.claim, d.primary[0].comparison, d.primary[0].cell, m.evidence)
    passes = list(prediction.passes_saved(case, "branch_tree").values())
    if not passes:
        raise LookupError(m.gpu)
    return passes


def predicted_share(m: Machine) -> list[float]:
    """Dequantization's share of quantized products, by each experiment that has both."""
    shares = [v.predicted.value for v in m.decisions["qmatmul-72"].primary if v.predicted]
    if not shares:
        raise LookupError(m.gpu)
    return shares


def figure_contradicts_itself(machines: Sequence[Machine]) -> Line:
    for m in machines:
        d = decided(m.decisions["figure-4-agrees"], rules.PREMISE_FALSE)
        leaves, tokens, *_ = d.primary
        return d.claim.short, f"they do not. {capitalized(leaves.reason)}; {tokens.why}", {}
    raise LookupError("no GPU")


def wrong_transpose(machines: Sequence[Machine]) -> Line:
    def wrong(m: Machine) -> str:
        decided(m.decisions["correct"], rules.PREMISE_FALSE)
        rows = (r for r in m.evidence.results["transpose", "matrix"].records if r.mismatches)
        row = next(r for r in rows if r.problem["data"] == "random")
        return f"{out_of(row.mismatches, row.problem['n'])} elements wrong"

    result = "its matrix of one constant is its own transpose; random data show that it is wrong"
    return "A published transpose passes its test", result, on_each(machines, wrong)


def launch_fusion(machines: Sequence[Machine]) -> Line:
    def packed(m: Machine) -> float:
        cells = measured(m.decisions["packed-stores"])
        return next(v.ours for v in cells if v.comparison.rule == "puzzle.faster_as_published")

    gains = on_each(machines, packed)
    two_bytes = on_each(machines, lambda m: only(measured(m.decisions["two-bytes"])).ours)
    fused, numbers = {}, {}
    for gpu, (one_launch, others) in on_each(machines, puzzle_seconds).items():
        fused[gpu] = others["library"] / one_launch
        rest = ", ".join(f"{name} {seconds:.3f}" for name, seconds in others.items())
        numbers[gpu] = f"ours in one launch {one_launch:.3f} s ({rest})"
    over = on_each(machines, lambda m: [v.ours for v in measured(m.decisions["mojo-1.07-1.84"])])
    verdict = in_each([m for m in machines if m.gpu in over], "mojo-1.07-1.84")
    result = (
        f"{verdict} ({span(all_of(over))} x); two bytes per thread gain "
        f"{span(list(two_bytes.values()))} x, packed stores {span(list(gains.values()))} x, one "
        f"launch of the library's table in place of two {span(list(fused.values()))} x"
    )
    return "Three optimizations in Mojo beat Unsloth", result, numbers


def puzzle_seconds(m: Machine) -> tuple[float, dict[str, float]]:
    """The seconds of the library's table in one launch, and those of others."""
    results = m.evidence.results["puzzle", "mlps"]
    timed = [r for r in results.records if r.timed]
    seconds = {r.kernel: r.metrics["wall_time"].log.geometric_mean / 1e6 for r in timed}
    others = {"Mojo": "mojo_packed_512", "library": newest_library(results)}
    others["Triton"] = "triton_lut"
    return seconds["global_lut"], {n: seconds[k] for n, k in others.items() if k in seconds}


Make = Callable[[Sequence[Machine]], Line]
# Each with the page that shows it, relative to the folder of a machine's pages, and the question
# that it answers.
FINDINGS: tuple[tuple[Make, str, str], ...] = (
    (kernel_speedup, "claims.md#kernel-speedup", ""),
    (tables_place, "claims.md#shared-memory-makes-it", "Does the table's place matter?"),
    (todays_library, "table2/README.md", "What is it against today's library?"),
    (reads_no_table, "claims.md#lut-traffic-64", ""),
    (memory_bound, "claims.md#memory-bound", ""),
    (end_to_end, "claims.md#end-to-end-llama", ""),
    (passes, "claims.md#kernel-latency", ""),
    (figure_contradicts_itself, "claims.md#figure-4-agrees", ""),
    (wrong_transpose, "claims.md#correct", ""),
    (launch_fusion, "puzzle/README.md", ""),
)

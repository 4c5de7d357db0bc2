"""The findings, in at most ten lines: the source's statement, the finding, its number, and the
claim that shows it. Every number is computed from claims and recorded rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from claims import prediction, rules
from claims.evidence import Evidence
from claims.ledger import Decision, Verdict
from records.results import COPY, KERNEL_TIME, Results
from records.stats import out_of, span


@dataclass(frozen=True)
class Found:
    """One line. `link`: from the folder of the machine's pages."""

    says: str
    found: str
    number: str
    link: str
    gpu: str


Decisions = Mapping[str, Decision]


def findings(evidence: Evidence, decisions: Sequence[Decision]) -> list[Found]:
    """Findings of one machine; a finding without rows is left out."""
    by_id = {d.claim.id: d for d in decisions}
    gpu, lines = evidence.newest.gpu if evidence.newest else "", []
    for make, link in FINDINGS:
        with suppress(LookupError, StopIteration):
            says, so, number = make(by_id, evidence)
            lines.append(Found(says, f"{so[0].upper()}{so[1:]}", number, link, gpu))
    return lines


def measured(d: Decision) -> list[Verdict]:
    """Cells of the primary reading with a number of ours; LookupError without one."""
    cells = [v for v in d.primary if v.ours is not None and not v.elsewhere]
    if not cells or d.verdict == rules.NOT_TESTED:
        raise LookupError(d.claim.id)
    return cells


def only(cells: Sequence[Verdict]) -> Verdict:
    """LookupError if there is another number of cells."""
    if len(cells) != 1:
        raise LookupError(f"{len(cells)} cells")
    return cells[0]


def cells_with(d: Decision, verdict: str) -> str:
    counted = [v for v in d.primary if not v.elsewhere]
    return f"{sum(v.verdict == verdict for v in counted)} of {len(counted)} cells"


def replay(evidence: Evidence) -> Results:
    return evidence.results["table2", "replay"]


def times(evidence: Evidence, over: str, under: str) -> list[float]:
    """Ratios of one kernel's time to another's, by forward pass."""
    results, ratios = replay(evidence), []
    for problem in results.problems():
        rows = [results.find(problem["name"], kernel) for kernel in (over, under)]
        medians = [row.summary_of(KERNEL_TIME).median for row in rows if row]
        ratios += [medians[0] / medians[1]] if len(medians) == 2 else []
    if not ratios:
        raise LookupError(over)
    return ratios


def newest_library(results: Results) -> str:
    """LookupError if no library of a known version ran."""
    peers = {r.kernel for r in results.records if r.origin == "peer" and version_of(r.kernel)}
    if not peers:
        raise LookupError(f"{results.file}: no library of a known version")
    return max(peers, key=version_of)


def version_of(kernel: str) -> list[int]:
    return [int(n) for n in kernel.rpartition("_")[2].split(".") if n.isdecimal()]


def kernel_speedup(d: Decisions, _: Evidence) -> tuple[str, str, str]:
    claim = d["kernel-speedup"]
    ours = [v.ours for v in measured(claim)]
    so = f"reproduced in {cells_with(claim, rules.REPRODUCED)}"
    return "The paper's kernel is 2.0-2.2x as fast as its baseline", so, f"{span(ours)} x"


def end_to_end(d: Decisions, _: Evidence) -> tuple[str, str, str]:
    llama, others = d["end-to-end-llama"], d["end-to-end"]
    so = f"{llama.verdict.replace('_', ' ')} for Llama 70B, "
    so += f"{others.verdict.replace('_', ' ')} for 27-32B models, which wait for the host"
    ours = [v.ours for v in measured(llama)], [v.ours for v in measured(others)]
    number = " and ".join(f"{span(values)} x" for values in ours)
    return "Text is generated up to 1.54x as fast", so, number


def tables_place(d: Decisions, evidence: Evidence) -> tuple[str, str, str]:
    claim = d["shared-memory-makes-it"]
    v = only(measured(claim))
    said = {
        rules.NOT_REPRODUCED: "the place does not matter: with the table in global memory it is as "
        "fast or faster",
        rules.REPRODUCED: "from global memory the kernel is slower",
    }
    so = said[claim.verdict]  # undecided: no finding
    constant = times(evidence, "constant_lut", "shared_lut")
    number = f"{100 * (1 / v.ours - 1):+.1f} % (in constant memory {span(constant, 2)} x slower)"
    return "The gain comes from the table's place in shared memory", so, number


def todays_library(_: Decisions, evidence: Evidence) -> tuple[str, str, str]:
    newest = newest_library(replay(evidence))
    ratios = times(evidence, newest, "shared_lut")
    so = f"today's {newest.replace('_', ' ')} has a table, too (pull request 1746, 2025-09): "
    so += "against it the paper's kernel runs"
    return "The paper's baseline is bitsandbytes 0.47.0", so, f"{span(ratios, 2)} x as fast"


def possible(_: Decisions, evidence: Evidence) -> tuple[str, str, str]:
    gain = times(evidence, "branch_tree", "streaming")
    results = evidence.results["streaming", "layers"]
    rows = [(r, results.find(r.problem["name"], COPY)) for r in results.records]
    both = [(r, copy) for r, copy in rows if r.kernel == "streaming" and copy and r.timed]
    row, copy = max(both, key=lambda pair: pair[0].bytes_moved)
    share = 100 * row.bandwidth.value / copy.bandwidth.value
    so = f"more is possible: at {share:.0f} % of a copy's speed streaming gains"
    return "2.0-2.2x is what the kernel gains", so, f"{span(gain)} x"


def memory_bound(d: Decisions, _: Evidence) -> tuple[str, str, str]:
    v = next(v for v in measured(d["memory-bound"]) if "way" in v.cell.at)
    so = "from an H100 to an H200 the bandwidth changes, its time does not"
    if v.verdict != rules.NOT_REPRODUCED:
        so = "between an H100 and an H200 its time changes with the bandwidth"
    return "Dequantization is memory-bound", so, v.why


def reads_no_table(d: Decisions, _: Evidence) -> tuple[str, str, str]:
    claim = d["lut-traffic-64"]
    if claim.verdict != rules.PREMISE_FALSE:
        raise LookupError(claim.claim.id)
    branches = only(measured(d["no-divergence"]))
    so = "it reads none: it is a tree of branches, the paper's kernel removes their divergence"
    return "The baseline reads its table 64x too often", so, f"{branches.ours:.0f} % less"


def passes(d: Decisions, evidence: Evidence) -> tuple[str, str, str]:
    source = d["kernel-latency"].source
    seconds, ms, count = prediction.implied_passes(source, evidence, "branch_tree")
    says = f"Dequantization takes {seconds:.1f} s of a run, whatever the batch"
    so = f"at the {ms:.0f} ms predicted for a pass on its {source.gpu}, these are"
    return says, so, f"{count:.0f} passes"


def wrong_transpose(d: Decisions, evidence: Evidence) -> tuple[str, str, str]:
    v = only(d["correct"].primary)
    rows = [r for r in evidence.results["transpose", "matrix"].records if r.mismatches]
    row = next(r for r in rows if r.problem["data"] == "random")
    if v.verdict != rules.PREMISE_FALSE:
        raise LookupError("correct")
    so = "its matrix of one constant is its own transpose; on random data it is wrong in"
    wrong = out_of(row.mismatches, row.problem["n"])
    return "A published transpose passes its test", so, f"{wrong} elements"


def launch_fusion(_: Decisions, evidence: Evidence) -> tuple[str, str, str]:
    results = evidence.results["puzzle", "mlps"]
    seconds = {r.kernel: r.summary_of("wall_time").median / 1e6 for r in results.records if r.timed}
    library = newest_library(results)
    so = "one launch instead of two is enough: the library's own table, launched once, takes"
    others = {"a Triton kernel": "triton_lut", "the Mojo kernel": "mojo_packed_512"}
    others["the library"] = library
    number = f"{seconds['global_lut']:.3f} s"
    for name, kernel in others.items():
        number += f", {name} {seconds[kernel]:.3f} s" if kernel in seconds else ""
    return "Packed stores in Mojo beat Unsloth", so, number


Make = Callable[[Decisions, Evidence], tuple[str, str, str]]
# Each with the page that shows it, relative to the folder of a machine's pages.
FINDINGS: tuple[tuple[Make, str], ...] = (
    (kernel_speedup, "claims.md#kernel-speedup"),
    (end_to_end, "claims.md#end-to-end-llama"),
    (tables_place, "claims.md#shared-memory-makes-it"),
    (todays_library, "table2/README.md"),
    (reads_no_table, "claims.md#lut-traffic-64"),
    (memory_bound, "claims.md#memory-bound"),
    (possible, "streaming/README.md"),
    (passes, "claims.md#kernel-latency"),
    (wrong_transpose, "claims.md#correct"),
    (launch_fusion, "puzzle/README.md"),
)


def lines(findings: Sequence[Found]) -> Iterator[str]:
    for i, each in enumerate(findings, 1):
        yield f"{i}. {each.says}. {each.found}: {each.number}."

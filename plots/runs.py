"""What experiments share: the passes of one run in, and the terminal's closing lines out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from plots.captions import commit, driver
from plots.console import wrap
from plots.errors import InputError
from plots.results import Results, load


def load_run(experiment: str, files: Mapping[str, Path]) -> list[Results]:
    """Each pass's result file by the pass's name, read and checked; all must be of one run."""
    passes = [load(file, experiment, name) for name, file in files.items()]
    first = passes[0]
    for other in passes[1:]:
        for say in (gpu_name, commit_in_words, driver):
            if say(first) != say(other):
                raise InputError(
                    f"{first.file} is of {say(first)}, but {other.file} of {say(other)}: "
                    "give two passes of one run"
                )
    return passes


def gpu_name(results: Results) -> str:
    return results.provenance["gpu"]["name"]


def commit_in_words(results: Results) -> str:
    return f"commit {commit(results)}"


def closing_lines(passes: Sequence[Results], main_table: str, directory: Path) -> list[str]:
    """How the verdicts went, what failed, and where everything is."""
    counts: dict[str, int] = {}
    for verdict in [v for results in passes for v in results.verdicts]:
        words = verdict.verdict.replace("_", " ")
        counts[words] = counts.get(words, 0) + 1
    parts = [f"{n} {words}" for words, n in sorted(counts.items())]
    lines = ["Verdicts: " + (", ".join(parts) or "none") + "."]
    failed = [c.name for results in passes for c in results.checks if not c.passed]
    if failed:
        text = f"INSTRUMENT CHECK FAILED, see the notes of {main_table}.txt: {', '.join(failed)}."
        lines += wrap(text, indent="  ")
    wrong: dict[str, int] = {}
    for r in [r for results in passes for r in results.records]:
        if r.outcome in ("mismatch", "launch_failed"):
            wrong[r.kernel] = wrong.get(r.kernel, 0) + 1
    if wrong:
        parts = [f"{kernel} ({rows} rows)" for kernel, rows in sorted(wrong.items())]
        lines += wrap(f"WRONG OUTPUT, hence no time: {', '.join(parts)}.", indent="  ")
    lines.append(f"Tables (txt, md, csv, tex) and figures (pdf, png, svg): {directory}/")
    return lines

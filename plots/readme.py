"""Generated blocks of Markdown files, and whether they and the rendered tables are up to date."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plots.captions import commit, driver, span, throttling
from plots.documents import markdown, markdown_escape
from plots.errors import InputError
from plots.experiments import EXPERIMENTS, Experiment, Inputs
from plots.files import write_text
from plots.output import rendered
from plots.results import Results

BEGIN = re.compile(r"^<!-- begin generated: (\S+) -->$", re.MULTILINE)
NOTHING = "_No recorded results yet._\n"


@dataclass(frozen=True)
class Recorded:
    """One recorded run: data/recorded/<gpu>/<experiment>/."""

    folder: Path
    experiment: Experiment
    inputs: Inputs

    @property
    def target(self) -> Path:
        return self.folder / "rendered"


def run(args: argparse.Namespace) -> int:
    recorded = list(read_recorded(args.recorded_dir, args.published))
    command = mend_command(args)
    if args.check:
        stale = [problem for found in recorded for problem in stale_files(found)]
        for file in args.readme:
            blocks = stale_blocks(file, read_markdown(file), recorded)
            stale += [f"{file}: block '{name}' is stale" for name in blocks]
        for line in stale:
            print(line)
        print(f"mend with: {command}" if stale else "generated blocks and tables are up to date")
        return 1 if stale else 0
    for found in recorded:
        # Figures are not compared (matplotlib versions differ), so they follow the tables.
        if stale_files(found):
            found.experiment.render(found.inputs, found.target)
            print(f"rendered {found.target}")
    for file in args.readme:
        text = read_markdown(file)
        filled = fill(file, text, recorded)
        if filled != text:
            write_text(file, filled)
            print(f"filled {file}")
    return 0


def mend_command(args: argparse.Namespace) -> str:
    files = " ".join(map(str, args.readme))
    return f"python -m plots readme --recorded-dir {args.recorded_dir} --readme {files}"


def read_recorded(directory: Path, published: Path) -> Iterator[Recorded]:
    """Every experiment's runs, for every GPU that has them."""
    for experiment in EXPERIMENTS:
        for folder in sorted(directory.glob(f"*/{experiment.NAME}")):
            files = {name: folder / f"{name}.json" for name in experiment.PASSES}
            if any(file.exists() for file in files.values()):
                inputs = experiment.read(published=published, recorded=True, **files)
                yield Recorded(folder, experiment, inputs)


def stale_files(found: Recorded) -> list[str]:
    """What is wrong with a recorded run's rendered folder, a line a file."""
    problems = []
    for name, text in rendered(found.experiment.tables(found.inputs)).items():
        path = found.target / name
        if not path.exists():
            problems.append(f"{path}: is missing")
        elif path.read_bytes() != text.encode("utf-8"):
            problems.append(f"{path}: is stale")
    for name in found.experiment.FIGURE_FILES:
        if not (found.target / name).exists():
            problems.append(f"{found.target / name}: is missing")
    return problems


def read_markdown(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None


def provenance_block(experiment: Experiment) -> str:
    return f"{experiment.NAME}-provenance"


def known_blocks() -> list[str]:
    return [b for e in EXPERIMENTS for b in (*e.BLOCKS, provenance_block(e))]


def blocks_of(file: Path, text: str) -> list[tuple[str, int, int]]:
    """(name, start, end) of each block's content."""
    found = []
    for match in BEGIN.finditer(text):
        name, end_marker = match[1], f"<!-- end generated: {match[1]} -->"
        if name not in known_blocks():
            known = ", ".join(known_blocks())
            raise InputError(f"{file}: block '{name}' is not known; known are {known}")
        start = match.end() + 1
        end = text.find(end_marker, start)
        following = BEGIN.search(text, start)
        if end < 0 or (following and following.start() < end):
            raise InputError(f"{file}: block '{name}' has no line '{end_marker}'")
        found.append((name, start, end))
    return found


def fill(file: Path, text: str, recorded: list[Recorded]) -> str:
    """`text` with every block's content made anew."""
    for name, start, end in reversed(blocks_of(file, text)):
        text = text[:start] + content(name, recorded) + text[end:]
    return text


def stale_blocks(file: Path, text: str, recorded: list[Recorded]) -> list[str]:
    return [
        name
        for name, start, end in blocks_of(file, text)
        if text[start:end] != content(name, recorded)
    ]


def content(name: str, recorded: list[Recorded]) -> str:
    """A block's Markdown: one table, or list, for every GPU with a recorded run."""
    parts = []
    for found in recorded:
        if name == provenance_block(found.experiment):
            parts += [provenance(results) for results in found.inputs.passes]
        elif name in found.experiment.BLOCKS:
            wanted = found.experiment.BLOCKS[name]
            parts += [
                markdown(t) for t in found.experiment.tables(found.inputs) if t.name == wanted
            ]
    return "\n".join(parts) or NOTHING


def provenance(results: Results) -> str:
    """Where a result file comes from, as a list."""
    p = results.provenance
    gpu, seen = p["gpu"], p["clocks"]
    ecc = {True: "on", False: "off", None: "not known"}[gpu.get("ecc")]
    limit = gpu.get("power_limit_w")
    policy = "not locked" if seen["policy"] == "observed" else f"locked at {seen['locked_mhz']} MHz"
    facts = {
        "Command": " ".join(map(str, p["argv"])),
        "Started": f"{p['started']}, {p['runtime_s']:.0f} s",
        "Commit": commit(results),
        "GPU": f"{gpu['name']}; ECC {ecc}; power limit "
        + ("not known" if limit is None else f"{limit:.0f} W"),
        "Driver and toolkit": f"{driver(results)}; CUDA runtime {gpu['cuda_runtime']}; "
        f"nvcc {p['build']['nvcc']}; {p['build']['compiler']}",
        "Clocks": f"{policy}; SM {span(seen['sm_mhz'], 'MHz') or 'not known'}; "
        f"memory {span(seen['memory_mhz'], 'MHz') or 'not known'}; {throttling(results)}",
        "Power and temperature": f"{span(seen.get('power_w'), 'W') or 'not known'}; "
        f"{span(seen.get('temperature_c'), 'C') or 'not known'}",
        "Instrument": p["instrument"],
    }
    lines = [f"`{results.file.name}`, {gpu['name']}:", ""]
    lines += [f"- {name}: {markdown_escape(text)}" for name, text in facts.items()]
    return "\n".join(lines) + "\n"

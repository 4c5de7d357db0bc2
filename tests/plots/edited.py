"""Small editable copies of the recorded runs, and the differences in their output; helpers for
texts and figures.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from reprolab.claims.evidence import collect
from plots.documents import markdown
from plots.experiments import CLAIM_DETAILS, Run, all_tables, experiment, load_run
from plots.figures import figure_style
from reprolab import declared
from reprolab.results import recorded_folder
from reprolab.json_files import ROOT, read_json
from reprolab.results import Results, load

RECORDED = ROOT / "data/recorded/h200"
NO_NUMBER = re.compile(r"\b(nan|inf)\b")

# By pass: the problems that are kept, of all that would take long to draw.
KEPT = {
    "counters/nf4_*": ("21504x5376/*", "28672x8192/*"),
    "counters/sass": ("sm_80", "sm_90"),
    "end_to_end/*": ("qwen3-32b/batch2/*", "qwen3-32b/batch8/*", "llama-3.3-70b/batch2/*"),
    "ladder/cold": ("16x*", "4096x*", "28672x*"),
    "ladder/warm": ("16x*", "4096x*", "28672x*"),
    "product/layers": ("*x1024x8192/*", "*x28672x8192/*"),
    "streaming/layers*": ("28672x8192/*", "8192x8192/*", "1024x5120/*"),
    "streaming/formats": ("*/b32", "*/b64"),
    "streaming/places*": ("2867*", "1024x*"),
    "streaming/shapes*": ("1024x4096/*", "28672x8192/*"),
    "table2/replay": ("qwen3-32b/batch2/*", "qwen3-32b/batch8/*"),
    "table2/shapes": ("1024x5120/*", "25600x5120/*"),
    "transpose/sizes": ("256x*", "1000x*", "1023x*", "1024x*", "4096x*", "65536x*"),
}
# Likewise the kernels.
KERNELS = {
    "counters/*": ("branch_tree", "shared_lut", "shared_lut_algorithm1", "constant_lut", "copy")
    + ("tma_naive", "tiled", "*_load", "global_*", "*_chain", "shared_store*"),
}
# Passes that tests keep, because kernels change more often than they are recorded: a few rows of an
# earlier run, without their code.
OWN = {"product/peers": ROOT / "experiments/product/tests/product_peers.json"}
SHOWN = 4  # changed lines of a table

File = dict[str, Any]
Row = dict[str, Any]


def few(name: str) -> File:
    """The recorded file of a pass, with few rows."""
    return json.loads(text_of_few(name))


@cache
def text_of_few(name: str) -> str:
    file = read_json(OWN.get(name, RECORDED / f"{name}.json"))
    rows = [r for r in file["records"] if matches(r["problem"]["name"], *kept(KEPT, name))]
    rows = [r for r in rows if matches(r["kernel"], *kept(KERNELS, name))]
    keys = {r["key"] for r in rows}
    file["checks"] = [c for c in file["checks"] if keys >= set(c["keys"])]
    return json.dumps(file | {"records": rows})


def kept(patterns: dict[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    return next((values for key, values in patterns.items() if fnmatchcase(name, key)), ("*",))


def matches(name: str, *patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Edited:
    """A run: `files` by pass, which tests change; each access writes and loads it again."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder
        recorded, _ = declared.experiment(name).passes_in(RECORDED / name)
        passes = [
            p for p in declared.experiment(name).passes if p in recorded or f"{name}/{p}" in OWN
        ]
        self.files = {p: few(f"{name}/{p}") for p in passes}

    def rows(self, passes: str = "*", kernel: str = "*", problem: str = "*") -> list[Row]:
        """Records of all passes and problems that the patterns match."""
        files = [file for name, file in self.files.items() if matches(name, passes)]
        rows = [r for file in files for r in file["records"] if matches(r["kernel"], kernel)]
        return [r for r in rows if matches(r["problem"]["name"], problem)]

    def row(self, passes: str, kernel: str, problem: str = "*") -> Row:
        (row,) = self.rows(passes, kernel, problem)
        return row

    def drop(self, which: Callable[[Row], bool], passes: str = "*") -> None:
        for name, file in self.files.items():
            if matches(name, passes):
                file["records"] = [r for r in file["records"] if not which(r)]

    def provenance(self, **changes: Any) -> None:
        """Edits all passes; in a part that is an object, some fields."""
        for file in self.files.values():
            for name, value in changes.items():
                part = file["provenance"][name]
                file["provenance"][name] = part | value if isinstance(part, dict) else value

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, file in self.files.items():
            (self.folder / f"{name}.json").write_text(json.dumps(file), encoding="utf-8")
        return self.folder

    def run(self, recorded: bool = False) -> Run:
        folder = self.write()
        if recorded_folder(folder / self.name):  # claims are decided by all of its files
            return load_run(self.name, folder, recorded)
        files = (loaded(folder / f"{p}.json", json.dumps(f)) for p, f in self.files.items())
        return load_run(self.name, folder, recorded, collect(files))

    def figure(self, name: str) -> Figure:
        with figure_style():
            return experiment(self.name).FIGURES[name][1](self.run())

    def tables(self, run: Run | None = None) -> dict[str, str]:
        """As Markdown, by name."""
        tables = all_tables(self.name, run or self.run(), CLAIM_DETAILS, self.folder)
        return {table.name: markdown(table) for table in tables}

    def shown(self) -> dict[str, list[str]]:
        """The lines of all tables and figures but the claims, and the sentences."""
        run, view = self.run(), experiment(self.name)
        lines = {name: text.splitlines() for name, text in self.tables(run).items()}
        lines.pop("claims", None)
        lines["in sentences"] = view.highlights(run)
        with figure_style():
            drawn = {f: run.if_measured(draw) for f, (_, draw) in view.FIGURES.items()}
        for name, figure in drawn.items():
            if figure:
                texts = texts_of(figure)
                lines[f"figure {name}"] = [x for x in texts if x.strip("0123456789. \u2212")]
        return lines


@cache
def loaded(file: Path, text: str) -> Results:
    """The file, which holds this text: an edit changes few passes of a run."""
    return load(file)


def scale(rows: Iterable[Row], factor: float, metrics: str = "*") -> None:
    """The samples of the metrics that the pattern matches."""
    for metric in (metric for row in rows for metric in row["metrics"]):
        if "samples" in metric and matches(metric["name"], metrics):
            metric["samples"] = [factor * sample for sample in metric["samples"]]


def texts_of(figure: Figure) -> list[str]:
    """Every drawn text, except the ticks that matplotlib chooses."""
    texts = [t.get_text() for t in figure.texts]
    texts += [t.get_text() for legend in figure.legends for t in legend.get_texts()]
    for axes in figure.axes:
        texts += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
        texts += [t.get_text() for t in axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), FixedLocator):
                texts += [t.get_text() for t in axis.get_ticklabels()]
    return [" ".join(text.split()) for text in texts]


def changes(before: dict[str, list[str]], after: dict[str, list[str]]) -> Iterator[str]:
    """The differences of the output: for rows of tables the cells, for many lines the first
    ones."""
    for name in dict.fromkeys([*before, *after]):
        lines = list(changed(before.get(name, []), after.get(name, [])))
        rest = "\n".join(lines[SHOWN:])
        if rest:
            digest = hashlib.sha256(rest.encode()).hexdigest()[:8]
            lines[SHOWN:] = [f"... and {len(lines) - SHOWN} more lines: {digest}"]
        yield from [f"{name}:", *(f"  {line}" for line in lines)] if lines else []


def changed(before: list[str], after: list[str]) -> Iterator[str]:
    old, new = dict(rows_of(before)), dict(rows_of(after))
    for key, cells in new.items():
        if key not in old:
            yield f"+ {' | '.join(cells)}"
        elif cells != old[key]:
            heads = heads_of(after)
            pairs = zip(heads, old[key], cells, strict=False)
            yield f"{key[1]}: " + " | ".join(f"{h}: {c}" for h, o, c in pairs if o != c)
    yield from (f"- {key[1][:60]}" for key in old if key not in new)


def heads_of(lines: Iterable[str]) -> list[str]:
    return next((cells_of(line) for line in lines if line.startswith("|")), [])


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def rows_of(lines: list[str]) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """The cells by heading and first cell; a line that is not a row is its own key."""
    heading = ""
    for line in lines:
        if not line.startswith("|"):
            yield ("", line), [line]
        elif line.startswith("| **") and line.endswith(" |" * (line.count("|") - 2)):
            heading = line
            yield ("", line), [cells_of(line)[0]]
        else:
            yield (heading, cells_of(line)[0]), cells_of(line)


def recorded_names() -> list[str]:
    """The experiments that were recorded; a new one is not yet."""
    return [name for name in declared.names() if (RECORDED / name).exists()]


def line(text: str, start: str) -> str:
    """The first line with this start."""
    return next(x for x in text.splitlines() if x.startswith(start))


def text_of(figure: Figure, gid: str) -> list[str]:
    return [t.get_text() for t in figure.texts if t.get_gid() == gid]


def lines_of(axes: Axes, gid: str) -> list[Any]:
    return [x for x in axes.lines if x.get_gid() == gid]


def look(texts: dict[Path, bytes]) -> None:
    """Properties of every table, independent of its contents."""
    for path, content in texts.items():
        text = content.decode("utf-8")
        assert text.replace("\n", "").isprintable(), path
        assert not NO_NUMBER.search(text), path
        if path.suffix == ".md":
            rows = [line for line in text.splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows}) == 1, path


@pytest.fixture
def edited(tmp_path: Path) -> Callable[..., Edited]:
    """An editable recorded run, in a folder below the test's own."""
    return lambda name, folder="": Edited(name, tmp_path / (folder or name))

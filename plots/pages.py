"""Pages that people write, with numbers of the recorded runs: FILE.md.j2 makes FILE.md.

A template is Jinja. Each folder of data/recorded is a machine of that name, such as h200:

    {{ h200.table2.gains(kernel="shared_lut") }}    a cell, or the range of several: 2.11-2.12
    {{ h200.table2.gains("ratio_low", batch=2) }}   of another column of the table's CSV
    {{ h200.table2.table2 }}                        the whole table
    {{ h200.claims["kernel-speedup"].ours }}        2.11-2.12x; or .theirs, .verdict, .text, .remark
    {{ h200.counts("paper").reproduced }}           claims of a source by verdict; of all without it
    {{ h200.name }} {{ h200.runs("table2") }}       H200; when it ran, of which commit and driver
    {{ claims("paper") }}                           every claim of a source, on every machine

experiments/<name>/tables.toml declares the tables. `make render-recorded` writes their CSVs, whose
columns and values a slot can name.
"""

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

import reprolab
from plots import style
from plots.frame import prepared
from plots.pictures import is_current, pictures
from plots.tables import Table, markdown, tables
from reprolab.declared import names
from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_text
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.stats import span

RECORDED = ROOT / "data/recorded"
MACHINE = "plots/machine.md.j2"  # makes the page of each machine


class Claim:
    """A claim on one machine: the verdict and the numbers of the cells that decide it."""

    def __init__(self, cells: pd.DataFrame):
        first = cells.iloc[0]
        self.id, self.source, self.text, self.remark = first[["claim", "source", "text", "remark"]]
        self.section, self.verdict = first.section, first.claim_verdict.replace("_", " ")
        primary = cells[cells.primary]
        decisive = primary[primary.verdict == first.claim_verdict]
        self.cells = decisive[decisive.unit == decisive.unit.iloc[0]] if len(decisive) else primary
        self.ours, self.theirs = (self.span(name) for name in ("ours", "published"))
        self.files = sorted({f for files in primary.file for f in files.split()})

    def span(self, name: str) -> str:
        values, unit = self.cells[name].dropna(), self.cells.unit.iloc[0] or ""
        return (
            span(values).replace(" to ", "-") + (unit if unit == "x" else f" {unit}")
            if len(values)
            else ""
        )


class Machine:
    """The results of one GPU; each experiment is an attribute, with its tables by name."""

    def __init__(self, name: str, folder: Path):
        self.id, self.folder = name, folder

    @cached_property
    def frames(self) -> reprolab.Frames:
        records, claims = reprolab.load(self.folder)
        return reprolab.Frames(prepared(records), claims)

    @property
    def gpu(self) -> str:
        return self.frames.records.gpu.dropna().iloc[0]

    @property
    def name(self) -> str:
        return re.sub(r" \d+GB\b.*", "", self.gpu.removeprefix("NVIDIA "))

    def __getattr__(self, experiment: str) -> dict[str, Table]:
        if experiment not in names():
            raise AttributeError(experiment)
        made = tables(experiment, *self.frames)
        setattr(self, experiment, made)
        return made

    @cached_property
    def claims(self) -> dict[str, Claim]:
        return {
            name: Claim(cells) for name, cells in self.frames.claims.groupby("claim", sort=False)
        }

    def counts(self, source: str = "") -> Counter[str]:
        chosen = (claim for claim in self.claims.values() if source in ("", claim.source))
        return Counter(claim.verdict.replace(" ", "_") for claim in chosen)

    def runs(self, experiment: str) -> str:
        """'2026-11-28, commit 05bbd482f, driver 580.95', of each run."""
        rows = self.frames.records[self.frames.records.experiment == experiment]
        runs = rows.assign(day=rows.started.dt.strftime("%Y-%m-%d"), short=rows.commit.str[:9])
        runs = (
            runs[["day", "short", "driver"]].fillna("not run").drop_duplicates().sort_values("day")
        )
        return "; ".join(
            f"{day}, commit {commit}, driver {driver}"
            for day, commit, driver in runs.itertuples(index=False)
        )


def claims_table(machines: list[Machine], folder: Path, source: str) -> str:
    """Every claim of a source with its value, and each machine's verdict, value and evidence."""
    rows = []
    for id, first in machines[0].claims.items():
        if first.source != source:
            continue
        of = [machine.claims[id] for machine in machines]
        row = {
            "claim": f"`{id}`: {first.text}",
            "source": next((c.theirs for c in of if c.theirs), "-"),
        }
        for machine, claim in zip(machines, of, strict=True):
            links = (
                f"[{Path(f).stem.partition('.')[0]}]({os.path.relpath(ROOT / f, folder)})"
                for f in claim.files
            )
            ours = f": {claim.ours}" * bool(claim.ours and not claim.verdict.startswith("not test"))
            row[machine.name] = f"{claim.verdict}{ours} {' '.join(links)}".rstrip()
        rows.append(row | {"remark": first.remark or ""})
    if not rows:
        raise InputError(f"slot claims('{source}'): no such source")
    return markdown(pd.DataFrame(rows))


def templates(root: Path) -> Iterator[Path]:
    yield from (
        p
        for place in (".", "docs", "experiments/*", "data/*")
        for p in sorted(root.glob(f"{place}/*.md.j2"))
    )


@cache
def recorded(root: Path = ROOT) -> list[Machine]:
    folders = sorted(p for p in (root / "data/recorded").glob("*") if p.is_dir())
    return [Machine(folder.name, folder) for folder in folders]


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Every page by its path, from its template; those of machines from one."""
    machines = recorded(root)
    filled = {}
    for template in templates(root):
        filled[template.with_suffix("")] = fill(template, machines)
    if (root / MACHINE).exists():
        for machine in machines:
            page = machine.folder / "README.md"
            filled[page] = fill(root / MACHINE, machines, page.parent, machine=machine)
    return filled


def fill(template: Path, machines: list[Machine], folder: Path | None = None, **more: Any) -> str:
    folder = folder or template.parent
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    context = {machine.id.replace("-", "_"): machine for machine in machines} | more
    context |= {
        "machines": machines,
        "experiments": names(),
        "claims": lambda source: claims_table(machines, folder, source),
    }
    try:
        return environment.from_string(read_text(template)).render(context)
    except jinja2.TemplateError as error:
        line = f":{error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise InputError(f"{template}{line}: {error}") from None
    except InputError as error:
        raise InputError(f"{template}: {error}") from None


def run(args: argparse.Namespace) -> int:
    """`make pages`; with --check exit status 1 where a page or a picture is stale."""
    filled = pages()
    rows = pd.concat([machine.frames.records for machine in recorded()], ignore_index=True)
    drawn = pictures(rows)
    stale = [p for p, text in filled.items() if not p.exists() or read_text(p) != text]
    stale += [p for p, figure in drawn.items() if not is_current(p, figure)]
    if not args.check:
        made = {path: style.svg(drawn[path]) for path in stale if path in drawn}
        write_files(made | {path: filled[path].encode() for path in stale if path in filled})
        print(f"wrote {len(stale)} of {len(filled) + len(drawn)} pages and pictures")
        return 0
    for path in stale:
        print(printable(f"{path.relative_to(ROOT)}: is stale: make pages writes it again"))
    print(f"{len(filled) + len(drawn) - len(stale)} pages and pictures are up to date")
    return 1 if stale else 0

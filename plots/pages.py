"""Pages that people write, with numbers of the recorded runs: FILE.md.j2 makes FILE.md.

A template is Jinja. Each folder of data/recorded is a machine of that name, such as h200:

    {{ h200.table2.gains(kernel="shared_lut") }}    a cell, or the range of several: 2.11-2.12
    {{ h200.table2.gains("ratio_low", batch=2) }}   of another column of the table's CSV
    {{ h200.table2.table2 }}                        the whole table
    {{ h200.claims["kernel-speedup"].ours }}        2.11-2.12x; or .range of all its cells, .theirs,
    .verdict, .note, .text, .remark
    {{ h200.counts("paper").reproduced }}           claims of a source by verdict; of all without it
    {{ h200.name }} {{ h200.runs("table2") }}       H200; when it ran, of which commit and driver
    {{ claims("paper") }}                           every claim of a source, on every machine

experiments/<name>/experiment.toml declares the tables. `make render-recorded` writes their CSVs,
whose columns and values a slot can name.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from plots import style
from plots.claims import claims_table
from plots.machine import Machine, machines
from plots.pictures import is_current, pictures
from reprolab.claims.published import load_sources
from reprolab.declared import names
from reprolab.errors import InputError, printable
from reprolab.json_files import ROOT, read_text
from reprolab.output import write_files

RECORDED = "data/recorded"
MACHINE = "plots/machine.md.j2"  # makes the page of each machine


def templates(root: Path) -> Iterator[Path]:
    yield from (
        p
        for place in (".", "docs", "experiments/*", "data/*")
        for p in sorted(root.glob(f"{place}/*.md.j2"))
    )


def pages(found: list[Machine]) -> dict[Path, str]:
    """Every page by its path, from its template; those of machines from one."""
    filled = {template.with_suffix(""): fill(template, found) for template in templates(ROOT)}
    for machine in found if (ROOT / MACHINE).exists() else ():
        page = ROOT / RECORDED / machine.id / "README.md"
        filled[page] = fill(ROOT / MACHINE, found, page.parent, machine=machine)
    return filled


def fill(template: Path, found: list[Machine], folder: Path | None = None, **more: Any) -> str:
    folder = folder or template.parent
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    context = {machine.id.replace("-", "_"): machine for machine in found} | more
    context |= {
        "machines": found,
        "experiments": names(),
        "sources": load_sources(),
        "claims": lambda source: claims_table(found, folder, source),
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
    found = machines([ROOT / RECORDED])
    filled = pages(found)
    rows = pd.concat([machine.frames.records for machine in found], ignore_index=True)
    drawn = pictures(rows)
    stale = [p for p, text in filled.items() if not p.exists() or read_text(p) != text]
    stale += [p for p, figure in drawn.items() if not is_current(p, figure)]
    if not args.check:
        made = {path: style.svg(drawn[path]) for path in stale if path in drawn}
        write_files(made | {path: filled[path].encode() for path in stale if path in filled})
        print(f"wrote {len(stale)} of {len(filled) + len(drawn)} pages and pictures")
        return 0
    for path in stale:
        print(printable(f"{os.path.relpath(path)}: is stale: make pages writes it again"))
    print(f"{len(filled) + len(drawn) - len(stale)} pages and pictures are up to date")
    return 1 if stale else 0

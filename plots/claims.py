"""`make claims`: every claim with its verdict on every machine, as CSV and Markdown."""

import argparse
import os
from pathlib import Path

import pandas as pd

from plots.machine import Claim, Machine, machines
from plots.tables import markdown
from reprolab.claims.published import load_sources
from reprolab.errors import InputError
from reprolab.output import write_files

SHOWN = ("not reproduced", "premise false", "contradicted", "undecided")  # on the terminal


def run(args: argparse.Namespace) -> int:
    found = machines(args.results)
    claims = pd.concat([machine.frames.claims for machine in found])
    sources = (claims_table(found, args.output, source.id) for source in load_sources())
    table = "\n".join(sources)
    csv = claims.to_csv(index=False, float_format="%.6g")
    write_files(
        {args.output / "claims.csv": csv.encode(), args.output / "claims.md": table.encode()}
    )
    for machine in found:
        counts = machine.counts()
        parts = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in counts.items())
        print(f"{machine.banner() or machine.gpu}\n{counts.total()} claims: {parts}.\n")
    most = max(found, key=lambda machine: (not machine.banner(), -machine.counts()["not_tested"]))
    print(f"{most.banner() or most.gpu}\n")
    print(markdown(pd.DataFrame([brief(c) for c in most.claims.values() if c.verdict in SHOWN])))
    print(f"All claims: {args.output}/claims.md; every cell, with its evidence: claims.csv")
    return 0


def claims_table(found: list[Machine], folder: Path, source: str) -> str:
    """Every claim of a source with its value, and each machine's verdict, value and evidence."""
    rows, names = [], [m.name if m.banner() else m.gpu for m in found]
    for id, first in found[0].claims.items():
        if first.source != source:
            continue
        of = [machine.claims[id] for machine in found]
        row = {
            "claim": f"`{id}`: {first.text}",
            "source": next((c.theirs for c in of if c.theirs), "-"),
        }
        for name, claim in zip(names, of, strict=True):
            places = (
                os.path.relpath(Path(file).resolve(), folder.resolve()) for file in claim.files
            )
            links = (f"[{Path(p).name.partition('.')[0]}]({p})" for p in places)
            row[name] = " ".join([claim.result, *links])
        rows.append(row | {"remark": first.remark or ""})
    if not rows:
        raise InputError(f"slot claims('{source}'): no such source")
    return markdown(pd.DataFrame(rows))


def brief(claim: Claim) -> dict[str, str]:
    return {"claim": claim.id, "verdict": claim.verdict, "source": claim.theirs, "here": claim.ours}

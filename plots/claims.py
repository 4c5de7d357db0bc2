"""`make claims`: every claim with its verdict on every machine, as CSV and Markdown."""

import argparse

import pandas as pd

from plots.machine import Claim, Machine, machines
from plots.tables import markdown
from reprolab.output import write_files

SHOWN = ("not reproduced", "premise false", "contradicted", "undecided")  # on the terminal


def run(args: argparse.Namespace) -> int:
    found = machines(args.results)
    claims = pd.concat([machine.frames.claims for machine in found])
    table = markdown(pd.DataFrame([row(found, id) for id in found[0].claims]))
    csv = claims.to_csv(index=False, float_format="%.6g")
    write_files(
        {args.output / "claims.csv": csv.encode(), args.output / "claims.md": table.encode()}
    )
    for machine in found:
        counts = machine.counts()
        parts = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in counts.items())
        print(f"{machine.banner() or machine.gpu}\n{counts.total()} claims: {parts}.\n")
    most = max(found, key=lambda machine: -machine.counts()["not_tested"])
    print(markdown(pd.DataFrame([brief(c) for c in most.claims.values() if c.verdict in SHOWN])))
    print(f"All claims: {args.output}/claims.md; every cell, with its evidence: claims.csv")
    return 0


def row(found: list[Machine], id: str) -> dict[str, str]:
    of = [machine.claims[id] for machine in found]
    results = {m.name if m.banner() else m.gpu: c.result for m, c in zip(found, of, strict=True)}
    head = {"source": of[0].source, "claim": f"{id}: {of[0].short}"}
    return head | {"its value": next((c.theirs for c in of if c.theirs), "-")} | results


def brief(claim: Claim) -> dict[str, str]:
    return {"claim": claim.id, "verdict": claim.verdict, "source": claim.theirs, "here": claim.ours}

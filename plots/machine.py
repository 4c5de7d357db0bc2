"""The results of one machine as tables and claims use them."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

import reprolab
from plots.frame import prepared, short_name
from plots.tables import Table
from reprolab import declared
from reprolab.results import KERNEL_TIME
from reprolab.stats import significant


def specs(experiment: str, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The experiment's own; without any, one of each pass."""
    return list(declared.experiment(experiment).tables) or [
        {"name": name, "title": f"{experiment}, {name}", "pass": name, **of_pass(own)}
        for name, own in rows.groupby("pass", sort=False)
    ]


def of_pass(rows: pd.DataFrame) -> dict[str, Any]:
    """Times and bandwidths, or every metric."""
    if KERNEL_TIME in set(rows.metric):
        return {"values": ["median", "gb_per_s", "of_copy"]}
    return {"metric": "all", "rows": ["problem", "kernel", "metric"], "csv": ["unit"]}


def tables(experiment: str, rows: pd.DataFrame, claims: pd.DataFrame) -> dict[str, Table]:
    """By name; none if the experiment has no row."""
    own = rows[rows.experiment == experiment]
    if own.empty:
        return {}
    others = fields_of(rows) - fields_of(own)  # half of all columns, which selecting rows copies
    own = own.drop(columns=others.intersection(own))
    derived: dict[str, pd.DataFrame] = {}
    made = (Table(experiment, spec, own, claims, derived) for spec in specs(experiment, own))
    return {table.name: table for table in made}


def fields_of(rows: pd.DataFrame) -> set[str]:
    """The fields of problems but `n`, which is the number of samples here."""
    first = rows.drop_duplicates(["file", "key"]).row
    return {name for row in first for name in row.problem} - {"n"}


class Claim:
    """A claim on one machine: the verdict and the numbers of the cells that decide it."""

    def __init__(self, cells: pd.DataFrame):
        first = cells.iloc[0]
        self.id, self.source, self.text, self.remark = first[["claim", "source", "text", "remark"]]
        self.experiments = set(cells.experiment)
        self.verdict = first.claim_verdict.replace("_", " ")
        primary = cells[cells.primary]
        decisive = primary[primary.verdict == first.claim_verdict]
        self.cells = decisive[decisive.unit == decisive.unit.iloc[0]] if len(decisive) else primary
        self.ours, self.theirs = (self.span(name) for name in ("ours", "published"))
        self.range = self.span("ours", primary[primary.unit == self.cells.unit.iloc[0]])
        self.note = self.cells.note.iloc[0]
        self.files = sorted({file for files in primary.file for file in files.split()})

    def span(self, name: str, cells: pd.DataFrame | None = None) -> str:
        """'2.11-2.12x' or '33 %'; '' without a number."""
        cells = self.cells if cells is None else cells
        values, unit = cells[name].dropna(), self.cells.unit.iloc[0]
        if values.empty:
            return ""
        ends = dict.fromkeys(significant(end, 3) for end in (values.min(), values.max()))
        return "-".join(ends) + (unit if unit == "x" else f" {unit}" if unit else "")

    @property
    def result(self) -> str:
        """'reproduced: 2.11-2.12x'."""
        shown = self.ours and not self.verdict.startswith("not test")
        return f"{self.verdict}: {self.ours}" if shown else self.verdict


class Machine:
    """The results of one GPU; each experiment is an attribute, with its tables by name."""

    def __init__(self, name: str, records: pd.DataFrame, claims: pd.DataFrame | None = None):
        self.frames = reprolab.Frames(records, claims)
        self.gpu = next(iter(records.gpu.dropna()), "no GPU")
        self.id = name or self.gpu
        self.peak_gb_s = records.peak_gb_s.max()
        self.name = short_name(self.gpu)

    def __getattr__(self, experiment: str) -> dict[str, Table]:
        if experiment not in declared.names():
            raise AttributeError(experiment)
        made = tables(experiment, *self.frames)
        setattr(self, experiment, made)
        return made

    def tables(self, experiment: str) -> list[Table]:
        """The tables that have a row."""
        return [table for table in getattr(self, experiment).values() if not table.every.empty]

    @property
    def experiments(self) -> list[str]:
        measured = set(self.frames.records.experiment)
        return [name for name in declared.names() if name in measured]

    def figures(self, experiment: str) -> dict[str, bytes]:
        """Each as SVG, by name."""
        if not declared.module(experiment, "figures"):
            return {}
        from plots.style import figures, svg  # here alone: matplotlib takes a second

        drawn = figures(experiment, self.frames.records)
        return {name: svg(figure) for name, figure in drawn.items()}

    @cached_property
    def claims(self) -> dict[str, Claim]:
        by_claim = self.frames.claims.groupby("claim", sort=False)
        return {name: Claim(cells) for name, cells in by_claim}

    def counts(self, source: str = "", experiment: str = "") -> Counter[str]:
        """The claims of a source, or of all, by verdict."""
        chosen = (c for c in self.claims.values() if source in ("", c.source))
        chosen = (c for c in chosen if experiment == "" or experiment in c.experiments)
        return Counter(claim.verdict.replace(" ", "_") for claim in chosen)

    def runs(self, experiment: str) -> str:
        """'2026-11-28, commit 05bbd482f, driver 580.95', of each run."""
        rows = self.frames.records[self.frames.records.experiment == experiment]
        runs = rows.assign(day=rows.started.dt.strftime("%Y-%m-%d"), short=rows.commit.str[:9])
        runs = runs[["day", "short", "driver"]].dropna().drop_duplicates().sort_values("day")
        each = runs.itertuples(index=False)
        return "; ".join(f"{day}, commit {commit}, driver {driver}" for day, commit, driver in each)

    def banner(self, experiment: str = "") -> str:
        """Whose numbers these are, if they are not this machine's."""
        rows = self.frames.records[self.frames.records.gpu.notna()]
        rows = rows[rows.experiment == experiment] if experiment else rows
        if not rows.recorded.any():
            return ""
        days = rows.started.dt.strftime("%Y-%m-%d")
        when = " to ".join(dict.fromkeys((days.min(), days.max())))
        return f"Recorded run of {self.gpu}, {when}. Not measured on this machine."


def machines(folders: Sequence[Path]) -> list[Machine]:
    """This machine's GPUs with results below the folders, then the recorded ones."""
    records, claims = reprolab.load(*folders)
    records, found = prepared(records), []
    for (recorded, gpu), own in claims.groupby(["recorded", "gpu"]):
        here = records.file.str.contains(f"data/recorded/{recorded}/", regex=False)
        here = here if recorded else ~records.recorded.astype(bool)
        rows = records[here & (records.gpu.isna() | (records.gpu == gpu))]
        found.append(Machine(recorded, rows.reset_index(drop=True), own))
    return found

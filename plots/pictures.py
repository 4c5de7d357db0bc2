"""The pictures that README and other pages show, drawn from the recorded runs."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from plots import style
from plots.first import first
from reprolab.json_files import ROOT, read_text

FOLDER = ROOT / "docs/figures"
SHOWN = {
    "table2": "speedup",
    "counters": "stalls",
    "end_to_end": "figure4",
    "puzzle": "seconds",
    "transpose": "kernels",
    "product": "rows",
    "reductions": "overhead",
}


def pictures(rows: pd.DataFrame) -> dict[Path, Figure]:
    """By their files; `rows` is the prepared frame of all recorded GPUs."""
    drawn = {FOLDER / "first.svg": first(rows)}
    for experiment, name in SHOWN.items():
        drawn[FOLDER / f"{experiment}.svg"] = style.figures(experiment, rows)[name]
    return drawn


def is_current(path: Path, figure: Figure) -> bool:
    """Whether the file shows the same data; versions of libraries may draw them otherwise."""
    return path.exists() and f"data {style.digest(figure)}" in read_text(path)

"""What tests look at in texts and figures."""

import re
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import declared
from records.json_files import ROOT

RECORDED = ROOT / "data/recorded/h200"


def recorded_names() -> list[str]:
    """The experiments that were recorded; a new one is not yet."""
    return [name for name in declared.names() if (RECORDED / name).exists()]


NO_NUMBER = re.compile(r"\b(nan|inf)\b")


def line(text: str, start: str) -> str:
    """The first line that starts so."""
    return next(x for x in text.splitlines() if x.startswith(start))


def text_of(figure: Figure, gid: str) -> list[str]:
    return [t.get_text() for t in figure.texts if t.get_gid() == gid]


def lines_of(axes: Axes, gid: str) -> list[Any]:
    return [x for x in axes.lines if x.get_gid() == gid]


def look(texts: dict[Path, bytes]) -> None:
    """What holds of every table, whatever is in it."""
    for path, content in texts.items():
        text = content.decode("utf-8")
        assert text.replace("\n", "").isprintable(), path
        assert not NO_NUMBER.search(text), path
        if path.suffix == ".md":
            rows = [line for line in text.splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows}) == 1, path

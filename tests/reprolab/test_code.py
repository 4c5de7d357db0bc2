"""Rows of one kernel from several files, which are combined unless they are known to differ."""

from pathlib import Path

import made

from reprolab import code
from reprolab.results import parse

SASS, TIMES = Path("counters/sass.json"), Path("table2/replay.json")


def row(file: Path, kernel: str, target: str = "sm_90", **digests: str):
    """A row of a kernel whose parts have these digests; none: unknown code."""
    content = made.replay({kernel: [1.0]}) | {"experiment": file.parent.name}
    code = {"target": target, "sha256": digests} if digests else None
    content["records"][0]["code"] = code
    (row,) = parse(file, content).records
    return row


def test_a_source_is_one_code_in_the_rows_of_every_kernel():
    a, fused = row(SASS, "a", **{"a.cu": "1", "x.so": "1"}), {"a.cu": "1", "x.so": "2"}
    assert code.differing([a, row(TIMES, "fused", **fused)]) == ""
    other = row(TIMES, "fused", **fused | {"a.cu": "2"})
    assert "a.cu compiled to different machine code" in code.differing([a, other])
    assert "x.so compiled to different machine code" in code.differing([a, row(SASS, "a", **fused)])
    assert code.differing([a, row(TIMES, "a", **fused)]) == ""  # of another experiment


def test_another_architecture_is_no_other_kernel():
    code_row, time_row = row(SASS, "a", **{"a.cu": "1"}), row(TIMES, "a", "sm_80", **{"a.cu": "2"})
    assert code.differing([code_row, time_row]) == ""


def test_unknown_code_is_allowed():
    known, silent = row(TIMES, "a", **{"a.cu": "1"}), row(SASS, "a")
    assert code.differing([silent, known]) == ""

"""Rows of one kernel from several files: put together only where nothing says that they differ."""

from pathlib import Path

import made

from records import code
from records.results import parse

SASS, TIMES = Path("counters/sass.json"), Path("table2/replay.json")


def rows(file: Path, target: str = "sm_90", **versions: str | None):
    """One row for each kernel, of this version of its code; None: it does not say."""
    problem = made.forward_pass("qwen3-32b", 2)
    records = []
    for kernel, version in versions.items():
        of = None if version is None else made.code_of(target, kernel, version)
        records.append(made.record(problem, kernel, [1.0], code=of))
    found = parse(file, made.results("table2", "replay", records))
    return [(file, record) for record in found.records]


def test_a_source_is_one_code_in_the_rows_of_every_kernel():
    def of(file, kernel, **parts):
        digests = {"target": "sm_90", "sha256": parts}
        record = made.record(made.forward_pass("qwen3-32b", 2), kernel, [1.0], code=digests)
        (found,) = parse(file, made.results("table2", "replay", [record])).records
        return file, found

    a, fused = of(SASS, "a", **{"a.cu": "1", "x.so": "1"}), {"a.cu": "1", "x.so": "2"}
    assert code.differing([a, of(TIMES, "fused", **fused)]) == ""
    assert "a.cu was other code" in code.differing([a, of(TIMES, "fused", **fused | {"a.cu": "2"})])
    assert "x.so was other code" in code.differing([a, of(TIMES, "a", **fused)])


def test_another_architecture_is_no_other_kernel():
    assert code.differing(rows(SASS, a="1") + rows(TIMES, "sm_80", a="2")) == ""


def test_what_is_not_known_is_allowed_and_said():
    both = rows(SASS, a=None, b="1") + rows(TIMES, a="1", b="1")
    assert code.differing(both) == ""
    assert code.unknown(both) == ("a",)
    assert code.unknown(rows(TIMES, a=None)) == ()  # one file: nothing is put together
    (note,) = code.unknown_note(["b", "a", "a"])
    assert "not known of a, b" in note
    assert code.unknown_note([]) == []

"""Runs without valid tables: an error of one line that names the file."""

import made
import pytest
from edited import Edited

from plots.cli import main

GIVE = "give two passes of one run"
LAYER = "28672x8192/fp16/b64"


def provenance(pass_name, part="gpu", /, **changes):
    """Fields of a part, or of the whole."""

    def spoil(run):
        found = run.files[pass_name]["provenance"]
        (found[part] if part else found).update(changes)

    return spoil


def problem(passes, pattern, **changes):
    """Edits the rows whose problem's name matches."""

    def spoil(run):
        for row in run.rows(passes, problem=pattern):
            row["problem"] |= changes

    return spoil


def twice(run):
    """A second problem for one row."""
    run.rows("plain_counters")[0]["problem"] |= {"name": "another"}


def again(run):
    """Every row again, on another problem."""
    for row in run.rows():
        other = {"key": f"again {row['key']}", "problem": row["problem"] | {"name": "again"}}
        run.files["mlps"]["records"].append(row | other)


def first_problem(name, found):
    def spoil(run):
        run.files[name]["records"][0]["problem"] = found

    return spoil


def swapped(name, other):
    def spoil(run):
        run.files[name]["records"] = run.rows(other)

    return spoil


def dropped(passes, fact, value):
    return lambda run: run.drop(lambda row: row["problem"][fact] == value, passes)


FOUR = "needs one shape, once on each of equal, sorted, normal, uniform"
EQUAL, TINY = f"{LAYER}/equal", {"rows": 64, "n": 64 * 8192}
OF_NOTHING = {"instrument": "sass", "gpu": None, "clocks": None}
FORWARD = made.forward_pass("qwen3-32b", 8)
REFUSED = [
    ("counters", problem("nf4_counters", "*", family="x"), "is 'x', but 'nf4' is needed here"),
    ("counters", provenance("nf4_counters", name="NVIDIA A100"), f"of NVIDIA A100: {GIVE}"),
    ("counters", provenance("nf4_counters", driver="1.2"), f"of driver 1.2: {GIVE}"),
    ("counters", provenance("sass", "", commit="f" * 40), f"of commit fffffffff: {GIVE}"),
    ("counters", provenance("nf4_counters", "", **OF_NOTHING), "counters are needed here"),
    ("counters", problem("divergence", EQUAL, **TINY), FOUR),
    ("counters", problem("divergence", EQUAL, data="constant"), FOUR),
    ("end_to_end", dropped("timing", "way", "eager"), "no rows with way eager, which are compared"),
    ("ladder", swapped("cold", "warm"), "is warm, but cold rows are needed here"),
    ("ladder", swapped("warm", "cold"), "is cold, but warm rows are needed here"),
    ("ladder", twice, "plain_counters.json: needs one problem, but has 2"),
    ("ladder", problem("plain_counters", "*", name="x"), f"is of x, but plain.json of {LAYER}"),
    ("ladder", problem("cold", "16x*", n=4096 * 8192), "not told from another"),
    ("puzzle", again, "mlps.json: needs one problem, but has 2"),
    ("streaming", first_problem("layers", FORWARD), "but single matrices are needed here"),
    (
        "table2",
        provenance("shapes", "", dirty=True, sources_sha256="c" * 64),
        f"ccccccccc): {GIVE}",
    ),
    ("table2", lambda run: run.files.clear(), "cannot be read: No such file or directory"),
    ("transpose", problem("sizes", "1000x*", columns=500), "problem '1000x1000' is not square"),
    ("transpose", dropped("matrix", "data", "random"), "whose data is 'random', but has 0"),
]


@pytest.mark.parametrize(("name", "spoil", "message"), REFUSED)
def test_what_is_refused_and_nothing_is_written(name, spoil, message, tmp_path, capsys):
    run = Edited(name, tmp_path / "run")
    spoil(run)
    folders = ["--results", str(run.write()), "--output", str(tmp_path / "out")]
    assert main(["render", name, *folders]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and not (tmp_path / "out").exists()
    assert captured.err.startswith(f"error: {run.folder}") and captured.err.count("\n") == 1
    assert captured.err.endswith(f"{message}\n")


def test_changed_sources_of_compiled_code_are_no_matter(tmp_path):
    """Compiled code has fewer source files than the programs."""
    run = Edited("counters", tmp_path)
    for name, file in run.files.items():
        file["provenance"]["dirty"] = name != "sass"
    assert run.run()["sass"].gpu is None

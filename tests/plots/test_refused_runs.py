"""Runs without valid tables: an error of one line that names the file."""

import made
import pytest
from edited import Edited

from plots.cli import main
from reprolab.errors import InputError

LAYER = "28672x8192/fp16/b64"


def provenance(pass_name, part="gpu", /, **changes):
    """Fields of a part, or of the whole."""

    def spoil(run):
        fields = run.files[pass_name]["provenance"]
        (fields[part] if part else fields).update(changes)

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


def first_problem(name, problem):
    def spoil(run):
        run.files[name]["records"][0]["problem"] = problem

    return spoil


def swapped(name, other):
    def spoil(run):
        run.files[name]["records"] = run.rows(other)

    return spoil


def dropped(passes, fact, value):
    return lambda run: run.drop(lambda row: row["problem"][fact] == value, passes)


EQUAL, TINY = f"{LAYER}/equal", {"rows": 64, "n": 64 * 8192}
OF_NOTHING = {"instrument": "sass", "gpu": None, "clocks": None}
FORWARD = made.forward_pass("qwen3-32b", 8)
REFUSED = [
    ("counters", problem("nf4_counters", "*", family="x"), "'x'"),
    ("counters", provenance("nf4_counters", name="NVIDIA A100"), "NVIDIA A100"),
    ("counters", provenance("nf4_counters", driver="1.2"), "driver 1.2"),
    ("counters", provenance("sass", "", commit="f" * 40), "fffffffff"),
    ("counters", provenance("nf4_counters", "", **OF_NOTHING), "counters"),
    ("counters", problem("divergence", EQUAL, **TINY), "uniform"),
    ("counters", problem("divergence", EQUAL, data="constant"), "uniform"),
    ("end_to_end", dropped("timing", "way", "eager"), "way eager"),
    ("ladder", swapped("cold", "warm"), "cold rows"),
    ("ladder", swapped("warm", "cold"), "warm rows"),
    ("ladder", twice, "one problem"),
    ("ladder", problem("plain_counters", "*", name="x"), "plain.json"),
    ("ladder", problem("cold", "16x*", n=4096 * 8192), "distinguished"),
    ("puzzle", again, "mlps.json"),
    ("streaming", first_problem("layers", FORWARD), "single matrices"),
    ("table2", provenance("shapes", "", dirty=True), "+dirty"),
    ("table2", lambda run: run.files.clear(), "No such file"),
    ("transpose", problem("sizes", "1000x*", columns=500), "not square"),
    ("transpose", dropped("matrix", "data", "random"), "'random'"),
]


@pytest.mark.parametrize(("name", "spoil", "noun"), REFUSED)
def test_a_refused_run_writes_nothing(name, spoil, noun, tmp_path, capsys):
    run = Edited(name, tmp_path / "run")
    spoil(run)
    folders = ["--results", str(run.write()), "--output", str(tmp_path / "out")]
    assert main(["render", name, *folders]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and not (tmp_path / "out").exists()
    assert captured.err.startswith(f"error: {run.folder}") and captured.err.count("\n") == 1
    assert noun in captured.err


def test_changed_sources_of_compiled_code_are_no_matter(tmp_path):
    """Compiled code has fewer source files than the programs."""
    run = Edited("counters", tmp_path)
    for name, file in run.files.items():
        file["provenance"]["dirty"] = name != "sass"
    assert run.run()["sass"].gpu is None


def test_a_file_joined_from_two_commits_needs_the_others_code_alone(tmp_path):
    run = Edited("table2", tmp_path)
    replay = run.files["replay"]
    own = dict(replay["provenance"])
    replay["provenance"] |= {"commit": "f" * 40}
    with pytest.raises(InputError, match="give two passes of one run"):
        run.run()
    replay["provenance"]["runs"] = [own, own | {"commit": "f" * 40}]
    for i, row in enumerate(replay["records"]):
        row["run"] = i % 2
    assert run.run()["replay"].origins[1]["commit"] == "f" * 40
    first = next(row for row in replay["records"] if row.get("code"))
    first["code"]["sha256"] = dict.fromkeys(first["code"]["sha256"], "0" * 64)
    with pytest.raises(InputError, match="ran different code"):
        run.run()

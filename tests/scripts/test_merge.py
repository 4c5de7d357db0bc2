"""Result files of several runs in one folder."""

import json

import made
import pytest

from experiments.merge import parser
from reprolab.captions import machine_notes
from reprolab.command_line import run
from reprolab.errors import InputError
from reprolab.results import record_rows
from reprolab.json_files import ROOT
from reprolab.results import load, parse

H200 = ROOT / "data/recorded/h200"


@pytest.fixture
def merge(tmp_path):
    """Merges the folders and returns the exit status."""
    return lambda *folders: run(parser(), list(map(str, [tmp_path / "merged", *folders])))


def replay(batches, started, us=10.0, kernels=("branch_tree", "shared_lut"), **changes):
    """A result file with one check for all rows of a batch."""
    rows = {
        batch: [
            made.record(made.forward_pass("qwen3-32b", batch), kernel, [us, us + 1, us + 2])
            for kernel in kernels
        ]
        for batch in batches
    }
    numbers = {"first": 1.0, "second": 1.0, "unit": "us", "allowed_percent": 1.0}
    checks = [
        {"name": f"clock {batch}", "keys": [row["key"] for row in batch_rows]} | numbers
        for batch, batch_rows in rows.items()
    ]
    origin = made.provenance(started=f"2026-11-20T{started}:00Z", **changes)
    records = [row for batch_rows in rows.values() for row in batch_rows]
    return made.results("table2", "replay", records, provenance=origin, checks=checks)


def read(tmp_path, gpu="nvidia-h200", name="table2/replay"):
    return json.loads((tmp_path / f"merged/{gpu}/{name}.json").read_text())


def keys(file):
    return [row["key"] for row in file["records"]]


def test_tasks_that_measured_other_problems_become_one_file(merge, tmp_path, write, capsys):
    gpus = [made.GPU | {"unit": unit * 16} for unit in "ab"]
    late, early = ({"gpu": gpu, "argv": [gpu["unit"]]} for gpu in gpus)
    late["host"] = made.provenance()["host"] | {"cores": 7}
    files = [replay([2], "08:00", **late), replay([4, 8], "07:00", **early)]
    folders = [write(f"{i}/table2/replay.json", file).parents[1] for i, file in enumerate(files)]
    assert merge(*folders) == 0
    assert capsys.readouterr().out == f"{tmp_path}/merged: 1 result file\n"
    merged = read(tmp_path)
    assert keys(merged) == keys(files[0]) + keys(files[1])
    assert merged["provenance"]["started"] == "2026-11-20T07:00:00Z"
    assert merged["provenance"]["argv"] == late["argv"]
    assert merged["provenance"]["host"] == late["host"]
    assert set(merged["provenance"]["gpu"]["unit"].split()) == {"a" * 16, "b" * 16}
    runtimes = [file["provenance"]["runtime_s"] for file in files]
    assert merged["provenance"]["runtime_s"] == round(sum(runtimes), 1) > max(runtimes)
    assert merged["checks"] == files[0]["checks"] + files[1]["checks"]


def test_runs_of_several_commits_keep_their_provenance(merge, tmp_path, write, capsys):
    commits = [c * 40 for c in "abc"]
    hours = ("09:00", "07:00", "08:00")
    files = [
        replay([batch], hour, commit=commit, argv=[commit])
        for batch, hour, commit in zip((2, 4, 8), hours, commits, strict=True)
    ]
    folders = [write(f"{i}/table2/replay.json", file).parents[1] for i, file in enumerate(files)]
    assert merge(*folders) == 0
    assert capsys.readouterr().out.count("left out: ") == 2
    assert keys(read(tmp_path)) == keys(files[0])

    assert merge("--commits", *folders) == 0
    merged = read(tmp_path)
    assert keys(merged) == [key for file in files for key in keys(file)]
    origin = merged["provenance"]
    assert (origin["commit"], origin["argv"]) == (commits[0], [commits[0]])  # the newest
    assert origin["started"] == files[0]["provenance"]["started"]
    assert origin["runs"] == [file["provenance"] for file in files]
    shown = parse(tmp_path / "replay.json", merged)
    runs = shown.runs(shown.records[3:])
    assert [run.provenance["commit"] for run in runs] == commits[1:]
    assert [[r.problem["batch"] for r in run.records] for run in runs] == [[4], [8, 8]]
    notes = [note.text for note in machine_notes(shown)]
    assert [sum(commit[:9] in note for note in notes) for commit in commits] == [1, 1, 1]
    assert {r["commit"] for r in record_rows(shown) if r["problem_batch"] == 8} == {"c" * 40}

    later = write("3/table2/replay.json", replay([16], "10:00", commit="d" * 40)).parents[1]
    again = write("4/table2/replay.json", merged).parents[1]
    assert merge("--commits", again, later) == 0
    more = read(tmp_path)
    assert [run["commit"][0] for run in more["provenance"]["runs"]] == [*"abcd"]
    assert [row["run"] for row in more["records"]] == [0, 0, 1, 1, 2, 2, 3, 3]

    newer = write("5/table2/replay.json", replay([4], "11:00", commit="e" * 40)).parents[1]
    assert merge("--commits", again, newer) == 0
    replaced = read(tmp_path)  # without the run that measured only what was measured again
    assert [run["commit"][0] for run in replaced["provenance"]["runs"]] == [*"ace"]
    assert {row["run"] for row in replaced["records"] if row["problem"]["batch"] == 4} == {2}


def test_a_row_of_no_run_is_refused(write):
    file = replay([2], "08:00")
    file["records"][0]["run"] = 1
    with pytest.raises(InputError, match=r"records\[0\]\.run"):
        load(write("replay.json", file))


def test_all_rows_of_a_problem_are_of_its_newest_run(merge, tmp_path, write, capsys):
    """Rows of a problem are never mixed with rows that were not sampled in turn with them."""
    new = replay([2], "08:00", kernels=["branch_tree"])
    old = replay([2, 4], "07:00", us=20.0)
    assert (
        merge(*(write(f"{i}/replay.json", file).parent for i, file in enumerate([old, new]))) == 0
    )
    (line,) = capsys.readouterr().out.splitlines()[:-1]
    assert line.startswith(f"left out: rows of {tmp_path}/0/replay.json: 1, ")
    merged = read(tmp_path)
    assert keys(merged) == [*keys(old)[2:], *keys(new)]
    assert made.find(merged, keys(new)[0])["metrics"][0]["samples"][0] == 10.0
    assert [check["name"] for check in merged["checks"]] == ["clock 4", "clock 2"]
    assert "unit" not in merged["provenance"]["gpu"]
    assert merged["checks"][1] == new["checks"][0]


def test_invalid_merged_files_are_not_written(merge, tmp_path, write, capsys):
    def merged(first, second):
        files = enumerate([first, second])
        return merge(*(write(f"{i}/replay.json", file).parent for i, file in files))

    same_key = replay([4], "08:00")
    same_key["records"][0]["key"] = replay([2], "07:00")["records"][0]["key"]
    same_key["checks"] = []
    assert merged(replay([2], "07:00"), same_key) == 2
    assert "duplicate" in capsys.readouterr().err
    other_code = replay([4], "08:00", dirty=True)
    for row in other_code["records"]:
        row["code"] = {"target": "sm_90", "sha256": {row["source_file"]: "1" * 64}}
    this_code = replay([2], "07:00", dirty=True)
    for row in this_code["records"]:
        row["code"] = {"target": "sm_90", "sha256": {row["source_file"]: "2" * 64}}
    assert merged(this_code, other_code) == 2
    assert "different code" in capsys.readouterr().err
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"commit": "f" * 40},
        {"dirty": True},
        {"sources_sha256": "c" * 64},
        {"instrument": "events"},
        {"gpu": made.GPU | {"driver": "1.2.3"}},
        {"build": made.ORIGIN["build"] | {"compiler": "GNU 9"}},
        {"clocks": made.ORIGIN["clocks"] | {"policy": "locked", "locked_mhz": 1500}},
    ],
)
def test_files_of_other_sources_are_left_out(merge, tmp_path, write, capsys, change):
    files = [replay([2], "07:00", **change), replay([4], "08:00")]
    one, two = (write(f"{i}/replay.json", file) for i, file in enumerate(files))
    assert merge(one.parent, two.parent) == 0
    said = f"left out: {one}, which is of other sources, or another driver, than {two}\n"
    assert capsys.readouterr().out.startswith(said)
    assert read(tmp_path) == files[1]


def test_every_gpu_has_a_folder_and_every_pass_a_file(merge, tmp_path, write):
    for i, gpu in enumerate(("Tesla T4", "NVIDIA H200")):
        for name in ("replay", "again"):
            file = made.on(gpu, replay([2], "08:00")) | {"pass": name}
            write(f"{i}/{name}.json", file)
    assert merge(tmp_path / "0", tmp_path / "1") == 0
    for gpu in ("tesla-t4", "nvidia-h200"):
        for name in ("replay", "again"):
            assert len(read(tmp_path, gpu, f"table2/{name}")["records"]) == 2


def test_recorded_runs_are_not_merged_and_empty_folders_are_valid(merge, tmp_path, capsys):
    assert merge(H200 / "ladder") == 2
    assert capsys.readouterr().err.endswith("h200: is a recorded run, which stays as it is\n")
    assert merge(tmp_path / "nothing") == 2
    assert not (tmp_path / "merged").exists()
    (tmp_path / "empty").mkdir()
    assert merge(tmp_path / "empty") == 0
    assert capsys.readouterr().out == f"{tmp_path}/merged: 0 result files\n"


@pytest.mark.parametrize("name", ["../../elsewhere", "/tmp/elsewhere", ""])
def test_a_name_outside_the_folder_is_refused(merge, tmp_path, write, capsys, name):
    file = write("0/replay.json", replay([2], "08:00") | {"experiment": name})
    assert merge(file.parent) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "merged").exists() and not (tmp_path / "elsewhere").exists()


def unmeasured(file, count=None):
    """The file with its first rows as the harness writes them after the machine failed."""
    for row in file["records"][:count]:
        row |= {"outcome": "not_measured", "reason": "the GPU was lost", "metrics": []}
    return file


def test_rows_that_were_not_measured_replace_none(merge, tmp_path, write):
    old = replay([2, 4], "07:00", us=20.0)
    for i, file in enumerate([old, unmeasured(replay([2, 4], "08:00"))]):
        write(f"{i}/replay.json", file)
    assert merge(tmp_path / "0", tmp_path / "1") == 0
    assert read(tmp_path) == old
    partly = unmeasured(replay([2, 4], "09:00", us=30.0), 1)  # all of batch 4
    write("1/replay.json", partly)
    assert merge(tmp_path / "0", tmp_path / "1") == 0
    merged = read(tmp_path)
    samples = {key: made.find(merged, key)["metrics"][0]["samples"][0] for key in keys(merged)}
    assert samples == dict(zip(keys(old), [20.0, 20.0, 30.0, 30.0], strict=True))


def test_a_row_that_was_not_measured_is_not_lost(merge, tmp_path, write, capsys):
    files = [unmeasured(replay([2], "07:00")), replay([2], "08:00", kernels=["branch_tree"])]
    for i, file in enumerate(files):
        write(f"{i}/replay.json", file)
    assert merge(tmp_path / "0", tmp_path / "1") == 0
    assert "left out" not in capsys.readouterr().out


def test_among_partly_measured_runs_the_most_complete_is_used(merge, tmp_path, write):
    files = [unmeasured(replay([2], "07:00", us=20.0), 1), unmeasured(replay([2], "08:00"), 2)]
    for i, file in enumerate(files):
        write(f"{i}/replay.json", file)
    assert merge(tmp_path / "0", tmp_path / "1") == 0
    assert read(tmp_path) == files[0]


def test_a_failed_run_of_other_sources_replaces_no_measured_run(merge, tmp_path, write):
    old = replay([2], "07:00")
    write("0/replay.json", old)
    write("1/replay.json", unmeasured(replay([2], "08:00", commit="f" * 40)))
    assert merge(tmp_path / "0", tmp_path / "1") == 0
    assert read(tmp_path) == old


def test_a_damaged_file_is_left_out_and_named(merge, tmp_path, write, capsys):
    good = replay([2], "07:00")
    write("0/replay.json", good)
    for i, text in enumerate(['{"records": [', '{"records": 7}', "\xff"]):
        (tmp_path / "0" / f"damaged_{i}.json").write_text(text, encoding="latin-1")
    assert merge(tmp_path / "0") == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3 and all("damaged_" in line for line in errors)
    assert read(tmp_path) == good


def test_descriptions_of_all_files_kernels_are_kept(merge, tmp_path, write):
    """Tables read a kernel's language and counterpart from the description."""
    described = json.loads((ROOT / "data/families.json").read_text())["families"]
    (nf4,) = (family for family in described if family["name"] == "nf4")
    files = []
    for i, kernel in enumerate(nf4["kernels"][:2]):
        file = replay([2 + 2 * i], f"0{7 + i}:00", kernels=[kernel["name"]])
        files.append(file | {"families": [nf4 | {"kernels": [kernel]}]})
        write(f"{i}/replay.json", files[-1])
    assert merge(tmp_path / "0", tmp_path / "1") == 0
    (family,) = read(tmp_path)["families"]
    assert family["kernels"] == nf4["kernels"][:2]

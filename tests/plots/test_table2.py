"""Table 2: every kind of row, of clock and of check, and what is refused."""

import fixtures
import made
import pytest
from looking import BANNER, line, markdown_row, rendered

from plots import table2
from plots.cli import main
from plots.experiments import load_run

CELL = "qwen3-32b/batch8/fp16/b64"
SHAPE = "qwen3-32b.q/fp16/b64"


@pytest.fixture
def texts(replay, shapes, write):
    """Renders both passes as they now are: file name -> text."""
    return lambda recorded=False: rendered("table2", write("run", replay, shapes), recorded)


@pytest.mark.parametrize("name", ["table2", "kernels", "shapes"])
def test_golden(texts, golden, name):
    golden(f"table2/{name}.md", texts()[f"{name}.md"])


def test_banner_on_every_table_or_on_none(texts):
    assert all(BANNER in " ".join(text.split()) for text in texts(recorded=True).values())
    assert not any("Recorded" in text for text in texts().values())


def test_a_run_is_recorded_by_its_path_too(replay, shapes, write):
    for folder, recorded in (("data/recorded/h200/table2", True), ("results/table2", False)):
        assert load_run("table2", write(folder, replay, shapes)).recorded is recorded


@pytest.mark.parametrize(
    ("change", "first", "other"),
    [
        (lambda p: p.update(commit="9" * 40), "commit 012345678", "commit 999999999"),
        (lambda p: p.update(dirty=True), "commit 012345678", "commit 012345678+dirty"),
        (lambda p: p["gpu"].update(driver=None), "driver 580.159.04", "driver not known"),
        (lambda p: p["gpu"].update(name="NVIDIA A100"), "NVIDIA H200", "NVIDIA A100"),
    ],
)
def test_passes_of_two_runs_are_refused(replay, shapes, write, capsys, change, first, other):
    change(shapes["provenance"])
    folder = write("run", replay, shapes)
    output = folder / "out"
    assert main(["render", "table2", "--results", str(folder), "--output", str(output)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and not output.exists()
    assert captured.err == (
        f"error: {folder}/replay.json is of {first}, but {folder}/shapes.json of {other}: "
        "give two passes of one run\n"
    )


def test_a_missing_pass_is_refused(replay, write, capsys):
    folder = write("run", replay)
    assert main(["render", "table2", "--results", str(folder), "--output", str(folder)]) == 2
    missing = f"error: {folder}/shapes.json: cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == missing


def test_a_mismatch_and_an_unsupported_row_show_why_and_no_time(texts):
    found = texts()
    row = markdown_row(found["kernels.md"], "`broken_lut`")
    assert row[1] == "mismatch"
    flat = " ".join(found["kernels.txt"].split())
    assert "first at index 64 (row 0, column 64): block 1, code 7" in flat
    assert "libbitsandbytes_cuda130.so was not found" in flat


def test_a_deviation_has_one_footnote_for_all_its_rows(texts, shapes):
    """Counts differ from shape to shape: it has those of the worst."""
    rows = made.rows_of(shapes, "one_scale_a_tile")
    rows[0] |= {"reason": "88 of 100 weights differ; first at index 3", "mismatches": 88}
    rows[1] |= {"outcome": "unsupported", "reason": "needs more", "mismatches": 90, "metrics": []}
    found = texts()
    worst = f"88 of {rows[0]['problem']['n']} weights differ"
    note = f"left out of rankings: {fixtures.ONE_SCALE}; at worst: {worst}\n"
    assert found["shapes.md"].count(f"one_scale_a_tile: {note}") == 1
    assert found["shapes.csv"].count("88 of 100 weights differ") == 1


def test_overlap_is_no_difference_seen(texts, shapes):
    tree, lut = (made.find(shapes, f"{SHAPE}/{k}") for k in ("branch_tree", "global_lut"))
    lut["metrics"] = tree["metrics"]
    row = markdown_row(texts()["shapes.md"].split(SHAPE)[1], "`global_lut`")
    assert row[-1] == "no difference seen"


def test_best_is_shared_where_intervals_overlap(texts, shapes):
    best, lut = (made.find(shapes, f"{SHAPE}/{k}") for k in ("streaming", "global_lut"))
    lut["metrics"] = best["metrics"]
    found = texts()
    assert line(found["shapes_summary.csv"], SHAPE).split('"')[1] == "global_lut, streaming"
    assert " * " in line(found["shapes.txt"].split(SHAPE)[1], "global_lut")
    said = {"txt": "are marked *.", "md": "are in bold.", "tex": "are in bold.", "csv": "as best."}
    for kind, words in said.items():
        assert words in " ".join(found[f"shapes.{kind}"].split())
    assert not any("{best}" in text for text in found.values())


def test_the_fastest_are_all_that_overlap(replay, shapes, write):
    high = max(made.find(replay, f"{CELL}/streaming")["metrics"][0]["samples"])
    # Quartiles would part the two: only one sample is within the other's range.
    times = [high - 0.001, high + 500, high + 600]
    made.set_times(made.find(replay, f"{CELL}/global_lut"), times)
    (first, _) = table2.highlights(load_run("table2", write("run", replay, shapes)))
    names = "no difference seen between streaming, global_lut"
    assert first == f"Fastest for qwen3-32b at batch 8: {names}, 3.58x branch_tree."


def test_the_fastest_ceiling_reads_and_writes_and_may_be_faster_than_the_copy(texts, shapes):
    def ceilings():
        (group,) = texts()["shapes.md"].split("| **qwen3-32b.gate/fp16/b64")[1:]
        names = ("copy", "same_bytes", "read_only", "write_only")
        return {name: markdown_row(group, f"`{name}`")[1] for name in names}

    others = {"read_only": "ceiling", "write_only": "ceiling"}
    assert ceilings() == others | {"copy": "fastest ceiling", "same_bytes": "ceiling"}
    made.set_times(made.find(shapes, "qwen3-32b.gate/fp16/b64/same_bytes"), [10.0] * 5)
    assert ceilings() == others | {"copy": "ceiling", "same_bytes": "fastest ceiling"}


def test_no_nvml(texts, replay, shapes):
    for file in (replay, shapes):
        empty = dict.fromkeys(("sm_mhz", "memory_mhz", "power_w", "temperature_c"))
        file["provenance"]["clocks"] |= empty | {"throttle_reasons": None}
        file["provenance"]["gpu"] |= {"driver": None, "power_limit_w": None}
        for r in file["records"]:
            r["clocks"] = dict.fromkeys(r["clocks"])
    flat = " ".join(texts()["table2.md"].split())
    assert (
        "NVIDIA H200, driver not known, CUDA 13.0; clocks not locked, SM clock not known (no "
        "NVML); throttle reasons not known;" in flat
    )


def lock(file, locked_mhz, *seen):
    """The rows have the clocks that were seen in turn; none: no probe, and no NVML."""
    file["provenance"]["clocks"] |= {"policy": "locked", "locked_mhz": locked_mhz}
    if not seen:
        file["provenance"]["clocks"]["sm_mhz"] = None
    for i, r in enumerate(file["records"]):
        r["clocks"]["sm_mhz_during"] = seen[i % len(seen)] if seen else None


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ((1410, 1409.6), "1410 MHz seen;"),
        ((1400, 1410), "1400-1410 MHz seen;"),
        ((1395, 1410), "but 1395-1410 MHz seen (more than 1 % off);"),
        ((1980,), "but 1980 MHz seen (more than 1 % off);"),
        ((), "not known whether it was held;"),
    ],
)
def test_locked_clocks_and_whether_they_were_held(texts, replay, seen, said):
    lock(replay, 1410, *seen)
    found = texts()
    for file in ("table2.txt", "table2.md", "table2.csv", "table2.tex"):
        text = " ".join(found[file].replace("# ", "").replace("\\%", "%").split())
        assert f"CUDA 13.0; SM clock locked at 1410 MHz, {said}" in text


def test_throttling_is_shown_with_power_and_temperature(texts, replay):
    found, gpu = replay["provenance"]["clocks"], replay["provenance"]["gpu"]

    def caption():
        return " ".join(texts()["table2.txt"].split())

    assert "; no throttle reasons seen;" in caption()
    found["throttle_reasons"] = ["sw_power_cap", "hw_thermal"]
    reasons = "throttle reasons seen: sw_power_cap, hw_thermal"
    assert f"; {reasons} (up to 655 of 700 W, 52 C);" in caption()
    gpu["power_limit_w"] = None
    assert f"; {reasons} (up to 655 W, 52 C);" in caption()
    found |= {"power_w": None, "temperature_c": None}
    assert f"; {reasons};" in caption()


BELOW = "Ran at an SM clock {} % below the highest of the rows on its problem."


def test_clocks_too_far_apart_are_marked(texts, replay, shapes):
    made.find(replay, f"{CELL}/shared_lut")["clocks"]["sm_mhz_during"] = 1800
    for kernel, mhz in (("streaming", 1935), ("global_lut", 1930), ("copy", 1700)):
        made.find(shapes, f"{SHAPE}/{kernel}")["clocks"]["sm_mhz_during"] = mhz
    found = texts()
    both = "SM clocks differ by 9.1 % (more than 2 %): shared_lut at 1800 MHz, branch_tree at 1980"
    assert both in " ".join(found["table2.txt"].split())
    assert markdown_row(
        found["table2.md"].split("**shared_lut: tiles of 512 bytes; qwen3-32b**")[1], "8 "
    )[2].endswith("</sup>")
    for file in ("kernels.md", "kernels.tex", "kernels.txt"):
        text = " ".join(found[file].replace("\\%", "%").split())
        assert text.count(BELOW.format(9)) == 1, file
    assert markdown_row(found["kernels.md"], "`shared_lut`")[1].endswith("x) <sup>1</sup>")
    assert markdown_row(found["kernels.md"], "`streaming`")[1].endswith("x)")
    assert [found["shapes.md"].count(BELOW.format(x)) for x in (2, 3, 14)] == [1, 1, 1]
    rows = found["shapes.md"].split(f"**{SHAPE}")[1]
    marks = {
        k: "<sup>" in markdown_row(rows, f"`{k}`")[6] for k in ("streaming", "copy", "branch_tree")
    }
    assert marks == {"streaming": True, "copy": True, "branch_tree": False}
    row = markdown_row(found["shapes_summary.md"], SHAPE)
    assert row[-1].endswith("</sup>") and row[4].endswith("</sup>")
    of_shape = [x for x in found["shapes.csv"].splitlines() if x.startswith(SHAPE)]
    flags = {x.split(",")[1]: x.split(",")[-2] for x in of_shape}
    assert (flags["streaming"], flags["copy"], flags["branch_tree"]) == ("1", "1", "0")


def test_clocks_within_two_percent_are_not_marked(texts, replay, shapes):
    made.find(replay, f"{CELL}/shared_lut")["clocks"]["sm_mhz_during"] = 1940.4
    made.find(shapes, f"{SHAPE}/streaming")["clocks"]["sm_mhz_during"] = 1940.4
    found = texts()
    assert "SM clock" not in found["table2.md"].split("<sub>Paper")[0]
    assert not any("below the highest" in text for text in found.values())


def test_rows_without_a_time_have_no_say_in_the_clocks(texts, shapes):
    made.find(shapes, f"{SHAPE}/broken_lut")["clocks"]["sm_mhz_during"] = 3000
    assert "below the highest" not in texts()["shapes.md"]


def test_what_was_not_run_shows_the_papers_value(texts):
    rows = texts()["table2.md"].split("**shared_lut: tiles of 512 bytes; llama-3.3-70b**")[1]
    assert markdown_row(rows, "2 ") == [
        *["2", "2.04", "-", "-", "not tested yet", "-", "-", "-"],
    ]


def test_a_cell_that_cannot_be_decided_says_why(texts, replay):
    made.fail(made.find(replay, f"{CELL}/shared_lut"), "mismatch", "3 of 4 weights differ")
    text = texts()["table2.md"]
    row = markdown_row(text.split("**shared_lut: tiles of 512 bytes; qwen3-32b**")[1], "8 ")
    assert row[4:7] == ["not testable <sup>1</sup>", "73.27", "- <sup>2</sup>"]
    assert "<sup>1</sup> shared_lut on qwen3-32b/batch8/fp16/b64: mismatch: 3 of 4" in text


def test_instrument_checks(texts, replay):
    keys = [replay["records"][0]["key"]]
    good = {"name": "a: events against activity", "first": 73100.0, "second": 73000.0}
    good |= {"unit": "us", "keys": keys, "allowed_percent": 1.0}
    replay["checks"] = [good]
    assert (
        "Instrument checks passed: 1 of 1; largest difference: a: events against activity, 73100 "
        "and 73000 us, +0.14 % (allowed: 1 %)."
    ) in texts()["table2.md"]
    replay["checks"] = [good, good | {"name": "b", "first": 75000.0}]
    text = texts()["table2.md"]
    assert "Instrument checks passed: 1 of 2;" in text
    assert "FAILED: b, 75000 and 73000 us, +2.74 % (allowed: 1 %)." in text


def test_a_failed_check_is_named_on_the_terminal(replay, shapes, write, capsys, monkeypatch):
    keys = [replay["records"][0]["key"]]
    bad = {"name": "b", "first": 2.0, "second": 1.0, "unit": "us", "keys": keys}
    replay["checks"] = [bad | {"allowed_percent": 1}]
    monkeypatch.setattr(table2, "FIGURES", {})
    folder = write("run", replay, shapes)
    assert main(["render", "table2", "--results", str(folder), "--output", str(folder)]) == 0
    assert "INSTRUMENT CHECK FAILED, see the notes of the tables: b." in capsys.readouterr().out


def test_the_terminal_answers_in_a_few_lines(replay, shapes, write, capsys, monkeypatch):
    monkeypatch.setattr(table2, "FIGURES", {})
    folder = write("run", replay, shapes)
    assert main(["render", "table2", "--results", str(folder), "--output", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2.0-2.2x on the dequantization kernel: ")
    assert len(lines) < 15 and not any("---" in line for line in lines)
    assert any(line.startswith("Fastest for qwen3-32b") for line in lines)
    assert any(" claims: " in line for line in lines)
    assert "VERBOSE=1 shows the tables here" in " ".join(" ".join(lines[-2:]).split())


def test_layers_that_did_not_fit(texts, replay):
    for r in replay["records"]:
        r["problem"]["layers_resident"] = 20
    said = "qwen3-32b: 20 of 64 layers resident, reused cyclically."
    assert texts()["kernels.md"].count(said) == 1

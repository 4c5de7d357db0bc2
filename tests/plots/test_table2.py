"""Table 2 from end to end: golden texts, and every kind of row."""

import fixtures
import pytest
from conftest import PUBLISHED, find, line

from plots import table2
from plots.cli import main
from plots.output import rendered
from plots.published import load_paper
from plots.results import load
from plots.table2_models import share

BANNER = "Recorded run of NVIDIA H200, 2026-11-20. Not measured on this machine."


@pytest.fixture
def texts(replay, shapes, write):
    """Renders both passes as they now are: file name -> text."""

    def render(recorded: bool = False) -> dict[str, str]:
        a, b = write("replay.json", replay), write("shapes.json", shapes)
        return rendered(table2.tables(table2.read(a, b, PUBLISHED, recorded)))

    return render


@pytest.mark.parametrize("suffix", ["txt", "md", "csv", "tex"])
@pytest.mark.parametrize(
    "name", ["table2", "kernels", "shapes", "shapes_summary", "share", "claims"]
)
def test_golden(texts, golden, name, suffix):
    golden(f"{name}.{suffix}", texts()[f"{name}.{suffix}"])


def test_terminal(replay, shapes, write, capsys, monkeypatch, tmp_path, golden):
    write("replay.json", replay)
    write("shapes.json", shapes)
    monkeypatch.chdir(tmp_path)
    options = ["--replay", "replay.json", "--shapes", "shapes.json", "--recorded"]
    options += ["--published", str(PUBLISHED), "--output", "out"]
    assert main(["table2", *options]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    golden("terminal_recorded.txt", text)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {"table2.md", "kernels.csv", "shapes.tex", "share.txt", "claims.md"}
    assert names >= set(table2.FIGURE_FILES)
    assert not [name for name in names if name.startswith(".")]


def test_banner_on_every_table_or_on_none(texts):
    assert all(BANNER in " ".join(text.split()) for text in texts(recorded=True).values())
    assert not any("Recorded" in text for text in texts().values())


def test_clocks_and_provenance_on_every_table(texts):
    for name, text in texts().items():
        flat = " ".join(text.replace("\\_", "_").split())
        assert "Clocks not locked, SM 1980 MHz seen; no throttle reasons seen." in flat, name
        assert "commit 012345678; NVIDIA H200; driver 580.159.04" in flat, name


def test_a_mismatch_shows_no_time(texts, replay):
    find(replay, "qwen3-32b/batch8/broken_lut")["samples_us"] = [98765.0] * 3
    found = texts()
    assert line(found["kernels.txt"], "broken_lut").split()[1:3] == ["mismatch", "mismatch"]
    assert "first at 64 (block 1): code 7" in " ".join(found["kernels.txt"].split())
    assert not any("98.77" in text or "98765" in text for text in found.values())


def test_unsupported_says_why(texts):
    assert "libbitsandbytes_cuda130.so was not found" in texts()["kernels.txt"]


def test_deviations_come_after_the_ranking_and_without_a_speed_up(texts):
    text = texts()["kernels.txt"]
    assert "x)" not in line(text, "one_scale_a_tile")
    names = [x.split(" ")[0] for x in text.splitlines()]
    assert names.index("constant_lut") < names.index("one_scale_a_tile")
    assert "one_scale_a_tile: left out of rankings: reads one scale" in text


def test_overlap_is_no_difference_seen(texts, shapes):
    name = "qwen3-32b.q/fp16/b64"
    find(shapes, f"{name}/global_lut")["samples_us"] = find(shapes, f"{name}/branch_tree")[
        "samples_us"
    ]
    row = line(texts()["shapes.txt"].split(name)[1], "global_lut")
    assert row.endswith("no difference seen")


def test_best_is_shared_where_intervals_overlap(texts, shapes):
    name = "qwen3-32b.q/fp16/b64"
    find(shapes, f"{name}/global_lut")["samples_us"] = find(shapes, f"{name}/streaming")[
        "samples_us"
    ]
    found = texts()
    assert line(found["shapes_summary.csv"], name).split('"')[1] == "global_lut, streaming"
    assert " * " in line(found["shapes.txt"].split(name)[1], "global_lut")


def test_no_ceilings(texts, shapes):
    shapes["records"] = [r for r in shapes["records"] if r["role"] != "ceiling"]
    found = texts()
    row = line(found["shapes.txt"], "streaming").split()
    assert row[6:8] == ["*", "-"]
    assert line(found["shapes_summary.txt"], "qwen3-32b.q").split()[-2:] == ["-", "-"]


def test_no_nvml(texts, replay, shapes):
    for results in (replay, shapes):
        empty = dict.fromkeys(("sm_mhz", "memory_mhz", "power_w", "temperature_c"))
        results["provenance"]["clocks"] |= empty | {"throttle_reasons": None}
        results["provenance"]["gpu"] |= {"driver": None, "power_limit_w": None}
        for r in results["records"]:
            r["clocks"] = dict.fromkeys(r["clocks"])
    for name, text in texts().items():
        flat = " ".join(text.split())
        expected = "Clocks not locked, SM clock not known (no NVML); throttle reasons not known."
        assert expected in flat, name
        assert "NVIDIA H200; driver not known; CUDA runtime" in flat, name


def test_throttle_reasons_not_known_though_clocks_are(texts, replay):
    replay["provenance"]["clocks"]["throttle_reasons"] = None
    assert "SM 1980 MHz seen; throttle reasons not known." in texts()["table2.txt"]


def test_locked_clocks_and_throttling(texts, replay):
    replay["provenance"]["clocks"] |= {
        "policy": "locked",
        "locked_mhz": 1410,
        "throttle_reasons": ["sw_power_cap", "hw_thermal"],
    }
    assert (
        "Clocks locked at 1410 MHz, SM 1980 MHz seen; "
        "throttle reasons seen: sw_power_cap, hw_thermal." in texts()["table2.txt"]
    )


def test_clocks_too_far_apart_are_marked_with_both_numbers(texts, replay, shapes):
    find(replay, "qwen3-32b/batch8/shared_lut")["clocks"]["sm_mhz_during"] = 1800
    find(shapes, "qwen3-32b.q/fp16/b64/streaming")["clocks"]["sm_mhz_during"] = 1935
    found = texts()
    note = (
        "SM clocks differ by 9.1 % (more than 2 %): shared_lut at 1800 MHz, branch_tree at 1980 MHz"
    )
    assert note in " ".join(found["table2.txt"].split())
    assert note in " ".join(found["kernels.txt"].split())
    assert " [1] " in line(found["table2.txt"].split("qwen3-32b")[1], "      8")
    flat = " ".join(found["shapes.txt"].split())
    assert "streaming at 1935 MHz, branch_tree at 1980 MHz" in flat
    assert "streaming at 1935 MHz, copy at 1980 MHz" in flat


def test_clocks_within_two_percent_are_not_marked(texts, replay):
    find(replay, "qwen3-32b/batch8/shared_lut")["clocks"]["sm_mhz_during"] = 1945
    assert "SM clocks differ" not in texts()["table2.txt"]


def test_dirty_commit(texts, replay, shapes):
    for results in (replay, shapes):
        results["provenance"]["dirty"] = True
    assert "commit 012345678+dirty" in texts()["table2.txt"]


def test_what_was_not_run_shows_the_papers_value(texts):
    rows = texts()["table2.txt"].split("llama-3.3-70b")[1].splitlines()
    assert rows[1].split() == ["2", "2.04", "-", "-", "not", "run", "-", "-", "-"]


def test_an_average_without_all_batches_says_why(texts):
    text = texts()["table2.txt"]
    row = line(text.split("qwen3-32b\n")[1], "average")
    assert row.split()[:6] == ["average", "2.19", "-", "-", "not", "testable"]
    assert "branch_tree did not run on qwen3-32b at batch 4" in text


def test_an_average_verdict_is_shown_like_any_cell(write, shapes):
    full = fixtures.replay(models=("qwen3-32b",))
    a, b = write("replay.json", full), write("shapes.json", shapes)
    text = rendered(table2.tables(table2.read(a, b, PUBLISHED, False)))["table2.txt"]
    row = line(text.split("qwen3-32b\n")[1], "average").split()
    assert row[:4] == ["average", "2.19", "2.15", "(2.14-2.16)"]
    assert row[6:] == ["reproduced", "-", "-", "-"]


def test_an_untestable_claim_shows_its_value(texts):
    text = texts()["claims.txt"].split("immediates-icache")[1]
    row = next(x for x in text.splitlines() if "1.02 x" in x)
    assert row.split()[:6] == ["paper", "-", "1.02", "x", "(0.998-1.04)", "-"]
    assert "not testable" in row


def test_fastest_names_all_that_overlap(replay, shapes, write, tmp_path):
    name = "qwen3-32b/batch8"
    first = find(replay, f"{name}/streaming")
    high = max(first["samples_us"])
    # Quartiles would part the two: only one sample is within the other's range.
    find(replay, f"{name}/global_lut")["samples_us"] = [high - 0.001, high + 500, high + 600]
    inputs = table2.read(
        write("replay.json", replay), write("shapes.json", shapes), PUBLISHED, False
    )
    flat = " ".join(table2.summary(inputs, tmp_path).split())
    assert (
        f"Fastest for {name}: no difference seen between streaming, global_lut; "
        "streaming is 3.58x branch_tree." in flat
    )


@pytest.mark.parametrize("folder", ["data/recorded/h200/table2", "results/table2"])
def test_recorded_by_its_path(replay, shapes, write, folder):
    a, b = write(f"{folder}/replay.json", replay), write("shapes.json", shapes)
    assert table2.read(a, b, PUBLISHED, False).recorded is folder.startswith("data")


def test_instrument_checks(texts, replay):
    good = {"name": "a: events against activity", "first": 73100.0, "second": 73000.0}
    good |= {"unit": "us", "difference_percent": 0.137, "allowed_percent": 1.0, "passed": True}
    bad = good | {"name": "b", "first": 75000.0, "difference_percent": 2.74, "passed": False}
    replay["checks"] = [good]
    assert (
        "Instrument checks passed: 1 of 1; largest difference: a: events against activity, 73100 "
        "and 73000 us, +0.14 % (allowed: 1 %)."
    ) in " ".join(texts()["table2.txt"].split())
    replay["checks"] = [good, bad]
    flat = " ".join(texts()["table2.txt"].split())
    assert "Instrument checks passed: 1 of 2;" in flat
    assert "FAILED: b, 75000 and 73000 us, +2.74 % (allowed: 1 %)." in flat


def test_a_remark_on_a_timed_row_is_shown(texts, shapes):
    remark = "in 2 of 5 batches the GPU waited for the host"
    find(shapes, "qwen3-32b.q/fp16/b64/streaming")["reason"] = remark
    assert f"streaming: {remark}" in texts()["shapes.txt"]


def test_layers_that_did_not_fit(texts, replay):
    for r in replay["records"]:
        r["problem"]["layers_resident"] = 20
    text = " ".join(texts()["kernels.txt"].split())
    assert "qwen3-32b: 20 of 64 layers resident, replayed in turn." in text


def test_share_by_hand(replay, write):
    record = find(replay, "qwen3-32b/batch8/branch_tree")
    record |= {"samples_us": [30.0, 60.0, 50.0], "product_samples_us": [70.0, 40.0, 50.0]}
    results = load(write("r.json", replay))
    s = share(results.find("qwen3-32b/batch8", "branch_tree"))
    assert (s.median, s.q1, s.q3, s.n) == (50.0, 40.0, 55.0, 3)


def test_published_values():
    published = load_paper(PUBLISHED)
    assert published.batches == (2, 4, 8, 16, 32, 64)
    assert published.speedup("gemma-2-27b", 64) == published.speedup("gemma-3-27b", 64) == 2.08
    assert published.average("llama-3.3-70b") == 2.04
    assert published.value("qmatmul-72") == 72.4
    assert published.cell("qmatmul-72") == ("qwen3-32b", 8)


def test_published_file_without_its_table(tmp_path, write, capsys, replay, shapes):
    paths = [str(write(f"{n}.json", v)) for n, v in (("replay", replay), ("shapes", shapes))]
    other = write("published.json", {"paper": {"setup": {}}})
    options = ["--replay", paths[0], "--shapes", paths[1], "--published", str(other)]
    assert main(["table2", *options, "--output", str(tmp_path / "o")]) == 2
    assert capsys.readouterr().err.startswith(
        f"error: {other}: paper.table2_speedup is missing: an object is needed"
    )

"""Tables of hardware counters: what is compared, missing, asked for, and refused."""

import csv
import io

import counters_fixtures
import pytest
from looking import markdown_row, rendered

from claims.published import load_sources
from plots.cli import main
from plots.counter_values import Value, change, short
from plots.experiments import load_run
from records.counter_table import Counter
from records.families import described

LAYER = "28672x8192/fp16/b64"


@pytest.fixture
def passes():
    return counters_fixtures.whole_run()


@pytest.fixture
def texts(passes, write):
    return lambda: rendered("counters", write("run", *passes.values()))


def row_of(passes, name, kernel):
    return next(
        r
        for r in passes[name]["records"]
        if r["kernel"] == kernel and r["problem"]["name"] in (LAYER, "32768x32768")
    )


def csv_of(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.DictReader(io.StringIO("\n".join(lines))))


def layer_part(text):
    return text.split(LAYER)[1]


def test_the_baseline_is_the_papers():
    (claim,) = [c for s in load_sources() for c in s.claims if c.id == "kernel-speedup"]
    assert described()["nf4"].baseline == claim.arguments["baseline"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (32, "32"), (19.578, "19.58"), (0.00123, "0.0012"), (9999, "9999")]
    + [(22100, "22.10 k"), (466240250, "466.2 M"), (1.049e9, "1.049 G"), (-2e6, "-2.000 M")],
)
def test_numbers_are_short(number, text):
    assert short(number) == text


@pytest.mark.parametrize(
    ("unit", "base", "value", "text"),
    [
        ("sectors", 100, 41, "-59%"),
        ("sectors", 100, 0, "-100%"),
        ("sectors", 100, 999, "+899%"),
        ("sectors", 100, 1000, "x10"),
        ("sectors", 0, 5, ""),
        ("sectors", 5, 5, ""),
        ("%", 80.0, 82.25, "+2.2 pt"),
        ("%", 0.0, 5.0, "+5.0 pt"),
    ],
)
def test_changes(unit, base, value, text):
    counter = Counter("some", "group", "some", unit)
    assert change(Value(counter, value), Value(counter, base)) == text
    assert change(Value(counter, value), None) == ""
    assert change(Value(counter, None, missing="why"), Value(counter, base)) == ""


def test_a_missing_counter_has_its_reason_and_no_zero(passes, texts):
    for row in passes["nf4_counters"]["records"]:
        for metric in row["metrics"]:
            if metric["name"] in ("l2_hit_rate", "active_warps"):
                del metric["samples"]
                metric["missing"] = "no permission: see the driver's setting"
    found = texts()
    short_row = markdown_row(found["nf4_counters.md"], "`shared_lut`")
    assert short_row[5].startswith("- <sup>")
    assert found["nf4_counters.md"].count("no permission: see the driver's setting") == 1
    text = layer_part(found["nf4_all_counters.md"])
    for name in ("L2 hit rate", "active warps", "bytes in flight", "theoretical occupancy"):
        assert markdown_row(text, name)[2].startswith("- <sup>"), name
    rows = csv_of(found["nf4_all_counters.csv"])
    missing = {r["counter"] for r in rows if r["missing"].startswith("no permission")}
    assert missing == {"l2_hit_rate", "active_warps", "bytes_in_flight", "theoretical_occupancy"}
    assert all(r["value"] == "" for r in rows if r["missing"])


def test_a_wrong_output_has_no_counters(texts):
    found = texts()
    row = markdown_row(found["nf4_counters.md"], f"`{counters_fixtures.WRONG}`")
    assert row[1:] == ["-"] * 9
    rows = [r for r in csv_of(found["nf4_all_counters.csv"]) if r["kernel"] == "broken_lut"]
    assert [(r["outcome"], r["reason"], r["value"]) for r in rows] == [
        ("mismatch", "1 of 8 weights differ", "")
    ] * 2


def test_a_baseline_that_is_missing_leaves_numbers_without_changes(passes, texts):
    records = passes["nf4_counters"]["records"]
    passes["nf4_counters"]["records"] = [r for r in records if r["kernel"] != "branch_tree"]
    assert markdown_row(texts()["nf4_counters.md"], "`shared_lut`")[2] == "25.41"


def test_several_kernels_in_one_call_are_listed(passes, texts):
    row = row_of(passes, "nf4_launches", "shared_lut")
    (kernel,) = row["launch"]["kernels"]
    row["launch"]["kernels"].append(kernel | {"registers": 16})
    text = layer_part(texts()["nf4_all_counters.md"])
    assert markdown_row(text, "registers")[3] == "48 + 16"
    assert markdown_row(text, "theoretical occupancy")[3].startswith("- <sup>")


def test_occupancy_that_is_not_known(passes, texts):
    row = row_of(passes, "nf4_launches", "shared_lut")
    row["launch"]["kernels"][0]["blocks_per_multiprocessor"] = None
    text = layer_part(texts()["nf4_all_counters.md"])
    assert markdown_row(text, "blocks that fit on an SM")[3].startswith("- <sup>")
    assert markdown_row(text, "registers")[3] == "48 (+20%)"


def spoil_family(file):
    file["records"][0]["problem"]["family"] = "elsewhere"


REFUSED = {
    "another family": ("nf4_counters", spoil_family, "is 'elsewhere', but 'nf4' is needed here"),
    "another GPU": (
        "transpose_counters",
        lambda f: f["provenance"]["gpu"].update(name="NVIDIA A100"),
        "transpose_counters.json of NVIDIA A100: give two passes of one run",
    ),
    "another driver": (
        "nf4_launches",
        lambda f: f["provenance"]["gpu"].update(driver="1.2"),
        "nf4_launches.json of driver 1.2: give two passes of one run",
    ),
    "code of another commit": (
        "sass",
        lambda f: f["provenance"].update(commit="f" * 40),
        "sass.json of commit fffffffff: give two passes of one run",
    ),
    "counters of nothing": (
        "nf4_counters",
        lambda f: f["provenance"].update(instrument="sass", gpu=None, clocks=None),
        "nf4_counters.json: nothing ran, but times or counters are needed here",
    ),
    "a counter twice": (
        "nf4_counters",
        lambda f: f["records"][0]["metrics"].append(f["records"][0]["metrics"][0]),
        "records[0].metrics names 'warp_instructions' twice (see data/results.schema.json)",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(passes, write, capsys, tmp_path, what):
    name, spoil, message = REFUSED[what]
    spoil(passes[name])
    folder = str(write("run", *passes.values()))
    assert main(["render", "counters", "--results", folder, "--output", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.endswith(f"{message}\n") and error.count("\n") == 1


def test_changed_sources_of_compiled_code_are_no_matter(passes, write):
    """Fewer files are sources of compiled code than of the programs."""
    for name, file in passes.items():
        file["provenance"]["dirty"] = name != "sass"
    assert load_run("counters", write("run", *passes.values()))["sass"].gpu is None

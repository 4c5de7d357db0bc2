"""The sweep of ceilings: golden texts, winners by hand, and sizes or ceilings that are missing."""

import ceilings_fixtures
import made
import pytest
from looking import BANNER, IN_FULL, markdown_row, rendered

from plots import ceilings
from plots.cli import main
from plots.experiments import load_run

KEEPS, PLAIN = "copy_128x1_evict_last_plain", "copy_128x1_plain_plain"


@pytest.fixture
def sweep():
    return ceilings_fixtures.sweep()


@pytest.fixture
def texts(sweep, write):
    return lambda: rendered("ceilings", write("run", sweep))


def row(sweep, mib, kernel, family="copy"):
    return made.find(sweep, f"{family}/{mib}MiB/{kernel}")


@pytest.mark.parametrize("name", ["winners", "forms"])
def test_golden(texts, golden, name):
    golden(f"ceilings/{name}.md", texts()[f"{name}.md"])


def test_render(write, capsys, monkeypatch, tmp_path):
    sizes = ceilings_fixtures.ALL_SIZES_MIB
    write("run", ceilings_fixtures.sweep(sizes))
    monkeypatch.chdir(tmp_path)
    assert main(["render", "ceilings", *IN_FULL]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    head = markdown_row((tmp_path / "out/forms.md").read_text(), "kernel")
    assert head[2:] == [f"{mib} MiB" for mib in sizes]
    line = (
        "as a line of copy_kernel's sizes in profiling/ceilings.cu: CopyForm<1024, 8, PlainAccess,"
    )
    assert line in " ".join(text.split())
    names = {f"{t}.{s}" for t in ("winners", "forms") for s in ("txt", "md", "csv", "tex")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names


def test_winners_by_hand(texts, sweep):
    moved = 2 * 448 << 20
    for kernel, us in ((KEEPS, 200.0), (PLAIN, 220.0), ("copy", 210.0), ("copy_kernel", 250.0)):
        made.set_times(row(sweep, 448, kernel), [us] * 5)
    found = markdown_row(texts()["winners.md"], "448 ")
    assert found[1:3] == [f"`{KEEPS}`", "`CopyForm<128, 1, KeepReads, PlainAccess>`"]
    assert found[3].startswith(f"{moved / 200e3:.0f} (")
    assert found[4:] == ["105.0", "0", f"{moved / 250e3:.0f}", "84.0", "+25.0"]


def test_forms_that_are_not_told_apart_are_counted(texts, sweep):
    for kernel in (KEEPS, PLAIN, "bulk_16k_plain_plain"):
        made.set_times(row(sweep, 448, kernel), [199.0, 200.0, 201.0, 200.0, 200.0])
    assert markdown_row(texts()["winners.md"], "448 ")[5] == "2"


def test_a_wrong_form_wins_nothing(texts, sweep):
    made.fail(row(sweep, 448, KEEPS), "mismatch")
    assert markdown_row(texts()["winners.md"], "448 ")[1] == f"`{PLAIN}`"
    assert f"`{KEEPS}`" not in texts()["forms.md"], "it is not timed at every size"


def test_a_size_that_did_not_fit(texts, sweep):
    for r in sweep["records"]:
        if r["problem"]["name"] == "copy/3072MiB":
            made.fail(r, "unsupported", "needs 24.0 GiB of device memory, 8.0 GiB are free")
    assert markdown_row(texts()["winners.md"], "3072 ")[1:] == ["`-`", "`-`", *["-"] * 6]


def test_a_family_that_was_not_swept_has_no_section(texts, sweep):
    sweep["records"] = [r for r in sweep["records"] if r["problem"]["family"] != "even"]
    for name in ("winners.md", "forms.md"):
        assert "dequantization's bytes" in texts()[name]
        assert "transposition's bytes" not in texts()[name]


def test_without_the_ceilings_there_is_nothing_to_gain(texts, sweep):
    sweep["records"] = [r for r in sweep["records"] if r["origin"]["kind"] != "ceiling"]
    assert markdown_row(texts()["winners.md"], "448 ")[4:] == ["-", "0", "-", "-", "-"]


def test_the_csv_has_every_form_at_every_size(texts, sweep):
    lines = [x for x in texts()["winners.csv"].splitlines() if not x.startswith("#")]
    assert len(lines) == 1 + len(sweep["records"])
    forms = [x for x in texts()["forms.csv"].splitlines() if not x.startswith("#")]
    assert len(forms) == 1 + sum(len(found) for found in ceilings_fixtures.FORMS.values())


def test_no_claim_rests_on_it(sweep, write):
    run = load_run("ceilings", write("run", sweep))
    assert run.decisions == []
    assert len(ceilings.highlights(run)) == len(ceilings_fixtures.FORMS) == 3

"""The sweep of ceilings: sizes, families or ceilings that are missing."""

import ceilings_fixtures
import made
import pytest
from looking import markdown_row, rendered

KEEPS, PLAIN = "copy_128x1_evict_last_plain", "copy_128x1_plain_plain"


@pytest.fixture
def sweep():
    return ceilings_fixtures.sweep()


@pytest.fixture
def texts(sweep, write):
    return lambda: rendered("ceilings", write("run", sweep))


def row(sweep, mib, kernel, family="copy"):
    return made.find(sweep, f"{family}/{mib}MiB/{kernel}")


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

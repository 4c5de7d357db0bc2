"""The evidence for claims: one set of objects, written as Markdown and as HTML."""

import re
from html import unescape
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from reprolab.claims.evidence import collect
from reprolab.claims.ledger import decide
from reprolab.claims.published import load_sources
from plots import claim_details
from plots.claim_details import CellEvidence, ClaimEvidence, SourceEvidence
from plots.html import Links, evidence_html
from reprolab.results import result_files
from reprolab.json_files import ROOT

FOLDER = ROOT / "data/recorded/h100"


@pytest.fixture(scope="module")
def decisions():
    return decide(collect(result_files(FOLDER), FOLDER), load_sources())


def words(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", "", html)).split())


def test_both_writers_say_the_same(decisions):
    html = evidence_html(claim_details.by_source(decisions), "c", Links({}, FOLDER))
    page = claim_details.page(decisions, FOLDER)
    assert words(html) == words(MarkdownIt("commonmark").render(page))
    for d in decisions:
        assert d.claim.id in page and d.claim.text in words(html)


def test_every_verdict_and_cell_is_on_the_page(decisions):
    html = evidence_html(claim_details.by_source(decisions), "c", Links({}, FOLDER))
    badges = re.findall(r'<strong class="verdict (\w+)">', html)
    assert badges == [d.verdict for d in decisions]
    assert re.findall(r'<h5 id="c-([^"]+)">', html) == list(map(claim_details.anchor, decisions))
    cells = sum(len(d.verdicts) for d in decisions)
    criteria = sum(len({id(v.comparison) for v in d.verdicts}) for d in decisions)
    readings = sum(len(d.claim.readings) for d in decisions if d.claim.readings[0].name)
    assert html.count("<li>") == cells + criteria + readings


def test_texts_are_no_markup_and_links_stay_within_the_page(tmp_path):
    kept, left = tmp_path / "kept.json", tmp_path / "left.json"
    files = [("2 rows of kept.json", kept), ("1 row of left.json", left)]
    cell = CellEvidence("all <b>: *why* [x](y)", files)
    claim = ClaimEvidence(
        "id", "id", "Says <i>.", "undecided", "undecided", "", [], [("a & b", [cell])], "make"
    )
    sources = [SourceEvidence("<u>", ["**no**"], [claim])]
    html = evidence_html(sources, "c", Links({kept.resolve(): "file1"}, Path("elsewhere")))
    assert not re.search("<[biu]>|<em>", html)
    assert "all <b>: *why* [x](y). 2 rows of kept.json, 1 row of left.json" in words(html)
    assert re.findall('href="([^"]+)"', html) == ["#file1"]

"""The report: its contents, the texts that it keeps unchanged, and its behaviour in a browser."""

import base64
import json
import lzma
import re
from html import unescape
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browser import CONTRASTS, FIGURES_SHOWN, browser, print_to_pdf
from edited import Edited, recorded_names
from parsed import Parsed

from reprolab.claims.evidence import collect
from reprolab.claims.findings import findings
from reprolab.claims.ledger import decide
from reprolab.claims.published import load_sources
from plots.claim_details import anchor
from plots.cli import main
from plots.document import machine_of
from plots.experiments import experiment
from plots.first_screen import compared
from reprolab.results import result_files
from reprolab.json_files import ROOT, read_text, stored

PACKED = "data:application/x-xz;base64,"
ELSEWHERE = "Not measured on this machine."
BACKSPACE, ENTER, TAB = "\ue003", "\ue007", "\ue004"
TABLE = "table[aria-labelledby=gpu1-transpose-sizes_summary]"
LEDGER = "table[aria-labelledby=gpu1-ledger]"
HOSTILE = "</td><script>alert(1)</script>`|<img src=x onerror=alert(2)>&quot;"


def report(output, *folders):
    return main(["report", *(f"--results={f}" for f in folders), "--output", str(output)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Some rows of every recorded experiment."""
    folder = tmp_path_factory.mktemp("report") / "data/recorded/h200"
    for name in recorded_names():
        Edited(name, folder / name).write()
    host = "product/host.json"  # not written by a pass
    (folder / host).write_text(read_text(stored(ROOT / "data/recorded/h200" / host)))
    return folder


@pytest.fixture(scope="module")
def recorded_file(folder):
    file = folder / "report.html"
    assert report(file, folder) == 0
    return file


@pytest.fixture(scope="module")
def evidence(folder):
    return collect(result_files(folder), folder)


@pytest.fixture(scope="module")
def recorded(recorded_file):
    return Parsed(recorded_file.read_text())


def test_it_is_small_enough_to_be_sent(recorded_file):
    """A whole recorded run's is about twice as large."""
    assert recorded_file.stat().st_size < 2.6e6


def test_it_is_whole(recorded):
    loaded = {
        value for _, attributes in recorded.tags for k, value in attributes.items() if k == "src"
    }
    loaded |= set(recorded.all("link", "href"))
    assert all(address.startswith("data:") for address in loaded)
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttp", recorded.text)
    assert "default-src 'none'" in recorded.all("meta", "content")[1]
    links = [link for link in recorded.all("a", "href") if link[0] != "#"]
    assert all(link.startswith((PACKED, "https://")) for link in links)
    ids = recorded.ids
    assert len(ids) == len(set(ids))
    targets = {link[1:] for link in recorded.all("a", "href") if link[0] == "#"}
    targets |= {
        x for _, attributes in recorded.tags for x in attributes.get("aria-labelledby", "").split()
    }
    assert targets <= set(ids)


def test_every_claim_has_its_verdict_one_link_from_what_decided_it(recorded, evidence):
    row = re.compile(
        r'<tr>\n<td><a href="#(gpu1-claims-[^"]+)">(.*?)</a></td>\n<td><span class="verdict (\w+)">'
    )
    ledger = recorded.text.partition('<span id="gpu1-ledger">')[2].partition("</details>")[0]
    rows = {link: (unescape(text), verdict) for link, text, verdict in row.findall(ledger)}
    decisions = decide(evidence, load_sources())
    assert rows == {f"gpu1-claims-{anchor(d)}": (d.claim.in_short, d.verdict) for d in decisions}
    assert set(rows) <= set(recorded.ids)


def test_every_figure_is_there_in_two_widths_with_its_caption(recorded):
    captions = [c for name in recorded_names() for c, _ in experiment(name).FIGURES.values()]
    shown = re.findall(r'<div class="(wide|narrow)">(<svg .*?</svg>)</div>', recorded.text)
    roots = [(kind, ElementTree.fromstring(text)) for kind, text in shown]
    for kind in ("wide", "narrow"):
        assert sorted(root.get("aria-label") for width, root in roots if width == kind) == sorted(
            captions
        )
    assert all(root.findall(".//text") for _, root in roots)
    figures = re.findall("<figcaption><strong>(.*?)\\.</strong> (.*?)</figcaption>", recorded.text)
    assert sorted(unescape(caption) for caption, _ in figures) == sorted(captions)
    assert all(ELSEWHERE in note for _, note in figures)
    assert 'class="narrow"' not in recorded.text.partition('id="gpu1"')[0], (
        "the summary's are small"
    )


def test_the_first_screen_asks_and_answers(recorded, evidence):
    first = recorded.text.partition('<section aria-labelledby="gpu1">')[0]
    asked = [experiment(name).QUESTION for name in recorded_names()]
    cards = first.split('<article class="card"')[1:]
    assert sorted(
        unescape(re.search("<h3 .*?>(?:<a .*?>)(.*?)</a>", c)[1]) for c in cards
    ) == sorted(filter(None, asked))
    assert all("<dt>For you</dt>" in card for card in cards)
    undrawn = [card for card in cards if card.count("<svg ") != 1]  # some models did not run
    assert all("card-end_to_end" in c and 'class="verdict not_tested"' in c for c in undrawn)
    by_claim = {d.claim.id: d for d in decide(evidence, load_sources())}
    for name in recorded_names():
        if claim := experiment(name).HEADLINE:
            (card,) = [c for c in cards if f'id="card-{name}"' in c]
            assert by_claim[claim].claim.text in unescape(card)
            sentence = f'"><span class="verdict {by_claim[claim].verdict}"'
            assert f"#gpu1-claims-{anchor(by_claim[claim])}{sentence}" in card


def test_findings_begin_it_and_lead_to_their_evidence(recorded, evidence):
    first = recorded.text.partition('<div class="cards">')[0]
    found = findings(compared([machine_of(evidence, evidence.folder)]))
    assert len(found) >= 5
    listed = first.partition('<ol class="findings">')[2]
    for one, item in zip(found, listed.split("<li>")[1:], strict=True):
        assert one.statement in unescape(item)
        assert all(number in unescape(item) for number in one.numbers.values())
        (link,) = re.findall('href="#(.*?)"', item)
        assert link in recorded.ids


def test_experiments_stand_below_the_source_that_they_are_about(recorded):
    headings = re.findall(r'<h[34] id="(gpu1-[\w-]+)">(.*?)</h', recorded.text)
    order = [name for name, _ in headings]
    assert order.index("gpu1-table2") < order.index("gpu1-transpose") < order.index("gpu1-ceilings")
    beyond = next(name for name, title in headings if title == "Beyond the sources")
    assert order.index("gpu1-puzzle") < order.index(beyond) < order.index("gpu1-product")
    assert recorded.text.count('<details class="rows" open') == 0


def test_result_files_come_out_as_they_went_in_with_their_commands(recorded, evidence):
    packed = [link.removeprefix(PACKED) for link in recorded.all("a", "href") if PACKED in link]
    files = {r.file.read_bytes() for r in evidence.results.values()}
    assert {lzma.decompress(base64.b64decode(content)) for content in packed} == files
    assert len(packed) == len(files) == recorded.text.count("<dt>argv</dt>")
    assert "Provenance of the numbers" not in recorded.text  # which the files say


def test_landmarks_headings_and_tables(recorded):
    tags = [tag for tag, _ in recorded.tags]
    assert [tags.count(tag) for tag in ("header", "nav", "main", "h1")] == [1, 1, 1, 1]
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert set(recorded.all("th", "scope")) == {"col", "rowgroup"}
    for tag in ("table", "tbody", "article", "section", "div", "figure", "details", "svg"):
        assert tags.count(tag) == recorded.ends.count(tag)
    assert tags.count("table") == recorded.text.count(
        '<div class="table" role="region" tabindex="0"'
    )


def test_texts_of_result_files_are_escaped(edited, tmp_path):
    run = edited("transpose", "h200")
    run.provenance(gpu={"name": HOSTILE}, argv=[HOSTILE])
    for row in run.rows(kernel="tiled"):
        row["kernel"] = HOSTILE
    run.write()
    assert report(tmp_path / "report.html", tmp_path) == 0
    page = Parsed((tmp_path / "report.html").read_text())
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in page.tags]
    assert not [k for _, attributes in page.tags for k in attributes if k.startswith("on")]
    assert '<h2 id="gpu1">' in page.text and page.text.count("alert(1)") > 3


def test_several_machines_each_have_a_section(edited, tmp_path, monkeypatch, no_figures):
    """Recorded ones under their banner; two folders of one GPU are one machine."""
    monkeypatch.setattr("plots.svg.encode", lambda figure, kind: b"<svg viewBox='0 0 1 1'/>")
    edited("table2", "first/table2").write()
    edited("transpose", "second/transpose").write()
    other = edited("transpose", "data/recorded/a100/transpose")
    other.provenance(gpu={"name": "NVIDIA A100"}, started="2026-01-02T03:04:05Z")
    other.write()
    output = tmp_path / "report.html"
    folders = [tmp_path / name for name in ("first", "second", "data/recorded/a100")]
    assert report(output, *folders) == 0
    page = Parsed(output.read_text())
    assert re.findall(r'<h2 id="([\w-]+)">(.+)</h2>', page.text) == [
        *(("summary", "Summary"), ("all-gpus", "All GPUs")),
        *(("gpu1", "NVIDIA H200"), ("gpu2", "NVIDIA A100"), ("protocols", "Protocols")),
    ]
    links = re.findall(
        'href="#(gpu[12]-claims-swizzle)"><span class="verdict reproduced', page.text
    )
    assert links[:2] == ["gpu1-claims-swizzle", "gpu2-claims-swizzle"]
    assert {link[1:] for link in page.all("a", "href") if link[0] == "#"} <= set(page.ids)
    assert {"gpu1-table2", "gpu1-transpose", "gpu2-transpose"} <= set(page.ids)
    assert re.findall('class="banner">(.+)</p>', page.text) == [
        f"Recorded runs of A100. {ELSEWHERE}",
        f"Recorded run of NVIDIA A100, 2026-01-02. {ELSEWHERE}",
    ]
    assert len(page.ids) == len(set(page.ids))
    first = output.read_bytes()
    assert report(output, *folders) == 0 and output.read_bytes() == first
    ours = edited("transpose", "third/transpose")  # two GPUs of this machine, no recorded one
    ours.provenance(gpu={"name": "NVIDIA A100"})
    ours.write()
    assert report(output, tmp_path / "first", tmp_path / "third") == 0
    assert 'class="banner"' not in output.read_text()


def test_bad_input_is_one_line_and_leaves_the_old_report(edited, tmp_path, capsys):
    output, folder = tmp_path / "out/report.html", tmp_path / "mine"
    assert report(output, folder) == 2 and "/mine: " in capsys.readouterr().err
    folder.mkdir()
    assert report(output, folder) == 2
    assert "data/recorded/h200" in capsys.readouterr().err
    assert not output.parent.exists()
    output.parent.mkdir()
    output.write_text("old")
    edited("transpose", "mine/transpose").write()
    (folder / "transpose/sizes.json").write_text("{")
    assert report(output, folder) == 2
    assert capsys.readouterr().err.count("error") == 1 and output.read_text() == "old"


@pytest.fixture(scope="module")
def page(recorded_file):
    with browser() as chrome:
        chrome.set_width(1600)
        chrome.open(recorded_file)
        yield chrome


def test_a_browser_follows_links_by_keyboard(page):
    page.type("body", TAB)
    assert page.run("return document.activeElement.className") == "skip"
    page.type(".skip", ENTER)
    assert page.run("return document.activeElement.id") == "main"
    page.open_rows("gpu1-ledger")
    page.click(f"{LEDGER} td a")
    at = page.run("return document.querySelector(location.hash).getBoundingClientRect().top")
    assert 0 <= at < 100


def test_a_browser_sorts_by_mouse_and_keyboard(page):
    page.open_rows("gpu1-transpose-sizes_summary")
    before = page.column(TABLE, 1)
    page.click(f"{TABLE} th:nth-child(2) button")
    assert (
        page.run(f"return document.querySelector('{TABLE} th:nth-child(2)').ariaSort")
        == "ascending"
    )
    numbers = [[float(x.split()[0]) for x in body if x != "-"] for body in page.column(TABLE, 1)]
    assert numbers == [sorted(body) for body in numbers] and sum(map(len, numbers)) > 5
    page.type(f"{TABLE} th:nth-child(2) button", ENTER)
    down = [[float(x.split()[0]) for x in body if x != "-"] for body in page.column(TABLE, 1)]
    assert down == [body[::-1] for body in numbers]
    page.type(f"{TABLE} th:nth-child(2) button", " ")
    assert page.column(TABLE, 1) == before


def test_a_browser_filters_rows_and_verdicts(page):
    ledger, filter_of = LEDGER, "details:has(#gpu1-ledger) .filter"
    page.open_rows("gpu1-ledger")
    rows = sum(map(len, page.column(ledger, 0)))
    field = f"{filter_of} input"
    page.type(field, "bank conflicts")
    names = [x for body in page.column(ledger, 0) for x in body]
    assert 0 < len(names) < rows and any(x.startswith("broadcast-no-conflicts") for x in names)
    assert (
        page.run(f"return document.querySelector('{filter_of} output').value")
        == f"{len(names)} of {rows} rows"
    )
    page.type(field, BACKSPACE * len("bank conflicts"))
    button = ".counts [data-verdict=not_reproduced]"
    page.click(button)
    verdicts = [x for body in page.column(ledger, 1) for x in body]
    count = page.run(f"return parseInt(document.querySelector('{button}').textContent)")
    assert len(verdicts) == count and all(x.startswith("not reproduced") for x in verdicts)
    page.type(button, ENTER)
    assert sum(map(len, page.column(ledger, 0))) == rows


def test_a_browser_shows_it_at_every_width_in_readable_colours(page):
    for width in (360, 800, 1600):
        page.set_width(width)
        assert page.run("return document.documentElement.scrollWidth") == width
        assert list(page.run(FIGURES_SHOWN)) == ["narrow" if width == 360 else "wide"]
        assert page.run("return document.querySelector('.cards').getBoundingClientRect().top") < 640
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        assert min(page.run(CONTRASTS)) >= 4.5
        colour = page.run("return getComputedStyle(document.body).backgroundColor")
        assert (colour != "rgb(255, 255, 255)") is (scheme == "dark")


def test_a_browser_asks_for_nothing_and_complains_of_nothing(page):
    """Errors of all tests above."""
    assert page.log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.log("performance")]
    sent = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    assert sent and all(url.startswith(("file:", "data:")) for url in sent)


def test_a_browser_prints_it(recorded_file, tmp_path):
    print_to_pdf(recorded_file, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_without_own_results_the_report_is_of_the_recorded_runs(tmp_path, monkeypatch):
    """Several folders stand between spaces; the page goes into the first."""
    read = []
    monkeypatch.setattr("plots.report.machines", lambda folders: read.append(folders) or [])
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--results=results"]) == 2
    Path("results/one").mkdir(parents=True)
    Path("results/one/x.json").touch()
    for folder in ("results", "a results", "results/one"):
        assert main(["report", f"--results={folder}"]) == 2
    recorded, ours, *others = ([str(folder) for folder in folders] for folders in read)
    assert (recorded, ours) == (["data/recorded"], ["results"])
    assert others == [["a", "results"], ["results/one"]]

"""Parts of a page: figures as SVG, tables, and texts in Markdown."""

import re
from xml.etree import ElementTree

import pytest
from parsed import Parsed

from plots.figures import figure_style, look, new_figure
from plots.html import Links, leading_verdict, markdown_html, table_html
from plots.svg import Sheet, inline
from reprolab.tables import Column, Noted, Table

SHAPES = {"path", "use", "text", "tspan", "clipPath", "rect"}
HOSTILE_NAMES = ("o'neill", "x' onload='alert(1)", "}text{display:none}</style>", "<svg onload=a>")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_no_name_in_a_figure_is_markup(name):
    sheet = Sheet()
    with figure_style():
        figure = new_figure(2)
        axes = figure.subplots()
        axes.plot([1, 2], gid=name, label=name, **look(name))
        axes.set_title(f"driver {name}")
        axes.legend()
        root = ElementTree.fromstring(inline(figure, "a-", name, sheet))
    assert {text.text for text in root.iter("text")} >= {name, f"driver {name}"}
    assert {element.tag for element in root.iter()} <= {"svg", "g", "defs", *SHAPES}
    assert not [k for e in root.iter() for k in e.attrib if k.startswith("on")]
    assert root.get("aria-label") == name
    assert not any("alert" in rule or "<" in rule or "none}" in rule for rule in sheet.names)


def test_figures_share_no_ids_and_take_the_colours_of_the_page():
    texts, sheet = [], Sheet()
    for prefix in ("a-", "b-"):
        with figure_style():
            figure = new_figure(2)
            figure.subplots().plot([1, 2], gid="same", **look("streaming"))
            texts.append(inline(figure, prefix, "", sheet))
    ids = [{e.get("id") for e in ElementTree.fromstring(t).iter()} - {None} for t in texts]
    assert ids[0] and not ids[0] & ids[1]
    for text, known in zip(texts, ids, strict=True):
        named = set(re.findall(r'url\(#(.+?)\)|href="#(.+?)"', text))
        assert {"".join(pair) for pair in named} == known
    rules = " ".join(sheet.names)
    assert "var(--c0072b2,#0072b2)" in rules and "var(--cffffff,#ffffff)" in rules
    assert not re.search(r"(?<!,)#(000000|ffffff|0072b2)", rules)


def test_a_table_is_written_from_what_it_holds(tmp_path):
    """No text of a cell becomes markup, another kind of row, or a link out of the page."""
    hostile = "| **a** | <b>x</b> Not tested yet"
    file = tmp_path / "claims.md"
    first = {
        "a": Noted(1, ("a note",), best=True),
        "b": Noted("", text="k", link="claims.md", anchor="c"),
    }
    rows = [{"_under": hostile} | first]
    rows += [{"_under": hostile, "a": -1.5, "b": Noted("", text=hostile, link="else.md")}]
    rows += [{"_under": hostile, "a": None, "b": "Not tested yet: why"}]
    table = Table(
        "t", hostile, [Column("a<", "a"), Column("b", "b", align="l")], rows, ["Best: {best}."]
    )
    text = table_html(table, "id", Links({file.resolve(): "gpu1-claims"}, tmp_path))
    page = Parsed(text)
    tags = [tag for tag, _ in page.tags]
    count = {tag: tags.count(tag) for tag in ("tr", "td", "b", "tbody")}
    assert count == {"tr": 5, "td": 6, "b": 0, "tbody": 1}
    assert page.all("a", "href") == ["#gpu1-claims-c"]
    assert "<strong>1</strong> <sup>1</sup>" in text and "<sup>1</sup> a note" in text
    assert '<span class="verdict not_tested">Not tested yet</span>: why' in text
    assert text.count("verdict") == 1 and "Best: in bold." in text
    assert '<details class="rows">' in text and "3 rows" in text


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("reproduced: 2.1 x", "reproduced"), ("Not reproduced in 2 cells", "not_reproduced")]
    + [("reproducedness", ""), ("was reproduced", ""), ("undecided", "undecided"), ("", "")],
)
def test_a_text_may_begin_with_a_verdict(text, verdict):
    word, lead, rest = leading_verdict(text)
    assert word == verdict and lead + rest == text and bool(lead) is bool(verdict)


def test_markdown_leads_within_the_page_and_shows_no_file_of_others(tmp_path):
    text = """# Head
A [link](a.md#part), [none](b.md), [site](https://example.org/), ![words](picture.png).

## Two words
| a | b |
| --- | ---: |
| Verdict: **not reproduced** | 1 |
"""
    file = tmp_path / "a.md"
    page = Parsed(markdown_html(text, "p", Links({file.resolve(): "gpu1-a"}, tmp_path)))
    assert page.all("a", "href") == ["#gpu1-a-part", "https://example.org/"]
    assert "img" not in [tag for tag, _ in page.tags] and ", words." in page.text
    assert page.ids == ["p", "p-two-words"]
    assert (
        page.all("table", "aria-labelledby")
        == page.all("div", "aria-labelledby")
        == ["p-two-words"]
    )
    assert page.all("td", "class") == ["number"] and page.all("th", "scope") == ["col", "col"]

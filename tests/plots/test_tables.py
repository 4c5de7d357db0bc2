"""Writers: escaping, footnotes, widths, the recorded banner."""

import csv
import io

from plots.console import WIDTH, box, render
from plots.documents import csv_text, latex, latex_escape, markdown, markdown_escape
from plots.tables import Cell, Column, Group, Table

NASTY = r"a_b 50% {x} $y$ #1 & <c> ~d ^e | back\slash"


def table(**changes) -> Table:
    columns = [Column("kernel", "l", wrap=True, code=True), Column("GB/s")]
    rows = [
        Group("shape_1"),
        ["one", Cell("12", ("late", "cold"))],
        ["two", Cell("13", ("cold",), best=True)],
    ]
    data = [["kernel", "gb_s"], ["one", 12.0], ["two, and more", None]]
    return Table("t", "Title", columns, rows, data, ["A note."], ["From here."], **changes)


def test_latex_escape():
    assert latex_escape(NASTY) == (
        r"a\_b 50\% \{x\} \$y\$ \#1 \& \textless{}c\textgreater{} \textasciitilde{}d "
        r"\textasciicircum{}e \textbar{} back\textbackslash{}slash"
    )
    assert latex_escape("--output") == "-{}-output"


def test_markdown_escape():
    assert markdown_escape("shared_lut | a*b <c> _d_") == r"shared_lut \| a\*b &lt;c> \_d\_"


def test_console():
    assert render(table(banner="Recorded.")) == (
        "Title\n"
        "Recorded.\n"
        "\n"
        "kernel      GB/s\n"
        "----------------\n"
        "shape_1\n"
        "one     12 [1,2]\n"
        "two     13 * [2]\n"
        "----------------\n"
        "[1] late\n"
        "[2] cold\n"
        "A note.\n"
        "From here.\n"
    )


def test_markdown():
    assert markdown(table(banner="Recorded.")) == (
        "**Title**\n\n> **Recorded.**\n\n"
        "| kernel | GB/s |\n| --- | ---: |\n| **shape_1** | |\n"
        "| `one` | 12 <sup>1,2</sup> |\n| `two` | **13** <sup>2</sup> |\n\n"
        "<sup>1</sup> late\n\n<sup>2</sup> cold\n\n"
        "<sub>A note.</sub>\n\n<sub>From here.</sub>\n"
    )


def test_csv():
    text = csv_text(table(banner="Recorded."))
    head = "# Title\n# Recorded.\n# A note.\n# From here.\n"
    assert text == head + 'kernel,gb_s\none,12\n"two, and more",\n'
    assert list(csv.reader(io.StringIO(text.removeprefix(head))))[2] == ["two, and more", ""]


def test_latex():
    text = latex(table(banner="Recorded."))
    assert r"\caption{Title. \textbf{Recorded.}}\label{tab:t}" in text
    assert r"\multicolumn{2}{l}{\textit{shape\_1}} \\" in text
    assert r"\texttt{two} & \textbf{13}\textsuperscript{2} \\" in text
    assert text.count("{") == text.count("}")


def test_long_latex_tables_break_over_pages():
    long = table()
    long.rows = long.rows * 20
    text = latex(long)
    assert r"\begin{longtable}{lr}" in text
    assert r"\end{longtable}" in text
    assert r"\begin{table}" not in text


def test_console_never_wider_than_its_width():
    columns = [Column("kernel", "l", wrap=True), Column("reason", "l", wrap=True), Column("x")]
    rows = [["k" * 130, "word " * 60, "1"], ["shared_lut", "no", "2"]]
    text = render(Table("t", "T " * 40, columns, rows, notes=["n " * 90]))
    assert max(map(len, text.splitlines())) <= WIDTH


def test_box():
    assert box("Recorded run.") == "+---------------+\n| Recorded run. |\n+---------------+\n"

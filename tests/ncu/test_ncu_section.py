"""profiling/ncu/reprolab.section: labels and metrics are those of data/counters.json."""

import re

from claims.counter_table import known
from claims.json_files import ROOT
from ncu.subject import DOMAIN, OF_FILTERS
from ncu.tool import SECTION, SECTIONS

FILE = ROOT / SECTIONS / "reprolab.section"
METRIC = re.compile(r'Metrics \{\s*Label: "([^"]*)"\s*Name: "([^"]*)"')


def test_every_metric_is_a_column_of_ours_with_its_title():
    text = FILE.read_text()
    found = METRIC.findall(text)
    assert len(found) == text.count("Metrics {") == text.count("Name:") - text.count("DisplayName:")
    assert len(set(found)) == len(found) > 50
    titles = {counter.metrics[0]: counter.title for counter in known().values()}
    assert {metric: label for label, metric in found} == {m: titles[m] for _, m in found}


def test_it_has_the_name_by_which_ncu_is_asked_for_it():
    assert re.findall(r'^Identifier: "(.*)"$', FILE.read_text(), re.MULTILINE) == [SECTION]


def test_braces_close():
    depth = 0
    for line in FILE.read_text().splitlines():
        depth += line.count("{") - line.count("}")
        assert depth >= 0
    assert depth == 0


def test_ranges_are_named_as_the_programs_name_them():
    header = (ROOT / "profiling/nvtx.hpp").read_text()
    replaced = re.search(r'string_view\("(.*)"\)\.find', header)[1].replace("\\\\", "\\")
    assert OF_FILTERS.sub("", replaced) == ""
    others = {chr(code) for code in range(33, 127)} - set(replaced)
    assert OF_FILTERS.sub("", "".join(sorted(others))) == "".join(sorted(others))
    assert f'nvtxDomainCreateA("{DOMAIN}")' in header

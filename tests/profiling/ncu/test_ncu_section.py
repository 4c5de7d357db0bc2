"""The page for Nsight Compute, and the names of ranges."""

import re

from ncu import section
from ncu.subject import DOMAIN, OF_FILTERS

from reprolab.counter_table import known
from reprolab.json_files import ROOT


def test_the_page_has_each_counter_that_says_so_with_its_title_and_chips():
    text = section.text()
    metrics = dict(re.findall(r'Metrics \{\s*Label: "([^"]*)"\s*Name: "([^"]*)"', text))
    wanted = {c.title: c.metrics[0] for c in known().values() if c.ncu}
    assert metrics == wanted and len(metrics) == text.count("Metrics {") > 50
    assert re.search(r'Name: "\S*pipe_fp16.sum"\s*Filter \{\s*MaxArch: CC_80\s*\}', text)
    assert re.findall(r"^\w+(?= \{$)", text, re.MULTILINE) == ["Header", "Body"]
    assert text.count("{") == text.count("}") and text.endswith("\n}\n")


def test_ranges_are_named_as_the_programs_name_them():
    header = (ROOT / "profiling/nvtx.hpp").read_text()
    replaced = re.search(r'string_view\("(.*)"\)\.find', header)[1].replace("\\\\", "\\")
    assert OF_FILTERS.sub("", replaced) == ""
    others = {chr(code) for code in range(33, 127)} - set(replaced)
    assert OF_FILTERS.sub("", "".join(sorted(others))) == "".join(sorted(others))
    assert f'nvtxDomainCreateA("{DOMAIN}")' in header

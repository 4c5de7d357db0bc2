"""`make profile`: the command that it runs."""

import re
import sys

import pytest
from ncu import DOMAIN, OF_FILTERS, parser

from reprolab.command_line import run
from reprolab.json_files import ROOT

NAMES = ("28672x8192/fp16/b64", "28672x8192/fp16/b64/batch8")
PLAN = {"why_none": "", "problems": [{"name": n, "refused": {"tiled": "no"}} for n in NAMES]}
SCRIPT = """#!{python}
import json, pathlib, sys
given = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--json" in sys.argv:
    print(json.dumps({plan}))
elif {report} and "--export" in given:
    pathlib.Path(given["--export"]).write_text("a report")
"""


@pytest.fixture
def ncu(tmp_path, monkeypatch, capfd):
    """Runs the module beside stand-ins of ncu and bench."""

    def call(*words, plan=PLAN, report=True):
        for name in ("ncu", "bench"):
            text = SCRIPT.format(python=sys.executable, plan=plan, report=report)
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        places = [f"--programs={tmp_path}", f"--results={tmp_path}"]
        status = run(parser(), [*words, *places])
        return status, *capfd.readouterr()

    return call


WANTED = ["--experiment=table2", "--kernel=shared_lut"]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ([], "--set=full --range-filter=::2 "),
        (["--set=basic"], "--set=basic --range-filter=::2 "),
        (["--section=A,B", "--launches=4"], "--section=A --section=B --launch-count=4 "),
    ],
)
def test_one_launch_of_one_kernel_is_profiled_as_it_is_measured(more, wanted, ncu, tmp_path):
    status, out, _ = ncu(*WANTED, *more)
    assert status == 0
    command = out.splitlines()[0]
    assert f"--nvtx-include=reprolab@table2:shared_lut:28672x8192_fp16_b64/ {wanted}" in command
    assert "--clock-control=none --cache-control=none" in command
    problem = "--shape=28672x8192 --problem=28672x8192/fp16/b64 "
    assert f"--family=nf4 --kernel=shared_lut {problem}" in command
    assert (tmp_path / "table2.shared_lut.28672x8192_fp16_b64.ncu-rep").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--experiment=x", "--kernel=shared_lut"], "EXPERIMENT: there are"),
        (["--experiment=table2", "--kernel=no_such"], "KERNEL: bench does not run 'no_such'"),
        (["--experiment=transpose", "--kernel=tiled"], "tiled on 28672x8192/fp16/b64: no"),
    ],
)
def test_what_cannot_be_profiled_is_one_line(words, said, ncu):
    status, _, err = ncu(*words)
    assert status == 2 and said in err and err.count("\n") == 1


def test_a_dry_run_and_a_missing_report(ncu, tmp_path):
    assert ncu(*WANTED, "--dry-run", plan=PLAN | {"why_none": "no GPU"})[0] == 0
    assert ncu(*WANTED, plan=PLAN | {"why_none": "no GPU"})[0] == 2
    (tmp_path / "table2.shared_lut.28672x8192_fp16_b64.ncu-rep").write_text("older")
    status, _, err = ncu(*WANTED, report=False)
    assert status == 2 and "there is no report" in err


def test_ranges_are_named_as_the_programs_name_them():
    header = (ROOT / "profiling/nvtx.hpp").read_text()
    replaced = re.search(r'string_view\("(.*)"\)\.find', header)[1].replace("\\\\", "\\")
    assert OF_FILTERS.sub("", replaced) == ""
    others = "".join(chr(code) for code in range(33, 127) if chr(code) not in replaced)
    assert OF_FILTERS.sub("", others) == others
    assert f'nvtxDomainCreateA("{DOMAIN}")' in header

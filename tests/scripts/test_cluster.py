"""The checks of ReFrame, with a program in place of make: .ci/run runs one with make."""

import json
import lzma
import subprocess
from statistics import median

import pytest
from make_targets import ROOT, program

REFRAME = ROOT / "build/reframe/bin/reframe"
pytestmark = pytest.mark.skipif(
    not REFRAME.exists(),
    reason="NOT TESTED, no ReFrame: scripts/deps environment .ci/reframe.lock build/reframe",
)
RECORDED = ROOT / "data/recorded/h200/table2"


def check(folder, text):
    """Runs the check of table2, whose make is this shell text, with its results in $results."""
    make = folder / "make"
    program(make, f"#!/bin/sh\nfor word; do :; done; results=${{word#RESULTS=}}\n{text}\n")
    command = [REFRAME, "-c", ROOT / "scripts/cluster.py", "-r", "-n", "table2", "--prefix", folder]
    command += ["-S", f"Reproduce.executable={make}", "--performance-report"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_medians_of_a_run_are_performance_values(tmp_path):
    done = check(tmp_path, f"mkdir -p $results && cp -r {RECORDED} $results")
    assert done.returncode == 0 and "Ran 1/1 test case(s)" in done.stdout
    rows = json.loads(lzma.decompress((RECORDED / "replay.json.xz").read_bytes()))["records"]
    for row in rows[:3]:
        samples = row["metrics"][0]["samples"]
        assert f"replay/{row['key']}/{row['metrics'][0]['name']}" in done.stdout
        assert f"{median(samples)} us" in done.stdout


def test_a_failed_make_is_a_failed_check(tmp_path):
    done = check(tmp_path, "echo 1 of 8 weights differ; exit 2")
    assert done.returncode == 1 and "make failed: 2" in done.stdout

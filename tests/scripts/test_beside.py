"""One make beside another in a checkout, and how what it runs ends."""

import os
import signal

import pytest
from front_door import has_ended, make, program, start, wait_for


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({}, {}, "waiting for another make that writes to results\n"),
        ({"PRESET": "gpu"}, {"RESULTS": "other"}, ""),  # which measures nothing
        (
            {"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "3,1"},
            {"PRESET": "gpu", "RESULTS": "other", "CUDA_VISIBLE_DEVICES": "3"},
            "waiting for another measurement on GPU 3\n",
        ),
        ({"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "3"}, {"PRESET": "gpu", "RESULTS": "other"}, ""),
    ],
)
def test_makes_run_beside_each_other_unless_they_share_results_or_a_gpu(
    checkout, first, second, said
):
    """Each runs until it is told that the other has begun, or has to wait."""
    for preset in ("cpu", "gpu"):
        text = "touch begun$$; until [ -e go ]; do sleep 0.05; done"
        program(checkout / f"build/{preset}/bin/verify", f"#!/bin/sh\n{text}\n")
    started = []
    for given in (first, second):
        words = [f"{name}={value}" for name, value in ({"PRESET": "cpu"} | given).items()]
        started.append(start(checkout, "make", "verify", "FILE=x", *words))
        if len(started) == 2 and said:
            assert started[1].stderr.readline() == said
        else:
            wait_for(lambda: len(list(checkout.glob("begun*"))) == len(started))
    assert len(list(checkout.glob("begun*"))) == (1 if said else 2)
    (checkout / "go").touch()
    assert [process.communicate() for process in started] == [("", "")] * 2
    assert [process.returncode for process in started] == [0, 0]


def test_nothing_is_removed_between_the_steps_of_another_make(checkout):
    program(checkout / "scripts/build", "#!/bin/sh\ntouch started\nsleep 0.5\n")
    with start(checkout, "make", "PRESET=cpu", "verify", "FILE=x") as first:
        wait_for((checkout / "started").exists)
        removed = make(checkout, "clean")
        assert (first.communicate()[0], first.returncode) == ("<-->\n<x>\n", 0)
    said = "waiting for another make in this folder\n"
    assert (removed.returncode, removed.stderr) == (0, said)
    assert not (checkout / "build").exists()


def test_what_runs_ends_with_the_make_that_runs_it(checkout):
    program(checkout / "build/cpu/bin/verify", "#!/bin/sh\necho $$ >started\nexec sleep 60\n")
    started = checkout / "started"
    with start(checkout, "make", "PRESET=cpu", "reproduce-mine") as running:
        wait_for(lambda: started.exists() and started.read_text())
        running.terminate()
        running.communicate()
    wait_for(lambda: has_ended(started.read_text()), 10)


def test_a_ctrl_c_waits_for_the_program_and_says_nothing(checkout):
    """Which has clocks to give back."""
    text = "#!/bin/sh\ntrap 'sleep 0.2; echo gave back; exit 130' INT\ntouch started\n"
    text += "while :; do sleep 0.05; done\n"
    program(checkout / "build/cpu/bin/verify", text)
    command = ["scripts/python", "-m", "experiments", "reproduce", "mine"]
    running = start(checkout, *command, BIN="build/cpu/bin", RESULTS="results")
    wait_for((checkout / "started").exists)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out.splitlines()[1:], err) == (130, ["gave back"], "")

"""Several makes in one checkout, and the end of the programs that they run."""

import os
import signal

import pytest
from make_targets import has_ended, make, program, start, wait_for

SMI = """case "$*" in
*pci.bus_id*--id=*) ;; *--id=*pci.bus_id*) ;; *) exit ;;
esac
for word; do case $word in --id=*) echo "00000000:0${word#--id=}:00.0" ;; esac; done"""


@pytest.fixture
def gpus(checkout, tools):
    """Four GPUs, whose device files are numbered in reverse order: the PATH with the driver."""
    devices, driver = checkout / "dev", checkout / "driver"
    devices.mkdir()
    for number in range(4):
        (devices / f"nvidia{number}").touch(0o444)
        bus = driver / f"0000:0{number}:00.0"
        bus.mkdir(parents=True)
        (bus / "information").write_text(f"Model: \t\t H200\nDevice Minor: \t {3 - number}\n")
    (devices / "nvidiactl").touch()
    file = checkout / "experiments/gpus.py"
    text = file.read_text().replace('Path("/dev")', f"Path({str(devices)!r})")
    file.write_text(text.replace('Path("/proc/driver/nvidia/gpus")', f"Path({str(driver)!r})"))
    return tools(**{"nvidia-smi": SMI})


GPU = {"PRESET": "gpu", "RESULTS": "other"}


@pytest.mark.parametrize(
    ("first", "second", "waits_for"),
    [
        ({}, {}, ""),  # both measure nothing
        ({"PRESET": "gpu"}, {"RESULTS": "other"}, ""),  # the second measures nothing
        ({"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "3,1"}, GPU | {"GPUS": "1"}, ""),
        ({"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "3,1"}, GPU | {"GPUS": "1,3"}, "nvidia0"),
        ({"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "3"}, GPU, ""),
        ({"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "MIG-7"}, GPU, "nvidia3"),  # possibly all
    ],
)
def test_makes_run_beside_each_other_unless_they_share_a_gpu(
    checkout, gpus, first, second, waits_for
):
    """Each runs until the other has begun, or waits."""
    for preset in ("cpu", "gpu"):
        text = "touch begun$$; until [ -e go ]; do sleep 0.05; done"
        program(checkout / f"build/{preset}/bin/verify", f"#!/bin/sh\n{text}\n")
    started = []
    for given in (first, second):
        words = [f"{name}={value}" for name, value in ({"PRESET": "cpu"} | given).items()]
        started.append(start(checkout, "make", "verify", "FILE=x", *words, **gpus))
        if len(started) == 2 and waits_for:
            line = started[1].stderr.readline()
            assert line.startswith("waiting for ") and line.endswith(f"{waits_for}\n")
        else:
            wait_for(lambda: len(list(checkout.glob("begun*"))) == len(started))
    assert len(list(checkout.glob("begun*"))) == (1 if waits_for else 2)
    (checkout / "go").touch()
    assert [process.communicate() for process in started] == [("", "")] * 2
    assert [process.returncode for process in started] == [0, 0]


def test_nothing_is_created_to_lock_a_gpu(checkout, gpus, tmp_path):
    """In a folder that other users can write to, a name may be their link."""
    shared = tmp_path / "shared"
    shared.mkdir()
    for name in ("0", "GPU-0"):
        (shared / f"reprolab-{name}").symlink_to(tmp_path / "of another")
    shared_folders = {"XDG_RUNTIME_DIR": str(shared), "TMPDIR": str(shared)}
    done = make(checkout, "verify", "FILE=x", "PRESET=gpu", **gpus, **shared_folders)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(shared.iterdir())) == 2 and not (tmp_path / "of another").exists()


def test_numbers_of_gpus_are_the_drivers(checkout, gpus):
    program(checkout / "build/gpu/bin/verify", "#!/bin/sh\necho $CUDA_DEVICE_ORDER\n")
    for order in ("FASTEST_FIRST", ""):
        done = make(checkout, "verify", "FILE=x", "PRESET=gpu", **gpus, CUDA_DEVICE_ORDER=order)
        assert done.stdout == "PCI_BUS_ID\n"


@pytest.mark.parametrize("given", ["", "-1", "x,0", "0,0"])
def test_visible_gpus_that_cuda_refuses_are_one_line(checkout, gpus, given):
    words = ["verify", "FILE=x", f"CUDA_VISIBLE_DEVICES={given}"]
    done = make(checkout, *words, "PRESET=gpu", **gpus)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"CUDA_VISIBLE_DEVICES: '{given}'" in done.stderr.splitlines()[0]
    assert make(checkout, *words, **gpus).returncode == 0  # it measures nothing


def test_nothing_is_removed_while_another_make_uses_it(checkout):
    program(
        checkout / "build/cpu/bin/verify",
        "#!/bin/sh\ntouch started\nuntil [ -e go ]; do sleep 0.05; done\n",
    )
    with start(checkout, "make", "PRESET=cpu", "verify", "FILE=x") as first:
        wait_for((checkout / "started").exists)
        refused = make(checkout, "clean")
        (checkout / "go").touch()
        first.communicate()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "build/cpu" in refused.stderr.splitlines()[0]
    assert make(checkout, "clean").returncode == 0 and not (checkout / "build").exists()


def test_programs_end_with_their_make(checkout):
    program(checkout / "build/cpu/bin/verify", "#!/bin/sh\necho $$ >started\nexec sleep 60\n")
    started = checkout / "started"
    (checkout / "recorded/mine").mkdir(parents=True)
    with start(checkout, "make", "PRESET=cpu", "reproduce-mine", "RECORDED=recorded") as running:
        wait_for(lambda: started.exists() and started.read_text())
        running.terminate()
        running.communicate()
    wait_for(lambda: has_ended(started.read_text()), 10)


def test_a_ctrl_c_waits_for_the_program_and_prints_nothing(checkout):
    """The program has clocks to reset."""
    text = "#!/bin/sh\ntrap 'sleep 0.2; echo gave back; exit 130' INT\ntouch started\n"
    text += "while :; do sleep 0.05; done\n"
    program(checkout / "build/cpu/bin/verify", text)
    command = ["scripts/python", "-m", "experiments", "reproduce", "mine"]
    (checkout / "recorded/mine").mkdir(parents=True)
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "RECORDED": "recorded"}
    running = start(checkout, *command, **where)
    wait_for((checkout / "started").exists)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out.splitlines()[-1], err) == (130, "gave back", "")

"""GPUs and CPUs, as the driver and the system describe them."""

import os

import pytest
from make_targets import program

from experiments import gpus
from experiments.gpus import divided


def cores(*pairs):
    return [frozenset(pair) for pair in pairs]


SMT = cores((0, 8), (1, 9), (2, 10), (3, 11))


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Replaces the driver's program by a script."""

    def write(script):
        program(tmp_path / "nvidia-smi", f"#!/bin/sh\n{script}\n")
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return write


def test_a_missing_gpu_is_refused(smi, refused):
    smi('[ "$1" != --id=7 ] && echo "NVIDIA H200"')
    assert gpus.chosen("0,1") == ["0", "1"]
    assert refused(gpus.chosen, "0,7") == "GPUS: there is no GPU 7 here"


@pytest.mark.parametrize(
    ("given", "gpus_", "visible"),
    [
        (None, "0,1", ["0", "1"]),
        ("3, GPU-5", "1", ["GPU-5"]),
        ("3,x,4", "0", ["3"]),  # as CUDA reads it
        ("3,-1,4", "1", "GPUS: there are 1"),
        ("", "", "CUDA_VISIBLE_DEVICES: '' selects no GPU"),
        ("-1", "0", "CUDA_VISIBLE_DEVICES: '-1' selects no GPU"),
        ("0,0", "0,1", "CUDA_VISIBLE_DEVICES: '0,0' names a GPU twice"),
        ("10,010", "0,1", "CUDA_VISIBLE_DEVICES: '10,010' names a GPU twice"),
    ],
)
def test_gpus_are_those_that_cuda_sees(smi, monkeypatch, refused, given, gpus_, visible):
    smi("exit 9")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    if isinstance(visible, list):
        assert gpus.chosen(gpus_) == visible
    else:
        assert refused(gpus.chosen, gpus_).startswith(visible)


def test_the_name_and_free_memory_of_a_gpu(smi, monkeypatch):
    smi('case "$2" in *name) echo "NVIDIA $1";; *) echo 1000;; esac')
    assert gpus.gpu_name("GPU-1") == "NVIDIA --id=GPU-1"
    assert gpus.free_bytes("0") == 1000 << 20
    smi("echo '[N/A]'")
    assert gpus.free_bytes("0") is None
    smi("exit 9")
    assert gpus.free_bytes("0") is None
    monkeypatch.setenv("PATH", "")
    assert (gpus.gpu_name("0"), gpus.own_cpus()) == ("", {})


@pytest.mark.parametrize(
    ("near", "expected"),
    [
        ({"a": set(), "b": set()}, {"a": {0, 8, 1, 9}, "b": {2, 10, 3, 11}}),
        ({"a": {2, 3, 10, 11}, "b": {0, 1}}, {"a": {2, 10, 3, 11}, "b": {0, 8, 1, 9}}),
        ({"a": {0, 1, 2}, "b": set()}, {"a": {0, 8, 1, 9}, "b": {2, 10, 3, 11}}),  # they overlap
        ({"a": {1}}, {"a": {1, 9}}),
        ({gpu: set() for gpu in "abcde"}, {}),  # fewer cores than GPUs
    ],
)
def test_no_two_processes_share_a_core(near, expected):
    assert divided(near, SMT) == expected


def test_the_cpus_of_a_gpu_are_found_by_number_and_uuid(tmp_path, smi, monkeypatch):
    monkeypatch.setattr(gpus, "SYSTEM", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for cpu in range(4):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
    for bus, cpus in (("0000:1a:00.0", "1,3-3"), ("0000:9b:00.0", "0-0,2")):
        (tmp_path / f"bus/pci/devices/{bus}").mkdir(parents=True)
        (tmp_path / f"bus/pci/devices/{bus}/local_cpulist").write_text(f"{cpus}\n")
    smi("echo '0, GPU-a, 00000000:1A:00.0'; echo '1, GPU-b, 00000000:9B:00.0'")
    assert gpus.own_cpus() == {"0": {1, 3}, "GPU-a": {1, 3}, "1": {0, 2}, "GPU-b": {0, 2}}

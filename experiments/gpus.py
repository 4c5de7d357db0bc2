"""The GPUs that a run is divided among: which they are, what the driver and the system say of them,
the locks by which measurements exclude each other, and a thread for each, on the CPUs next to it.
"""

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Any

from reprolab.command_line import numbers
from reprolab.errors import InputError
from reprolab.printable import printable

SYSTEM, DEVICES = Path("/sys"), Path("/dev")
DRIVER = Path("/proc/driver/nvidia/gpus")  # a folder for each GPU, by its PCI bus
# As CUDA reads CUDA_VISIBLE_DEVICES: what follows the first other word is ignored.
VISIBLE = re.compile(r"[0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+")


def chosen(given: str) -> list[str]:
    """The GPUs of '0,1', as the driver names them; the first where nothing is given. InputError
    where there is no such, or their names differ: tables are of GPUs of one name.
    """
    gpus = visible(numbers("GPUS", given, "0,1") or (0,))
    names = {gpu: name for gpu in gpus if (name := gpu_name(gpu))}
    if names and (missing := [gpu for gpu in gpus if gpu not in names]):
        raise InputError(f"GPUS: there is no GPU {', '.join(missing)} here")
    if len(set(names.values())) > 1:
        said = ", but ".join(f"{gpu} is {name}" for gpu, name in names.items())
        raise InputError(f"GPUS: {said}; a run is of GPUs of one name")
    return gpus


def visible(wanted: Sequence[int]) -> list[str]:
    """The GPUs with these numbers among those that CUDA_VISIBLE_DEVICES selects."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return [str(n) for n in wanted]
    name = f"CUDA_VISIBLE_DEVICES: '{printable(given)}'"
    words = [word.strip() for word in given.split(",")]
    selected = [plain(word) for word in takewhile(VISIBLE.fullmatch, words)]
    if not selected:
        raise InputError(f"{name} selects no GPU")
    if len(set(selected)) < len(selected):
        raise InputError(f"{name} names a GPU twice")
    if max(wanted) >= len(selected):
        raise InputError(f"GPUS: there are {len(selected)}, from 0, but {max(wanted)} is given")
    return [selected[n] for n in wanted]


def plain(word: str) -> str:
    """A number without zeros in front of it, which would look like another GPU's."""
    return (word.lstrip("0") or "0") if word.isdigit() else word


def device_files(gpus: Sequence[str]) -> list[Path]:
    """In one order for every process. All GPUs' where the driver does not say which is whose, such
    as for a part of a GPU, or under Windows, which has one for all.
    """
    every = sorted([*DEVICES.glob("nvidia[0-9]*"), *DEVICES.glob("dxg")])
    files = set()
    for gpu in gpus:
        bus = "".join(asked("pci.bus_id", f"--id={gpu}")[:1])
        file = DEVICES / f"nvidia{minor_number(bus)}"
        if file not in every:
            return every
        files.add(file)
    return sorted(files)


def lock_alone() -> None:
    """Waits until nobody builds this checkout's programs or measures on the GPUs; locks both until
    this process ends. Device files are locked, so that nothing is created, and users exclude each
    other.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # numbers of GPUs are nvidia-smi's
    for folder in (Path("build", os.environ.get("PRESET", "")), Path("build/dropin")):
        if folder.is_dir():
            lock(folder, fcntl.LOCK_SH, f"another make that builds {folder}")
    if os.environ.get("MEASURE") and not os.environ.get("DRY_RUN"):
        for file in device_files(chosen(os.environ.get("GPUS", ""))):
            lock(file, fcntl.LOCK_EX, f"another measurement on {file}")


def lock(file: Path, kind: int, holder: str) -> None:
    """The file stays open, also in a program that replaces this one."""
    descriptor = os.open(file, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting for {holder}", file=sys.stderr, flush=True)
        fcntl.flock(descriptor, kind)


def minor_number(bus: str) -> str:
    """The number of a GPU's device file; empty where the driver does not say."""
    try:
        text = (DRIVER / system_bus(bus) / "information").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"^Device Minor:\s*([0-9]+)$", text, re.MULTILINE)
    return match[1] if match else ""


def share(
    gpus: Sequence[str],
    todo: Sequence[Any],
    work: Callable[[str, Iterator[Any]], None],
    choose: Callable[[str, Sequence[Any]], Any] = lambda gpu, left: left[0],
) -> list[Any]:
    """Calls work(gpu, items) in a thread for each GPU, waits for all, and returns the items left.
    `items`: those that `choose` selects for the GPU, each when the one before it is done.
    """
    cpus, left, lock = own_cpus(), list(todo), threading.Lock()

    def items(gpu: str) -> Iterator[Any]:
        while True:
            with lock:
                if not left:
                    return
                left.remove(item := choose(gpu, left))
            yield item

    def pinned(gpu: str) -> None:
        with contextlib.suppress(OSError):  # the system may have taken one away since
            # CPUs of this thread, and of the processes that it starts.
            os.sched_setaffinity(0, cpus.get(gpu) or os.sched_getaffinity(0))
        work(gpu, items(gpu))

    with ThreadPoolExecutor(len(gpus)) as threads:
        list(threads.map(pinned, gpus))
    return left


def environment(gpu: str) -> dict[str, str]:
    """The environment of a process that measures on it."""
    return os.environ | {"CUDA_VISIBLE_DEVICES": gpu}


def asked(field: str, *where: str) -> list[str]:
    """nvidia-smi's output, one line for each GPU; nothing where it fails."""
    command = ["nvidia-smi", *where, f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def gpu_name(number: str) -> str:
    """Empty where the driver does not say."""
    return "".join(asked("name", f"--id={number}")[:1])


def free_bytes(number: str) -> int | None:
    """Free memory of the GPU; None where the driver does not say."""
    mebibytes = "".join(asked("memory.free", f"--id={number}")[:1])
    return int(mebibytes) << 20 if mebibytes.isdecimal() else None


def own_cpus() -> dict[str, set[int]]:
    """By number and by UUID of every GPU here, the CPUs for the process that measures on it: whole
    cores next to the GPU, of which no other GPU has one. Nothing where the system does not say, or
    there are fewer cores than GPUs.
    """
    fields = (line.split(", ") for line in asked("index,uuid,pci.bus_id"))
    gpus = [tuple(words) for words in fields if len(words) == 3]
    cpus = divided({bus: near(bus) for _, _, bus in gpus}, whole_cores())
    return {name: cpus[bus] for *names, bus in gpus for name in names if bus in cpus}


def divided(near_gpus: Mapping[str, set[int]], cores: list[frozenset[int]]) -> dict[str, set[int]]:
    """GPUs that have the same CPUs next to them share those; if sets overlap, all share all."""
    choices = {gpu: [c for c in cores if c & cpus] or cores for gpu, cpus in near_gpus.items()}
    unequal = (set(a) & set(b) for a in choices.values() for b in choices.values() if a != b)
    if any(unequal):
        choices = dict.fromkeys(near_gpus, cores)
    by_gpu = {}
    for gpu, those in choices.items():
        sharing = [other for other in choices if choices[other] == those]
        size, place = len(those) // len(sharing), sharing.index(gpu)
        by_gpu[gpu] = {cpu for core in those[place * size : (place + 1) * size] for cpu in core}
    return by_gpu if all(by_gpu.values()) else {}


def whole_cores() -> list[frozenset[int]]:
    """The CPUs that this process may use, those of one core together."""
    usable = os.sched_getaffinity(0)
    topology = "devices/system/cpu/cpu{}/topology/thread_siblings_list"
    siblings = {cpu: listed(SYSTEM / topology.format(cpu)) or {cpu} for cpu in usable}
    cores = {frozenset(siblings[cpu] & usable) for cpu in usable}
    return sorted(cores, key=min)


def near(bus: str) -> set[int]:
    """The CPUs next to a GPU."""
    return listed(SYSTEM / f"bus/pci/devices/{system_bus(bus)}/local_cpulist")


def system_bus(bus: str) -> str:
    """nvidia-smi gives a bus's domain eight digits, the system four."""
    return bus[4:].lower()


def listed(file: Path) -> set[int]:
    """'0-3,8' as numbers; none where there is no such file."""
    try:
        words = file.read_text(encoding="utf-8").strip().split(",")
    except OSError:
        return set()
    ends = [[int(end) for end in word.split("-")] for word in words if word]
    return {cpu for begin, *end in ends for cpu in range(begin, (end or [begin])[0] + 1)}

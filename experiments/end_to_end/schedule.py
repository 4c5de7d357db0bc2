"""Gives the cells to the GPUs, one measuring process on each, and shows how far they are.

A process keeps the model that it has loaded: it is given that model's cells first. If it dies, the
row that it was at has failed, and a new process measures the cell again without that row. A GPU on
which the first process never says a word is given no cell.
"""

import contextlib
import multiprocessing
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.end_to_end.plan import Cell, Job
from experiments.gpus import environment, share
from records.json_files import ROOT
from records.progress import Line

SILENT_S = 1800  # without a word, a process is taken for hung; a download says none


class Died(Exception):
    """The process ended, or said nothing for too long; the text says which."""


class Process:
    """A measuring process on one GPU, at the other end of a pipe; it may use the CPUs of the thread
    that starts it.
    """

    def __init__(self, command: Sequence[str], gpu: str, log: Path):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.pipe, theirs = multiprocessing.Pipe()
        with log.open("a", encoding="utf-8") as said, theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                cwd=ROOT,
                env=environment(gpu),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

        self.heard()  # it has the GPU

    def do(self, job: Job) -> Iterator[dict[str, Any]]:
        """The process's messages on the job, until one with `ended`."""
        with contextlib.suppress(OSError):  # it may be dead already, which shows at once
            self.pipe.send(job)
        while "ended" not in (found := self.heard()):
            yield found
        yield found

    def heard(self) -> dict[str, Any]:
        try:
            if self.pipe.poll(SILENT_S):
                return self.pipe.recv()
        except (EOFError, OSError):
            raise Died(ending(self.process.wait())) from None
        self.end()
        raise Died(f"said nothing for {SILENT_S} s")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def ending(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    return f"the process ended by {signal.Signals(-status).name}"


class Scheduler:
    """Has every cell measured; `faults` are the reasons why some could not be, with those cells.
    `broke`: one of them is of the run, not of what was given to it.
    """

    def __init__(self, todo: Sequence[Job], start: Callable[[str], Process], line: Line):
        self.todo, self.start = todo, start
        self.line, self.lock = line, threading.RLock()
        self.expected_s = {job.cell: job.cell.seconds for job in todo}
        self.done = {job.cell: 0.0 for job in todo}  # how much of a cell, 0 to 1
        self.loaded: dict[str, str] = {}  # by GPU, the model
        self.faults: dict[str, list[str]] = {}
        self.broke = False

    def run(self, gpus: Sequence[str]) -> None:
        for job in share(gpus, self.todo, self.work, self.choose):
            self.close(job.cell, "no GPU is left", broke=True)

    def said(self) -> list[str]:
        """Each fault once, with the first of the cells that have it."""
        found = []
        for fault, (first, *others) in self.faults.items():
            more = f" and {len(others)} other{'s' * (len(others) > 1)}" if others else ""
            found.append(f"{first}{more}: {fault}")
        return found

    def choose(self, gpu: str, left: Sequence[Job]) -> Job:
        """A cell of the model that the GPU has, or of that of which most is left to do: one that no
        other GPU has, as long as there is one.
        """
        left_s: dict[str, float] = {}
        for job in left:
            model = job.cell.model
            left_s[model] = left_s.get(model, 0) + self.expected_s[job.cell]
        own, taken = self.loaded.get(gpu), self.loaded.values()
        best = max(left_s, key=lambda m: (m == own, m not in taken, left_s[m]))
        self.loaded[gpu] = best
        return next(job for job in left if job.cell.model == best)

    def work(self, gpu: str, jobs: Iterator[Job]) -> None:
        try:
            process = self.start(gpu)
        except (Died, OSError) as why:
            with self.lock:
                self.broke = True
                fault = f"{why} without a word; is there such a GPU?"
                self.faults.setdefault(fault, []).append(f"GPU {gpu}")
            return
        for job in jobs:
            process = self.measure(job, gpu, process)
        if process:
            process.end()

    def measure(self, job: Job, gpu: str, process: Process | None) -> Process | None:
        """Returns the process that is there at the end. A row at which one dies is left out."""
        cell, failed = job.cell, {}
        while True:
            at = ""
            try:
                process = process or self.start(gpu)
                for said in process.do(replace(job, failed=failed)):
                    if "row" in said:
                        at = said["row"]
                        doing = ", ".join(filter(None, (said["mode"], at)))
                        self.show(cell, said["share"], doing)
                self.close(cell, said["ended"])
                return process
            except Died as died:
                process = None
                if not at or at in failed:  # without a row to leave out it would go on so
                    self.close(cell, str(died), broke=True)
                    return None
                failed[at] = str(died)

    def close(self, cell: Cell, fault: str, broke: bool = False) -> None:
        with self.lock:
            self.broke = self.broke or broke
            if fault:
                self.faults.setdefault(fault, []).append(cell.text)
        self.show(cell, 1, "could not be measured" if fault else "done")

    def show(self, cell: Cell, share: float, doing: str) -> None:
        with self.lock:
            self.done[cell] = share
            weighted = sum(self.expected_s[c] * share for c, share in self.done.items())
            cells = f"{sum(s >= 1 for s in self.done.values())} of {len(self.done)} cells"
            total = sum(self.expected_s.values())
            self.line.show(weighted / total, cells, f"{cell.text} {doing}", is_news=share >= 1)

"""Assigns the cells to the GPUs, one measuring process on each, and shows the progress.

A process keeps the model that it has loaded, and gets that model's cells first. If it dies, the row
that was being measured has failed, and a new process measures the cell again without that row. A
GPU on which the first process never sends a message gets no cell.
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
from reprolab.json_files import ROOT
from reprolab.progress import Line

TIMEOUT_S = 1800  # without a message; a download sends none


class Died(Exception):
    """The process ended, or sent no message for too long; the text has which."""


class Process:
    """A measuring process on one GPU, at the other end of a pipe; it may use the CPUs of the thread
    that starts it.
    """

    def __init__(self, command: Sequence[str], gpu: str, log: Path):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.pipe, theirs = multiprocessing.Pipe()
        with log.open("a", encoding="utf-8") as output, theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                cwd=ROOT,
                env=environment(gpu),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

        self.receive()  # the process has the GPU

    def do(self, job: Job) -> Iterator[dict[str, Any]]:
        """Yields the process's messages on the job, up to the one with `ended`."""
        with contextlib.suppress(OSError):  # a dead process is seen by receive()
            self.pipe.send(job)
        while "ended" not in (message := self.receive()):
            yield message
        yield message

    def receive(self) -> dict[str, Any]:
        try:
            if self.pipe.poll(TIMEOUT_S):
                return self.pipe.recv()
        except (EOFError, OSError):
            raise Died(ending(self.process.wait())) from None
        self.end()
        raise Died(f"no message for {TIMEOUT_S} s")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def ending(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    return f"the process ended by {signal.Signals(-status).name}"


class Scheduler:
    """Measures every cell. `faults`: by reason, the cells that could not be measured. `run_failed`:
    a reason is a fault of the run, not of its input.
    """

    def __init__(self, todo: Sequence[Job], start: Callable[[str], Process], line: Line):
        self.todo, self.start = todo, start
        self.line, self.lock = line, threading.RLock()
        self.expected_s = {job.cell: job.cell.seconds for job in todo}
        self.done = {job.cell: 0.0 for job in todo}  # the share that is done, 0 to 1
        self.loaded: dict[str, str] = {}  # by GPU, the model
        self.faults: dict[str, list[str]] = {}
        self.run_failed = False

    def run(self, gpus: Sequence[str]) -> None:
        for job in share(gpus, self.todo, self.work, self.choose):
            self.close(job.cell, "no GPU is left", run_failed=True)

    def fault_lines(self) -> list[str]:
        """One line for each fault, with the first of its cells."""
        lines = []
        for fault, (first, *others) in self.faults.items():
            more = f" and {len(others)} other{'s' * (len(others) > 1)}" if others else ""
            lines.append(f"{first}{more}: {fault}")
        return lines

    def choose(self, gpu: str, left: Sequence[Job]) -> Job:
        """A cell of the model that is loaded on the GPU, or else of the one with the most work
        left, if possible one that is on no other GPU.
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
                self.run_failed = True
                fault = f"{why} without a message; is there such a GPU?"
                self.faults.setdefault(fault, []).append(f"GPU {gpu}")
            return
        for job in jobs:
            process = self.measure(job, gpu, process)
        if process:
            process.end()

    def measure(self, job: Job, gpu: str, process: Process | None) -> Process | None:
        """Returns the process that is alive at the end. A row at which one dies is omitted."""
        cell, failed = job.cell, {}
        while True:
            running = ""
            try:
                process = process or self.start(gpu)
                for message in process.do(replace(job, failed=failed)):
                    if "row" in message:
                        running = message["row"]
                        doing = ", ".join(filter(None, (message["mode"], running)))
                        self.show(cell, message["share"], doing)
                self.close(cell, message["ended"])
                return process
            except Died as died:
                process = None
                if not running or running in failed:  # no row to omit: it would die again
                    self.close(cell, str(died), run_failed=True)
                    return None
                failed[running] = str(died)

    def close(self, cell: Cell, fault: str, run_failed: bool = False) -> None:
        with self.lock:
            self.run_failed = self.run_failed or run_failed
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

"""Detection of a disturbed host while samples are timed.

An eager generation waits for the host in every step, and a shared machine is slow in spells: for
seconds, by up to 1.7 times. A generation in such a spell does not show a kernel's speed. A spell is
detected independently of the kernel: by a fixed piece of work right before and after the
generation, and by the rate at which the system took the CPU away meanwhile.
"""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")

WORDS = 20_000  # in the fixed work, about 5 ms
TRIES = 3  # of which the fastest counts: a single interrupt is not a spell
SLOWER = 1.3  # a spell: fixed work over this process's fastest; up to 1.14 is usual
SWITCHES_PER_S = 20  # a spell: another process runs on the thread's CPU
PAUSE_S = 0.2


def fixed_work_s() -> float:
    """Allocations, look-ups and calls, as Python launches kernels."""
    started = time.perf_counter()
    sum(len(word) for word in sorted({str(i): i for i in range(WORDS)}))
    return time.perf_counter() - started


def preemptions() -> int:
    """The number of times that the system took the CPU from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


@dataclass
class SlowSamples:
    """Samples of a row in a slow spell: repeated, or kept because no repeats were left."""

    repeated: int = 0
    kept: int = 0


class Host:
    """`repeats`, `wait_s`: the samples that may still be repeated, and the time left to wait for a
    steady host.
    """

    def __init__(self) -> None:
        self.fastest = min(fixed_work_s() for _ in range(10 * TRIES))
        self.repeats, self.wait_s = 0, 0.0

    def allow(self, repeats: int, wait_s: float) -> None:
        self.repeats, self.wait_s = repeats, wait_s

    def is_slow(self) -> bool:
        work_s = min(fixed_work_s() for _ in range(TRIES))
        self.fastest = min(self.fastest, work_s)
        return work_s > SLOWER * self.fastest

    def wait(self) -> None:
        """Waits until the host is steady or the waiting time is spent."""
        while self.wait_s > 0 and self.is_slow():
            time.sleep(PAUSE_S)
            self.wait_s -= PAUSE_S

    def sample(self, take: Callable[[], Result], disturbed: SlowSamples) -> Result:
        """The result of `take`, taken again while the host was disturbed and repeats are left."""
        while True:
            self.wait()
            slow, before, started = self.is_slow(), preemptions(), time.perf_counter()
            result = take()
            often = (preemptions() - before) / (time.perf_counter() - started) > SWITCHES_PER_S
            if not (slow or often or self.is_slow()):
                return result
            if not self.repeats:
                disturbed.kept += 1
                return result
            self.repeats -= 1
            disturbed.repeated += 1

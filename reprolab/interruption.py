"""Ctrl-C and similar signals end the program quietly, but not while files are renamed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_held = False
_waiting: int | None = None  # the signal that came while held


def end_quietly() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP end this process with 128 plus the signal's number."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    global _waiting
    if _held:
        _waiting = number
    else:
        os._exit(128 + number)  # an exception could be raised, and reported, in any callback


@contextmanager
def held() -> Iterator[None]:
    """A signal during this block ends the process after it."""
    global _held
    _held = True
    try:
        yield
    finally:
        _held = False
        if _waiting is not None:
            os._exit(128 + _waiting)

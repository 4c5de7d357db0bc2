"""A line with the progress of some work and the remaining time."""

import sys
import time
from typing import TextIO

from reprolab.printable import printable

WIDTH = 30  # of the bar, in characters
LONGEST = 160  # of the line on a terminal


class Line:
    """On a terminal it is cleared when the `with` block exits. `expected_s`: the estimated time of
    all work in seconds, if known before it starts.
    """

    def __init__(self, expected_s: float, out: TextIO | None = None):
        self.expected_s, self.out = expected_s, out or sys.stderr
        self.started = time.monotonic()

    def show(self, share: float, done: str, doing: str, is_news: bool = False) -> None:
        """Writes '[====    ]  50 %, <done>, about 1 min left: <doing>'. On a terminal it overwrites
        the previous line; elsewhere it is a new line, written only if `is_news`.
        """
        filled, minutes = int(WIDTH * share), max(1, round(self.left_s(share) / 60))
        left = "all done" if share >= 1 else f"about {minutes} min left"
        bar = f"[{'=' * filled}{' ' * (WIDTH - filled)}] {100 * share:3.0f} %"
        text = printable(f"{bar}, {done}, {left}: {doing}")
        if self.out.isatty():
            self.clear()
            self.out.write(text[:LONGEST])
        elif is_news:
            self.out.write(f"{text}\n")
        self.out.flush()

    def clear(self) -> None:
        if self.out.isatty():
            self.out.write("\r\x1b[K")
            self.out.flush()

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def left_s(self, share: float) -> float:
        """Extrapolated from the speed so far."""
        passed = time.monotonic() - self.started
        return self.expected_s if share < 0.02 else passed * (1 - share) / share

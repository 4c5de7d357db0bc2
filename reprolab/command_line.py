"""The end of our commands, including errors of their output."""

import argparse
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn, TextIO

from reprolab.errors import NOT_MEASURED, USAGE, InputError, printable


class Parser(argparse.ArgumentParser):
    """Reports the fault in one line of printable text."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: error: {printable(message)}\n")


def run(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Calls the parser's `run`.

    A user's error is one line and status 2. A fault of ours is a traceback and status 3, because
    Python's own status 1 would mean a wrong output.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores the latter
            signal.signal(number, stop)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not know a kernel author's name
    status = 0
    try:
        try:
            args = parser.parse_args(argv)
            status = args.run(args)
        finally:
            sys.stdout.flush()
        return status
    except InputError as error:
        return complain(str(error), error.status)
    except KeyboardInterrupt:
        return complain("interrupted", 128 + signal.SIGINT)
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        discard(sys.stdout)
        return status
    except OSError as error:
        discard(sys.stdout)
        place = printable(str(error.filename or "standard output"))
        return complain(f"{place}: {error.strerror}")
    except Exception:
        traceback.print_exc()
        return NOT_MEASURED


def stop(number: int, _: FrameType | None) -> NoReturn:
    """Ends the process as the signal would, but by way of `finally`, so that no file is left."""
    raise SystemExit(128 + number)


def complain(message: str, status: int = USAGE) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def discard(stream: TextIO) -> None:
    """Prevents Python from retrying, with an error, output that could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def paths(given: str) -> list[str]:
    """One path, or several between spaces; one with spaces is given alone. A path may have a name
    before it: name=path."""
    one = (given, given.partition("=")[2])
    is_one = any(os.path.exists(path) for path in one)  # noqa: PTH110 - texts of any length
    return [given] if is_one else given.split()


def peers() -> list[str]:
    """The libraries of PEER."""
    return paths(os.environ.get("PEER", ""))


def numbers(name: str, text: str, example: str = "2,8,64") -> tuple[int, ...]:
    """'2,8 64' as numbers, each once; none for an empty text."""
    words = re.split(r"[,\s]+", text.strip(", \t\n")) if text else []
    if not all(re.fullmatch(r"[0-9]{1,6}", word) for word in words):
        raise InputError(f"{name}: give numbers such as {example}, not '{text}'")
    return tuple(dict.fromkeys(map(int, words)))

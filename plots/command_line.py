"""How a command of ours ends, whatever happens to its output."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from claims.errors import InputError
from claims.printable import printable


class Parser(argparse.ArgumentParser):
    """Says what is wrong in printable text, too."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def run(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Calls what the parser has set as `run`; what is wrong for a user is one line and status 2."""
    if sys.stdout is None:
        return complain("standard output is closed")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not know a kernel author's name
    try:
        try:
            args = parser.parse_args(argv)
            return args.run(args)
        finally:
            sys.stdout.flush()
    except InputError as error:
        return complain(str(error))
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        discard(sys.stdout)
        return 0
    except OSError as error:
        discard(sys.stdout)
        place = printable(str(error.filename or "standard output"))
        return complain(f"{place}: {error.strerror}")


def complain(message: str) -> int:
    """One line, where there is somebody to read it."""
    if sys.stderr is not None:
        try:
            print(f"error: {message}", file=sys.stderr, flush=True)
        except OSError:
            discard(sys.stderr)
    return 2


def discard(stream: TextIO) -> None:
    """What could not be written is not tried again, and complained of, when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

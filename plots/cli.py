"""Tables and figures from result files.

Exit status: 0 when all is well, 1 when a check found something stale, 2 for bad input and for
output that cannot be written, 128 and the signal's number where one ended it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from claims.errors import InputError
from claims.printable import printable
from plots import document, experiments, ledger, single_files


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m plots", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    folder = {"type": Path, "required": True, "metavar": "DIR"}

    p = commands.add_parser("render", help="render an experiment's tables and figures")
    p.add_argument("name", choices=experiments.names(), help="the experiment")
    p.add_argument("--results", help="folder of its result files", **folder)
    p.add_argument("--output", help="folder for tables and figures", **folder)
    p.add_argument("--recorded", action="store_true", help="say that it was not measured here")
    p.set_defaults(run=experiments.render)

    p = commands.add_parser("claims", help="decide every claim from all result files there are")
    p.add_argument("--results", action="append", help="folder of result files", **folder)
    p.add_argument("--output", help="folder for the tables", **folder)
    p.set_defaults(run=ledger.run)

    p = commands.add_parser("document", help="write what is generated for reading on the web")
    p.add_argument("--recorded-dir", type=Path, default=Path("data/recorded"), metavar="DIR")
    p.add_argument("--readme", type=Path, nargs="+", default=[Path("README.md")], metavar="FILE")
    p.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    p.set_defaults(run=document.run)

    p = commands.add_parser("list", help="list the kernels of recorded results")
    p.add_argument("--recorded", type=Path, nargs="+", required=True, metavar="FILE")
    p.set_defaults(run=single_files.list_kernels)

    p = commands.add_parser("bench", help="show a result file of isolated problems")
    p.add_argument("--results", type=Path, required=True, metavar="FILE")
    p.set_defaults(run=single_files.bench)
    return top


class Parser(argparse.ArgumentParser):
    """Says what is wrong in printable text, too."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:
        return complain("standard output is closed")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not know a kernel author's name
    try:
        try:
            args = parser().parse_args(argv)
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

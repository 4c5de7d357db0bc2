"""Tables, figures and pages from result files.

Exit status: 0 for success; 1 if a check found something stale; 2 for bad input and for output that
cannot be written.
"""

import argparse
import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from reprolab import declared
from reprolab.command_line import Parser, run


def late(name: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """A command whose module is imported when it is run: some need a second for their libraries."""
    return lambda args: getattr(import_module(f"plots.{name}"), function)(args)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m plots", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    folder = {"type": Path, "required": True, "metavar": "DIR"}

    p = commands.add_parser("render", help="render an experiment's tables and figures")
    p.add_argument("name", nargs="?", choices=declared.names(), help="without: all of the folder")
    p.add_argument("--results", help="folder of its result files, or of all of them", **folder)
    p.add_argument("--output", help="folder for tables and figures, or of all of them", **folder)
    p.add_argument("--recorded", action="store_true", help="say that it was not measured here")
    p.add_argument("--verbose", action="store_true", help="show every table that pages have")
    p.set_defaults(run=late("render"))

    p = commands.add_parser("claims", help="decide every claim from all result files there are")
    p.add_argument("--results", action="append", help="folder of result files", **folder)
    p.add_argument("--output", help="folder for the tables", **folder)
    p.set_defaults(run=late("claims"))

    about = "write the pages that have a template, FILE.md.j2, with the numbers of recorded runs"
    p = commands.add_parser("pages", help=about)
    p.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    p.set_defaults(run=late("pages"))

    p = commands.add_parser("report", help="write one HTML page of all results and verdicts")
    about = "folder of result files, or several between spaces"
    p.add_argument("--results", action="append", required=True, metavar="DIRS", help=about)
    p.set_defaults(run=late("report"))

    p = commands.add_parser("list", help="list the kernels of this checkout")
    p.set_defaults(run=late("render", "list_kernels"))

    p = commands.add_parser("bench", help="show a result file of isolated problems")
    p.add_argument("--results", type=Path, required=True, metavar="FILE")
    p.set_defaults(run=late("render", "bench"))

    return top


def main(argv: Sequence[str] | None = None) -> int:
    return run(parser(), argv)


if __name__ == "__main__":
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # hides that a home is not writable
    raise SystemExit(main())

"""Tables and figures from result files.

Exit status: 0 for success; 1 if a check found something stale; 2 for bad input and for output that
cannot be written.
"""

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from plots import document, experiments, ledger, single_files
from plots.figures import WIDTHS
from reprolab import declared
from reprolab.command_line import Parser, run

WITH_BLOCKS = [Path("README.md"), Path("docs/drop-in.md"), Path("docs/upstream.md")]


def late(name: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """A command whose module is imported when it is run, because only it needs a certain
    library."""
    return lambda args: getattr(import_module(f"plots.{name}"), function)(args)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m plots", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    folder = {"type": Path, "required": True, "metavar": "DIR"}
    off = {"action": "store_false"}

    p = commands.add_parser("render", help="render an experiment's tables and figures")
    p.add_argument("name", nargs="?", choices=declared.names(), help="without: all of the folder")
    p.add_argument("--results", help="folder of its result files, or of all of them", **folder)
    p.add_argument("--output", help="folder for tables and figures, or of all of them", **folder)
    p.add_argument("--recorded", action="store_true", help="say that it was not measured here")
    p.add_argument("--verbose", action="store_true", help="show the main tables too")
    p.add_argument("--no-captions", **off, dest="captions", help="of figures: in captions.txt")
    width = {"type": int, "choices": sorted(WIDTHS), "default": 2}
    p.add_argument("--columns", **width, help="of a paper: figures are as wide (3.3 or 7 inches)")
    p.add_argument("--no-notes", **off, dest="notes", help="below LaTeX tables: none")
    p.set_defaults(run=experiments.render)

    p = commands.add_parser("claims", help="decide every claim from all result files there are")
    p.add_argument("--results", action="append", help="folder of result files", **folder)
    p.add_argument("--output", help="folder for the tables", **folder)
    p.set_defaults(run=ledger.run)

    pages = argparse.ArgumentParser(add_help=False)
    pages.add_argument("--recorded-dir", type=Path, default=Path("data/recorded"), metavar="DIR")
    pages.add_argument("--readme", type=Path, nargs="+", default=WITH_BLOCKS, metavar="FILE")

    about = "write what is generated for reading on the web"
    p = commands.add_parser("document", help=about, parents=[pages])
    p.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    p.set_defaults(run=document.run)

    about = "write the pages that have a template, FILE.md.j2, with the numbers of recorded runs"
    p = commands.add_parser("pages", help=about)
    p.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    p.set_defaults(run=late("pages"))

    p = commands.add_parser("report", help="write one HTML page of all results and verdicts")
    about = "folder of result files, or several between spaces"
    p.add_argument("--results", action="append", required=True, metavar="DIRS", help=about)
    p.add_argument("--output", type=Path, metavar="FILE", help="else report.html in the first")
    p.set_defaults(run=late("report"))

    p = commands.add_parser("paper", help="write the recorded runs up in LaTeX")
    p.add_argument("--recorded-dir", type=Path, default=Path("data/recorded"), metavar="DIR")
    p.add_argument("--output", help="folder for text, figures and PDF", **folder)
    p.set_defaults(run=late("paper"))

    p = commands.add_parser("list", help="list the kernels of recorded results")
    p.add_argument("--recorded", type=Path, required=True, metavar="FOLDER")
    p.set_defaults(run=single_files.list_kernels)

    p = commands.add_parser("bench", help="show a result file of isolated problems")
    p.add_argument("--results", type=Path, required=True, metavar="FILE")
    p.set_defaults(run=single_files.bench)

    return top


def main(argv: Sequence[str] | None = None) -> int:
    return run(parser(), argv)

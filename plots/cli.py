"""Tables and figures from result files.

Exit status: 0 when all is well, 1 when a check found something stale, 2 for bad input.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from plots import bench, listing, readme
from plots.errors import InputError
from plots.experiments import EXPERIMENTS

PUBLISHED = Path("data/published/published.json")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m plots", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    for experiment in EXPERIMENTS:
        p = commands.add_parser(experiment.NAME, help=f"render experiment {experiment.NAME}")
        for name in experiment.PASSES:
            p.add_argument(
                f"--{name}", type=Path, required=True, help=f"result file of the {name} pass"
            )
        p.add_argument("--published", type=Path, default=PUBLISHED, help="the sources' numbers")
        p.add_argument("--output", type=Path, required=True, help="folder for tables and figures")
        p.add_argument("--recorded", action="store_true", help="say that it was not measured here")
        p.set_defaults(run=run_experiment, experiment=experiment)

    p = commands.add_parser("readme", help="fill the generated blocks of Markdown files")
    p.add_argument("--recorded-dir", type=Path, default=Path("data/recorded"))
    p.add_argument("--published", type=Path, default=PUBLISHED, help="the sources' numbers")
    p.add_argument("--readme", type=Path, nargs="+", default=[Path("README.md")])
    p.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    p.set_defaults(run=readme.run)

    p = commands.add_parser("list", help="list the kernels of recorded results")
    p.add_argument("--recorded", type=Path, nargs="+", required=True, metavar="FILE")
    p.set_defaults(run=listing.run)

    p = commands.add_parser("bench", help="show a result file of isolated problems")
    p.add_argument("--results", type=Path, required=True, metavar="FILE")
    p.set_defaults(run=bench.run)
    return top


def run_experiment(args: argparse.Namespace) -> int:
    files = {name: getattr(args, name) for name in args.experiment.PASSES}
    inputs = args.experiment.read(published=args.published, recorded=args.recorded, **files)
    sys.stdout.write(args.experiment.render(inputs, args.output))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not know a kernel author's name
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        sys.stderr.close()
        return 0

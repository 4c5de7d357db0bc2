"""`python -m sass`: the machine code of the kernels. Exit status: 0; 1 if the list of older code is
stale; 2 for bad input, missing tools, and output that cannot be written.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from reprolab import console
from reprolab.code import OLDER, SCHEMA, known_codes
from reprolab.command_line import Parser, run
from reprolab.errors import InputError
from reprolab.results import result_files
from reprolab.json_files import ROOT
from reprolab.output import write_files
from reprolab.printable import printable
from sass import cubin, kernels, outdated, tools, view
from sass.code import measured_code, measured_codes
from sass.facts import Facts
from sass.result_file import write

RECORDED = ROOT / "data/recorded"


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m sass", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    p = commands.add_parser("show", help="one kernel's facts, and its inner loop with source lines")
    p.add_argument("--kernel", required=True)
    p.add_argument("--arch", required=True, help="sm_80, or 80")
    p.add_argument("--function", default="", help="a part of a name, for another than is measured")
    p.set_defaults(run=show)

    p = commands.add_parser("diff", help="in what the inner loops of two kernels differ")
    for side in ("a", "b"):
        p.add_argument(f"--{side}", required=True, metavar="KERNEL")
    p.add_argument("--arch", required=True, help="sm_80, or 80")
    p.set_defaults(run=diff)

    p = commands.add_parser("facts", help="all kernels' facts, as a result file")
    p.add_argument("--family", action="append", default=[], help="kernels of this one alone")
    p.add_argument("--arch", default="", help="this one alone")
    p.add_argument("--output", type=Path, required=True, metavar="FILE")
    p.set_defaults(run=facts)

    p = commands.add_parser("recorded", help="recorded rows that are not of this checkout's code")
    p.add_argument("folder", type=Path, nargs="?", default=RECORDED)
    p.add_argument("--write", action="store_true", help="to data/older_code.json")
    p.add_argument("--compile", action="store_true", help="all, also what is known from there")
    p.set_defaults(run=recorded)
    return top


def measured_facts(name: str, arch: str, function: str = "") -> Facts:
    tools.require_all()
    kernel, arch = kernels.named(name), cubin.architecture(arch)
    code = measured_code(kernel, arch, function, lines=True)
    if code is None and kernel.maker:
        make = f"make {kernel.language} ARCH={arch}"
        raise InputError(f"{kernel.name} is not compiled for {arch}; {make}")
    if code is None:
        raise InputError(f"{kernel.source_file}: has no code for the GPU: it calls a library")
    return Facts(code)


def show(args: argparse.Namespace) -> int:
    measured = measured_facts(args.kernel, args.arch, args.function)
    console.show([], view.tables(measured))
    print()
    sys.stdout.writelines(f"{line}\n" for line in view.listing(measured))
    return 0


def diff(args: argparse.Namespace) -> int:
    measured = [measured_facts(name, args.arch) for name in (args.a, args.b)]
    console.show([], [view.differing_facts(*measured)])
    print()
    sys.stdout.writelines(f"{line}\n" for line in view.difference(*measured))
    return 0


def facts(args: argparse.Namespace) -> int:
    tools.require_all()
    started = time.time()
    archs = [cubin.architecture(args.arch)] if args.arch else cubin.architectures()
    codes = measured_codes(kernels.of_families(args.family), archs)
    measured = [Facts(code) for code in codes]
    write(args.output, measured, ["sass", *sys.argv[1:]], started)
    print(f"All facts of each: {printable(str(args.output))}")
    return 0


def recorded(args: argparse.Namespace) -> int:
    """Older code is not a failure, because only its GPU can record it again; a stale list of it, or
    a wrong digest of this checkout's, is."""
    files = list(result_files(args.folder))
    known = known_codes(OLDER)
    result, lines = outdated.look(files, {} if args.compile else known)
    wrong = [name for name in result.codes.keys() & known if result.codes[name] != known[name]]
    lines += [f"{OLDER}: has another digest of {name}" for name in sorted(wrong)]
    if new := len(result.codes.keys() - known.keys()):
        lines.append(f"compiled, because their code was not known (--write keeps it): {new} files")
    print("\n".join(map(printable, lines)))
    if args.folder.resolve() != RECORDED:
        if args.write:
            raise InputError(f"--write: {args.folder} is not {RECORDED}, of which the list is")
        return 0
    content = result.older_of(files)
    if args.write:
        write_files({OLDER: content})
        print(f"wrote {OLDER}; the pages that mark these rows: scripts/python -m plots document")
        return 0
    if not wrong and json.loads(content)["older"] == SCHEMA.read(OLDER)["older"]:
        return 0
    print(f"{OLDER}: is stale; fix with: scripts/python -m sass recorded --write")
    return 1


if __name__ == "__main__":
    raise SystemExit(run(parser()))

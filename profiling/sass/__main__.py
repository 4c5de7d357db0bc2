"""`python -m sass`: the machine code of the kernels. Exit status: 0; 1 if the list of older code is
stale; 2 for bad input, missing tools, and output that cannot be written.
"""

import argparse
import json
import sys
import time
from difflib import unified_diff
from pathlib import Path

from reprolab.code import OLDER, SCHEMA, known_codes
from reprolab.command_line import Parser, run
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.results import result_files
from sass import cubin, identity, kernels, outdated, tools
from sass.code import (
    INSTRUCTION_BYTES,
    LOADS,
    STORES,
    Function,
    file_of,
    functions_in,
    measured_codes,
)
from sass.result_file import write

RECORDED = ROOT / "data/recorded"


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m sass", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    p = commands.add_parser("show", help="resources, opcodes and instructions of a kernel's file")
    p.add_argument("--kernel", required=True)
    p.add_argument("--arch", required=True, help="sm_80, or 80")
    p.add_argument("--function", default="", help="a part of its name, as C++ has it")
    p.set_defaults(run=show)

    p = commands.add_parser("diff", help="in what two kernels differ")
    for side in ("a", "b"):
        p.add_argument(f"--{side}", required=True, metavar="KERNEL")
    p.add_argument("--arch", required=True, help="sm_80, or 80")
    p.add_argument("--function", default="", help="a part of its name in both")
    p.set_defaults(run=diff)

    p = commands.add_parser("facts", help="all kernels' resources and counts, as a result file")
    p.add_argument("--family", action="append", default=[], help="kernels of this one alone")
    p.add_argument("--arch", default="", help="this one alone")
    p.add_argument("--output", type=Path, required=True, metavar="FILE")
    p.set_defaults(run=facts)

    p = commands.add_parser("digest", help="of the code in a program or library of ours")
    p.add_argument("file", type=Path, metavar="FILE")
    p.add_argument("--whole", action="store_true", help="of the file's text or bytes")
    p.set_defaults(run=digest)

    p = commands.add_parser("recorded", help="recorded rows that are not of this checkout's code")
    p.add_argument("folder", type=Path, nargs="?", default=RECORDED)
    p.add_argument("--write", action="store_true", help="to data/older_code.json")
    p.add_argument("--compile", action="store_true", help="all, also what is known from there")
    p.set_defaults(run=recorded)
    return top


def functions(name: str, arch: str, part: str) -> list[Function]:
    """Those of a kernel's file with the part in their names, in their order."""
    tools.require_all()
    kernel, arch = kernels.named(name), cubin.architecture(arch)
    file = file_of(kernel, arch)
    if file is None:
        make = f"make {kernel.language} ARCH={arch}"
        raise InputError(f"{kernel.name} is not compiled for {arch}; {make}")
    every = functions_in(file).values()
    if not every:
        raise InputError(f"{kernel.source_file}: has no code for the GPU: it calls a library")
    if not (found := [function for function in every if part in function.name]):
        names = "; ".join(function.name for function in every)
        raise InputError(f"FUNCTION: '{part}' is in none of the names: {names}")
    return sorted(found, key=lambda function: function.name)


def described(function: Function) -> list[str]:
    """Its resources and its opcodes, in lines."""
    opcodes = ", ".join(f"{name} {count}" for name, count in function.opcodes.most_common())
    return [
        f"{function.registers} registers and {function.stack_bytes} bytes of stack a thread, "
        f"{function.static_shared_bytes} bytes of shared memory a block, {function.code_bytes} "
        "bytes of code",
        f"{len(function.instructions)} instructions, {function.count(LOADS)} loads and "
        f"{function.count(STORES)} stores of global memory: {opcodes}",
    ]


def show(args: argparse.Namespace) -> int:
    """One function's instructions too, where only one has the part in its name."""
    found = functions(args.kernel, args.arch, args.function)
    for function in found:
        print(printable(function.name))
        for line in described(function):
            print(f"  {line}")
    if len(found) == 1:
        for at, instruction in enumerate(found[0].instructions):
            print(printable(f"  {at * INSTRUCTION_BYTES:04x}  {instruction}"))
    return 0


def diff(args: argparse.Namespace) -> int:
    sides = [functions(name, args.arch, args.function) for name in (args.a, args.b)]
    if any(len(side) > 1 for side in sides):
        texts = [[line for one in side for line in (one.name, *described(one))] for side in sides]
    else:
        texts = [described(side[0]) + side[0].plain_instructions for side in sides]
    for line in unified_diff(*texts, args.a, args.b, n=2, lineterm=""):
        print(printable(line))
    return 0


def facts(args: argparse.Namespace) -> int:
    tools.require_all()
    started = time.time()
    archs = [cubin.architecture(args.arch)] if args.arch else cubin.architectures()
    codes = measured_codes(kernels.of_families(args.family), archs)
    write(args.output, codes, ["sass", *sys.argv[1:]], started)
    print(f"All facts of each: {printable(str(args.output))}")
    return 0


def digest(args: argparse.Namespace) -> int:
    """harness/code.cpp reads these lines."""
    whole = [("0", identity.of_file(args.file), args.file)]
    for line in whole if args.whole else identity.embedded_in(args.file):
        print(*line)
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

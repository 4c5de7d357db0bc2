"""`python -m sass`: the machine code of the kernels. Exit status: 0; 1 if the list of older code is
stale; 2 for bad input, missing tools, and output that cannot be written.
"""

import argparse
from difflib import unified_diff
from pathlib import Path

from reprolab.code import OLDER
from reprolab.command_line import Parser, run
from reprolab.errors import InputError, printable
from reprolab.json_files import ROOT, read_json
from reprolab.output import write_files
from reprolab.results import result_files
from sass import cubin, identity
from sass import recorded as rows
from sass.code import INSTRUCTION_BYTES, LOADS, STORES, Function, file_of, functions_in

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

    p = commands.add_parser("digest", help="of the code in a program or library of ours")
    p.add_argument("file", type=Path, metavar="FILE")
    p.add_argument("--whole", action="store_true", help="of the file's text or bytes")
    p.set_defaults(run=digest)

    p = commands.add_parser("recorded", help="recorded rows that are not of this checkout's code")
    p.add_argument("--write", action="store_true", help="to data/older_code.json")
    p.add_argument("--compile", action="store_true", help="all, also what is known from there")
    p.set_defaults(run=recorded)
    return top


def functions(name: str, arch: str, part: str) -> list[Function]:
    """Those of a kernel's file with the part in their names, in their order."""
    for tool in ("nvcc", "cuobjdump", "nvdisasm"):
        cubin.program(tool)
    every = functions_in(file_of(name, cubin.architecture(arch)))
    if not every:
        raise InputError(f"{name}: has no code for the GPU: it calls a library")
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


def digest(args: argparse.Namespace) -> int:
    """harness/provenance.cpp reads these lines."""
    whole = [("0", identity.of_file(args.file), args.file)]
    for line in whole if args.whole else identity.embedded_in(args.file):
        print(*line)
    return 0


def recorded(args: argparse.Namespace) -> int:
    """Older code is not a failure, because only its GPU can record it again; a stale list of it, or
    a wrong digest of this checkout's, is."""
    try:
        nvcc = cubin.nvcc_version()
    except InputError as why:
        print(f"recorded rows are not compared with this checkout's kernels: {why}")
        return 0
    files = list(result_files(RECORDED))
    codes = rows.codes_now(rows.parts_of(files, nvcc), {} if args.compile else known_codes())
    lines, older = rows.compare(files, {part: digest for part, (_, digest) in codes.items()})
    print("\n".join(map(printable, lines)))
    content = rows.list_of(older, codes)
    if args.write:
        write_files({OLDER: content})
        print(f"wrote {OLDER}; the pages that mark these rows: make pages")
    elif content != OLDER.read_bytes():
        print(f"{OLDER}: is stale; fix with: scripts/python -m sass recorded --write")
        return 1
    return 0


def known_codes() -> dict[str, str]:
    """Digests of code by cubin, whose name has a digest of its sources."""
    return read_json(OLDER)["codes"]


if __name__ == "__main__":
    raise SystemExit(run(parser()))

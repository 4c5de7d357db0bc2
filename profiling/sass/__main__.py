"""`python -m sass`: the machine code of the kernels. Exit status: 0; 1 if the list of older code is
stale; 2 for bad input, missing tools, and output that cannot be written.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from pathlib import Path

from reprolab.code import OLDER
from reprolab.command_line import Parser, run
from reprolab.errors import InputError, printable
from reprolab.json_files import ROOT, read_json
from reprolab.output import write_files
from reprolab.results import Results, result_files
from sass import cubin, identity
from sass.code import INSTRUCTION_BYTES, LOADS, STORES, Function, file_of, functions_in

RECORDED = ROOT / "data/recorded"
Part = tuple[str, str]  # a file, and the architecture


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
    every = functions_in(file_of(name, f"sm_{arch.removeprefix('sm_')}"))
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
    codes = codes_now(parts_of(files, nvcc), {} if args.compile else read_json(OLDER)["codes"])
    lines, older = compare(files, {part: digest for part, (_, digest) in codes.items()})
    print("\n".join(map(printable, lines)))
    content = list_of(older, codes)
    if args.write:
        write_files({OLDER: content})
        print(f"wrote {OLDER}; the pages that mark these rows: make pages")
    elif content != OLDER.read_bytes():
        print(f"{OLDER}: is stale; fix with: scripts/python -m sass recorded --write")
        return 1
    return 0


def parts_of(files: Iterable[Results], nvcc: str) -> list[Part]:
    """The files to compile for a comparison with rows of this compiler."""
    return sorted(
        {
            (part, row.code["target"])
            for results in files
            if results.provenance["build"]["nvcc"] == nvcc
            for row in results.records
            if row.code
            for part in row.code["sha256"]
            if part.endswith(".cu")
        }
    )


def codes_now(parts: Sequence[Part], known: Mapping[str, str]) -> dict[Part, tuple[str, str]]:
    """The name of each part's cubin and the digest of its code; both empty for a file that is no
    longer compiled. Only code whose digest is not `known`, by the cubin's name, is compiled.
    """
    commands = cubin.build_commands() if parts else {}

    def of(part: Part) -> tuple[str, str]:
        source, arch = ROOT / part[0], part[1]
        if source not in commands:
            return "", ""
        name = str(cubin.place_of(source, arch).relative_to(cubin.FOLDER))
        return name, known.get(name) or identity.of_cubin(cubin.compiled(source, arch))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(parts, pool.map(of, parts), strict=True))


def compare(files: Iterable[Results], now: Mapping[Part, str]) -> tuple[list[str], set[str]]:
    """A line for each kernel of each file with other code, then the counts; and the digests of that
    code. `now`: this checkout's digests.
    """
    lines: list[str] = []
    older: set[str] = set()
    rows: Counter[bool] = Counter()
    for results in files:
        old = {}
        for row in results.records:
            code = row.code["sha256"] if row.code else {}
            places = {part: (part, row.code["target"]) for part in code}
            known = [part for part in code if now.get(places[part])]
            rows[bool(known)] += 1
            if changed := [part for part in known if code[part] != now[places[part]]]:
                older |= {code[part] for part in changed}
                old[row.kernel] = f"{', '.join(changed)} for {row.code['target']}"
        shown = results.file.relative_to(ROOT) if ROOT in results.file.parents else results.file
        lines += [
            f"{shown}: {kernel}: the code of {what} differs from this checkout's"
            for kernel, what in old.items()
        ]
    lines.append(
        f"{rows[True]} of {rows.total()} recorded rows compared with this checkout's kernels: in "
        f"{len(lines)} places the code is another now (measure them again); the others are of "
        "another compiler, of a library, of Mojo or Triton, or of a file that is gone"
    )
    return lines, older


def list_of(older: set[str], codes: Mapping[Part, tuple[str, str]]) -> bytes:
    """data/older_code.json."""
    content = {"older": sorted(older), "codes": dict(sorted(filter(all, codes.values())))}
    return (json.dumps(content, indent=1) + "\n").encode()


if __name__ == "__main__":
    raise SystemExit(run(parser()))

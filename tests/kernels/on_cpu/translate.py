"""Rewrites preprocessed CUDA C++ as C++: python3 translate.py < kernel.ii > kernel.cpp.ii.

Rewrites only CUDA's additions to the grammar: launches, __shared__ variables and inline PTX.
include/cuda_runtime_api.h has the functions that are called instead.
"""

import re
import sys
from collections.abc import Iterator

SHARED = re.compile(
    r"\b__shared__\s+(?P<type>[^;]+?)(?P<name>\w+)(?P<extents>(\s*\[[^];]*\])*)\s*;"
)
ASM = re.compile(r"\basm\s*(?:volatile\b)?\s*(?=\()")
STRINGS = r'"(?:[^"\\]|\\.)*"'
TOKEN = re.compile(rf"{STRINGS}|[()\[\]{{}}:]", re.DOTALL)
CALLEE = re.compile(r"(?:\btemplate\s+)?[\w:]+\s*$")


def shared_variable(match: re.Match[str]) -> str:
    # alignas comes before static.
    declared = re.sub(
        r"^((?:alignas\s*\([^)]*\)\s*)?)", r"\1static ", match["type"].removeprefix("static ")
    )
    variable = f"{declared}{match['name']}{match['extents']}"
    return f"{variable}; ::on_cpu::poison(&{match['name']}, sizeof {match['name']});"


def sections(text: str, start: int) -> tuple[list[str], int]:
    """The parts between the colons of the parenthesis that opens at `start`, and its end."""
    depth, begin, parts = 0, start + 1, []
    for token in TOKEN.finditer(text, start):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and token[0] == ":"):
            parts.append(text[begin : token.start()])
            begin = token.end()
        if depth == 0:
            return parts, token.end()
    raise ValueError("a parenthesis is not closed")


def with_calls_for_ptx(text: str) -> str:
    result, done = [], 0
    for match in ASM.finditer(text):
        (ptx, *operands), end = sections(text, match.end())
        # A constraint stands before each operand's parenthesis.
        named = (re.sub(rf"{STRINGS}\s*(?=\()", "", part).strip() for part in operands[:2])
        arguments = ", ".join([ptx.strip(), *filter(None, named)])
        result += [text[done : match.start()], f"::on_cpu::inline_ptx({arguments})"]
        done = end
    return "".join([*result, text[done:]])


def callee_start(text: str, end: int) -> int:
    """The start of the kernel's name with its template arguments, which ends at `end`."""
    end = len(text[:end].rstrip())
    templates = parentheses = 0
    while end > 0 and (templates or text[end - 1] == ">"):
        end -= 1
        parentheses += {")": 1, "(": -1}.get(text[end], 0)
        if parentheses == 0:
            templates += {">": 1, "<": -1}.get(text[end], 0)
    name = CALLEE.search(text, max(0, end - 200), end)
    if name is None:
        raise ValueError("a launch does not name its kernel")
    return name.start()


def launches(text: str) -> Iterator[str]:
    done = 0
    for launch in re.finditer(r"<<<(.*?)>>>", text, re.DOTALL):
        start = callee_start(text, launch.start())
        kernel = text[start : launch.start()]
        yield text[done:start]
        yield (
            f"::on_cpu::Launch([&](const auto&... on_cpu) {{ {kernel}(on_cpu...); }}, {launch[1]})"
        )
        done = launch.end()
    yield text[done:]


def translated(text: str) -> str:
    return "".join(launches(with_calls_for_ptx(SHARED.sub(shared_variable, text))))


if __name__ == "__main__":
    sys.stdout.write(translated(sys.stdin.read()))

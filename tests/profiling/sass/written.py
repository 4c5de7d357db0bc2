"""Kernels written by hand, in the form that nvdisasm prints.

One instruction per line, with a label before it where it has one, and its source line after it:

    top: LDS R2, [R3]    # a.cu:7 < kernel.cu:30
         @P0 BRA top
"""

import re

from sass.code import Code, Resources
from sass.facts import Facts
from sass.kernels import Kernel
from sass.parse import Function, parse

from reprolab.families import described


def printed(text: str, name: str = "kernel") -> str:
    """As `nvdisasm --print-code --print-line-info-inline` prints it."""
    lines = [f'\t.section\t.text.{name},"ax",@progbits', f".text.{name}:"]
    address = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        code, _, source = (part.strip() for part in line.partition("#"))
        if label := re.match(r"(\w+): ", code):
            lines.append(f".{label[1]}:")
            code = code[label.end() :].strip()
        code = re.sub(r"\b(BRA\S*|CALL\S*|BSSY\S*)( .*?)?\b(\w+)$", r"\1\2`(.\3)", code)
        lines += frame_lines(source)
        lines.append(f"        /*{address:04x}*/                   {code} ;")
        address += 16
    return "\n".join(lines) + "\n"


def frame_lines(source: str) -> list[str]:
    places = [place.strip().rsplit(":", 1) for place in source.split("<") if place.strip()]
    lines = []
    for i, (file, line) in enumerate(places):
        text = f'\t//## File "{file}", line {line}'
        if i + 1 < len(places):
            text += ' inlined at "{}", line {}'.format(*places[i + 1])
        lines.append(text)
    return lines


def function(text: str) -> Function:
    return parse(printed(text), "kernel")


def facts(text: str, family: str = "nf4", name: str = "written") -> Facts:
    source = f"kernels/{family}/{name}.cu"
    kernel = Kernel(name=name, family=described()[family], source_file=source, lineage="ours")
    code = Code(kernel, "sm_80", name, function(text), Resources(8, 0, 0), {})
    vars(code)["sha256"] = {source: "1" * 64}
    return Facts(code)

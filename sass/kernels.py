"""The registered kernels, by their files: each registers the one kernel that it is named after."""

import re
from dataclasses import dataclass
from pathlib import Path

from claims.errors import InputError
from claims.json_files import ROOT, read_text


@dataclass(frozen=True)
class Family:
    """A folder of kernels/: what they write, and which of a template's kernels are measured."""

    element: str  # what one element of the output is called
    element_bytes: int
    # Parts of the template arguments that the measurement launches. Each narrows the choice, where
    # any kernel of the file has it.
    measured: tuple[str, ...]


FAMILIES = {
    # Table II: fp16 output, plain scales, weights counted in 32 bits. Of streaming, large matrices
    # whose arrays are aligned; of two_launches, the one that streaming does not have.
    "nf4": Family(
        "weight",
        2,
        (
            "unsigned int",
            "PlainScaleReader",
            "__half",
            "StreamShape<1024, 1,",
            ">, true,",
            "decode_scales",
        ),
    ),
    # 32768 x 32768, where column_walk takes two columns of tiles at once.
    "transpose": Family("element", 4, ("DownColumns<2",)),
}
STRING = r'"(?:[^"\\]|\\.)*"'


@dataclass(frozen=True)
class Kernel:
    name: str
    family: str
    source: Path
    lineage: str
    deviation: str | None  # None: its output is bit-exact

    @property
    def source_file(self) -> str:
        return str(self.source.relative_to(ROOT))


def registered() -> dict[str, Kernel]:
    """Every kernel of the project, by name; a file that registers users' libraries has none."""
    found = {}
    for family in FAMILIES:
        for source in sorted((ROOT / "kernels" / family).glob("*.cu")):
            text = read_text(source)
            if literal(text, "name") == source.stem:
                lineage, deviation = literal(text, "lineage"), literal(text, "deviation")
                found[source.stem] = Kernel(source.stem, family, source, lineage, deviation or None)
    return found


def literal(text: str, name: str) -> str:
    """The string that `.name = "..." "..."` assigns; empty where nothing does."""
    found = re.search(rf"\.{name}\s*=\s*((?:{STRING}\s*)+)", text)
    parts = re.findall(STRING, found[1]) if found else []
    return "".join(re.sub(r"\\(.)", r"\1", part[1:-1]) for part in parts)


def named(name: str) -> Kernel:
    kernels = registered()
    if name not in kernels:
        raise InputError(f"KERNEL: there is no kernel '{name}'; there are {', '.join(kernels)}")
    return kernels[name]

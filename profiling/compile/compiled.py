"""The output of every language's compiler, and the facts read from its PTX."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
POINTER = 8


class LanguageError(Exception):
    """One line: the fault, its place and its remedy."""


@dataclass(frozen=True)
class Family:
    """Common facts of a family's kernels; PtxKernel in kernels/<name>/ is the C++ side."""

    name: str
    variants: tuple[str, ...]
    parameters: tuple[int, ...]  # the size of each, in bytes
    head: dict[str, str]  # lines of a kernel's first comment: key, and pattern with named facts
    as_written: str  # those lines, as an error says them
    needs_counterpart: bool = False  # a kernel in CUDA, whose contract a kernel has
    min_arch: int = 0
    older_lack: str = ""


FAMILIES = {
    "nf4": Family(
        "nf4",
        ("fp16", "bf16", "fp16_nested", "bf16_nested"),
        (*[POINTER] * 6, *[4] * 4),
        {"Launch": r"(?P<threads>\d+) threads for (?P<weights_per_block>\d+) weights\."},
        "'# Launch: <n> threads for <n> weights.'",
    ),
    "transpose": Family(
        "transpose",
        ("fp32",),
        (128, 128, 4),  # two tensor maps and a number
        {
            "Launch": r"(?P<threads>\d+) threads for a tile of 32 x 32"
            r"(?: swizzled by (?P<swizzle_bytes>\d+) bytes)?\.",
        },
        "'# Launch: <n> threads for a tile of 32 x 32[ swizzled by <n> bytes].' and "
        "'# Counterpart: <kernel in CUDA>'",
        needs_counterpart=True,
        min_arch=90,
        older_lack="tensor maps",
    ),
}


@dataclass(frozen=True)
class KernelFile:
    """A kernel's source, and the launch facts in its first comment."""

    path: Path
    family: Family
    lineage: str
    facts: dict[str, Any]  # "threads", and those of the family

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def source_file(self) -> str:
        return str(self.path.relative_to(ROOT))


def kernel_file(path: Path, family: Family) -> KernelFile:
    head = re.match(r"(?:#.*\n)*", path.read_text())[0]
    lines = [rf"^# {key}: +{form}$" for key, form in family.head.items()]
    matches = [re.search(line, head, re.MULTILINE) for line in lines]
    source = re.search(r"^# Source: ([^;\n]+)", head, re.MULTILINE)
    counterpart = re.search(r"^# Counterpart: (?P<counterpart>\w+)$", head, re.MULTILINE)
    if counterpart or family.needs_counterpart:
        matches.append(counterpart)
    if not source or not all(matches):
        raise LanguageError(
            f"{path}: its first comment needs '# Source: <where from>' and {family.as_written}"
        )
    facts = {k: v or "0" for line in matches for k, v in line.groupdict().items()}
    facts = {k: int(v) if v.isdecimal() else v for k, v in facts.items()}
    return KernelFile(path, family, source[1].strip(), facts)


def outdated(manifest: Path, sources: Iterable[str]) -> list[str]:
    """The sources, by path from the project's root, that are newer than the manifest, or gone."""
    made = manifest.stat().st_mtime
    files = {source: ROOT / source for source in sources}
    return [name for name, f in files.items() if not f.exists() or f.stat().st_mtime > made]


@dataclass(frozen=True)
class Ptx:
    """One compiled variant of a kernel."""

    text: str
    shared_bytes: int  # dynamic shared memory of the launch

    @property
    def entry(self) -> str:
        names = re.findall(r"\.entry\s+([\w$]+)\s*\(", self.text)
        if len(names) != 1:
            raise LanguageError(f"the PTX has {len(names)} kernels; it must have one")
        return names[0]

    @property
    def parameters(self) -> tuple[int, ...]:
        """The size of each parameter, in bytes."""
        declared = re.search(r"\.entry[^(]*\(([^)]*)\)", self.text)[1]
        # .param .u64 .ptr .global .align 1 name, or .param .align 64 .b8 name[128]
        one = r"\.param\b[^,]*?\.[bfsu](\d+)\b[^,\[]*(?:\[(\d+)\])?"
        sizes = re.findall(one, declared)
        return tuple(int(bits) // 8 * int(count or 1) for bits, count in sizes)

    @property
    def threads(self) -> int:
        match = re.search(r"^\.(?:maxntid|reqntid)\s+(\d+)", self.text, re.MULTILINE)
        return int(match[1]) if match else 0

    @property
    def contracted(self) -> bool:
        return bool(re.search(r"\bfma\.\S*f32\b", self.text))


def variant_facts(kernel: KernelFile, variant: str, ptx: Ptx) -> dict[str, Any]:
    """The facts that the loader needs. Raises LanguageError on a variant that must not be run."""
    where = f"{kernel.source_file} ({variant})"
    entry, threads, wanted = ptx.entry, kernel.facts["threads"], kernel.family.parameters
    if ptx.threads != threads:
        raise LanguageError(
            f"{where}: is compiled for {ptx.threads} threads, and its comment says {threads}"
        )
    if ptx.contracted:
        raise LanguageError(f"{where}: a product and a sum were contracted into one rounding")
    own, further = ptx.parameters[: len(wanted)], ptx.parameters[len(wanted) :]
    if own != wanted or set(further) - {POINTER}:
        raise LanguageError(
            f"{where}: takes parameters of {sizes(ptx.parameters)} bytes, not of {sizes(wanted)}"
        )
    return {
        "file": f"{kernel.name}.{variant}.ptx",
        "entry": entry,
        "shared_bytes": ptx.shared_bytes,
        "null_pointers": len(further),
    }


def sizes(parameters: tuple[int, ...]) -> str:
    return ", ".join(map(str, parameters)) or "no"

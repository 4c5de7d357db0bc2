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
    launch: tuple[str, ...]  # constants that each of its kernels declares
    min_arch: int = 0


FAMILIES = {
    "nf4": Family(
        "nf4",
        ("fp16", "bf16", "fp16_nested", "bf16_nested"),
        (*[POINTER] * 6, *[4] * 4),
        ("threads", "weights_per_block"),
    ),
    "transpose": Family(
        "transpose",
        ("fp32",),
        (128, 128, 4),  # two tensor maps and a number
        ("threads", "swizzle_bytes"),
        min_arch=90,
    ),
    "reduction": Family("reduction", ("uint32",), (8, 8, 8), ("threads", "words_per_block")),
}


@dataclass(frozen=True)
class KernelFile:
    """A kernel's source, and the facts that it states."""

    path: Path
    family: Family
    lineage: str
    facts: dict[str, Any]  # of its launch, and its counterpart in CUDA or ''

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def source_file(self) -> str:
        return str(self.path.relative_to(ROOT))


def kernel_file(path: Path, family: Family) -> KernelFile:
    text = path.read_text()
    said = dict(re.findall(r"^# (Source|Counterpart): +([^;\n]+)", text, re.MULTILINE))
    declared = dict(re.findall(r"^(?:comptime )?(\w+) = (\d+)$", text, re.MULTILINE))
    if "Source" not in said or not declared.keys() >= set(family.launch):
        raise LanguageError(
            f"{path}: needs the comment '# Source: <where from>' and, each in a line of its own, "
            f"the integer constants {', '.join(family.launch)}"
        )
    facts = {name: int(declared[name]) for name in family.launch}
    facts["counterpart"] = said.get("Counterpart", "")
    return KernelFile(path, family, said["Source"].strip(), facts)


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


def variant_facts(kernel: KernelFile, variant: str, ptx: Ptx) -> dict[str, Any]:
    """The facts that the loader needs. Raises LanguageError on a variant that must not be run."""
    where = f"{kernel.source_file} ({variant})"
    entry, threads, wanted = ptx.entry, kernel.facts["threads"], kernel.family.parameters
    if ptx.threads != threads:
        raise LanguageError(
            f"{where}: is compiled for {ptx.threads} threads, and declares threads = {threads}"
        )
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

"""What every language's compiler hands back, and the facts that are read from its PTX."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What kernels/nf4/ptx_kernel.cpp hands to every kernel.
PARAMETERS = 10
VARIANTS = ("fp16", "bf16", "fp16_nested", "bf16_nested")


class LanguageError(Exception):
    """One line: what, where, what to do."""


@dataclass(frozen=True)
class KernelFile:
    """A kernel's source, and what the comment at its start says of the launch."""

    path: Path
    threads: int
    weights_per_block: int
    lineage: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def source_file(self) -> str:
        return str(self.path.relative_to(ROOT))


def kernel_file(path: Path) -> KernelFile:
    head = re.match(r"(?:#.*\n)*", path.read_text())[0]
    launch = re.search(r"^# Launch: (\d+) threads for (\d+) weights\.$", head, re.MULTILINE)
    source = re.search(r"^# Source: ([^;\n]+)", head, re.MULTILINE)
    if not launch or not source:
        raise LanguageError(
            f"{path}: its first comment needs '# Source: <where from>' and "
            "'# Launch: <n> threads for <n> weights.'"
        )
    return KernelFile(path, int(launch[1]), int(launch[2]), source[1].strip())


@dataclass(frozen=True)
class Ptx:
    """One compiled variant of a kernel."""

    text: str
    shared_bytes: int  # that the launch must give; static shared memory is not counted

    @property
    def entry(self) -> str:
        found = re.findall(r"\.entry\s+([\w$]+)\s*\(", self.text)
        if len(found) != 1:
            raise LanguageError(f"the PTX has {len(found)} kernels; it must have one")
        return found[0]

    @property
    def parameters(self) -> int:
        return len(re.findall(r"\.param\b", re.search(r"\.entry[^)]*\)", self.text)[0]))

    @property
    def threads(self) -> int:
        found = re.search(r"^\.(?:maxntid|reqntid)\s+(\d+)", self.text, re.MULTILINE)
        return int(found[1]) if found else 0

    @property
    def store_bits(self) -> list[int]:
        """Widths of the stores to global memory that occur, narrowest first."""
        found = re.findall(r"\bst\.global(?:\.[\w:]+)*?(?:\.v(\d))?\.[bfsu](\d+)\b", self.text)
        return sorted({int(lanes or 1) * int(bits) for lanes, bits in found})

    @property
    def contracted(self) -> bool:
        return bool(re.search(r"\bfma\.\S*f32\b", self.text))


def variant_facts(kernel: KernelFile, variant: str, ptx: Ptx) -> dict:
    """What the loader must know of a variant. Raises LanguageError on what must not be run."""
    where = f"{kernel.source_file} ({variant})"
    entry = ptx.entry
    if ptx.threads != kernel.threads:
        raise LanguageError(
            f"{where}: is compiled for {ptx.threads} threads, and its comment says {kernel.threads}"
        )
    if ptx.contracted:
        raise LanguageError(f"{where}: a product and a sum were contracted into one rounding")
    if ptx.parameters < PARAMETERS:
        raise LanguageError(f"{where}: takes {ptx.parameters} parameters, not {PARAMETERS}")
    return {
        "file": f"{kernel.name}.{variant}.ptx",
        "entry": entry,
        "shared_bytes": ptx.shared_bytes,
        "null_pointers": ptx.parameters - PARAMETERS,
        "store_bits": ptx.store_bits,
    }

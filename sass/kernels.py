"""The kernels: the registered ones, by their files, of which each registers the one kernel that it
is named after; and those that other languages' compilers have made, by their manifests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from claims.errors import InputError
from claims.json_files import ROOT, read_json, read_text
from languages.compiled import fingerprints


@dataclass(frozen=True)
class Family:
    """A folder of kernels/: what they write, and which of a template's kernels are measured."""

    element: str  # what one element of the output is called
    element_bytes: int
    # Parts of the template arguments that the measurement launches. Each narrows the choice, where
    # any kernel of the file has it.
    measured: tuple[str, ...]
    variant: str  # the same choice, of a kernel in another language


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
        "fp16",
    ),
    # 32768 x 32768, where column_walk takes two columns of tiles at once.
    "transpose": Family("element", 4, ("DownColumns<2",), "fp32"),
}
OTHER_LANGUAGES = ROOT / "build/ptx"  # languages/__main__.py says what is there
DEVIATION = "DeclaredDeviation<Problem>{"
STRING = r'"(?:[^"\\]|\\.)*"'


@dataclass(frozen=True)
class Kernel:
    name: str
    family: str
    source: Path
    lineage: str
    deviation: str | None  # None: its output is bit-exact
    maker: str = ""  # another language's compiler
    ptx: Mapping[str, Path] = field(default_factory=dict)  # what that made, by architecture

    @property
    def source_file(self) -> str:
        return str(self.source.relative_to(ROOT))


def registered() -> dict[str, Kernel]:
    """Every kernel of the project, by name; a file that registers users' libraries has none."""
    found = {}
    for family in FAMILIES:
        for source in sorted((ROOT / "kernels" / family).glob("*.cu")):
            text = read_text(source)
            if literal(text, ".name =") == source.stem:
                lineage, deviation = literal(text, ".lineage ="), literal(text, DEVIATION)
                found[source.stem] = Kernel(source.stem, family, source, lineage, deviation or None)
    return found


def in_other_languages(folder: Path = OTHER_LANGUAGES) -> dict[str, Kernel]:
    """Those that `make mojo` and `make triton` have compiled, for any architecture."""
    cuda, found = registered(), {}
    for manifest in sorted(folder.glob("sm_*/*.json")):
        try:
            facts = read_json(manifest)
            known, place = facts["sources"], manifest.parent
            outdated = [name for name, now in fingerprints(known).items() if now != known[name]]
            file = place / facts["variants"][FAMILIES[facts["family"]].variant]["file"]
            same = {name: facts[name] for name in ("lineage", "family")}
            twin = cuda.get(facts.get("twin", ""))  # whose contract the kernel has
            same |= {"deviation": twin.deviation if twin else None, "maker": facts["compiler"]}
            source, earlier = ROOT / facts["source_file"], found.get(manifest.stem)
        except (KeyError, TypeError, AttributeError, OSError):
            raise InputError(f"{manifest}: is not as it was written; {AGAIN}") from None
        if outdated:
            raise InputError(f"{manifest}: {outdated[0]} has changed; {AGAIN}")
        ptx = (earlier.ptx if earlier else {}) | {place.name: file}
        found[manifest.stem] = Kernel(manifest.stem, source=source, ptx=ptx, **same)
    return found


AGAIN = "make mojo or make triton writes it anew"


def known() -> dict[str, Kernel]:
    return registered() | in_other_languages()


def literal(text: str, before: str) -> str:
    """The string, in one part or several, that stands behind `before`; empty where none does."""
    found = re.search(rf"{re.escape(before)}\s*((?:{STRING}\s*)+)", text)
    parts = re.findall(STRING, found[1]) if found else []
    return "".join(re.sub(r"\\(.)", r"\1", part[1:-1]) for part in parts)


def named(name: str) -> Kernel:
    kernels = known()
    if name not in kernels:
        raise InputError(f"KERNEL: there is no kernel '{name}'; there are {', '.join(kernels)}")
    return kernels[name]

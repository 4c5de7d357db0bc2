"""The kernels: those in CUDA, as data/families.json describes them, or by a file of that name; and
those that other languages' compilers have made, by their manifests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from languages.compiled import fingerprints
from records.errors import InputError
from records.families import CUDA, Family, described
from records.json_files import ROOT, read_json

OTHER_LANGUAGES = ROOT / "build/ptx"  # languages/__main__.py says what is there


@dataclass(frozen=True)
class Kernel:
    name: str
    family: Family
    source: Path
    lineage: str
    deviation: str | None  # None: its output is bit-exact
    language: str = CUDA
    maker: str = ""  # another language's compiler
    ptx: Mapping[str, Path] = field(default_factory=dict)  # what that made, by architecture

    @property
    def source_file(self) -> str:
        return str(self.source.relative_to(ROOT))


def registered() -> dict[str, Kernel]:
    """Every kernel in CUDA, by name; of a user's library there is no code here."""
    return {
        kernel.name: Kernel(
            kernel.name, family, ROOT / kernel.source_file, kernel.lineage, kernel.deviation
        )
        for family in described().values()
        for kernel in family.kernels.values()
        if kernel.language == CUDA
    }


def in_other_languages(folder: Path = OTHER_LANGUAGES) -> dict[str, Kernel]:
    """Those that `make mojo` and `make triton` have compiled, for any architecture."""
    cuda, found = registered(), {}
    for manifest in sorted(folder.glob("sm_*/*.json")):
        try:
            facts = read_json(manifest)
            known, place = facts["sources"], manifest.parent
            outdated = [name for name, now in fingerprints(known).items() if now != known[name]]
            file = place / next(iter(facts["variants"].values()))["file"]  # the measured code's
            same = {"lineage": facts["lineage"], "family": described()[facts["family"]]}
            of = cuda.get(facts.get("counterpart", ""))
            same |= {"deviation": of.deviation if of else None, "maker": facts["compiler"]}
            same["language"] = facts["language"]
            source, earlier = ROOT / facts["source_file"], found.get(manifest.stem)
        except (KeyError, TypeError, AttributeError, OSError, StopIteration):
            raise InputError(f"{manifest}: is not as it was written; {AGAIN}") from None
        if outdated:
            raise InputError(f"{manifest}: {outdated[0]} has changed; {AGAIN}")
        ptx = (earlier.ptx if earlier else {}) | {place.name: file}
        found[manifest.stem] = Kernel(manifest.stem, source=source, ptx=ptx, **same)
    return found


AGAIN = "make mojo or make triton writes it anew"


def known() -> dict[str, Kernel]:
    return registered() | in_other_languages()


def named(name: str) -> Kernel:
    """Of a kernel that is not yet described, what its file says without being asked."""
    kernels = known()
    for family in described().values():
        source = ROOT / f"kernels/{family.name}/{name}.cu"
        if name not in kernels and source.is_file():
            return Kernel(name, family, source, "", None)
    if name not in kernels:
        raise InputError(f"KERNEL: there is no kernel '{name}'; there are {', '.join(kernels)}")
    return kernels[name]

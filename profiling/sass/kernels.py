"""The kernels: those in CUDA, by data/families.json or a file of the kernel's name, and those
compiled from other languages, by their manifests."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from compile.compiled import outdated

from reprolab import families
from reprolab.errors import InputError
from reprolab.families import CUDA, described
from reprolab.json_files import ROOT, read_json

OTHER_LANGUAGES = ROOT / "build/ptx"  # as profiling/compile/__main__.py writes it


@dataclass(frozen=True, kw_only=True)
class Kernel(families.Kernel):
    family: families.Family
    maker: str = ""  # another language's compiler
    ptx: Mapping[str, Path] = field(default_factory=dict)  # its output, by architecture

    @property
    def source(self) -> Path:
        return ROOT / self.source_file


def registered() -> dict[str, Kernel]:
    """Every kernel in CUDA, by name, without those of a user's library, which has no code here."""
    return {
        kernel.name: Kernel(**vars(kernel), family=family)
        for family in described().values()
        for kernel in family.kernels.values()
        if kernel.language == CUDA
    }


def in_other_languages(folder: Path = OTHER_LANGUAGES) -> dict[str, Kernel]:
    """Kernels that `make mojo` and `make triton` have compiled, for any architecture."""
    cuda, kernels = registered(), {}
    for manifest in sorted(folder.glob("sm_*/*.json")):
        name, place = manifest.stem, manifest.parent
        try:
            facts = read_json(manifest)
            changed = outdated(manifest, facts["sources"])
            file = place / next(iter(facts["variants"].values()))["file"]  # the measured code's
            of = cuda.get(facts.get("counterpart", ""), families.Kernel(name))
            same = {key: facts[key] for key in ("language", "lineage", "source_file")}
            same |= {"contract": of.contract, "contract_text": of.contract_text}
            same |= {"family": described()[facts["family"]], "maker": facts["compiler"]}
        except (KeyError, TypeError, AttributeError, OSError, StopIteration):
            raise InputError(f"{manifest}: is damaged; {AGAIN}") from None
        if changed:
            raise InputError(f"{manifest}: {changed[0]} has changed; {AGAIN}")
        earlier = kernels[name].ptx if name in kernels else {}
        kernels[name] = Kernel(name=name, ptx={**earlier, place.name: file}, **same)
    return kernels


AGAIN = "make mojo or make triton writes it again"


def known() -> dict[str, Kernel]:
    return registered() | in_other_languages()


def of_families(names: Collection[str]) -> list[Kernel]:
    """All kernels if no family is named."""
    every = list(known().values())
    if missing := set(names) - {kernel.family.name for kernel in every}:
        raise InputError(f"--family: there are no compiled kernels of '{min(missing)}'")
    return [kernel for kernel in every if not names or kernel.family.name in names]


def named(name: str) -> Kernel:
    """A kernel by its name; a kernel that is not yet described has only the facts in its file."""
    kernels = known()
    for source in ROOT.glob(f"kernels/*/{name}.cu") if name not in kernels else ():
        family, path = described().get(source.parent.name), str(source.relative_to(ROOT))
        return Kernel(name=name, family=family, source_file=path)
    if name not in kernels:
        near = "".join(f" (did you mean {one}?)" for one in get_close_matches(name, kernels, 1))
        there = ", ".join(kernels)
        raise InputError(f"KERNEL: there is no kernel '{name}'{near}; there are {there}")
    return kernels[name]

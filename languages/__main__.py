"""python -m languages LANGUAGE [--arch 90]: compiles the language's kernels to build/ptx/sm_90/.

Runs in the virtual environment that has the compiler. Beside the PTX of each kernel lies
KERNEL.json, which experiments/nf4/compiled_kernels.cpp reads.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from languages.compiled import ROOT, VARIANTS, LanguageError, kernel_file, variant_facts

LANGUAGES = {"mojo": "Mojo", "triton": "Triton"}


def architecture(given: str) -> int:
    """The one asked for, else that of this machine's GPU, else 90."""
    if not given:
        try:
            asked = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
            said = subprocess.run(asked, capture_output=True, text=True).stdout
        except OSError:
            said = ""
        found = re.match(r"(\d+)\.(\d)\b", said)
        return int(found[1] + found[2]) if found else 90
    found = re.fullmatch(r"(?:sm_)?(\d{2,3})", given)
    if not found:
        raise LanguageError(f"ARCH: expected one architecture, such as 90; got '{given}'")
    return int(found[1])


def remove_outdated(folder: Path, language: str, compiler: str, names: set[str]) -> None:
    """What another version compiled, or what has no source any more, is no row."""
    for manifest in folder.glob(f"sm_*/{language}_*.json"):
        try:
            made_by = json.loads(manifest.read_text())["compiler"]
        except (ValueError, KeyError, TypeError):
            made_by = None
        if made_by != compiler or manifest.stem not in names:
            manifest.unlink()


def build(language: str, arch: int, folder: Path) -> None:
    module = importlib.import_module(f"languages.{language}")
    compiler = f"{LANGUAGES[language]} ({module.PACKAGE} {version(module.PACKAGE)})"
    kernels = [kernel_file(path) for path in sorted((ROOT / "kernels/nf4").glob(module.FILES))]
    remove_outdated(folder, language, compiler, {kernel.name for kernel in kernels})
    place = folder / f"sm_{arch}"
    place.mkdir(parents=True, exist_ok=True)
    for kernel in kernels:
        manifest = place / f"{kernel.name}.json"
        manifest.unlink(missing_ok=True)  # there only with all that it names
        variants = {}
        for variant in VARIANTS:
            ptx = module.compile_variant(kernel, variant, arch)
            variants[variant] = variant_facts(kernel, variant, ptx)
            (place / variants[variant]["file"]).write_text(ptx.text)
        facts = {
            "kernel": kernel.name,
            "language": language,
            "compiler": compiler,
            "lineage": kernel.lineage,
            "source_file": kernel.source_file,
            "sources": [kernel.source_file, *module.SHARED_FILES],
            "threads": kernel.threads,
            "weights_per_block": kernel.weights_per_block,
            "pointer_alignment": module.POINTER_ALIGNMENT,
            "weights_multiple": module.WEIGHTS_MULTIPLE,
            "variants": variants,
        }
        unfinished = manifest.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(facts, indent=1) + "\n")
        unfinished.rename(manifest)
        widest = {name: max(facts["store_bits"]) for name, facts in variants.items()}
        stores = ", ".join(f"{name} {bits}" for name, bits in widest.items())
        print(f"{kernel.name}: sm_{arch}, {compiler}; widest store in bits: {stores}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="languages")
    parser.add_argument("language", choices=LANGUAGES)
    parser.add_argument("--arch", default="")
    given = parser.parse_args()
    try:
        build(given.language, architecture(given.arch), ROOT / "build/ptx")
    except LanguageError as error:
        print(f"{given.language}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""python -m compile LANGUAGE [--arch 90]: compiles the language's kernels to build/ptx/sm_90/, in
place of all that it has compiled before.

Runs in the virtual environment of the compiler. Writes KERNEL.json next to the PTX of each kernel,
for harness/compiled_kernels.cpp.
"""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from compile.compiled import FAMILIES, ROOT, KernelFile, LanguageError, kernel_file, variant_facts

LANGUAGES = {"mojo": "Mojo", "triton": "Triton"}


def architecture(given: str) -> int:
    """The requested architecture, else that of this machine's GPU, else 90."""
    if not given:
        try:
            asked = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
            capability = subprocess.run(asked, capture_output=True, text=True).stdout
        except OSError:
            capability = ""
        match = re.match(r"(\d+)\.(\d)\b", capability)
        return int(match[1] + match[2]) if match else 90
    match = re.fullmatch(r"(?:sm_)?(\d{2,3})", given)
    if not match:
        raise LanguageError(f"ARCH: expected one architecture, such as 90; got '{given}'")
    return int(match[1])


def build(language: str, arch: int, folder: Path) -> None:
    module = importlib.import_module(f"compile.{language}")
    try:
        compiler = f"{LANGUAGES[language]} ({module.PACKAGE} {version(module.PACKAGE)})"
    except PackageNotFoundError as error:
        raise LanguageError(
            f"{module.PACKAGE} is not installed in this environment; make {language}"
        ) from error
    kernels = [
        kernel_file(path, FAMILIES[family])
        for family in module.FAMILIES
        for path in sorted((ROOT / "kernels" / family).glob(module.FILES))
    ]
    for manifest in folder.glob(f"sm_*/{language}_*.json"):  # of another source, version or GPU
        manifest.unlink()
    place = folder / f"sm_{arch}"
    place.mkdir(parents=True, exist_ok=True)
    maker = {"language": language, "compiler": compiler}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compilers are processes of one thread
        list(pool.map(lambda kernel: build_kernel(module, kernel, arch, place, maker), kernels))


def build_kernel(
    module: Any, kernel: KernelFile, arch: int, place: Path, maker: dict[str, str]
) -> None:
    """Writes its variants, then the manifest, which exists only with all that it names."""
    if arch < kernel.family.min_arch:
        print(f"{kernel.name}: left out: needs sm_{kernel.family.min_arch}, not sm_{arch}")
        return
    variants = {}
    for variant in kernel.family.variants:
        ptx = module.compile_variant(kernel, variant, arch)
        variants[variant] = variant_facts(kernel, variant, ptx)
        (place / variants[variant]["file"]).write_text(ptx.text)
    facts = {"kernel": kernel.name, "family": kernel.family.name} | maker
    facts |= {"lineage": kernel.lineage, "source_file": kernel.source_file}
    facts |= {"sources": module.sources(kernel)} | kernel.facts
    facts |= module.ASSUMES.get(kernel.family.name, {}) | {"variants": variants}
    (place / f"{kernel.name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{kernel.name}: sm_{arch}, {maker['compiler']}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compile")
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

"""Mojo: one call of its compiler for each variant. Needs no GPU."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compile.compiled import ROOT, KernelFile, LanguageError, Ptx

PACKAGE = "max-core"
FILES = "mojo_*.mojo"
FAMILIES = ("nf4", "transpose", "reduction")
# A packed store needs an aligned output of any length.
ASSUMES = {"nf4": {"pointer_alignment": 4, "weights_multiple": 1}}
# The first PTX version with an architecture; 9.0 if it is not listed.
PTX_VERSIONS = {100: 87, 103: 88, 120: 87, 121: 88}


def sources(kernel: KernelFile) -> list[str]:
    """The kernel's own file, and the files that it shares with its family."""
    beside = sorted(kernel.path.parent.glob("*.mojo"))
    shared = [path for path in beside if not path.match(FILES)]
    return [str(path.relative_to(ROOT)) for path in (kernel.path, *shared)]


def command(kernel: KernelFile, variant: str, arch: int, output: Path) -> list[str]:
    target = f"sm_{arch}"
    # Plain sm_90, not sm_90a, which has features of that GPU alone. 8.1 has tensor maps.
    features = f"+ptx{81 if arch <= 90 else PTX_VERSIONS.get(arch, 90)}"
    words = [str(Path(sys.executable).parent / "mojo"), "build", "--emit", "asm", "-j", "1"]
    words += ["--target-triple", "nvptx64-nvidia-cuda", "--target-cpu", target]
    words += ["--target-features", features, "--target-abi", "shortptr"]
    words += ["--target-accelerator", target, "-D", "ASSERT=none", "--fp-mode", "contract=off"]
    words += ["-D", "BF16"] if variant.startswith("bf16") else []
    words += ["-D", "NESTED"] if variant.endswith("_nested") else []
    return [*words, str(kernel.path), "-o", str(output)]


def compile_variant(kernel: KernelFile, variant: str, arch: int) -> Ptx:
    where = f"{kernel.source_file} ({variant}, sm_{arch})"
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "kernel.ptx"
        # Without the first, every run looks a host up.
        own = {"MODULAR_TELEMETRY_ENABLED": "0", "MODULAR_CACHE_DIR": folder}
        words, environment = command(kernel, variant, arch, output), os.environ | own
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        if done.returncode != 0 or not output.exists():
            errors = [line for line in done.stderr.splitlines() if "error:" in line.lower()]
            raise LanguageError(f"{where}: {(errors or ['no reason'])[0].strip()}")
        return Ptx(output.read_text(), shared_bytes=0)

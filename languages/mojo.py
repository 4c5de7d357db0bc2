"""Mojo: one call of its compiler for each variant. Needs no GPU."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from languages.compiled import KernelFile, LanguageError, Ptx

PACKAGE = "max-core"
FILES = "mojo_*.mojo"
SHARED_FILES = ("kernels/nf4/decode.mojo",)
# A packed store needs an aligned output; any length will do.
TIMEOUT_S = 120  # it takes 2 s
POINTER_ALIGNMENT, WEIGHTS_MULTIPLE = 4, 1


def command(kernel: KernelFile, variant: str, arch: int, output: Path) -> list[str]:
    target = f"sm_{arch}"
    # Plain sm_90, which newer GPUs take too; the oldest PTX version that knows the architecture.
    features = "+ptx81" if arch <= 90 else "+ptx87"
    words = [str(Path(sys.executable).parent / "mojo"), "build", "--emit", "asm", "-j", "1"]
    words += ["--target-triple", "nvptx64-nvidia-cuda", "--target-cpu", target]
    words += ["--target-features", features, "--target-abi", "shortptr"]
    words += ["--target-accelerator", target, "-D", "ASSERT=none", "--fp-mode", "contract=off"]
    words += ["-D", "BF16"] if variant.startswith("bf16") else []
    words += ["-D", "NESTED"] if variant.endswith("_nested") else []
    return [*words, str(kernel.path), "-o", str(output)]


def compile_variant(kernel: KernelFile, variant: str, arch: int) -> Ptx:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "kernel.ptx"
        # Without the first, every run looks a host up.
        own = {"MODULAR_TELEMETRY_ENABLED": "0", "MODULAR_CACHE_DIR": folder}
        try:
            done = subprocess.run(
                command(kernel, variant, arch, output),
                env=os.environ | own,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            where = f"{kernel.source_file} ({variant}, sm_{arch})"
            raise LanguageError(f"{where}: no answer after {TIMEOUT_S} s") from error
        if done.returncode != 0 or not output.exists():
            said = [line for line in done.stderr.splitlines() if "error:" in line] or ["no reason"]
            raise LanguageError(f"{kernel.source_file} ({variant}, sm_{arch}): {said[0].strip()}")
        return Ptx(output.read_text(), shared_bytes=0)

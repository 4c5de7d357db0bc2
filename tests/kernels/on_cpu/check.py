"""Compiles a CUDA file for the CPU and checks its kernel: check.py FILE [KERNEL].

Exit status: that of kernel_on_cpu (main.cpp), or 2 if the file does not compile for the CPU.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from translate import translated

ROOT = Path(__file__).resolve().parents[3]
INCLUDE = Path(__file__).resolve().parent / "include"
BUILD = ROOT / "build/cpu"
PROGRAM = BUILD / "bin/kernel_on_cpu"
COMPILER = [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-w"]
# The device branch of a header is compiled, as for compute capability 7.5.
PREPROCESS = ["-E", "-x", "c++", "-D__CUDA_ARCH__=750", "-include", "cuda_runtime_api.h"]
# As nvcc: no contraction, and type punning is allowed.
COMPILE = ["-x", "c++-cpp-output", "-O1", "-fPIC", "-shared", "-ffp-contract=off"]
COMPILE += ["-fno-strict-aliasing"]
# Misaligned vectors and accesses past the end of an array in shared memory end the program.
COMPILE += ["-fsanitize=alignment,bounds", "-fno-sanitize-recover=all"]


class DoesNotCompile(Exception):
    """The file does not compile for the CPU. The text is the compiler's first error."""


def compiler(*arguments: str, source: str = "") -> str:
    process = subprocess.run(
        [*COMPILER, *arguments], input=source, capture_output=True, text=True, cwd=ROOT, check=False
    )
    if process.returncode != 0:
        lines = process.stderr.splitlines()
        errors = [line for line in lines if "error: " in line]
        raise DoesNotCompile((errors or lines or ["the compiler failed"])[0])
    return process.stdout


def refuse_cuda_headers(preprocessed: str) -> None:
    """Functions of an installed CUDA toolkit beyond our own headers have no code on the CPU."""
    for header in map(Path, re.findall(r'^# 1 "([^"]+)"', preprocessed, re.MULTILINE)):
        if header.parent != INCLUDE and (header.parent / "cuda_runtime_api.h").exists():
            raise DoesNotCompile(f"{header.name} of the CUDA toolkit is not emulated")


def library(file: Path) -> Path:
    output = BUILD / "on_cpu" / f"{file.parent.name}.{file.stem}.so"
    output.parent.mkdir(parents=True, exist_ok=True)
    text = compiler(*PREPROCESS, "-I", str(INCLUDE), "-I", str(ROOT), str(file))
    refuse_cuda_headers(text)
    own = output.with_suffix(f".{os.getpid()}")  # another check may be loading the file
    try:
        compiler(*COMPILE, "-", "-o", str(own), source=translated(text))
    except ValueError as error:
        raise DoesNotCompile(str(error)) from error
    return own.replace(output)


def files_of(file: Path) -> list[Path]:
    """The file, and those of the kernels that it launches: `code_files` in kernels/registry.hpp."""
    named = re.findall(r'"(kernels/\w+/\w+\.cu)"', file.read_text(encoding="utf-8"))
    return [file, *(ROOT / name for name in named if ROOT / name != file)]


def main(file: Path, kernel: str) -> int:
    try:
        if not file.is_file():
            raise DoesNotCompile(f"no file {file}; only kernels in CUDA are compiled")
        libraries = [str(library(each)) for each in files_of(file.resolve())]
    except DoesNotCompile as error:
        print(f"{kernel}: cannot be checked on the CPU: {error}", file=sys.stderr)
        return 2
    status = subprocess.run([PROGRAM, kernel, *libraries], check=False).returncode
    if status < 0:
        print(f"{kernel}: wrong on the CPU: ended by signal {-status}", file=sys.stderr)
    return status if 0 <= status <= 2 else 1


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.exit(main(path, sys.argv[2] if len(sys.argv) > 2 else path.stem))

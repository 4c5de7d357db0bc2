"""Triton, ahead of time: the code that its JIT would compile for these arguments. Needs no GPU."""

import importlib.util
import os
import tempfile

from compile.compiled import KernelFile, LanguageError, Ptx

PACKAGE = "triton"
FILES = "triton_*.py"
FAMILIES = ("nf4",)
# The JIT specializes for arguments that are divisible by 16; only then are its stores wide.
ASSUMES = {"nf4": {"pointer_alignment": 16, "weights_multiple": 16}}
POINTERS = ("codes", "table", "absmax", "scale_codes", "map", "output")
NUMBERS = {"n": "i32", "shift": "i32", "second_shift": "i32", "offset": "fp32"}
# The version of CUDA 12.8, which drivers accept from then on.
PTX_VERSION = 87


def sources(kernel: KernelFile) -> list[str]:
    return [kernel.source_file]


def compile_variant(kernel: KernelFile, variant: str, arch: int) -> Ptx:
    with tempfile.TemporaryDirectory() as folder:
        # Read when Triton is imported or compiles. The first keeps products and sums apart.
        os.environ |= {"TRITON_DEFAULT_FP_FUSION": "0", "TRITON_CACHE_DIR": folder}
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        spec = importlib.util.spec_from_file_location(kernel.name, kernel.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        types = dict.fromkeys(POINTERS, "*fp32") | {"codes": "*u8", "scale_codes": "*u8"}
        types["output"] = "*" + variant.removesuffix("_nested")
        divisible = range(len(POINTERS) + 1)  # the pointers and n
        source = ASTSource(
            fn=module.nf4,
            signature=types | NUMBERS | {"NESTED": "constexpr"},
            constexprs={"NESTED": variant.endswith("_nested")},
            attrs={(i,): [["tt.divisibility", 16]] for i in divisible},
        )
        try:
            made = triton.compile(
                source,
                target=GPUTarget("cuda", arch, 32),
                options={"num_warps": kernel.facts["threads"] // 32, "ptx_version": PTX_VERSION},
            )
        except Exception as error:  # whatever its passes throw
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise LanguageError(f"{kernel.source_file} ({variant}, sm_{arch}): {first}") from error
        return Ptx(made.asm["ptx"], made.metadata.shared)

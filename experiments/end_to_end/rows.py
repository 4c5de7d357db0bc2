"""The rows of a cell: the library under bitsandbytes in each, and its fields in a result file.

torch is imported where a row is put in place, and not before.
"""

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import reprolab_nf4
from experiments.end_to_end.protocol import INSTALLED
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab_nf4 import BUILT, timing_table
from reprolab_nf4.native import native_library

# Rows and their argument `products` of reprolab_nf4.install, which chooses kernels by the recorded
# times of the GPU. The second is for checkpoints, whose tokens are meaningful.
PRODUCTS, DEQUANTIZES = "kernels/nf4_product/", "kernels/nf4/streaming.cu"
PACKAGE = "reprolab_nf4/"  # all of it decides how fused rows compute: calls, tables, plans
FUSED = {"fused": "fastest", "fused_exact": "exact"}
OTHER_SUMS = "multiply right from the codes, which sums in another order: tokens may differ"
DEVIATIONS = {
    "installed": "bitsandbytes itself chooses for each product whether to dequantize or to "
    + OTHER_SUMS,
    "fused": f"products that are faster so {OTHER_SUMS}",
}
DIGESTS = ROOT / "scripts/python", "-m", "sass", "digest"

Facts = Mapping[str, Any]  # of a GPU: Gpu.facts()


@dataclass(frozen=True)
class Row:
    """A backend of the quantized products. `library`: a peer's, of another bitsandbytes."""

    kernel: str
    kind: str = "kernel"  # of the drop-in library; fused; peer; installed: bitsandbytes as it is
    library: str = ""

    @property
    def name(self) -> str:
        """The kernel's in result files."""
        return f"bitsandbytes_{self.version}" if self.kind == "installed" else self.kernel

    @property
    def version(self) -> str:
        """The version of the bitsandbytes whose kernels run; empty for ours."""
        if self.kind == "installed":
            return version("bitsandbytes")
        return version_of(Path(self.library)) or "(version unknown)" if self.library else ""

    @property
    def lineage(self) -> str:
        texts = {"kernel": "under bitsandbytes", "peer": Path(self.library).name}
        texts["fused"] = "products in the fastest way by measured times"
        return texts.get(self.kind, INSTALLED)

    def in_place(self) -> AbstractContextManager[Any]:
        """In this context bitsandbytes computes as the row describes."""
        if self.kind == "installed":
            return nullcontext()
        if self.kind == "fused":
            return reprolab_nf4.install(products=FUSED[self.kernel])
        backend = {"kernel": self.kernel} if self.kind == "kernel" else {"library": self.library}
        return reprolab_nf4.install(**backend, products="dequantize")  # as the paper's bitsandbytes

    def may_fuse(self, batch: int) -> bool:
        """Whether products of so many sequences may be computed without dequantizing: bitsandbytes
        has always done so for one row of activations.
        """
        from reprolab_nf4.matmul import knows_fused_products

        is_installed = self.kind == "installed" and (batch == 1 or knows_fused_products())
        return self.kind == "fused" or is_installed

    def require(self, gpu: Facts) -> None:
        """InputError where the row cannot be run on such a GPU."""
        if self.kind == "fused" and not timing_table.recorded(*model_of(gpu)):
            where = f"compute capability {gpu['compute_capability']}"
            raise InputError(f"no times of products are recorded for {where}")

    def described(self, gpu: Facts) -> dict[str, Any]:
        """The row's fields in a result file, whatever its outcome."""
        source = f"kernels/nf4/{self.kernel}.cu"
        if self.kind != "kernel":
            source = PACKAGE if self.kind == "fused" else ""
        maker = f"bitsandbytes {self.version}" if self.version else ""
        return {
            "kernel": self.name,
            "origin": {"kind": "peer" if maker else "project", "maker": maker},
            "lineage": self.lineage,
            "source_file": source,
            "deviation": None,
            "code": code_of(self, gpu),
        }


def version_of(library: Path) -> str:
    """The version of the wheel with the library: from its metadata, or else from the name of the
    folder that `make peer` made; empty if neither has it. As kernels/bitsandbytes_library.hpp.
    """
    site, prefix, suffix = library.resolve().parent.parent, "bitsandbytes-", ".dist-info"
    names = [path.name for path in sorted(site.glob(f"{prefix}*{suffix}"))]
    names += [site.name] if site.name.startswith(prefix) else []
    return names[0].removeprefix(prefix).removesuffix(suffix) if names else ""


def check(chosen: Sequence[Row]) -> None:
    """InputError where one of them cannot be put in place."""
    for row in chosen:
        try:
            with row.in_place():
                pass
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(f"{row.kernel}: {error}") from None
    require_distinct([row.name for row in chosen])


def require_distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"PEER: there are two rows '{name}'; name one: PEER=other=path")


def code_of(row: Row, gpu: Facts) -> dict[str, Any] | None:
    """The digests of a row's machine code, as data/results.schema.json has them; None where the
    driver compiles it for this GPU.
    """
    architecture = int(gpu["compute_capability"].replace(".", ""))
    if row.kind == "kernel":
        return chosen_code(machine_code(BUILT), [f"kernels/nf4/{row.kernel}.cu"], architecture)
    if row.kind == "fused":  # all kernels that the tables may choose, and the tables
        known, files = machine_code(BUILT), timing_table.files(*model_of(gpu))
        layers = [layer for file in files for layer in timing_table.read(file).layers]
        backends = {name for layer in layers for times in layer.us.values() for name in times}
        products = {source for source, _ in known if source.startswith(PRODUCTS)}
        chosen = sorted(source for source in products if Path(source).stem in backends)
        code = chosen_code(known, [DEQUANTIZES, *chosen], architecture)
        return code and code | {"sha256": code["sha256"] | {f.name: sha256(f) for f in files}}
    if row.kind == "peer":
        file = Path(row.library)
    else:
        native = native_library()
        file = Path(vars(native).get("_lib", native)._name)
    return {"target": f"sm_{architecture}", "sha256": {file.name: sha256(file)}}


def model_of(gpu: Facts) -> tuple[str, str]:
    return gpu["name"], gpu["compute_capability"]


@cache
def machine_code(library: Path) -> dict[tuple[str, int], str]:
    """By source file and compute capability (90), the digest of the code in a library of ours."""
    try:
        done = subprocess.run([*DIGESTS, library], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"{library}: {error}; run make dropin") from None
    lines = (line.split(" ", 2) for line in done.stdout.splitlines())
    return {(source, int(capability)): digest for capability, digest, source in lines}


def chosen_code(
    known: dict[tuple[str, int], str], sources: Sequence[str], gpu: int
) -> dict[str, Any] | None:
    """The code that the driver selects of each source: the newest of the GPU's major version that
    is not newer than the GPU.
    """
    digests, target = {}, 0
    for source in sources:
        built = [arch for name, arch in known if name == source]
        fitting = [arch for arch in built if arch // 10 == gpu // 10 and arch <= gpu]
        if not fitting:
            return None
        target = max(fitting)
        digests[source] = known[source, target]
    return {"target": f"sm_{target}", "sha256": digests}


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()

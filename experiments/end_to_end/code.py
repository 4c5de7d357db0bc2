"""The code under a row, as data/results.schema.json describes it."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from experiments.end_to_end.partial_results import content_of
from experiments.end_to_end.plan import Row
from records.errors import InputError
from reprolab_nf4 import BUILT, choices, native_library

DIGESTS = BUILT.parent / "bin/code_digest"


@cache
def machine_code(library: Path) -> dict[tuple[str, int], str]:
    """By source file and compute capability (90), the digest of the code in a library of ours."""
    try:
        done = subprocess.run([DIGESTS, library], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"{DIGESTS}: {error}; run make dropin") from None
    lines = (line.split(" ", 2) for line in done.stdout.splitlines())
    return {(source, int(capability)): digest for capability, digest, source in lines}


def code_of(row: Row, compute_capability: str) -> dict[str, Any] | None:
    """None where only the driver compiles it for this GPU."""
    gpu = int(compute_capability.replace(".", ""))
    if row.kind != "kernel":
        files = [Path(row.library) if row.kind == "peer" else installed()]
        if row.kind == "fused":  # all that may be chosen, and what chooses
            files = [BUILT, *choices.files(compute_capability)]
        return {"target": f"sm_{gpu}", "sha256": {f.name: content_of(str(f)) for f in files}}
    return chosen(machine_code(BUILT), f"kernels/nf4/{row.kernel}.cu", gpu)


def chosen(found: dict[tuple[str, int], str], source: str, gpu: int) -> dict[str, Any] | None:
    """What the driver takes: of the GPU's major version, the newest that is not newer."""
    fitting = [arch for s, arch in found if s == source and arch // 10 == gpu // 10 and arch <= gpu]
    if not fitting:
        return None
    return {"target": f"sm_{max(fitting)}", "sha256": {source: found[source, max(fitting)]}}


def installed() -> Path:
    """The CUDA library of the bitsandbytes that is installed."""
    native = native_library()
    return Path(vars(native).get("_lib", native)._name)

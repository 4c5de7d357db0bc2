"""Finds recorded rows whose code differs from this checkout's, which data/older_code.json lists."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from reprolab.json_files import ROOT
from reprolab.results import Results
from sass import cubin, identity

Part = tuple[str, str]  # a file, and the architecture


def parts_of(files: Iterable[Results], nvcc: str) -> list[Part]:
    """What must be compiled to compare the rows that are of this compiler."""
    return sorted(
        {
            (part, row.code["target"])
            for results in files
            if results.provenance["build"]["nvcc"] == nvcc
            for row in results.records
            if row.code
            for part in row.code["sha256"]
            if part.endswith(".cu")
        }
    )


def codes_now(parts: Sequence[Part], known: Mapping[str, str]) -> dict[Part, tuple[str, str]]:
    """The name of each part's cubin and the digest of its code; both empty for a file that is no
    longer compiled. Only code whose digest is not known is compiled.
    """
    commands = cubin.build_commands() if parts else {}

    def of(part: Part) -> tuple[str, str]:
        source, arch = ROOT / part[0], part[1]
        if source not in commands:
            return "", ""
        name = str(cubin.place_of(source, arch).relative_to(cubin.FOLDER))
        return name, known.get(name) or identity.of_cubin(cubin.compiled(source, arch))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(parts, pool.map(of, parts), strict=True))


def compare(files: Iterable[Results], now: Mapping[Part, str]) -> tuple[list[str], set[str]]:
    """A line for each kernel of each file with other code, then the counts; and the digests of that
    code. `now`: this checkout's digests.
    """
    lines: list[str] = []
    older: set[str] = set()
    rows: Counter[bool] = Counter()
    for results in files:
        old = {}
        for row in results.records:
            code = row.code["sha256"] if row.code else {}
            places = {part: (part, row.code["target"]) for part in code}
            known = [part for part in code if now.get(places[part])]
            rows[bool(known)] += 1
            if changed := [part for part in known if code[part] != now[places[part]]]:
                older |= {code[part] for part in changed}
                old[row.kernel] = f"{', '.join(changed)} for {row.code['target']}"
        shown = results.file.relative_to(ROOT) if ROOT in results.file.parents else results.file
        lines += [
            f"{shown}: {kernel}: the code of {what} differs from this checkout's"
            for kernel, what in old.items()
        ]
    lines.append(
        f"{rows[True]} of {rows.total()} recorded rows compared with this checkout's kernels: in "
        f"{len(lines)} places the code is another now (measure them again); the others are of "
        "another compiler, of a library, of Mojo or Triton, or of a file that is gone"
    )
    return lines, older


def list_of(older: set[str], codes: Mapping[Part, tuple[str, str]]) -> bytes:
    """data/older_code.json."""
    content = {"older": sorted(older), "codes": dict(sorted(filter(all, codes.values())))}
    return (json.dumps(content, indent=1) + "\n").encode()

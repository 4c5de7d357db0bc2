"""Finds rows of result files whose code differs from this checkout's. data/older_code.json lists
such code of recorded rows, so that tables can mark their numbers.
"""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from reprolab import code
from reprolab.code import BEFORE, Digest
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.results import Results, Row
from sass import cubin, identity, tools
from sass.kernels import OTHER_LANGUAGES

# After which nothing more is compiled: what is done is kept for the next time. CI compiles all.
SECONDS = math.inf if os.environ.get("CI") else 240
Part = tuple[str, str]  # a file, and the architecture


@dataclass(frozen=True)
class Compared:
    """The rows of other code by result file, the rows that could not be compared, and all code that
    was compared.
    """

    outdated: list[str] = field(default_factory=list)
    not_compared: Counter[str] = field(default_factory=Counter)  # rows, by the reason
    older: set[Digest] = field(default_factory=set)
    compared: set[Digest] = field(default_factory=set)
    codes: dict[str, str] = field(default_factory=dict)  # digests of this checkout's, by cubin

    def report(self, rows: int) -> list[str]:
        """In lines: each kernel of each file with other code, then what is unknown."""
        silent, old = sum(self.not_compared.values()), len(self.outdated)
        lines = [f"{n} recorded rows not compared: {why}" for why, n in self.not_compared.items()]
        head = f"{rows - silent} of {rows} recorded rows compared with this checkout's kernels: "
        many = f"in {old} places the code is another now (measure them again)"
        said = [head + (many if old else "none is old")] * (rows > silent)
        return [*self.outdated, *said, *lines]

    def older_of(self, files: Iterable[Results]) -> bytes:
        """data/older_code.json for these files; entries of code that could not be compared are
        kept.
        """
        known = self.older | (code.older_digests(code.OLDER) - self.compared)
        by_digest: dict[Digest, dict[str, set[str]]] = {}
        for results in files:
            for row in results.records:
                for digest in code.digests(row.code) & known:
                    kernels = by_digest.setdefault(digest, {}).setdefault(
                        shown(results.file), set()
                    )
                    kernels.add(row.kernel)
        older = [
            dict(zip(("part", "target", "sha256"), digest, strict=True))
            | {"rows": {file: sorted(kernels) for file, kernels in sorted(rows.items())}}
            for digest, rows in sorted(by_digest.items())
        ]
        codes = dict(sorted((self.codes or code.known_codes(code.OLDER)).items()))
        return (json.dumps({"older": older, "codes": codes}, indent=1) + "\n").encode()


def look(files: Sequence[Results], known: Mapping[str, str]) -> tuple[Compared, list[str]]:
    """Compares the files' rows; the second value is the result in lines. Only code whose digest is
    not known is compiled.
    """
    try:
        nvcc = tools.nvcc_version()
    except InputError as why:
        line = f"recorded rows are not compared with this checkout's kernels: {why}"
        return Compared(), [line]
    codes: dict[str, str] = {}
    now = digests(wanted(files, nvcc), known, codes)
    result = replace(compare(files, nvcc, now), codes=codes)
    return result, result.report(sum(len(results.records) for results in files))


def wanted(files: Iterable[Results], nvcc: str) -> list[Part]:
    """The parts that must be compiled, in descending order of the rows that need them."""
    parts: Counter[Part] = Counter()
    for results in files:
        for row in results.records:
            if row.code and results.provenance["build"]["nvcc"] == nvcc:
                parts.update(
                    (p, row.code["target"]) for p in row.code["sha256"] if p.endswith(".cu")
                )
    return [part for part, _ in parts.most_common()]


def digests(
    parts: Sequence[Part], known: Mapping[str, str], codes: dict[str, str]
) -> Callable[[str, str], str]:
    """A function that returns the digest of a file for an architecture, '' if there is none.
    `codes` gets the digests of the parts by cubin.
    """
    if parts:
        cubin.build_commands()
    deadline = time.monotonic() + SECONDS

    def digest(part: Part) -> str:
        source, arch = ROOT / part[0], part[1]
        if source not in cubin.build_commands():
            return ""
        name = str(cubin.place_of(source, arch).relative_to(cubin.FOLDER))
        if name not in known and time.monotonic() > deadline:
            return ""
        codes[name] = known.get(name) or identity.of_cubin(cubin.compiled(source, arch))
        return codes[name]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        now = dict(zip(parts, pool.map(digest, parts), strict=True))

    def digest_now(part: str, arch: str) -> str:
        ptx = OTHER_LANGUAGES / arch / part
        if part.endswith(".ptx") and ptx.is_file():
            return identity.of_ptx(ptx.read_text())
        return now.get((part, arch), "")

    return digest_now


def compare(files: Iterable[Results], nvcc: str, digest_now: Callable[[str, str], str]) -> Compared:
    result = Compared()
    for results in files:
        theirs, old = results.provenance["build"]["nvcc"], {}
        for row in results.records:
            if row.code is None and row.origin != "peer":
                result.not_compared[BEFORE] += 1
                continue
            parts = parts_of(row)
            now = {part: digest_now(part, row.code["target"]) for part in parts}
            if not parts:
                result.not_compared["a library's, whose file is not a part of this project"] += 1
            elif theirs != nvcc and any(part.endswith(".cu") for part in parts):
                result.not_compared[f"compiled by nvcc {theirs}, and here is {nvcc}"] += 1
            elif not all(now.values()):
                result.not_compared[why_none(next(p for p in now if not now[p]))] += 1
            else:
                result.compared.update((p, row.code["target"], d) for p, d in parts.items())
                if changed := [part for part in parts if parts[part] != now[part]]:
                    result.older.update((p, row.code["target"], parts[p]) for p in changed)
                    old[row.kernel] = f"the code of {', '.join(changed)} for {row.code['target']}"
        result.outdated.extend(
            f"{shown(results.file)}: {kernel}: {what} differs from this checkout's"
            for kernel, what in old.items()
        )
    return result


def parts_of(row: Row) -> dict[str, str]:
    """The digests of what is compiled from this project's files; a library has none."""
    known = row.code["sha256"] if row.code else {}
    return {part: digest for part, digest in known.items() if part.endswith((".cu", ".ptx"))}


def why_none(part: str) -> str:
    if part.endswith(".ptx"):
        return "this checkout's Mojo and Triton kernels are not compiled (make mojo triton)"
    if not (ROOT / part).exists():
        return f"{part} is no longer there"
    return f"not all was compiled within {SECONDS} s; the next run goes on from there"


def shown(file: Path) -> str:
    """Relative to the project's root, if it is below it."""
    return str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)

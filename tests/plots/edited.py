"""Small copies of the recorded runs."""

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reprolab import declared
from reprolab.json_files import ROOT, read_json

RECORDED = ROOT / "data/recorded/h200"

# By pass: the problems that are kept, of all that would take long to draw.
KEPT = {
    "counters/nf4_*": ("21504x5376/*", "28672x8192/*"),
    "counters/sass": ("sm_80", "sm_90"),
    "ladder/cold": ("16x*", "4096x*", "28672x*"),
    "ladder/warm": ("16x*", "4096x*", "28672x*"),
    "table2/replay": ("qwen3-32b/batch2/*", "qwen3-32b/batch8/*"),
    "table2/shapes": ("1024x5120/*", "25600x5120/*"),
    "transpose/sizes": ("256x*", "1000x*", "1023x*", "1024x*", "4096x*", "65536x*"),
}
# Likewise the kernels.
KERNELS = {
    "counters/*": ("branch_tree", "shared_lut", "shared_lut_algorithm1", "constant_lut", "copy")
    + ("tma_naive", "tiled", "*_load", "global_*", "*_chain", "shared_store*"),
}


def few(name: str) -> dict[str, Any]:
    """The recorded file of a pass, with few rows."""
    file = read_json(RECORDED / f"{name}.json")
    rows = [r for r in file["records"] if matches(r["problem"]["name"], KEPT, name)]
    rows = [r for r in rows if matches(r["kernel"], KERNELS, name)]
    keys = {r["key"] for r in rows}
    file["checks"] = [c for c in file["checks"] if keys >= set(c["keys"])]
    return file | {"records": rows}


def matches(value: str, patterns: dict[str, tuple[str, ...]], name: str) -> bool:
    kept = next((values for key, values in patterns.items() if fnmatchcase(name, key)), ("*",))
    return any(fnmatchcase(value, pattern) for pattern in kept)


def write_few(name: str, folder: Path) -> Path:
    """The recorded run of an experiment in a folder, with few rows."""
    folder.mkdir(parents=True, exist_ok=True)
    recorded, _ = declared.experiment(name).passes_in(RECORDED / name)
    for each in recorded:
        (folder / f"{each}.json").write_text(json.dumps(few(f"{name}/{each}")), encoding="utf-8")
    return folder

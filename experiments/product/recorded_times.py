"""Turns a recorded run of this experiment into the table by which the drop-in chooses how to
multiply on that architecture: data/products/.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from records import interruption
from records.command_line import Parser, run
from records.errors import InputError
from records.output import write_files
from records.printable import printable
from records.results import Record, Results, load
from reprolab_nf4 import choices
from reprolab_nf4.choices import DEQUANTIZE, OWN, Layer, Table

PASSES = ("layers", "simple", "nested", "bf16")
BLOCK_SIZE = 64
# Ways by the rows that time them. bitsandbytes' own dequantization is no row, but no faster than
# ours, which is one: where neither that nor its fused product is the fastest, bitsandbytes is not.
OURS = ("few_rows", "many_rows", "many_rows_rounded", "few_rows_exact", "many_rows_exact", "simple")
WAYS = dict(zip(OURS, OURS, strict=True)) | {"streaming_then_cublas": DEQUANTIZE}


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.recorded_times", description=__doc__)
    p.add_argument("folder", type=Path, help="of the run's results: data/recorded/h200/product")
    p.add_argument("--output", type=Path, help="instead of data/products/sm_<architecture>.json")
    p.set_defaults(run=derive)
    return p


def derive(args: argparse.Namespace) -> int:
    files = [args.folder / f"{name}.json" for name in PASSES]
    found = [load(file) for file in files if file.is_file()]
    if not found:
        raise InputError(f"{args.folder}: has none of {', '.join(f.name for f in files)}")
    table = table_of(found, str(args.folder))
    name = f"sm_{table.compute_capability.replace('.', '')}.json"
    output = args.output or choices.RECORDED / name
    write_files({output: choices.text(table).encode()})
    print(f"{printable(str(output))}: {len(table.layers)} layers")
    return 0


def table_of(results: Sequence[Results], folder: str) -> Table:
    if any(r.gpu is None for r in results):
        raise InputError(f"{folder}: is of compiled code, of which nothing ran")
    gpus = {
        (r.provenance["gpu"]["name"], r.provenance["gpu"]["compute_capability"]) for r in results
    }
    if len(gpus) > 1:
        raise InputError(f"{folder}: is of several GPUs; give one run's results")
    times: dict[tuple[int, int, str, bool], dict[int, dict[str, float]]] = {}
    peers = set()
    for record in (record for result in results for record in result.records):
        way = way_of(record)
        if way is None or not record.ranked or record.problem["family"] != "nf4_product":
            continue
        if record.problem["block_size"] != BLOCK_SIZE:
            continue
        peers |= {record.maker} if way == OWN else set()
        p = record.problem
        layer = (p["rows"], p["columns"], p["output"], bool(p["nested"]))
        us = times.setdefault(layer, {}).setdefault(p["batch"], {})
        us[way] = min(us.get(way, float("inf")), round(record.times.median, 3))
    layers = []
    for layer, by_rows in sorted(times.items()):
        # Without bitsandbytes' own time nothing says that another way is faster.
        kept = {rows: us for rows, us in by_rows.items() if OWN in us and DEQUANTIZE in us}
        layers += [Layer(*layer, us=kept)] * bool(kept)
    if not layers:
        raise InputError(
            f"{folder}: has no times of bitsandbytes' own products; measure with PEER="
        )
    ((gpu, capability),) = gpus
    return Table(gpu, capability, f"{folder}, {', '.join(sorted(peers))}", tuple(layers))


def way_of(record: Record) -> str | None:
    if record.origin == "peer" and record.kernel.endswith("_gemm"):
        return OWN
    return WAYS.get(record.kernel) if record.origin == "project" else None


if __name__ == "__main__":
    interruption.end_quietly()
    sys.exit(run(parser()))

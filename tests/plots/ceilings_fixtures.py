"""A result file of the experiment ceilings: few forms, with values near an H200's."""

import random
from typing import Any

from fixtures import as_ceiling, noisy
from made import provenance, record, results

SIZES_MIB = (8, 448, 3072)
# form -> in the code, GB/s on large outputs, fixed cost in us
FORMS = {
    "copy": {
        "copy_128x1_plain_plain": ("CopyForm<128, 1, PlainAccess, PlainAccess>", 4190, 1.6),
        "copy_128x1_evict_last_plain": ("CopyForm<128, 1, KeepReads, PlainAccess>", 4240, 1.7),
        "copy_1024x8_plain_plain": ("CopyForm<1024, 8, PlainAccess, PlainAccess>", 3990, 1.3),
        "bulk_16k_plain_plain": ("BulkForm<16384, false, false>", 4100, 2.2),
    },
    "mixed": {
        "mixed_512x2_load16_cs_cs": (
            "MixedForm<512, 2, uint4, 1, 1, StreamingAccess, StreamingAccess>",
            4060,
            1.6,
        ),
        "mixed_256x2_load8_evict_last_cs": (
            "MixedForm<256, 2, uint2, 2, 1, KeepReads, StreamingAccess>",
            4320,
            1.5,
        ),
        "mixed_512x2_load4_two_streams_evict_last_cs": (
            "MixedForm<512, 2, std::uint32_t, 2, 2, KeepReads, StreamingAccess>",
            4280,
            1.5,
        ),
    },
    "even": {
        "even_64x4_load16_cs_cs": (
            "MixedForm<64, 4, uint4, 4, 1, StreamingAccess, StreamingAccess>",
            4090,
            1.4,
        ),
        "even_64x4_load16_cs_cs_tile64of2048": (
            "MixedForm<64, 4, uint4, 4, 1, StreamingAccess, StreamingAccess, Tile<64, 2048>>",
            4010,
            1.2,
        ),
    },
}
CEILINGS = {"copy": (4187, 1.6), "copy_kernel": (4192, 1.6), "same_bytes": (4058, 1.6)}
CEILINGS |= {"write_only": (4600, 1.4), "read_only": (4500, 1.4)}


def problem(family: str, mib: int) -> dict[str, Any]:
    found = {"name": f"{family}/{mib}MiB", "family": family, "n": mib << 18}
    return found | {"output_mib": mib}


def sweep(sizes: tuple[int, ...] = SIZES_MIB, seed: int = 1, n: int = 5) -> dict[str, Any]:
    rng, records = random.Random(seed), []
    for family, forms in FORMS.items():
        for mib in sizes:
            where, written = problem(family, mib), mib << 20
            bytes_of = {"read": written // 32 * 9 if family == "mixed" else written}
            bytes_of["written"] = written
            for name, (*code, gb_s, fixed_us) in (forms | CEILINGS).items():
                us = fixed_us + sum(bytes_of.values()) / gb_s / 1e3
                row = record(where, name, noisy(rng, us, n), bytes=dict(bytes_of))
                row["source_file"] = "profiling/ceiling_kernels.cuh"
                row["lineage"] = code[0] if code else ""
                records.append(as_ceiling(row) if name in CEILINGS else row)
    argv = ["build/bench_ceilings", "--output=results/ceilings/sweep.json"]
    found = results("ceilings", "sweep", records)
    return found | {"provenance": provenance(argv=argv, instrument="events")}

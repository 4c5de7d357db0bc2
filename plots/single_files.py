"""Tables for the terminal from single result files: bandwidths, and kernels."""

import argparse
from dataclasses import replace

from plots.bandwidth import bandwidth_table
from plots.counter_tables import asked_for_table, short_table
from plots.counter_values import ASKED_FOR, by_family
from plots.neighbours import neighbour_notes
from reprolab import console
from reprolab.captions import banner
from reprolab.counter_table import COUNTERS, known
from reprolab.errors import InputError
from reprolab.families import CONTRACTS
from reprolab.results import Results, load, recorded_folder, result_files
from reprolab.tables import WORDS, Column, Noted, Table, Values


def bench(args: argparse.Namespace) -> int:
    """`make bench`: any family of kernels."""
    results = load(args.results)
    title = f"{results.experiment}, {results.pass_name}"
    if results.gpu is None:
        raise InputError(f"{args.results}: nothing ran, so that there is nothing to show")
    if results.provenance["instrument"] == COUNTERS:
        tables = counter_tables(results, title)
    else:
        tables = [bandwidth_table(results, "bench", title)]
        tables[0].notes += neighbour_notes(results)
    heading = banner(results) if recorded_folder(args.results) else ""
    console.show(heading, [replace(table, banner=heading) for table in tables])
    return 0


def counter_tables(results: Results, title: str) -> list[Table]:
    """The most informative counters, and those that METRICS named."""
    names = asked_for(results)
    tables = []
    for family in by_family(results):
        tables.append(short_table(family, None, "bench", title))
        if names:
            tables.append(asked_for_table(family, names, f"{title}: {ASKED_FOR}"))
    return tables


def asked_for(results: Results) -> list[str]:
    """Counters named by the program's --metrics, and those that data/counters.json lacks."""
    named = results.provenance.get("metrics", [])
    measured = {name for record in results.records for name in record.metrics}
    others = sorted(measured - known().keys())
    return [name for name in dict.fromkeys([*named, *others]) if name in measured]


def list_kernels(args: argparse.Namespace) -> int:
    """`make list`, for machines that cannot ask the programs."""
    files = list(result_files(args.recorded))
    if not files:
        raise InputError(f"{args.recorded}: no recorded runs, so that there are no kernels to list")
    measured = [results for results in files if results.gpu]
    console.show(banner(*measured) if measured else "", [kernel_list(files)])
    print("To compile and list this checkout's own (with nvcc): make list PRESET=gpu ARCH=90")
    return 0


def kernel_list(files: list[Results]) -> Table:
    """Each kernel of kernels/ and each peer once, by name, as in `bench --list`."""
    names = ("kernel", "lineage", "contract", "source file")
    rows: dict[str, Values] = {}
    for results, r in [(f, r) for f in files for r in f.records if not r.is_ceiling]:
        if r.source_file.startswith("kernels/"):
            # No family describes a user's own library.
            known = results.kernel(r)
            contract, text = CONTRACTS[known.contract or r.contract], known.contract_text
            text = text or r.deviation or ""
            noted = Noted(contract, (text,)) if text else contract
            values = (r.kernel, r.lineage, noted, r.source_file)
            rows.setdefault(r.kernel, dict(zip(names, values, strict=True)))
    columns = [Column(name, name, **WORDS) for name in names]
    return Table("list", f"{len(rows)} kernels", columns, [rows[k] for k in sorted(rows)])

"""Our section file for Nsight Compute, from data/counters.json, written when it is used."""

from collections.abc import Iterable, Sequence

from reprolab.counter_table import Counter, known
from reprolab.json_files import ROOT
from reprolab.output import write_files

FOLDER, IDENTIFIER = "build/ncu", "Reprolab"
BARS = ("pipes", "stalls")  # groups that are a chart; the others are tables
HEAD = f"""Identifier: "{IDENTIFIER}"
DisplayName: "reprolab: why a kernel takes its time"
Description: "The counters of reprolab's tables. data/counters.json says what each of them means."
Order: 1"""


def write() -> None:
    write_files({ROOT / FOLDER / "reprolab.section": text().encode()})


def text() -> str:
    groups: dict[str, list[Counter]] = {}
    for counter in known().values():
        if place := counter.ncu.get("place"):
            groups.setdefault(place if place == "header" else counter.group, []).append(counter)
    header = block("Header", metrics(groups.pop("header")))
    items = [
        line for name, counters in groups.items() for line in block("Items", item(name, counters))
    ]
    return "\n".join([HEAD, *header, *block("Body", items)]) + "\n"


def block(name: str, lines: Iterable[str]) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def item(group: str, counters: Sequence[Counter]) -> list[str]:
    label, rows = f'Label: "{group}"', -(-len(counters) // 2)
    if group not in BARS:
        head = [label, "Columns: 2", "Order: ColumnMajor", f"Rows: {rows}"]
        return block("Table", [*head, *metrics(counters)])
    values = block("ValueAxis", [f'Label: "{counters[0].unit}"'])
    head = [label, "SortKey: ByValue", "SortDirection: Descending"]
    return block("BarChart", [*head, *block("CategoryAxis", [label]), *values, *metrics(counters)])


def metrics(counters: Iterable[Counter]) -> list[str]:
    return [line for counter in counters for line in block("Metrics", metric(counter))]


def metric(counter: Counter) -> list[str]:
    bounds = {"MinArch": counter.ncu.get("min_arch"), "MaxArch": counter.ncu.get("max_arch")}
    archs = [f"{name}: CC_{capability}" for name, capability in bounds.items() if capability]
    named = [f'Label: "{counter.title}"', f'Name: "{counter.metrics[0]}"']
    return named + (block("Filter", archs) if archs else [])

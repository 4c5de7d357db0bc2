"""What the compiler made of the kernels: facts of the code, architecture by architecture."""

from claims.results import Record, Results
from plots.captions import machine_notes
from plots.counter_values import FAMILIES, short
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers

PASS = "sass"
PREFIX = "sass_"
WAY_NOTE = (
    "Instructions are per weight (of a transpose: element), counted in the loop that stores the "
    "output, or in the whole kernel where it has none: on the shortest and on the longest way of a "
    "thread, then (in all) those of every way, which a warp runs whose threads take them all. "
    "Index: those that make an address in the table, or a choice, of a code. Look-ups: reads of "
    "the table."
)
BRANCH_NOTE = (
    "Branches: conditional ones in the loop, in brackets those not seen to be uniform. Nothing was "
    "run: these facts hold on every machine."
)


def facts_table(results: Results) -> Table:
    """One row per kernel in a group per architecture; the CSV has every fact."""
    columns = [KERNEL, *numbers("instr.", "in all", "index", "look-ups", "registers")]
    columns += numbers("code bytes", "branches", wrap=1)
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for arch in dict.fromkeys(r.problem.get("arch", r.problem["name"]) for r in results.records):
        rows.append(Group(arch))
        for record in results.records:
            if record.problem.get("arch", record.problem["name"]) == arch:
                rows.append(display(record))
                data += csv_rows(record, arch)
    title = "What the compiler made of the kernels"
    notes = [WAY_NOTE, BRANCH_NOTE]
    return Table(PASS, title, columns, rows, data, notes, machine_notes(results))


def display(record: Record) -> Row:
    family = FAMILIES.get(record.problem["family"])
    per = f"per_{family.element if family else 'element'}"
    branches, diverging = number(record, "branches"), number(record, "branches_may_diverge")
    return [
        record.kernel,
        ways(record, f"instructions_{per}"),
        cell(record, f"instructions_{per}.all"),
        ways(record, f"index_{per}"),
        ways(record, f"look_ups_{per}"),
        cell(record, "registers"),
        cell(record, "code_bytes"),
        NONE if branches is None else f"{branches:g}" + f" ({diverging:g})" * bool(diverging),
    ]


def number(record: Record, name: str) -> float | None:
    found = record.metric(PREFIX + name)
    return found.summary.median if found and found.summary else None


def cell(record: Record, name: str) -> Cell | str:
    """A fact, or the reason why there is none as a footnote."""
    value, found = number(record, name), record.metric(PREFIX + name)
    if value is None:
        return Cell(NONE, (found.missing,)) if found else NONE
    return f"{value:g}" if value >= 1000 else short(value)


def ways(record: Record, name: str) -> Cell | str:
    """'35.19-37.19': the shortest and the longest way."""
    least, most = number(record, f"{name}.least"), number(record, f"{name}.most")
    if least is None or most is None:
        return cell(record, f"{name}.least")
    return short(least) if least == most else f"{short(least)}-{short(most)}"


def csv_rows(record: Record, arch: str) -> list[dict[str, object]]:
    head = {"arch": arch, "kernel": record.kernel, "family": record.problem["family"]}
    rows: list[dict[str, object]] = []
    for name, found in record.metrics.items():
        value = found.summary.median if found.summary else None
        row = head | {"fact": name.removeprefix(PREFIX), "unit": found.unit, "value": value}
        rows.append(row | {"missing": found.missing, "function": record.problem.get("function")})
    return rows

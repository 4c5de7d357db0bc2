"""Experiment product: what there is to see of it."""

from plots.bandwidth import Measured, compared
from plots.counter_tables import short_table
from plots.experiments import Run
from plots.product.figures import rows_figure
from plots.product.tables import (
    MODEL,
    Cell,
    cells,
    crossover_table,
    formats_table,
    kernels_table,
    layers_table,
    others,
    peers,
    peers_table,
    weights_table,
)
from plots.tables import Table
from records.stats import Estimate, span

SAID_ROWS = (1, 8)
FUSED = ("fused", "fused_exact")  # ours under PyTorch


def highlights(run: Run) -> list[str]:
    """Over all layers, at a few numbers of rows; and where ours is not the faster one."""
    found = cells(run)
    lines = [at_rows(run, found, batch) for batch in SAID_ROWS]
    slower = []
    for name, choose in others(run["layers"]).items():
        gains = [gain for cell in found if (gain := compared(choose(cell), cell.ours))]
        if count := sum(gain.high < 1 for gain in gains):
            slower.append(f"{name} in {count} of {len(gains)} cells")
    lines += [f"The fastest of ours is slower than {', '.join(slower)}."] * bool(slower)
    return [line for line in [*lines, under_torch(run)] if line]


def under_torch(run: Run) -> str:
    """'Under PyTorch fused is 2.85 to 9.47 times as fast as bitsandbytes_0.50.2; ...'"""
    gains: dict[str, list[Estimate]] = {}
    for cell in cells(run, "peers") if "peers" in run.passes else ():
        for name, m in cell.rows.items():
            if name not in FUSED and (gain := compared(m, cell.rows[FUSED[0]])):
                gains.setdefault(name, []).append(gain)
    parts = []
    for name, found in gains.items():
        slower = sum(gain.high < 1 for gain in found)
        counted = f", slower in {slower} of {len(found)} cells" * bool(slower)
        parts.append(f"{span([g.value for g in found])} times as fast as {name}{counted}")
    return f"Under PyTorch {FUSED[0]} is {'; '.join(parts)}." if parts else ""


def at_rows(run: Run, found: list[Cell], batch: int) -> str:
    """'8 rows, all layers: the fastest of ours is 3.03 to 4.93 times as fast as ...'"""
    those = [cell for cell in found if cell.batch == batch]
    shares = [100 * x for cell in those if (x := cell.of_floor(cell.ours))]
    parts = []
    for name, choose in others(run["layers"]).items():
        gains = [g.value for cell in those if (g := compared(choose(cell), cell.ours))]
        if gains:
            parts.append(f"{span(gains)} times as fast as {name}")
    if shares:
        parts.append(f"the floor is {span(shares, 2)} % of its time")
    rows = f"{batch} row{'s' * (batch > 1)}"
    return f"{rows}, all layers: the fastest of ours is {'; '.join(parts)}." if parts else ""


def brief(run: Run) -> list[Measured]:
    """On the largest layer with one row, what reads the weights in 4 bits."""
    one = [cell for cell in cells(run) if cell.batch == 1]
    found = [one[-1].ours, *(one[-1].peer(n) for n in peers(run["layers"]))] if one else []
    return [m for m in found if m and m.gb_s]


def counters_table(run: Run) -> Table:
    """What limits each kernel, at a few numbers of rows."""
    title = "Counters of the products on the largest layer"
    return short_table(run["counters"], run["layers"], "counters", title)


TABLES = (
    layers_table,
    kernels_table,
    peers_table,
    crossover_table,
    formats_table,
    weights_table,
    counters_table,
)
ON_TERMINAL = ("layers", "peers", "crossover", "formats", "weights")
FIGURES = {"rows": (f"Time over the number of rows, layers of {MODEL}", rows_figure)}
BRIEF = brief

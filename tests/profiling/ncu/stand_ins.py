"""Stand-ins for ncu and bench: programs that record their arguments and print prepared output."""

import json
import sys
from pathlib import Path
from typing import Any

from made import provenance, record, results
from make_targets import program

PROBLEM = "28672x8192/fp16/b64"
KERNEL = "void dequantize<unsigned int, PlainScaleReader, __half>(Arguments)"
HEAD = ["ID", "Process ID", "Kernel Name", "Grid Size", "CC"]
# metric -> unit and text, as ncu prints them: bytes scaled, six decimals where it has them.
METRICS = {
    "smsp__inst_executed.sum": ("inst", "60948480"),
    "smsp__average_thread_inst_executed_per_inst_executed.ratio": ("", "31.300000"),
    "lts__t_sector_hit_rate.pct": ("%", "82.403117"),
    "l1tex__t_sector_hit_rate.pct": ("%", "0.041000"),
    "dram__bytes_read.sum": ("Mbyte", "132.120576"),
    "sm__cycles_elapsed.avg.per_second": ("cycle/usecond", "1,980.120000"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "9.5"),
    "smsp__inst_executed_pipe_fp16.sum": ("", "n/a"),
    "launch__registers_per_thread": ("register/thread", "32"),
}
# The same counters from our own instrument.
OURS = {
    "warp_instructions": ("instructions", [60948000.0, 60948480.0] * 3),
    "threads_per_instruction": ("threads", [31.31] * 6),
    "l2_hit_rate": ("%", [82.1, 82.2, 82.0, 82.3, 82.2, 82.1]),
    "l1_hit_rate": ("%", [0.0] * 6),
    "dram_bytes_read": ("bytes", [132.0e6] * 6),
    "sm_clock": ("Hz", [1.5e9] * 6),
    "stall_long_scoreboard": ("warps/issue", [7.0] * 6),
}


def page(metrics: dict[str, tuple[str, str]] = METRICS, launches: int = 1) -> str:
    """ncu's raw page as CSV."""

    def line(cells: list[str]) -> str:
        return ",".join(f'"{cell}"' for cell in cells) + "\n"

    units = [""] * len(HEAD) + [unit for unit, _ in metrics.values()]
    values = ["0", "17", KERNEL, "(2048, 1, 1)", "9.0"] + [text for _, text in metrics.values()]
    return line(HEAD + list(metrics)) + line(units) + line(values) * launches


def plan(why_none: str = "", **refused: str) -> str:
    """The output of bench --dry-run --json."""
    return json.dumps({"why_none": why_none, "problems": [{"name": PROBLEM, "refused": refused}]})


def result_file(ours: dict[str, tuple[str, list[float]]] = OURS, **changes: Any) -> dict[str, Any]:
    problem = {"name": PROBLEM, "family": "nf4", "n": 28672 * 8192, "rows": 28672}
    problem |= {"columns": 8192, "block_size": 64, "nested": False, "output": "fp16", "models": []}
    row = record(problem, "shared_lut") | {"metrics": [], "outcome": "bit_exact"} | changes
    row["metrics"] = [{"name": n, "unit": u, "samples": s} for n, (u, s) in ours.items()]
    content = results("counters", "nf4_counters", [row])
    return content | {"provenance": provenance(instrument="counters")}


class StandIns:
    """Two programs in `folder`; their texts and exit statuses can be changed beforehand."""

    def __init__(self, folder: Path):
        self.folder, self.told = folder, folder / "told.json"
        self.behaviour: dict[str, Any] = {
            "plan": plan(),
            "page": page(),
            "counters": result_file(),
            "says": "==PROF== Profiling 'dequantize' - 0: 0%....50%....100% - 21 passes\n",
            "report": True,
            "status": 0,
        }
        common = f"""
import json, pathlib, sys
folder = pathlib.Path({str(folder)!r})
told = json.loads((folder / "told.json").read_text())
with open(folder / "calls", "a") as calls:
    calls.write(json.dumps([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
given = dict(word.split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
"""
        bench = """
if "--dry-run" in sys.argv:
    sys.stderr.write(told.get("complaint", ""))
    sys.stdout.write(told["plan"])
    sys.exit(2 if told.get("complaint") else 0)
if told["counters"]:
    pathlib.Path(given["--output"]).write_text(json.dumps(told["counters"]))
else:
    sys.exit("bench: out of memory")
"""
        ncu = """
if "--version" in sys.argv:
    sys.stdout.write("NVIDIA (R)\\nVersion 2025.3.1.0 (build 36398880) (public-release)\\n")
elif "--import" in given:
    sys.stdout.write(told["page"])
else:
    sys.stdout.write(told["says"])
    if told["report"]:
        pathlib.Path(given["--export"].replace("%%", "%")).write_text("a report")
    sys.exit(told["status"])
"""
        for name, code in {"bench": bench, "ncu": ncu}.items():
            program(folder / name, f"#!{sys.executable}\n{common}{code}")
        self.set()

    def set(self, **changes: Any) -> None:
        self.behaviour |= changes
        self.told.write_text(json.dumps(self.behaviour))

    def calls(self) -> list[list[str]]:
        """Commands that were run, each as the program's name and its arguments."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

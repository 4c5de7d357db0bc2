"""The effect of a kernel that changes the device on its neighbours: times with it over times
without it, in alternating runs. Needs a GPU, and only Python:

    python3 tests/programs/neighbours.py build/gpu/bin/bench_with_hostile_kernels
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

NEIGHBOURS = ("streaming", "shared_lut", "branch_tree", "copy")
HOSTILE = "exploit_persisting"
ROUNDS = 2


def run(bench: str, kernels: str, shape: str) -> dict:
    """Each row of one run, by kernel."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "results.json"
        arguments = ["--kernel", kernels, "--shape", shape, "--output", str(output)]
        finished = subprocess.run([bench, *arguments], capture_output=True, text=True)
        if not output.exists():
            sys.exit(f"{bench}: exit status {finished.returncode}: {finished.stderr.strip()}")
        return {row["kernel"]: row for row in json.loads(output.read_text())["records"]}


def main() -> None:
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("neighbours.py: give bench_with_hostile_kernels, and a shape if not 28672x8192")
    bench, shape = sys.argv[1], (sys.argv[2:] or ["28672x8192"])[0]
    alone, beside = {}, {}
    for _ in range(ROUNDS):
        for times, also in ((alone, ""), (beside, f"|{HOSTILE}")):
            rows = run(bench, "streaming|shared_lut|branch_tree" + also, shape)
            for name in NEIGHBOURS:
                times.setdefault(name, []).extend(rows[name]["metrics"][0]["samples"])
    hostile = rows[HOSTILE]
    print(f"{HOSTILE}: {hostile['outcome']}: {hostile['reason']}")
    print(f"{'kernel':<12} {'without us':>10} {'with us':>10} {'ratio':>8}")
    farthest = 0.0
    for name in NEIGHBOURS:
        without, with_it = statistics.median(alone[name]), statistics.median(beside[name])
        farthest = max(farthest, abs(with_it / without - 1))
        print(f"{name:<12} {without:>10.2f} {with_it:>10.2f} {with_it / without:>8.4f}")
    print(f"farthest from 1: {100 * farthest:.2f} %")


if __name__ == "__main__":
    main()

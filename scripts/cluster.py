"""Every experiment as a check of ReFrame, for clusters: docs/many-gpus.md.

Each runs `make reproduce-<name>` on one GPU with RESULTS in its own output folder. It passes if all
rows were measured and none is wrong; the medians of its rows are ReFrame's performance values.
"""

import json
import lzma
from pathlib import Path
from statistics import median

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = sorted(file.parent.name for file in ROOT.glob("experiments/*/experiment.toml"))


@rfm.simple_test
class Reproduce(rfm.RunOnlyRegressionTest):
    experiment = parameter(EXPERIMENTS)
    make_variables = variable(str, value="")  # such as "KERNELS=streaming CLOCKS=max"
    valid_systems = ["*"]  # noqa: RUF012 - ReFrame takes lists alone
    valid_prog_environs = ["*"]  # noqa: RUF012
    sourcesdir = None
    executable = "make"
    keep_files = ["results"]  # noqa: RUF012
    num_tasks = 1
    num_gpus_per_node = 1

    @run_before("run")
    def name_the_command(self):
        results = f"RESULTS={self.stagedir}/results"
        given = self.make_variables.split()
        self.executable_opts = ["-C", str(ROOT), f"reproduce-{self.experiment}", results, *given]

    def rows(self):
        """The rows that were measured; none where no GPU is, which shows a recorded run."""
        rows = []
        for file in sorted(Path(self.stagedir, "results", self.experiment).glob("*.json*")):
            with (lzma.open if file.suffix == ".xz" else open)(file, "rt") as text:
                rows += [(file, row) for row in json.load(text)["records"]]
        return rows

    @sanity_function
    def has_succeeded(self):
        return sn.assert_eq(self.job.exitcode, 0, "make failed: {0}")

    @run_before("performance")
    def read_times(self):
        times = {}
        for file, row in self.rows():
            for metric in row["metrics"]:
                if samples := metric.get("samples"):
                    name = f"{file.name.split('.')[0]}/{row['key']}/{metric['name']}"
                    value = sn.defer(median(samples))
                    times[name] = sn.make_performance_function(value, metric["unit"])
        self.perf_variables = times

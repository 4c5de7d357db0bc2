"""What was measured of generated text, setting by setting: a model at a batch, in one decode mode.

A time of one step is a mean over the decoding steps of a generation; of samples, the median.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from claims.end_to_end import EAGER, GRAPH, INSTALLED, NOTHING, WALL_TIME, amdahl, percent_of
from plots.experiments import Run
from records.errors import InputError
from records.results import KERNEL_TIME, PRODUCT_TIME, Record, Results
from records.stats import Estimate, Summary, ratio, share_percent

BUSY_TIME = "busy_time"
STEP = ".step"
OURS = "streaming"  # the kernel that is compared with the newest bitsandbytes


@dataclass(frozen=True)
class Setting:
    """The rows of a model at a batch, in one decode mode; by kernel."""

    model: str
    batch: int
    mode: str
    tokens: int
    timing: dict[str, Record]
    profile: dict[str, Record]

    @property
    def at(self) -> dict[str, object]:
        return {"model": self.model, "batch": self.batch}

    @property
    def kernels(self) -> list[str]:
        return list(self.timing)

    @property
    def installed(self) -> str | None:
        """bitsandbytes as it is installed."""
        return next((k for k, r in self.timing.items() if r.lineage == INSTALLED), None)

    def time(self, kernel: str | None, metric: str) -> Summary | None:
        """In us, from the pass that has the metric; None where no time may be shown."""
        rows = self.timing if metric.startswith(WALL_TIME) else self.profile
        record = rows.get(kernel or "")
        found = record.metric(metric) if record is not None and record.is_verified else None
        return found.summary if found else None

    def why_not(self, kernel: str, *metrics: str) -> tuple[str, ...]:
        """Where one of the metrics may show no time: what became of the row that has it."""
        found = []
        for metric in metrics:
            rows = self.timing if metric.startswith(WALL_TIME) else self.profile
            record = rows.get(kernel)
            if record is not None and not record.is_verified and record.reason:
                found.append(f"{kernel}: {record.reason}")
        return tuple(dict.fromkeys(found))

    def gain(self, baseline: str | None, kernel: str | None, metric: str) -> Estimate | None:
        """The baseline's time over the kernel's."""
        before, after = self.time(baseline, metric), self.time(kernel, metric)
        return ratio(before, after) if before and after else None

    def tokens_per_s(self, kernel: str) -> Estimate | None:
        us = self.time(kernel, WALL_TIME)
        if us is None:
            return None
        count = 1e6 * self.batch * self.tokens
        return Estimate(*(count / time for time in (us.median, us.high, us.low)))

    def idle_percent(self, kernel: str) -> Estimate | None:
        """The part of a step in which the GPU runs nothing: eager, it waits for the host. 0 where
        what ran, taken in the pass under the profiler, adds up to more than the step.
        """
        found = self.busy_percent(kernel)
        if found is None:
            return None
        return Estimate(*(max(0, 100 - end) for end in (found.value, found.high, found.low)))

    def busy_percent(self, kernel: str) -> Estimate | None:
        """The part of a step that ran on the GPU; more than 100 where recording made it longer."""
        busy, wall = self.time(kernel, BUSY_TIME + STEP), self.time(kernel, WALL_TIME + STEP)
        return percent_of(busy, wall) if busy and wall else None

    def share(self, kernel: str, part: str = "") -> Estimate | None:
        """Dequantization's share of a generation, or with STEP of a decoding step, in percent."""
        dequantize = self.time(kernel, KERNEL_TIME + part)
        wall = self.time(kernel, WALL_TIME + part)
        return percent_of(dequantize, wall) if dequantize and wall else None

    def dequantizing_percent(self, kernel: str | None) -> float | None:
        """As share() of a decoding step; 0 where all products are made right from the codes."""
        record = self.profile.get(kernel or "")
        if kernel is None or record is None or not record.is_verified:
            return None
        found = record.metrics.get(KERNEL_TIME + STEP)
        if found and found.missing == NOTHING:
            return 0.0
        share = self.share(kernel, STEP)
        return share and share.value

    def predicted(self, baseline: str, kernel: str, part: str = "") -> float | None:
        """By Amdahl's law, from the baseline's share and the kernel's own speed-up."""
        share, faster = self.share(baseline, part), self.gain(baseline, kernel, KERNEL_TIME + part)
        return amdahl(share.value / 100, faster.value) if share and faster else None

    def matmul_share(self, kernel: str) -> Summary | None:
        """Dequantization's part of quantized products, sample by sample, in percent."""
        names = (KERNEL_TIME, PRODUCT_TIME)
        if not all(self.time(kernel, name) for name in names):
            return None
        return share_percent(*(self.profile[kernel].metrics[name].samples for name in names))


def by_kernel(results: Results, problem: Mapping[str, Any]) -> dict[str, Record]:
    """The rows of the same prompts and as many tokens, by kernel: the passes may be of two runs."""
    same = {name: problem[name] for name in ("name", "tokens", "prompts")}
    return {r.kernel: r for r in results.records if same.items() <= r.problem.items()}


def settings(run: Run, mode: str = EAGER) -> Iterator[Setting]:
    """Every setting of one mode, in the order of the file."""
    for problem in run["timing"].problems():
        if problem["way"] == mode:
            facts = (problem["model"], problem["batch"], mode, problem["tokens"])
            rows = (by_kernel(run[name], problem) for name in ("timing", "profile"))
            yield Setting(*facts, *rows)


def models(run: Run) -> list[str]:
    found = list(dict.fromkeys(setting.model for setting in settings(run)))
    if not found:
        raise InputError(f"{run['timing'].file}: has no rows with way {EAGER}, which are compared")
    return found


def of_model(run: Run, model: str, mode: str = EAGER) -> list[Setting]:
    return sorted((p for p in settings(run, mode) if p.model == model), key=lambda p: p.batch)


def both(run: Run, eager: Setting) -> list[Setting]:
    """The setting, and the same in a graph where there is one."""
    return [eager, *[p for p in settings(run, GRAPH) if p.at == eager.at][:1]]


def scaled(found: Summary | None, us: float) -> float | None:
    """A median in units of so many microseconds."""
    return found and found.median / us

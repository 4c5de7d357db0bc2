"""Measurements of generated text by setting: a model at a batch, in one decode mode.

A time of one step is a mean over the decoding steps of a generation; of samples, the median.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.end_to_end.protocol import EAGER, GRAPH, INSTALLED, NOTHING, WALL_TIME
from experiments.end_to_end.rules import percent_of
from plots.experiments import Run
from reprolab.code import older_mark
from reprolab.errors import InputError
from reprolab.results import KERNEL_TIME, PRODUCT_TIME, Record
from reprolab.stats import Estimate, Summary, ratio, share_percent

BUSY_TIME = "busy_time"
STEP = ".step"
OURS = "streaming"  # the kernel that is compared with the newest bitsandbytes
FUSED = "fused"  # the row whose products multiply right from the codes where that is faster


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
    def installed(self) -> str | None:
        """bitsandbytes as it is installed."""
        return next((k for k, r in self.timing.items() if r.lineage == INSTALLED), None)

    def row(self, kernel: str | None, metric: str) -> Record | None:
        """The kernel's row in the pass that has the metric."""
        rows = self.timing if metric.startswith(WALL_TIME) else self.profile
        return rows.get(kernel or "")

    def time(self, kernel: str | None, metric: str) -> Summary | None:
        """In us; None where no time may be shown."""
        record = self.row(kernel, metric)
        return record.shown(metric) if record else None

    def scaled(self, kernel: str | None, metric: str, us: float) -> float | None:
        """The median in units of `us` microseconds."""
        time = self.time(kernel, metric)
        return time and time.median / us

    def why_not(self, kernel: str, *metrics: str) -> tuple[str, ...]:
        """The reasons of the failed rows that would have the metrics."""
        rows = [self.row(kernel, metric) for metric in metrics]
        failed = [r for r in rows if r is not None and not r.is_verified and r.reason]
        return tuple(dict.fromkeys(f"{kernel}: {r.reason}" for r in failed))

    def older(self, *kernels: str | None) -> tuple[str, ...]:
        """A footnote where one of them ran with older code."""
        rows = [passed.get(k or "") for passed in (self.timing, self.profile) for k in kernels]
        return older_mark(*rows)

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
        the busy time, measured in the pass profile, is more than the step.
        """
        busy = self.busy_percent(kernel)
        if busy is None:
            return None
        return Estimate(*(max(0, 100 - end) for end in (busy.value, busy.high, busy.low)))

    def busy_percent(self, kernel: str) -> Estimate | None:
        """The part of a step that ran on the GPU; more than 100 where recording made it longer."""
        return self.percent_of_wall(kernel, BUSY_TIME, STEP)

    def percent_of_wall(self, kernel: str, metric: str, part: str) -> Estimate | None:
        part_time, wall = self.time(kernel, metric + part), self.time(kernel, WALL_TIME + part)
        return percent_of(part_time, wall) if part_time and wall else None

    def share(self, kernel: str, part: str = "") -> Estimate | None:
        """Dequantization's share of a generation, or with STEP of a decoding step, in percent."""
        return self.percent_of_wall(kernel, KERNEL_TIME, part)

    def dequantizing_percent(
        self, kernel: str | None, whole: str | None, part: str
    ) -> float | None:
        """A kernel's dequantizations in percent of `whole`'s generation, or with STEP of its step;
        0 where all products are computed right from the codes.
        """
        record, wall = self.profile.get(kernel or ""), self.time(whole, WALL_TIME + part)
        if record is None or not record.is_verified or wall is None:
            return None
        metric = record.metrics.get(KERNEL_TIME + part)
        if metric and metric.missing == NOTHING:
            return 0.0
        time = self.time(kernel, KERNEL_TIME + part)
        return time and percent_of(time, wall).value

    def matmul_share(self, kernel: str) -> Estimate | None:
        """Dequantization's part of quantized products, sample by sample, in percent."""
        names = (KERNEL_TIME, PRODUCT_TIME)
        if not all(self.time(kernel, name) for name in names):
            return None
        samples = (self.profile[kernel].metrics[name].samples for name in names)
        return share_percent(*samples).estimate


def settings(run: Run) -> list[tuple[Setting, ...]]:
    """By model and batch: the eager setting, and the one in a graph if it ran."""
    # The passes may come from two runs, of the same prompts and as many tokens.
    facts = ("name", "tokens", "prompts")
    rows: dict[tuple[Any, ...], dict[str, Record]] = {}
    for name in ("timing", "profile"):
        for r in run[name].records:
            key = (name, *(r.problem[fact] for fact in facts))
            rows.setdefault(key, {})[r.kernel] = r
    by_mode: dict[tuple[str, int], dict[str, Setting]] = {}
    for p in run["timing"].problems():
        same = tuple(p[fact] for fact in facts)
        both = (rows.get((name, *same), {}) for name in ("timing", "profile"))
        setting = Setting(p["model"], p["batch"], p["way"], p["tokens"], *both)
        by_mode.setdefault((setting.model, setting.batch), {}).setdefault(setting.mode, setting)
    both = [modes for modes in by_mode.values() if EAGER in modes]
    if not both:
        raise InputError(f"{run['timing'].file}: has no rows with way {EAGER}, which are compared")
    papers = [ours for models in run.source.models.values() for ours in models]
    order = list(dict.fromkeys([*papers, *(modes[EAGER].model for modes in both)]))
    both.sort(key=lambda modes: (order.index(modes[EAGER].model), modes[EAGER].batch))
    return [tuple(modes[way] for way in (EAGER, GRAPH) if way in modes) for modes in both]


def settings_in(run: Run, mode: str) -> Iterator[Setting]:
    return (setting for modes in settings(run) for setting in modes if setting.mode == mode)

"""Medians, intervals, ratios, shares and bandwidths: all statistics of samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

# Below this many samples the quartiles of two equal things fail to overlap too often (a third of
# the time at 3), so the whole range is the interval.
MIN_FOR_QUARTILES = 5

SMALL_DENOMINATOR = 100

# Expanded uncertainty (k = 2) between runs, for quantities without recorded repetitions: in six
# recorded runs of Table II on H200s, the baseline's shares differ by up to 1.6 %; in six runs of
# the counters, rates and bytes differ by up to 1.6 %. A claim is undecided this near to a bound (a
# guard band, as in JCGM 106:2012, 8.3).
SPREAD_PERCENT = 2.0
CONFIDENCE = 0.95  # of intervals of ratios of times: k = 2
FALSE_SHARE = 0.01  # of wrong verdicts on equal kernels, at most, over all cells of a claim


@dataclass(frozen=True)
class Summary:
    """Median, first and third quartile and extremes, in the samples' unit, and their number."""

    median: float
    q1: float
    q3: float
    min: float
    max: float
    n: int

    @property
    def low(self) -> float:
        """The interval's lower end: a quartile, or the extreme below MIN_FOR_QUARTILES samples."""
        return self.min if self.n < MIN_FOR_QUARTILES else self.q1

    @property
    def high(self) -> float:
        return self.max if self.n < MIN_FOR_QUARTILES else self.q3

    @property
    def estimate(self) -> "Estimate":
        return Estimate(self.median, self.low, self.high)


@dataclass(frozen=True)
class LogMean:
    """A mean of logarithms, or a difference of two; `parts`: the components of its variance, each
    with its degrees of freedom and whether rows of one run share it.
    """

    value: float
    parts: tuple[tuple[float, float, bool], ...]

    @property
    def geometric_mean(self) -> float:
        """In the samples' unit; two of them divide to the ratio that a claim has."""
        return math.exp(self.value)

    def over(self, other: "LogMean") -> "LogMean":
        return LogMean(self.value - other.value, self.parts + other.parts)

    def with_part(
        self, percent: float, freedom: float = math.inf, shared: bool = True
    ) -> "LogMean":
        """The mean with an additional standard deviation, such as of a run or a host."""
        return LogMean(self.value, (*self.parts, ((percent / 100) ** 2, freedom, shared)))

    @property
    def error(self) -> float:
        return math.sqrt(sum(variance for variance, *_ in self.parts)) or 1e-9  # all samples equal

    @property
    def freedom(self) -> float:
        """Welch and Satterthwaite's effective degrees of freedom (JCGM 100:2008, G.4)."""
        known = sum(variance**2 / freedom for variance, freedom, *_ in self.parts)
        return self.error**4 / known if known else math.inf

    def interval(self, confidence: float = CONFIDENCE) -> "Estimate":
        """The interval of the ratio whose logarithm this is."""
        from scipy.special import stdtrit  # PyTorch's environment summarizes samples without SciPy

        reach = float(stdtrit(self.freedom, (1 + confidence) / 2)) * self.error
        ends = (self.value, self.value - reach, self.value + reach)
        return Estimate(*map(math.exp, ends), log=self)

    @cached_property
    def ratio(self) -> "Estimate":
        return self.interval()


def log_mean(samples: Sequence[float]) -> LogMean:
    """The mean of positive samples; the variance of a single sample is unknown."""
    logs, n = [math.log(sample) for sample in samples], len(samples)
    mean = math.fsum(logs) / n
    squares = math.fsum((log - mean) ** 2 for log in logs)
    return LogMean(mean, ((squares / (n - 1) / n, n - 1, False),) if n > 1 else ())


@dataclass(frozen=True)
class Estimate:
    """A value with the two ends of its interval; for a ratio of times with the logarithm that they
    come from.
    """

    value: float
    low: float
    high: float
    log: LogMean | None = field(default=None, compare=False, repr=False)

    def deciding(self, cells: int = 1) -> "Estimate":
        """The interval that decides against one of several cells, so that equal kernels get a wrong
        verdict on any of them in FALSE_SHARE of all cases; without a logarithm, itself. If all
        cells have to hold, each is decided as if it were the only one.
        """
        return self.log.interval(1 - FALSE_SHARE / cells) if self.log else self

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    def over(self, other: "Estimate") -> "Estimate":
        """How many times the one ratio of times is the other."""
        return self.log.over(other.log).ratio

    def scaled(self, factor: float) -> "Estimate":
        return Estimate(factor * self.value, factor * self.low, factor * self.high)

    def widened(self, percent: float) -> "Estimate":
        """The interval, extended on both sides by this percentage of its ends."""
        part = percent / 100
        return Estimate(
            self.value, self.low - part * abs(self.low), self.high + part * abs(self.high)
        )


def summarize(samples: Sequence[float]) -> Summary:
    """Summarize at least one sample; quartiles by linear interpolation."""
    least, most = min(samples), max(samples)
    if least == most:  # as of most counters
        return Summary(*[float(least)] * 3, least, most, len(samples))
    ordered = sorted(map(float, samples))
    q1, median, q3 = (quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    return Summary(median, q1, q3, least, most, len(samples))


def quantile(ascending: Sequence[float], share: float) -> float:
    """As numpy.quantile, bit for bit, which takes ten times as long for a row's few samples."""
    place = share * (len(ascending) - 1)
    at = int(place)
    below, above = ascending[at], ascending[min(at + 1, len(ascending) - 1)]
    part = place - at
    if part < 0.5:
        return below + (above - below) * part
    return above - (above - below) * (1 - part)


def ratio(over: Summary, under: Summary) -> Estimate:
    """Ratio of medians, from low(over) / high(under) to high(over) / low(under)."""
    return Estimate(over.median / under.median, over.low / under.high, over.high / under.low)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """Mean of the values, with the interval of their logarithms' mean; without logarithms, of the
    ends of their intervals, as if all errors had one sign.
    """
    columns = zip(*((e.value, e.low, e.high) for e in estimates), strict=True)
    value, low, high = (sum(column) / len(estimates) for column in columns)
    logs = [e.log for e in estimates if e.log]
    if len(logs) < len(estimates) or value <= 0:
        return Estimate(value, low, high)
    together = weighted(logs, [1 / len(logs)] * len(logs))
    return LogMean(math.log(value), together.parts).ratio


def weighted(logs: Sequence[LogMean], weights: Sequence[float]) -> LogMean:
    """The weighted sum of logarithms. Errors that rows share add up, and those of samples are
    independent; parts of one position are of one kind.
    """
    value = sum(w * log.value for w, log in zip(weights, logs, strict=True))
    if len({len(log.parts) for log in logs}) > 1:  # some rows have a single sample
        error = sum(abs(w) * log.error for w, log in zip(weights, logs, strict=True))
        return LogMean(value, ((error**2, min(log.freedom for log in logs), True),))
    parts = []
    for own in zip(*(log.parts for log in logs), strict=True):
        terms = [(w * w * v, freedom) for w, (v, freedom, _) in zip(weights, own, strict=True)]
        total = sum(variance for variance, _ in terms)
        known = sum(variance**2 / freedom for variance, freedom in terms)
        freedom = total**2 / known if known else math.inf
        if own[0][2]:
            total = sum(abs(w) * math.sqrt(v) for w, (v, *_) in zip(weights, own, strict=True)) ** 2
            freedom = min(freedom for _, freedom in terms)
        parts.append((total, freedom, own[0][2]))
    return LogMean(value, tuple(parts))


def pool(estimates: Sequence[Estimate]) -> Estimate:
    """Median of the values, with the widest of their intervals."""
    median = summarize([e.value for e in estimates]).median
    return Estimate(median, min(e.low for e in estimates), max(e.high for e in estimates))


def share_percent(part: Sequence[float], rest: Sequence[float]) -> Summary:
    """The share of `part` in the sum, sample by sample, in percent."""
    return summarize([100 * p / (p + r) for p, r in zip(part, rest, strict=True)])


def gb_per_s(bytes_moved: int, us: Estimate) -> Estimate:
    """Bandwidth with GB = 1e9 bytes."""
    times = (us.value, us.high, us.low)
    return Estimate(*(bytes_moved / time / 1e3 for time in times))


def difference_percent(ours: float, theirs: float) -> float:
    return 100 * (ours / theirs - 1) if theirs else math.inf


SLACK = 1 + 1e-12  # a bound that was declared in decimals is met by what equals it in decimals


def is_within(ours: float, theirs: float, percent: float) -> bool:
    """Whether the two differ by at most `percent` of `theirs`, bound included."""
    return 100 * abs(ours - theirs) <= percent * abs(theirs) * SLACK


def is_at_least(ours: float, theirs: float, percent: float) -> bool:
    """Whether ours is below `theirs` by at most `percent`, bound included."""
    return ours > theirs or is_within(ours, theirs, percent)


def out_of(count: int, total: int) -> str:
    """'7 of 8' where that is all of it; else '1000003 of 1048576'."""
    share = Fraction(count, total)
    if share.denominator > SMALL_DENOMINATOR:
        return f"{count} of {total}"
    return f"{share.numerator} of {share.denominator}"


def significant(value: float, digits: int = 4) -> str:
    """`value` in plain decimals with at least `digits` significant digits: 138.7, 4.142, 12345."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def span(values: Sequence[float], digits: int = 3) -> str:
    """'52.1 to 58.7', or one value if the two ends look the same."""
    ends = (significant(end, digits) for end in (min(values), max(values)))
    return " to ".join(dict.fromkeys(ends))

"""Samples in a slow spell of the host are taken again while repeats are left."""

import pytest

from experiments.end_to_end import host
from experiments.end_to_end.host import Host, SlowSamples


@pytest.fixture
def take_samples(monkeypatch):
    """Takes samples on a host whose fixed work takes these seconds, one after another, and the last
    from then on. Returns the kept samples, the disturbed ones and the number of waits.
    """
    monkeypatch.setattr(host, "TRIES", 1)
    monkeypatch.setattr(host, "preemptions", lambda: 0)

    def take(*seconds, repeats=2, wait_s=0.0, times=1):
        takes, disturbed, samples, waits = [1.0], SlowSamples(), iter(range(100)), []
        monkeypatch.setattr(host, "fixed_work_s", lambda: takes.pop(0) if takes[1:] else takes[0])
        monkeypatch.setattr(host.time, "sleep", waits.append)
        steady = Host()
        steady.allow(repeats, wait_s)
        takes[:] = seconds
        kept = [steady.sample(lambda: next(samples), disturbed) for _ in range(times)]
        return kept, disturbed, len(waits)

    return take


@pytest.mark.parametrize(
    ("seconds", "limits", "kept", "disturbed", "waits"),
    [
        ((1.25, 0.98, 1.2), {"wait_s": 1.0}, [0], SlowSamples(), 0),  # steady
        ((1.4, 1.0), {}, [1], SlowSamples(repeated=1), 0),  # slow before the sample
        ((1.0, 1.4, 1.0), {}, [1], SlowSamples(repeated=1), 0),  # slow after it
        ((1.5,), {"wait_s": 0.3, "times": 2}, [2, 3], SlowSamples(repeated=2, kept=2), 2),  # always
        ((1.5, 1.5, 1.0), {"wait_s": 10.0}, [0], SlowSamples(), 2),  # until it is steady
    ],
)
def test_a_sample_in_a_slow_spell_is_taken_again(
    take_samples, seconds, limits, kept, disturbed, waits
):
    assert take_samples(*seconds, **limits) == (kept, disturbed, waits)


def test_a_sample_whose_cpu_was_taken_away_is_taken_again(take_samples, monkeypatch):
    counts = iter([0, 10_000, 10_000, 10_000])
    monkeypatch.setattr(host, "preemptions", lambda: next(counts))
    assert take_samples(1.0) == ([1], SlowSamples(repeated=1), 0)


def test_the_work_is_real():
    assert host.preemptions() >= 0
    assert host.fixed_work_s() > 0

"""A profile is taken of a small load, and what was found is written and summed up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from perf.profile import Lag, Plan, Profile, lag_of, main, summary
from perf.profile_control_plane import buckets, lag_between
from perf.profile_sampler import CannotTrace, Sampler

DECIDE = ("loop", "ScheduleOne.schedule (kscheduler/cycle/schedule_one.py:1)")
QUEUE = ("loop", "Queue.add (kscheduler/queue/scheduling_queue.py:1)")


class Denied:
    def __init__(self, *_: object) -> None:
        raise CannotTrace("Permission denied")


def new_plan(folder: Path) -> Plan:
    return Plan("basic", 10, 100, math.inf, 200, folder)


def new_profile() -> Profile:
    lag = Lag(3, 1.0, 2.0, 4.0, "measured")
    return Profile("pods", "a profiler", pods=100, seconds=2.0, cpu_s=0.01, lag=lag, stacks={DECIDE: 3, QUEUE: 1})


def test_cpu_time_is_shared_out_by_samples(tmp_path: Path) -> None:
    lines = [line.split() for line in summary(new_plan(tmp_path), new_profile()).splitlines()]
    assert ["decide", "75.00", "75.0%"] in lines
    assert ["queue", "25.00", "25.0%"] in lines
    assert ["all", "100.00", "100.0%"] in lines


def test_lag_is_reported_by_its_median_its_99th_percentile_and_the_longest() -> None:
    lag = lag_of([float(each) for each in range(100, 0, -1)])
    assert (lag.turns, lag.p50_ms, lag.p99_ms, lag.max_ms) == (100, 51.0, 100.0, 100.0)


def test_lag_on_a_control_plane_is_what_the_histogram_gained() -> None:
    page = 'kscheduler_event_loop_lag_seconds_bucket{{le="{}"}} {}'
    before = buckets("\n".join(page.format(*each) for each in [("0.001", 5.0), ("0.002", 5.0), ("+Inf", 6.0)]))
    after = buckets("\n".join(page.format(*each) for each in [("0.001", 105.0), ("0.002", 106.0), ("+Inf", 107.0)]))
    lag = lag_between(before, after)
    assert (lag.turns, lag.p50_ms, lag.p99_ms, lag.max_ms) == (101, 1.0, 1.0, 2.0)


def test_own_sampler_names_functions_as_the_parts_expect() -> None:
    sampler = Sampler(1000)
    sampler.start()
    total = 0
    while not sampler._seen:
        total += sum(range(1000))
    seen = sampler.stop()
    assert any("test_own_sampler" in stack[-1] and "test_profile.py:" in stack[-1] for stack in seen)


@pytest.mark.slow
@pytest.mark.parametrize("is_denied", [False, True], ids=["py-spy looks on", "py-spy may not look"])
def test_small_load_is_profiled(
    is_denied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_denied:
        monkeypatch.setattr("perf.profile.PySpy", Denied)
    options = ["--nodes", "20", "--pods", "1000", "--rate", "1000", "--output", str(tmp_path)]
    assert main(options) == 0
    printed, reported = capsys.readouterr()
    if is_denied:
        assert "Permission denied\nTaking stacks inside the process instead: no native frames." in reported
    assert "1,000 pods placed" in printed
    assert "event-loop lag: p50" in printed
    for name in ("flame.svg", "top.txt", "lag.json", "stacks.txt", "allocations.txt"):
        assert (tmp_path / name).stat().st_size > 0

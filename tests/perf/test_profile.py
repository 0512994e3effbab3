"""A profile is taken of a small load, and what was found is written and summed up."""

from __future__ import annotations

import inspect
import json
import math
import os
import tracemalloc
from pathlib import Path

import pytest

from perf.profile import Lag, Plan, Profile, lag_of, main, summary, write
from perf.profile_control_plane import buckets, lag_between
from perf.profile_load import allocations
from perf.profile_sampler import CannotTrace, PySpy, Sampler, stack_of

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


def test_every_file_is_written(tmp_path: Path) -> None:
    write(new_plan(tmp_path), new_profile())
    assert (tmp_path / "flame.svg").read_text().startswith("<svg")
    assert json.loads((tmp_path / "lag.json").read_text())["p99_ms"] == 2.0
    assert "75.00%    75.00  75.00%  ScheduleOne.schedule" in (tmp_path / "top.txt").read_text()


def test_lag_is_told_by_its_middle_its_end_and_the_longest() -> None:
    lag = lag_of([float(each) for each in range(100, 0, -1)])
    assert (lag.turns, lag.p50_ms, lag.p99_ms, lag.max_ms) == (100, 51.0, 100.0, 100.0)


def test_no_turn_has_no_lag() -> None:
    assert lag_of([]).max_ms == 0.0


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


def test_frames_are_named_by_function_and_file_from_the_folder_that_modules_are_in() -> None:
    *_, caller, own = stack_of(inspect.currentframe())
    assert own.startswith("test_frames_are_named_by")
    assert own.endswith(f"(tests/perf/test_profile.py:{inspect.currentframe().f_lineno - 2})")  # type: ignore[union-attr]
    assert "site-packages" not in caller


def test_process_that_is_not_there_cannot_be_traced(tmp_path: Path) -> None:
    with pytest.raises(CannotTrace, match="py-spy"):
        PySpy(2**22 + os.getpid(), tmp_path / "stacks.txt", 100)


def test_allocations_are_told_by_pod_by_file_and_by_line() -> None:
    tracemalloc.start()
    kept = [bytes(10_000) for _ in range(10)]
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    page = allocations(snapshot, len(kept), 200_000)
    assert "bytes/pod  blocks/pod   share  file" in page
    assert "kept = [bytes(10_000) for _ in range(10)]" in page
    assert "20,000 bytes a pod" in page


@pytest.mark.slow
@pytest.mark.parametrize("is_denied", [False, True], ids=["py-spy looks on", "py-spy may not look"])
def test_small_load_is_profiled(
    is_denied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_denied:
        monkeypatch.setattr("perf.profile.PySpy", Denied)
    options = ["--nodes", "20", "--pods", "1000", "--rate", "1000", "--output", str(tmp_path)]
    assert main(options) == 0
    printed, told = capsys.readouterr()
    if is_denied:
        assert "Permission denied\nTaking stacks inside the process instead: no native frames." in told
    assert "1,000 pods placed" in printed
    assert "event-loop lag: p50" in printed
    for name in ("flame.svg", "top.txt", "lag.json", "stacks.txt", "allocations.txt"):
        assert (tmp_path / name).stat().st_size > 0

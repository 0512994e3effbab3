from __future__ import annotations

import math

import pytest

from kscheduler.cycle import pod_timers
from kscheduler.cycle.pod_timers import SOONEST_S, PodTimers
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod
from tests.support.clocks import ManualClock


def test_pods_come_in_the_order_of_their_moments() -> None:
    timers = PodTimers(ManualClock(), lambda: None)
    for uid, at in (("a", 5.0), ("b", 3.0), ("c", 3.0)):
        timers.set(uid, at)
    assert timers.next_moment() == 3.0
    assert timers.pop_due(2.9) == []
    assert timers.pop_due(3.0) == ["b", "c"]
    assert timers.pop_due(9.0) == ["a"]
    assert (timers.next_moment(), len(timers)) == (None, 0)


def test_of_two_moments_of_a_pod_the_earlier_counts() -> None:
    timers = PodTimers(ManualClock(), lambda: None)
    timers.set("a", 5.0)
    timers.set("a", 8.0)
    timers.set("a", 2.0)
    assert timers.pop_due(10.0) == ["a"]
    timers.set("a", 12.0)
    assert timers.next_moment() == 12.0


def test_a_number_of_seconds_that_is_none_is_refused() -> None:
    timers = PodTimers(ManualClock(), lambda: None)
    with pytest.raises(ValueError, match="got nan"):
        timers.retry(PodInfo(make_pod("p").obj()), math.nan)
    assert (timers.next_moment(), len(timers)) == (None, 0)


def test_only_an_earlier_moment_wakes_the_task_that_sleeps() -> None:
    woken: list[str] = []
    timers = PodTimers(ManualClock(), lambda: woken.append("now"))
    timers.set("a", 5.0)
    timers.set("b", 7.0)
    timers.set("c", 4.0)
    assert len(woken) == 2


def test_only_so_many_pods_wait_for_a_later_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_timers, "MAX_KEPT", 2)
    clock = ManualClock(now=100.0)
    timers = PodTimers(clock, lambda: None)
    for number in range(4):
        timers.retry(PodInfo(make_pod(f"p{number}").obj()), float(number))
    timers.retry(PodInfo(make_pod("p1").obj()), 0.5)  # one that waits already may come earlier
    assert timers.pop_due(100.5) == ["uid-default-p0", "uid-default-p1"]
    assert timers.pop_due(109.0) == []


def test_a_pod_that_has_just_been_tried_is_tried_at_once_no_more() -> None:
    clock = ManualClock(now=100.0)
    timers = PodTimers(clock, lambda: None)
    pods = {name: PodInfo(make_pod(name).obj()) for name in ("p", "q")}
    timers.retry(pods["p"], 0.0)
    assert timers.pop_due(100.0) == ["uid-default-p"]
    timers.retry(pods["p"], -5.0)
    timers.retry(pods["q"], 0.0)
    assert timers.pop_due(100.0) == ["uid-default-q"]
    assert timers.next_moment() == 100.0 + SOONEST_S
    assert timers.pop_due(100.0 + SOONEST_S) == ["uid-default-p"]


def test_a_pod_that_was_tried_a_while_ago_is_tried_at_once() -> None:
    clock = ManualClock(now=100.0)
    timers = PodTimers(clock, lambda: None)
    pod = PodInfo(make_pod("p").obj())
    for now in (100.0, 100.0 + SOONEST_S, 105.0):
        clock.advance(now - clock.now())
        timers.retry(pod, 0.0)
        assert timers.pop_due(now) == [pod.uid]


def test_a_pod_that_is_to_be_tried_now_is_never_left_to_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_timers, "MAX_KEPT", 1)
    clock = ManualClock(now=100.0)
    timers = PodTimers(clock, lambda: None)
    timers.set("later", 105.0)
    timers.retry_now("now")
    assert timers.pop_due(100.0) == ["now"]

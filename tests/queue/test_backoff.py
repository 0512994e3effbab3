from __future__ import annotations

import pytest

from kscheduler.queue.backoff_queue import Backoff, is_backing_off, window
from kscheduler.queue.pod_info import NO_BACKOFF, QueuedPodInfo
from tests.queue.harness import make_pod


def failed(at: float, *, rejections: int = 0, faults: int = 0) -> QueuedPodInfo:
    return QueuedPodInfo(make_pod("a"), at, unschedulable_count=rejections, consecutive_errors_count=faults)


@pytest.mark.parametrize(
    ("failures", "delay_s"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (5000, 10)]
)
def test_the_delay_doubles_up_to_the_maximum(failures: int, delay_s: float) -> None:
    assert Backoff().delay_s(failures) == delay_s


def test_an_initial_delay_above_the_maximum_is_cut() -> None:
    assert Backoff(initial_s=20.0, max_s=5.0).delay_s(1) == 5.0


def test_the_end_of_the_wait_is_cut_to_its_second() -> None:
    assert Backoff().expiration(failed(10.9, rejections=1)) == 11.0
    assert Backoff().expiration(failed(10.9, rejections=3)) == 14.0


def test_faults_count_before_rejections() -> None:
    assert Backoff().expiration(failed(10.0, rejections=5, faults=1)) == 11.0


def test_a_pod_that_never_failed_and_a_queue_without_backoff_do_not_wait() -> None:
    assert Backoff().expiration(failed(10.0)) == NO_BACKOFF
    assert Backoff(max_s=0.0).expiration(failed(10.0, rejections=3)) == NO_BACKOFF


def test_a_pod_backs_off_until_its_second_has_passed() -> None:
    qpi = failed(10.3, rejections=1)
    qpi.backoff_expiration = Backoff().expiration(qpi)
    assert is_backing_off(qpi, 10.4)
    assert is_backing_off(qpi, 11.99)
    assert not is_backing_off(qpi, 12.0)
    qpi.backoff_expiration = NO_BACKOFF
    assert not is_backing_off(qpi, 0.0)


def test_windows_are_whole_seconds() -> None:
    assert [window(moment) for moment in (0.0, 0.99, 1.0, 12.5)] == [0.0, 0.0, 1.0, 12.0]

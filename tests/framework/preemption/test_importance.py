from __future__ import annotations

from kscheduler.framework.preemption.importance import by_importance, created_s, earliest_start, started_s
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.defaultpreemption.fakes import NOW


def info(pod: PodBuilder) -> PodInfo:
    return PodInfo(pod.obj())


def names(pods: list[PodInfo]) -> list[str]:
    return [pod.pod.metadata.name for pod in pods]


def test_priority_counts_first_then_the_longer_run() -> None:
    pods = [
        info(make_pod("young").priority(5).started("2024-01-02T00:00:00Z")),
        info(make_pod("low").priority(-1).started("2020-01-01T00:00:00Z")),
        info(make_pod("old").priority(5).started("2024-01-01T00:00:00Z")),
        info(make_pod("high").priority(6).started("2024-01-03T00:00:00Z")),
    ]
    assert names(by_importance(pods, NOW)) == ["high", "old", "young", "low"]


def test_a_pod_that_was_not_started_yet_is_the_youngest_and_equals_keep_their_order() -> None:
    pods = [
        info(make_pod("a").priority(1)),
        info(make_pod("b").priority(1)),
        info(make_pod("running").priority(1).started("2024-01-01T00:00:00Z")),
    ]
    assert names(by_importance(pods, NOW)) == ["running", "a", "b"]


def test_times_are_read_with_fractions_and_zones_and_what_is_no_time_is_now() -> None:
    assert started_s(info(make_pod("p").started("1970-01-01T00:00:10Z")), NOW) == 10.0
    assert started_s(info(make_pod("p").started("1970-01-01T01:00:10.500+01:00")), NOW) == 10.5
    assert started_s(info(make_pod("p").started("yesterday")), NOW) == NOW
    assert started_s(info(make_pod("p")), NOW) == NOW


def test_the_earliest_start_is_that_of_the_victims_of_the_highest_priority() -> None:
    victims = [
        info(make_pod("a").priority(5).started("1970-01-01T00:00:30Z")),
        info(make_pod("b").priority(5).started("1970-01-01T00:00:20Z")),
        info(make_pod("c").priority(1).started("1970-01-01T00:00:10Z")),
    ]
    assert earliest_start(victims, NOW) == 20.0


def test_a_pod_without_a_time_of_creation_counts_as_created_long_ago() -> None:
    assert created_s(info(make_pod("a").created("2024-01-01T00:00:01Z"))) == 1_704_067_201.0
    assert created_s(info(make_pod("b"))) == 0.0

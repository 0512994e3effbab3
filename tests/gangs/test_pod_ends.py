"""What is known about the end of a pod: its deadline, that it ends by itself, or that somebody must delete it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.client.times import unix_seconds
from kscheduler.gangs.pod_ends import SOON_S, Ending, end_of
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_pod

STARTED = "2026-01-01T00:00:00Z"
START = unix_seconds(STARTED)


def with_spec(builder: PodBuilder, **spec: object) -> Pod:
    made = builder.started(STARTED).obj()
    return replace(made, spec=replace(made.spec, **spec))


@pytest.mark.parametrize(
    ("pod", "ending", "at"),
    [
        (with_spec(make_pod("a")), Ending.LASTING, 0),
        (with_spec(make_pod("a"), restart_policy="Always"), Ending.LASTING, 0),
        (with_spec(make_pod("a"), restart_policy="Never"), Ending.OPEN, 0),
        (with_spec(make_pod("a"), restart_policy="OnFailure"), Ending.OPEN, 0),
        (with_spec(make_pod("a"), active_deadline_seconds=60), Ending.KNOWN, 60),
        (with_spec(make_pod("a"), active_deadline_seconds=86400, restart_policy="Never"), Ending.OPEN, 0),
        (with_spec(make_pod("a").terminating("2026-01-01T00:00:30Z"), active_deadline_seconds=60), Ending.KNOWN, 30),
        (with_spec(make_pod("a").owner("ReplicaSet", "web")), Ending.LASTING, 0),
    ],
)
def test_the_earliest_end_that_is_near_counts(pod: Pod, ending: Ending, at: float) -> None:
    assert end_of(PodInfo(pod), START) == (ending, START + at)


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_of_a_node_never_end(kind: str) -> None:
    pod = with_spec(make_pod("a").owner(kind, "of-each-node"), active_deadline_seconds=60)
    assert end_of(PodInfo(pod), START).ending is Ending.NONE


def test_a_pod_that_should_have_ended_long_ago_ends_nobody_knows_when() -> None:
    pod = with_spec(make_pod("a").terminating("2026-01-01T00:00:30Z"))
    assert end_of(PodInfo(pod), START + 30 + SOON_S).ending is Ending.KNOWN
    assert end_of(PodInfo(pod), START + 31 + SOON_S).ending is Ending.LASTING


def test_a_pod_that_has_not_been_started_has_no_deadline_yet() -> None:
    made = make_pod("a").obj()
    pod = replace(made, spec=replace(made.spec, active_deadline_seconds=60))
    assert end_of(PodInfo(pod), START).ending is Ending.LASTING

"""Nodes for thousands of pods that wait: both schedulers bind them all, ours not one more than there is room for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.testing.controlplane import BindWatch, ControlPlane, KubeScheduler, verify, workload
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import create, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess
from tests.support.seeds import sampled

PODS = 5_000  # waiting for ours; kube-scheduler, which takes twice as long, has so many in a hunt
FIRST_SHARE = 0.4  # of them has room on the first large node

pytestmark = pytest.mark.slow


def refusals(scheduler: SchedulerProcess) -> int:
    """How many attempts the scheduler says it has made in vain."""
    counted = 0.0
    for line in scheduler.get("/metrics").splitlines():
        if line.startswith("scheduler_schedule_attempts_total{") and 'result="unschedulable"' in line:
            counted += float(line.rpartition(" ")[2])
    return int(counted)


def large(name: str, room: int) -> dict[str, object]:
    """A node with room for so many pods of the default shape; it is their number that limits."""
    return workload.node(name, capacity={"cpu": "2000", "memory": "10Ti", "pods": str(room)})


@pytest.mark.parametrize(
    ("start", "count"),
    [pytest.param(KubeScheduler, sampled(PODS), marks=pytest.mark.search), (KScheduler, PODS)],
    ids=["KubeScheduler", "KScheduler"],
)
def test_nodes_for_thousands_of_pods_that_wait(
    start: Callable[[ControlPlane], SchedulerProcess], count: int, fresh_control_plane: Callable[..., ControlPlane]
) -> None:
    """kube-scheduler gives a binding's room back when its answer is late; a slow machine makes it bind too many."""
    first = int(count * FIRST_SHARE)
    control_plane = fresh_control_plane()
    control_plane.api.create("/api/v1/nodes", workload.node("small", capacity={"cpu": "10m", "pods": "110"}))
    scheduler = start(control_plane)
    create(control_plane.credentials, pods(count))
    eventually(lambda: refusals(scheduler) >= count, "each pod is refused", state=lambda: refusals(scheduler))
    with BindWatch(control_plane.credentials) as watch:
        control_plane.api.create("/api/v1/nodes", large("first", first))
        watch.wait(first)
        found = verify(control_plane.api)
        if start is KScheduler:
            assert (found.bound, found.overcommitted) == (first, ())
        control_plane.api.create("/api/v1/nodes", large("second", count - first))
        watch.wait(count)
    if start is KScheduler:
        eventually(lambda: verify(control_plane.api).problems == [], "all bound, one Event each, none overcommitted")

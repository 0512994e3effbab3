"""The status of a Coscheduling PodGroup: its phase, and how many of its pods run, have succeeded and have failed.

The rules are those of scheduler-plugins' own controller (pkg/controllers/podgroup_controller.go, v0.33), which goes one
step for each event; here all steps are gone at once. Two differences: pods of an equally named group in another
namespace do not count, and of several pods the first by name says whose the group is. As that controller does, this
never writes the phase Unknown, nor `scheduleStartTime`, which keeps what others wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kscheduler.api.pod_groups import (
    FAILED,
    FINISHED,
    PENDING,
    RUNNING,
    SCHEDULING,
    CoschedulingPodGroup,
    CoschedulingPodGroupStatus,
    GroupPod,
)

FINAL = (FINISHED, FAILED)


class Counted(NamedTuple):
    """How many pods are in a phase that a status counts."""

    running: int
    succeeded: int
    failed: int


def status_of(group: CoschedulingPodGroup, pods: Mapping[str, GroupPod]) -> CoschedulingPodGroupStatus:
    """Return what the status of a group is to say now. `pods`: all that name it, by name, finished ones as well."""
    status, least = group.status, max(group.spec.min_member, 1)
    while status.phase not in FINAL:
        following = _next(status, least, pods)
        if following == status:
            break
        status = following
    return status


def _next(status: CoschedulingPodGroupStatus, least: int, pods: Mapping[str, GroupPod]) -> CoschedulingPodGroupStatus:
    """Return the status after one step of the controller."""
    if not status.phase:
        return replace(status, phase=PENDING)
    if status.phase == PENDING:
        if len(pods) < least:
            return status
        owners = _owners(pods[min(pods)])
        return replace(status, phase=SCHEDULING, occupied_by=owners or status.occupied_by)
    counted = _counted(pods)
    phase = PENDING if len(pods) < least else _phase(counted, least)
    return replace(status, phase=phase, **counted._asdict())


def _phase(counted: Counted, least: int) -> str:
    if counted.succeeded >= least:
        return FINISHED
    if counted.failed and sum(counted) >= least:
        return FAILED
    return RUNNING if counted.running + counted.succeeded >= least else SCHEDULING


def _counted(pods: Mapping[str, GroupPod]) -> Counted:
    phases = [pod.status.phase for pod in pods.values()]
    return Counted(*(phases.count(phase) for phase in ("Running", "Succeeded", "Failed")))


def _owners(pod: GroupPod) -> str:
    """Return the owners of a pod as `namespace/name`, sorted and joined with commas; "" if it has none."""
    metadata = pod.metadata
    return ",".join(sorted(f"{metadata.namespace}/{owner.name}" for owner in metadata.owner_references or ()))

"""Times from a pod's own conditions: the knowledge of a scheduler that has just begun to lead.

The API writes whole seconds and cuts the rest off. Where that leaves a doubt the later moment is taken.
"""

from __future__ import annotations

import math

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.framework.telemetry import Telemetry
from kscheduler.snapshot.pod_info import PodInfo

SCHEDULED = "PodScheduled"
RESOLUTION_S = 1.0  # of the API's times
BINDINGS_KNOWN_S = 1800.0  # so far back it is known when pods were bound: twice the longest window of a usual metric


def came_at(pod: PodInfo, telemetry: Telemetry) -> float:
    """Return when the pod came to its node, in seconds of the scheduler's clock; -inf for long ago.

    A pod that this scheduler is placing comes now. For one that was created with its node the creation counts.
    """
    now = telemetry.now()
    if not pod.pod.spec.node_name:
        return now
    condition = _scheduled(pod.pod)
    if condition is None or condition.status != "True":
        text = pod.pod.metadata.creation_timestamp
    else:
        text = condition.last_transition_time
    if not text:
        return -math.inf  # what is kept of pods leaves the times of old ones out
    at = telemetry.moment_of(text) + RESOLUTION_S
    return at if at < now else now  # also if it is no time at all


def rejected_at(pod: PodInfo, telemetry: Telemetry) -> float:
    """Return when the pod was first rejected, in seconds of the scheduler's clock; now without a condition."""
    now = telemetry.now()
    condition = _scheduled(pod.pod)
    if condition is None or condition.status != "False" or not condition.last_transition_time:
        return now
    at = telemetry.moment_of(condition.last_transition_time)
    return at if at < now else now


def rejection(pod: PodInfo) -> str:
    """Return the pod's own reason why it fitted nowhere the last time; "" without any."""
    condition = _scheduled(pod.pod)
    return condition.message if condition is not None and condition.status == "False" else ""


def _scheduled(pod: Pod) -> PodCondition | None:
    return next((each for each in pod.status.conditions or () if each.type == SCHEDULED), None)

"""Times read from a pod's conditions, for a scheduler that has just become leader and did not see the events itself.

The API truncates times to whole seconds. Where that leaves a doubt, the later time is taken.
"""

from __future__ import annotations

import math

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.framework.telemetry import Telemetry
from kscheduler.snapshot.pod_info import PodInfo

SCHEDULED = "PodScheduled"
RESOLUTION_S = 1.0  # of the API's times
BINDINGS_KNOWN_S = 1800.0  # times of binding are kept this long: twice the longest window of a usual metric


def came_at(pod: PodInfo, telemetry: Telemetry) -> float:
    """Return when the pod came to its node, in seconds of the scheduler's clock; -inf if that was long ago.

    For a pod without a node the result is now; for a pod that was created with its node, the time of its creation.
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
        return -math.inf  # old times are dropped from the pods that are kept
    at = telemetry.moment_of(text) + RESOLUTION_S
    return at if at < now else now  # also for NaN, from a text that is not a time


def rejected_at(pod: PodInfo, telemetry: Telemetry) -> float:
    """Return when the pod was first rejected, in seconds of the scheduler's clock; now if no condition has the time."""
    now = telemetry.now()
    condition = _scheduled(pod.pod)
    if condition is None or condition.status != "False" or not condition.last_transition_time:
        return now
    at = telemetry.moment_of(condition.last_transition_time)
    return at if at < now else now


def rejection(pod: PodInfo) -> str:
    """Return the message of the pod's PodScheduled condition if the pod was rejected; otherwise ""."""
    condition = _scheduled(pod.pod)
    return condition.message if condition is not None and condition.status == "False" else ""


def _scheduled(pod: Pod) -> PodCondition | None:
    return next((each for each in pod.status.conditions or () if each.type == SCHEDULED), None)

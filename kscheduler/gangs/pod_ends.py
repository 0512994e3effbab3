"""When pods on nodes are expected to end, as far as their objects show."""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

from kscheduler.client.times import unix_seconds
from kscheduler.snapshot.pod_info import PodInfo

NEVER_MOVED = {"DaemonSet", "Node"}  # kinds of owners of which the pods belong to their node
SOON_S = 600.0  # an end that is further away says little, since most pods end before their deadline


class Ending(enum.IntEnum):
    """What is known about the end of a pod; the sooner it may come, the lower."""

    KNOWN = 0  # it is terminating, or its deadline is near
    OPEN = 1  # it ends by itself, nobody knows when
    LASTING = 2  # it is restarted until somebody deletes it
    NONE = 3  # as long as its node is there, it is


class End(NamedTuple):
    """Sorts by what may be waited for first."""

    ending: Ending
    at: float  # Unix seconds, at the latest; of those whose end is not known when they were started


def end_of(pod: PodInfo, now: float) -> End:
    """Return when a pod on a node is expected to end. `now`: Unix seconds."""
    metadata, spec, status = pod.pod.metadata, pod.pod.spec, pod.pod.status
    if any(owner.controller and owner.kind in NEVER_MOVED for owner in metadata.owner_references or ()):
        return End(Ending.NONE, math.inf)
    started = _seconds(status.start_time)
    ends = _seconds(metadata.deletion_timestamp)
    if spec.active_deadline_seconds is not None:
        ends = min(ends, started + spec.active_deadline_seconds)
    if abs(ends - now) <= SOON_S:
        return End(Ending.KNOWN, ends)
    return End(Ending.OPEN if spec.restart_policy in ("Never", "OnFailure") else Ending.LASTING, started)


def _seconds(text: str | None) -> float:
    """Return a time in Unix seconds; infinity without one, or for a text that is none."""
    seconds = math.nan if text is None else unix_seconds(text)
    return math.inf if math.isnan(seconds) else seconds

"""Chooses the time of day at which a simulation begins: when its pods were read from a cluster, if they were.

Preemption compares when pods were started, and consolidation when they were created. So pods that come in a simulation
must come after those that were there.
"""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.framework.preemption.importance import unix_s
from kscheduler.simulator.scenario import Arrival
from kscheduler.simulator.virtual_time import EPOCH_S

LATEST_S = 4_102_444_800.0  # 2100-01-01: a later time is a mistake


def begins_at(arrivals: Iterable[Arrival]) -> float:
    """Return the Unix time in seconds at which the first pod may come, so that no pod has a time in the future."""
    latest = EPOCH_S
    for arrival in arrivals:
        pod = arrival.pod
        created, started = pod.metadata.creation_timestamp, pod.status.start_time
        if created is not None or started is not None:
            stated = max(unix_s(text, EPOCH_S) for text in (created, started) if text is not None)
            latest = max(latest, min(stated, LATEST_S) - arrival.at_s)
    return latest

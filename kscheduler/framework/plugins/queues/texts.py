"""What Queues says of a pod that it rejects."""

from __future__ import annotations

from kscheduler.api.share_queues import PREEMPTIBILITY_LABELS
from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.reclaim import Refusal, Refused
from kscheduler.quotas.running import quantity_of
from kscheduler.quotas.standings import path_of, standing

NO_VICTIMS = "no pods whose room its queue may take"
STILL_REFUSED = "its queue does not take it even if pods are evicted"


def refusal(refused: Refused, demand: Demand) -> str:
    """Return why a queue does not take a pod, with how it stands: `...: 40 of 32 deserved, fair share 44, would be 52`.

    It is about the queue that refuses: the pod's own, or one above it. Nominated pods that go before the pod are in
    `would be`.
    """
    resource = refused.resource
    line = standing(refused.queue, resource, demand.amounts.get(resource, 0))
    if refused.reason is Refusal.OVER_LIMIT:
        return f"queue {path_of(refused.queue)} would exceed its limit of {resource} ({line})"
    fixed = quantity_of(resource, refused.queue.shares[resource].allocated_non_preemptible)
    return (
        f"queue {path_of(refused.queue)} would use more {resource} than it deserves for pods that are not preemptible "
        f"({line}; {fixed} not preemptible); the label {PREEMPTIBILITY_LABELS[0]}: preemptible lets the pod use more"
    )

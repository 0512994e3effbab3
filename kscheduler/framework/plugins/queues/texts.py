"""What Queues says of a pod that it rejects."""

from __future__ import annotations

from kscheduler.api.share_queues import PREEMPTIBILITY_LABELS, PREEMPTIBLE
from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.reclaim import Refusal, Refused
from kscheduler.quotas.running import quantity_of
from kscheduler.quotas.share_standings import path_of, standing


def refusal(refused: Refused, demand: Demand) -> str:
    """Return why a queue does not take a pod, with how it stands: `...: 40 of 32 deserved, fair share 44, would be 52`.

    It is about the queue that refuses: the pod's own, or one above it.
    """
    resource = refused.resource
    share = refused.queue.shares[resource]
    if refused.reason is Refusal.OVER_LIMIT:
        # Nominated pods that go before the pod would be there, too.
        line = standing(refused.queue, resource, refused.would_use - share.allocated)
        return f"queue {path_of(refused.queue)} would exceed its limit of {resource} ({line})"
    line = standing(refused.queue, resource, demand.amounts.get(resource, 0))
    fixed = quantity_of(resource, share.allocated_non_preemptible)
    return (
        f"queue {path_of(refused.queue)} deserves too little {resource} for another pod that is not preemptible "
        f"({line}; {fixed} not preemptible); with the label {PREEMPTIBILITY_LABELS[0]}={PREEMPTIBLE} it may use more"
    )

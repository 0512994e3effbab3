"""Finds the nodes whose free room is meant for nominated pods of other queues, or for pods that are moved.

A pod that takes room of another queue waits until its victims have ended. Meanwhile the framework keeps the room from
pods of lower or equal priority; but priorities compare pods of one queue, so that a more important pod of another queue
would take it, and further pods would have to be evicted. Of the places that are kept for pods that are moved the
framework knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.framework.nominations import Nomination
from kscheduler.quotas.kept_places import KeptPlace
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand, Demands
from kscheduler.quotas.queues import Amounts
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


def nodes_kept(
    table: NodeTable,
    nominations: Iterable[Nomination],
    demands: Demands,
    pod: PodInfo,
    demand: Demand,
    places: Iterable[KeptPlace],
) -> set[str]:
    """Return the names of the nodes where the pod would take room of less important nominated pods of other queues.

    Or one of the `places` that it leaves to others.
    """
    kept: dict[str, list[Amounts]] = {}
    for place in places:
        kept.setdefault(place.node_name, []).append(place.demand.amounts)
    placed = frozenset(kept)
    for nomination in nominations:
        other = nomination.pod
        if other.uid == pod.uid:
            continue
        if other.priority < pod.priority:
            is_before = demands.queue_of(other.pod) not in (NO_QUEUE, demand.queue)
        else:  # the framework sees to that, but for what is to be free beside it
            is_before = nomination.node_name in placed
        if is_before:
            kept.setdefault(nomination.node_name, []).append(demands.amounts_of(other.pod))
    return {
        name
        for name, amounts in kept.items()
        if (node := table.get(name)) is not None and not _has_room(node, (demand.amounts, *amounts), demand.amounts)
    }


def _has_room(node: NodeInfo, wanted: Iterable[Amounts], asked: Amounts) -> bool:
    """Return True if all that is wanted is free on the node, of the resources that are asked for."""
    free = {resource: node.free_of(resource) for resource in asked}
    for amounts in wanted:
        for resource in asked:
            free[resource] -= amounts.get(resource, 0)
    return all(free[resource] >= 0 for resource in asked)

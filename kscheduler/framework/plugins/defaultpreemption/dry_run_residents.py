"""The pods of each node in order of importance, with their requests: kept from one dry run to the next.

Most nodes have the pods they had before; those that changed are noticed when they are asked for, and only then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kscheduler._fast import Residents
from kscheduler.framework.plugins.defaultpreemption.importance import by_importance, started_s
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class NodePods:
    pods: list[PodInfo]  # the most important first
    residents: Residents  # the same for the kernels
    # When this order ends: a pod that has not been started yet starts now, so it is to come after all that have been.
    sorted_after: float


class KeptPods:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kept: dict[int, NodePods] = {}  # row -> the pods that were last found there

    def of(self, node: NodeInfo, now: float) -> NodePods:
        found = self._kept.get(node.row)
        if found is None or not found.residents.are(node.pods) or not found.sorted_after < now:
            found = self._kept[node.row] = self._look(node, now)
        return found

    def _look(self, node: NodeInfo, now: float) -> NodePods:
        pods = by_importance(node.pods.values(), now)
        request_of = self._table.request_of
        residents = Residents(node.pods.values(), [(pod.priority, request_of(pod)) for pod in pods])
        return NodePods(pods, residents, _latest_start(pods, now))


def _latest_start(pods: list[PodInfo], now: float) -> float:
    """The latest start that is on record; it only matters beside pods without one."""
    known = [started_s(pod, -math.inf) for pod in pods]
    if -math.inf not in known:
        return -math.inf
    return max(known)

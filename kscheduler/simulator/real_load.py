"""Computes the real load of a simulated cluster's nodes: what pods use, as declared by annotations of pods and nodes.

A pod uses nothing before it is on a node, nor once it has finished or is gone. The load may exceed a node's capacity:
then its pods get less than they demand.
"""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.api.objects import Node, Pod
from kscheduler.api.resources import CPU, MEMORY
from kscheduler.client.kinds import NODES, PODS
from kscheduler.simulator.amounts import node_amounts
from kscheduler.simulator.cluster import FINISHED, Cluster
from kscheduler.simulator.node_load import NodeLoad
from kscheduler.simulator.usage import RESOURCES, Amounts, Usage, node_usage, pod_usage, requested


class NodeLoads:
    """The real load of one node: a `NodeLoad` for each of RESOURCES (CPU, memory)."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.gone = False
        self.base: Amounts = (0, 0)
        self.loads = tuple(NodeLoad(now) for _ in RESOURCES)


class RealLoad:
    """Follows the real load of all nodes of a cluster.

    If made late, pods already on nodes count as starting at that moment.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.clock = cluster.clock
        self.nodes: list[NodeLoads] = []
        self.before_change: list[Callable[[float], None]] = []  # called with the time, while the old loads still hold
        self._row_of: dict[str, int] = {}  # node name -> row
        self._placed: dict[str, tuple[int, Usage, Amounts]] = {}  # pod uid -> row, what it uses, what it requests
        for node in cluster.nodes.values():
            self._node_changed(None, node)
        for pod in cluster.pods.values():
            self._pod_changed(None, pod)
        cluster.store(NODES).subscribe(self._node_changed)
        cluster.store(PODS).subscribe(self._pod_changed)

    def settle(self) -> None:
        """Add up all nodes' loads over time, i.e. load times seconds, up to the current time."""
        now = self._now()
        for node in self.nodes:
            for load in node.loads:
                load.settle(now)

    def _now(self) -> float:
        now = self.clock.now()
        for listener in self.before_change:
            listener(now)
        return now

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        now = self._now()
        name = (after or before).metadata.name  # type: ignore[union-attr]
        if after is None:
            self._set_node(self.nodes[self._row_of.pop(name)], (0, 0), (0, 0), now)
            return
        if name not in self._row_of:
            self._row_of[name] = len(self.nodes)
            self.nodes.append(NodeLoads(name, now))
        offered = node_amounts(after)
        capacity = offered.get(CPU, 0), offered.get(MEMORY, 0)
        self._set_node(self.nodes[self._row_of[name]], capacity, node_usage(after), now)

    def _set_node(self, node: NodeLoads, capacity: Amounts, base: Amounts, now: float) -> None:
        node.gone = not any(capacity)
        for load, has, old, new in zip(node.loads, capacity, node.base, base, strict=True):
            load.set_capacity(now, has)
            load.add(now, "", new - old)
        node.base = base

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        uid = pod.metadata.uid
        runs = after is not None and bool(after.spec.node_name) and after.status.phase not in FINISHED
        if runs and uid not in self._placed and pod.spec.node_name in self._row_of:
            self._start(pod)
        elif not runs and uid in self._placed:
            self._stop(uid)

    def _start(self, pod: Pod) -> None:
        now, uid, row = self._now(), pod.metadata.uid, self._row_of[pod.spec.node_name]
        usage, asked = pod_usage(pod), requested(pod)
        self._placed[uid] = row, usage, asked
        for load, amount, request in zip(self.nodes[row].loads, usage.amounts, asked, strict=True):
            load.add(now, uid, amount, usage.ramp_s)
            load.requested += request

    def _stop(self, uid: str) -> None:
        now = self._now()
        row, usage, asked = self._placed.pop(uid)
        for load, amount, request in zip(self.nodes[row].loads, usage.amounts, asked, strict=True):
            load.remove(now, uid, amount)
            load.requested -= request

"""Watches every change of a cluster in memory and every decision of a scheduler, and writes down what is wrong.

Wrong is: a bound pod that changes its node; a second binding of one pod; a decision for, or a binding to, a node
that the scheduler knew to be too full, closed to the pod, or gone. What it could not know does not count: somebody
else may have changed a node unseen, or between the decision and the binding.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kscheduler.api.objects import Node, Pod
from kscheduler.client.kinds import NODES, PODS
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Status
from kscheduler.gangs.planner import TRIAL
from kscheduler.simulator.cluster import Cluster
from kscheduler.snapshot.pod_info import PodInfo
from tests.scenarios.fitting import FINISHED, obstacles


@dataclass(frozen=True, slots=True)
class Decided:
    pod: Pod
    node_name: str
    was_informed: bool  # was the node as the scheduler believed?
    disturbances: int  # changes made to the node by others, until then


class Judge:
    """A Reserve plugin, so that it hears of a decision in the moment it is taken. Reserves nothing."""

    name = "Judge"

    def __init__(self, cluster: Cluster) -> None:
        self.violations: list[str] = []
        self.binds: Counter[str] = Counter()  # pod uid -> bindings by the scheduler that were carried out
        self.decisions: Counter[str] = Counter()  # pod uid -> decisions taken
        self._cluster = cluster
        self._seen_nodes: Mapping[str, Node] = {}  # the scheduler's informers' stores
        self._seen_pods: Mapping[str, Pod] = {}
        self._on: defaultdict[str, dict[str, Pod]] = defaultdict(dict)  # node name -> pod uid -> pod that takes room
        self._decided: dict[str, Decided] = {}  # pod uid -> a decision not carried out yet, or taken back
        self._resized: set[str] = set()  # uids of pods that were while their binding was under way
        self._disturbances: Counter[str] = Counter()  # node name -> changes by others than the scheduler
        self._is_others_turn = False
        cluster.store(PODS).subscribe(self._pod_changed)
        cluster.store(NODES).subscribe(self._node_changed)

    def look_through(self, nodes: Mapping[str, Node], pods: Mapping[str, Pod]) -> None:
        """These are what the scheduler sees."""
        self._seen_nodes, self._seen_pods = nodes, pods

    @contextlib.contextmanager
    def others_turn(self) -> Iterator[None]:
        """What is bound in here is not the scheduler's work, even if it goes where the scheduler meant it to go."""
        self._is_others_turn = True
        try:
            yield
        finally:
            self._is_others_turn = False

    def pods_on(self, node_name: str) -> list[Pod]:
        """Unfinished pods bound to the node."""
        return list(self._on[node_name].values())

    # --- the scheduler decides ---

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if state.get(TRIAL, bool):
            return None  # a gang tries where its pods would go if others were evicted
        self.decisions[pod.uid] += 1
        informed = self._is_informed(node_name)
        if informed:
            found = obstacles(pod.pod, self._cluster.nodes[node_name], self._expected_on(node_name))
            self._blame(f"{pod.key} was meant for {node_name}", found)
        elif node_name not in self._seen_nodes:
            self._blame(f"{pod.key} was meant for {node_name}", ["the scheduler had heard that this node is gone"])
        self._decided[pod.uid] = Decided(pod.pod, node_name, informed, self._disturbances[node_name])
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._decided.pop(pod.uid, None)

    def forget_decisions(self) -> None:
        """The scheduler was killed: what it had decided and not written is void."""
        self._decided.clear()

    def _is_informed(self, node_name: str) -> bool:
        node, seen = self._cluster.nodes.get(node_name), self._seen_nodes.get(node_name)
        if node is None or seen is None or node.metadata.resource_version != seen.metadata.resource_version:
            return False
        return all(self._knows(pod) for pod in self._on[node_name].values())

    def _knows(self, pod: Pod) -> bool:
        """Has the scheduler bound the pod itself, or seen that it is bound?"""
        uid, seen = pod.metadata.uid, self._seen_pods.get(pod.key)
        if self.binds[uid] and uid not in self._resized:
            return True
        if seen is None or (seen.metadata.uid, seen.spec.node_name) != (uid, pod.spec.node_name):
            return False
        return uid not in self._resized or seen.spec.containers == pod.spec.containers

    def _expected_on(self, node_name: str) -> list[Pod]:
        """Pods on the node, and those decided for it that still exist."""
        coming = [
            decided.pod
            for uid, decided in self._decided.items()
            if decided.node_name == node_name
            and (now := self._cluster.pods.get(decided.pod.key)) is not None
            and now.metadata.uid == uid
            and not now.spec.node_name
        ]
        return self.pods_on(node_name) + coming

    # --- the cluster changes ---

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        changed = after or before
        assert changed is not None
        self._disturbances[changed.metadata.name] += 1

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        was_on = before.spec.node_name if before is not None else ""
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        if before is not None and after is not None and was_on and was_on != node_name:
            self._blame(pod.key, [f"moved from {was_on} to {node_name}"])
        if after is None or pod.status.phase in FINISHED:
            self._on[node_name].pop(uid, None)
            self._decided.pop(uid, None)
            return
        if not node_name:
            return
        if not was_on:
            self._bound(pod)
        self._on[node_name][uid] = pod

    def _bound(self, pod: Pod) -> None:
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        decided = self._decided.pop(uid, None)
        if self._is_others_turn or decided is None or decided.node_name != node_name:
            self._disturbances[node_name] += 1
            return
        self.binds[uid] += 1
        if self.binds[uid] > 1:
            self._blame(pod.key, ["was bound twice"])
        if decided.was_informed and decided.disturbances == self._disturbances[node_name]:
            node = self._cluster.nodes[node_name]
            others = [other for other in self.pods_on(node_name) if other.metadata.uid != uid]
            self._blame(f"{pod.key} was bound to {node_name}", obstacles(decided.pod, node, others))
        if pod.spec.containers != decided.pod.spec.containers:  # somebody resized it after it was decided
            self._resized.add(uid)
            self._disturbances[node_name] += 1

    def _blame(self, who: str, found: list[str]) -> None:
        now = self._cluster.clock.now()
        self.violations += [f"at {now:g} s: {who}: {what}" for what in found]

"""Finds the pods that would have to leave a node by ElasticQuotas, so that a pod fits there and in its quota.

A pod whose namespace would use more than its `min` may evict pods of lower priority in its own namespace. One that
stays within it has lent its room: it may evict pods, of any priority, of other namespaces that use more than their
`min`. A pod without a quota may evict pods of lower priority without a quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.interface import WhatIf
from kscheduler.framework.preemption.candidates import candidate_of
from kscheduler.framework.preemption.importance import by_importance
from kscheduler.framework.preemption.sparing import spare
from kscheduler.framework.preemption.violations import split
from kscheduler.framework.status import Status, unresolvable, unschedulable
from kscheduler.quotas.amounts import Request
from kscheduler.quotas.elastic import ElasticView
from kscheduler.quotas.priorities import Priorities
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

MAX_EXCEEDED = "global quota max exceeded"


class Check(Protocol):
    """What PreFilter found about the pod; its `view` follows the moves on the copy of the node."""

    @property
    def request(self) -> Request: ...

    @property
    def in_quota(self) -> Request: ...

    @property
    def in_all(self) -> Request: ...

    @property
    def view(self) -> ElasticView: ...


class Exposed:
    """The pods that a pod may evict by its quota, as the namespaces stand in its view at present."""

    def __init__(self, check: Check, pod: PodInfo) -> None:
        self._view, self._pod, self._mine = check.view, pod, pod.pod.metadata.namespace
        self._has_quota = self._view.has_quota(self._mine)
        # Within its min it takes back what it has lent, whatever priority the borrowers have.
        self._takes_back = self._has_quota and not self._view.exceeds_min(self._mine, check.in_quota)

    def has_namespace(self, theirs: str) -> bool:
        """Return True if pods of the namespace may be evicted, if they are not too important."""
        view = self._view
        if view.has_quota(theirs) is not self._has_quota:
            return False
        if self._takes_back:
            return theirs != self._mine and view.is_over_min(theirs)
        return theirs == self._mine or not self._has_quota

    def has_priority(self, theirs: int) -> bool:
        """Return True if pods of the priority may be evicted, in a namespace whose pods may be."""
        return self._takes_back or theirs < self._pod.priority

    def has(self, other: PodInfo) -> bool:
        return self.has_priority(other.priority) and self.has_namespace(other.pod.metadata.namespace)

    def is_nobody(self, priorities: Priorities) -> bool:
        """Return True if no pod on any node may be evicted, by the priorities of all pods."""
        if self._has_quota and not self._takes_back:
            namespaces: Iterable[str] = (self._mine,)
        else:
            namespaces = priorities.namespaces()
        return not any(
            (lowest := priorities.lowest(namespace)) is not None
            and self.has_priority(lowest)
            and self.has_namespace(namespace)
            for namespace in namespaces
        )

    def by_node(self, nodes: Sequence[NodeInfo]) -> list[list[PodInfo]]:
        """Return the pods on each of these nodes that may be evicted."""
        known: dict[str, bool] = {}
        found = []
        for node in nodes:
            here = []
            for other in node.pods.values():
                if not self.has_priority(other.priority):
                    continue
                namespace = other.pod.metadata.namespace
                is_exposed = known.get(namespace)
                if is_exposed is None:
                    is_exposed = known[namespace] = self.has_namespace(namespace)
                if is_exposed:
                    here.append(other)
            found.append(here)
        return found


def no_victims(pod: PodInfo, node_name: str = "") -> Status:
    """Return the status of a node without pods that the pod may evict; without a name, that of many such nodes."""
    where = f"on node {node_name} " if node_name else ""
    return unresolvable(f"No victims found {where}for preemptor pod {pod.pod.metadata.name}")


def find_victims(
    what_if: WhatIf, check: Check, pod: PodInfo, node: NodeInfo, budgets: DisruptionBudgets, now: float
) -> Candidate | Status:
    """Return the node as a candidate with its victims, or a status that states why evictions do not help there.

    `check` is that of the cycle state of `what_if`, which is changed. `now`: Unix seconds, the start of pods that have
    not been started.
    """
    # 1. All pods that it may evict leave.
    away = _clear(what_if, check, pod, node, now)
    if isinstance(away, Status):
        return away
    if not away:
        return no_victims(pod, node.name)
    # 2. Does it help at all?
    status = what_if.fits()
    if status is not None:
        return status
    if _exceeds(check.view, pod, check.request, check.request):
        return unschedulable(MAX_EXCEEDED)
    # 3. Pods come back where the pod still fits, and the quotas are still kept.
    violating, others = split(by_importance(away, now), budgets, stops_at_overdrawn=False)

    def may_stay() -> bool:
        return what_if.fits() is None and not _exceeds(check.view, pod, check.in_quota, check.in_all)

    unspared = spare(what_if, violating, may_stay)
    if isinstance(unspared, Status):
        return unspared
    victims = spare(what_if, others, may_stay)
    if isinstance(victims, Status):
        return victims
    return candidate_of(node.name, unspared, victims, now)


def _clear(what_if: WhatIf, check: Check, pod: PodInfo, node: NodeInfo, now: float) -> list[PodInfo] | Status:
    """Remove all pods that the pod may evict from the copy of the node, the least important first, and return them.

    Another namespace's pods leave only as long as it uses more than its `min`.
    """
    exposed, away = Exposed(check, pod), list[PodInfo]()
    for other in reversed(by_importance(node.pods.values(), now)):
        if exposed.has(other):
            fault = what_if.remove(other)
            if fault is not None:
                return fault
            away.append(other)
    return away


def _exceeds(view: ElasticView, pod: PodInfo, in_quota: Request, in_all: Request) -> bool:
    """Return True if a quota would be exceeded with these requests on top of what is used."""
    namespace = pod.pod.metadata.namespace
    return view.has_quota(namespace) and (view.exceeds_max(namespace, in_quota) or view.exceeds_all_min(in_all))

"""Finds the pods that would have to leave a node, by the rules of queues with shares, so that a pod fits there.

There are three ways, and they are not mixed: a pod may *reclaim* room from other queues, or *preempt* less important
pods of its own queue. A pod in no queue may preempt any less important pod, as in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Protocol

from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.interface import WhatIf
from kscheduler.framework.preemption.candidates import candidate_of
from kscheduler.framework.preemption.importance import by_importance, started_s
from kscheduler.framework.preemption.violations import split
from kscheduler.framework.status import Status, unresolvable, unschedulable
from kscheduler.quotas.min_runtime import preempt_min_s, reclaim_min_s
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand
from kscheduler.quotas.queue_order import dominant_share
from kscheduler.quotas.queues import Amounts, Queue
from kscheduler.quotas.reclaim import Taking, can_reclaim, may_take_from
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.share_view import ShareView
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

STILL_REFUSED = "its queue does not take the pod even if pods are evicted"
NOTHING: Amounts = {}


class Check(Protocol):
    """What PreFilter found about the pod; its `view` follows the moves on the copy of the node."""

    @property
    def demand(self) -> Demand: ...

    @property
    def view(self) -> ShareView: ...


class Way(Protocol):
    """A way in which a pod may get room."""

    def exposed(self, node: NodeInfo) -> list[PodInfo]:
        """Return the pods on the node that may be evicted, if not all of them together."""
        ...

    def exposes(self, other: PodInfo) -> bool:
        """Return True if a pod on a node may be evicted."""
        ...

    def may_take(self, victims: Sequence[PodInfo]) -> bool:
        """Return True if all these pods may be evicted together, each of which may be."""
        ...

    @property
    def wait_s(self) -> float | None:
        """The seconds until further pods are exposed that have not run for long enough yet; None if there are none."""
        ...

    def find(
        self, what_if: WhatIf, check: Check, node: NodeInfo, budgets: DisruptionBudgets, now: float
    ) -> Candidate | Status:
        """Return the node as a candidate with its victims, or a status that states why evictions do not help there.

        `check` is that of the cycle state of `what_if`, which is changed. `now`: Unix seconds, the start of pods that
        have not been started.
        """
        ...


def no_victims(pod: PodInfo) -> Status:
    """Return the status of a node without pods that the pod may evict."""
    return unresolvable(f"No victims found for preemptor pod {pod.pod.metadata.name}")


class Runs:
    """Tells pods that have run for long enough, and when the next one will have. `now`: Unix seconds."""

    def __init__(self, now: float) -> None:
        self._now = now
        self.wait_s: float | None = None

    def are_over(self, pod: PodInfo, least_s: float) -> bool:
        """Return True if the pod has run for so many seconds, or has not been started."""
        if least_s <= 0 or pod.pod.status.start_time is None:
            return True
        left = started_s(pod, self._now) + least_s - self._now
        if left <= 0:
            return True
        self.wait_s = left if self.wait_s is None else min(self.wait_s, left)
        return False


class Preempting:
    """Room of less important pods: those of the pod's own queue that are preemptible, or any if it is in no queue."""

    def __init__(self, queues: ShareQueues, demand: Demand, pod: PodInfo, now: float) -> None:
        self._queues = queues
        self._demand = demand
        self._pod = pod
        queue = queues.get(demand.queue)
        self._runs = Runs(now)
        self._min_s = 0.0 if queue is None else preempt_min_s(queue)

    @property
    def wait_s(self) -> float | None:
        return self._runs.wait_s

    @property
    def is_possible(self) -> bool:
        """False if no pod on any node is exposed."""
        if self._demand.queue == NO_QUEUE:
            return True
        lowest = self._queues.priorities.lowest(self._demand.queue)
        return lowest is not None and lowest < self._pod.priority

    def exposed(self, node: NodeInfo) -> list[PodInfo]:
        return [other for other in node.pods.values() if self.exposes(other)]

    def exposes(self, other: PodInfo) -> bool:
        if other.priority >= self._pod.priority:
            return False
        if self._demand.queue == NO_QUEUE:
            return True
        theirs = self._queues.charged(other.uid)
        if theirs is None or not theirs.is_preemptible or theirs.queue != self._demand.queue:
            return False
        return self._runs.are_over(other, self._min_s)

    def may_take(self, victims: Sequence[PodInfo]) -> bool:
        return True

    def find(
        self, what_if: WhatIf, check: Check, node: NodeInfo, budgets: DisruptionBudgets, now: float
    ) -> Candidate | Status:
        # 1. All of them leave.
        away = self.exposed(node)
        for other in away:
            fault = what_if.remove(other)
            if fault is not None:
                return fault
        if not away:
            return no_victims(self._pod)
        # 2. Does it help at all?
        status = _why_not(what_if, check)
        if status is not None:
            return status
        # 3. They come back where the pod still fits, and the queues take it.
        return _spare(what_if, check, node, away, budgets, now)


class Reclaiming:
    """Room of preemptible pods of other queues that use more than their share, by the rules of `quotas.reclaim`.

    They are judged by what the queues use without pods that are ending, and with the nominated pods.
    """

    def __init__(
        self, queues: ShareQueues, demand: Demand, pod: PodInfo, now: float, use: ShareView, ending: Set[str]
    ) -> None:
        """`use`: without the pods whose uids are in `ending`, whose room costs nothing any more."""
        queues.refresh()
        self._queues = queues
        self._demand = demand
        self._pod = pod
        self._queue = queues.tree.queues[demand.queue]
        self._use = use
        self._ending = ending
        self._allowed: dict[str, bool] = {}  # queue -> may anything be taken from it?
        self._saturations: dict[str, tuple[float, ...]] = {}
        self._runs = Runs(now)
        self._min_s: dict[str, float] = {}  # queue -> how long its pods run at least

    @property
    def wait_s(self) -> float | None:
        return self._runs.wait_s

    @property
    def is_possible(self) -> bool:
        """False if the queue may not reclaim, or no other queue has anything that it may take."""
        demand = self._demand
        with self._use.applied():
            if not can_reclaim(self._queue, demand.amounts, is_preemptible=demand.is_preemptible):
                return False
        return any(self._is_allowed(name) for name in self._queues.priorities.namespaces())

    def _is_allowed(self, name: str) -> bool:
        """Return True if a pod that needs nothing may be taken from this queue: else no pod may."""
        known = self._allowed.get(name)
        if known is None:
            theirs = self._queues.get(name)
            known = theirs is not None and theirs is not self._queue and self._may_take({theirs: [NOTHING]})
            self._allowed[name] = known
        return known

    def _may_take(self, victims: dict[Queue, list[Amounts]]) -> bool:
        demand = self._demand
        with self._use.applied():
            return may_take_from(
                self._queue,
                demand.amounts,
                victims,
                is_preemptible=demand.is_preemptible,
                saturation_multiplier=self._queues.saturation_multiplier,
            )

    def exposed(self, node: NodeInfo) -> list[PodInfo]:
        return [other for other in node.pods.values() if self.exposes(other)]

    def exposes(self, other: PodInfo) -> bool:
        theirs = self._queues.charged(other.uid)
        if theirs is None or not theirs.is_preemptible or theirs.queue == self._demand.queue:
            return False
        if other.uid in self._ending:
            return theirs.queue in self._queues.tree.queues
        return self._is_allowed(theirs.queue) and self._runs.are_over(other, self._least(theirs.queue))

    def may_take(self, victims: Sequence[PodInfo]) -> bool:
        taken: dict[Queue, list[Amounts]] = {}
        for other in victims:
            theirs = self._queues.charged(other.uid)
            if theirs is not None and other.uid not in self._ending:
                taken.setdefault(self._queues.tree.queues[theirs.queue], []).append(theirs.amounts)
        return self._may_take(taken)

    @contextmanager
    def taking(self) -> Iterator[Taking]:
        """Return what judges ever more victims, beside those before them, within a `with` block.

        Nothing else may be asked of this object meanwhile.
        """
        with self._use.applied():
            yield Taking(
                self._queue,
                self._demand.amounts,
                is_preemptible=self._demand.is_preemptible,
                saturation_multiplier=self._queues.saturation_multiplier,
            )

    def amounts_of(self, victims: Iterable[PodInfo]) -> dict[Queue, dict[str, int]]:
        """Return what pods use of their queues, without those that are ending."""
        found: dict[Queue, dict[str, int]] = {}
        for other in victims:
            theirs = self._queues.charged(other.uid)
            if theirs is not None and other.uid not in self._ending:
                used = found.setdefault(self._queues.tree.queues[theirs.queue], {})
                for resource, amount in theirs.amounts.items():
                    used[resource] = used.get(resource, 0) + amount
        return found

    def saturation_of(self, other: PodInfo) -> tuple[float, ...]:
        """Return a key that sorts pods of the most saturated queues first, level by level."""
        theirs = self._queues.charged(other.uid)
        return self._saturation("" if theirs is None else theirs.queue)

    def _least(self, name: str) -> float:
        known = self._min_s.get(name)
        if known is None:
            known = self._min_s[name] = reclaim_min_s(self._queue, self._queues.tree.queues[name])
        return known

    def find(
        self, what_if: WhatIf, check: Check, node: NodeInfo, budgets: DisruptionBudgets, now: float
    ) -> Candidate | Status:
        # 1. Pods leave one by one until the pod fits, as long as their queues can be asked to give more.
        away: list[PodInfo] = []
        victims: dict[Queue, list[Amounts]] = {}
        spent: set[str] = set()  # queues that need not give more
        status: Status | None = no_victims(self._pod)
        for other in self._in_order(self.exposed(node), budgets, now):
            theirs = self._queues.charged(other.uid)
            if theirs is None or theirs.queue in spent:
                continue
            if other.uid not in self._ending:
                queue = self._queues.tree.queues[theirs.queue]
                more = {**victims, queue: [*victims.get(queue, ()), theirs.amounts]}
                if not self._may_take(more):
                    spent.add(theirs.queue)
                    continue
                victims = more
            fault = what_if.remove(other)
            if fault is not None:
                return fault
            away.append(other)
            status = _why_not(what_if, check)
            if status is None:
                # 2. Those come back that are not needed. Of victims that may be taken, so may any part.
                return _spare(what_if, check, node, away, budgets, now)
        return no_victims(self._pod) if status is None else status

    def _in_order(self, pods: Iterable[PodInfo], budgets: DisruptionBudgets, now: float) -> list[PodInfo]:
        """Return the pods in the order in which they leave.

        Pods that are ending; those of the most saturated queues, level by level; the least important first. Those that
        would then violate a PodDisruptionBudget come last.
        """
        order = sorted(pods, key=lambda pod: self._rank(pod, now))
        violating, others = split(order, budgets, stops_at_overdrawn=False)
        return others + violating

    def _rank(self, pod: PodInfo, now: float) -> tuple[bool, tuple[float, ...], int, float]:
        return pod.uid not in self._ending, self.saturation_of(pod), pod.priority, -started_s(pod, now)

    def _saturation(self, name: str) -> tuple[float, ...]:
        """Return minus the dominant shares of a queue and those above it, from the top down."""
        known = self._saturations.get(name)
        if known is None:
            queue = self._queues.get(name)
            path = [] if queue is None else list(queue.path())[::-1]
            total = self._queues.total
            with self._use.applied():
                known = tuple(-dominant_share(each, each.allocated(), total) for each in path)
            self._saturations[name] = known
        return known


def _why_not(what_if: WhatIf, check: Check) -> Status | None:
    """Return None if the pod fits on the copy of the node, and its queue takes it."""
    status = what_if.fits()
    if status is not None or check.demand.queue == NO_QUEUE:
        return status
    return None if check.view.why_refused(check.demand) is None else unschedulable(STILL_REFUSED)


def _spare(
    what_if: WhatIf,
    check: Check,
    node: NodeInfo,
    away: Sequence[PodInfo],
    budgets: DisruptionBudgets,
    now: float,
) -> Candidate | Status:
    """Put pods back one by one, each only if the pod still fits beside it; those that stay away are the victims.

    Pods whose eviction would violate a PodDisruptionBudget come first.
    """
    violating, others = split(by_importance(away, now), budgets, stops_at_overdrawn=False)
    kinds: list[list[PodInfo]] = []
    for pods in (violating, others):
        victims: list[PodInfo] = []
        for other in pods:
            fault = what_if.add(other)
            if fault is not None:
                return fault
            if _why_not(what_if, check) is not None:
                fault = what_if.remove(other)
                if fault is not None:
                    return fault
                victims.append(other)
        kinds.append(victims)
    return candidate_of(node.name, kinds[0], kinds[1], now)

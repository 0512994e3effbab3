"""Gangs of queues with shares take room as single pods of their queue do, all of a gang counted together.

A gang *reclaims* room of other queues if with its whole minimum its queue stays within its fair share, from queues that
are above theirs; else it *preempts* less important pods of its own queue. What another gang loses together, such as its
minimum, counts as one victim: before it leaves, its queue must be above its share. After each unit it is asked again
whether the next may be taken, so that of the units any number of first ones may.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kscheduler.errors import DecodeError
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.queues.use_to_come import use_to_come
from kscheduler.framework.plugins.queues.victims import Preempting, Reclaiming
from kscheduler.framework.preemption.importance import started_s
from kscheduler.gangs.preemption.units import ANY_PRIORITY, Exposes, Order, Unit
from kscheduler.gangs.preemption.ways import LowerPriority, Preemptor, Way
from kscheduler.gangs.texts import IN_VAIN_BY_SHARES, NOBODY_BY_SHARES
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand, together
from kscheduler.quotas.queues import Queue
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.snapshot.pod_info import PodInfo


class ByShares:
    """The rules of a profile with Queues."""

    nobody, in_vain = NOBODY_BY_SHARES, IN_VAIN_BY_SHARES

    def __init__(self, handle: Handle, queues: ShareQueues) -> None:
        self._handle = handle
        self._queues = queues

    def sizes(self, preemptor: Preemptor, least: int) -> Sequence[int]:
        """Return a number for which the queue may take room, and the least.

        The first is all members, a half of them, and so on: the more there are, the less their queue may take for them.
        """
        many = preemptor.missing
        while many > least and not self.ways(replace(preemptor, missing=many)):
            many = max(many // 2, least)
        return (many, least) if many > least else (least,)

    def ways(self, preemptor: Preemptor, placed: Collection[str] = ()) -> Sequence[Way]:
        demand = self._demand_of(preemptor)
        if demand is None:
            return ()
        now = self._handle.evictions.wall()
        least = min((queued.pod_info for queued in preemptor.members), key=lambda pod: pod.priority)
        preempting = Preempting(self._queues, demand, least, now)
        found: list[Way] = []
        if demand.queue in self._queues.leaves:
            reclaiming = self._reclaiming(preemptor, demand, least, now, placed)
            if reclaiming.is_possible:
                found.append(OfOtherQueues(reclaiming, now))
        if preempting.is_possible:
            found.append(OfOwnQueue(preemptor.priority, preempting))
        return found

    def could_evict(self, preemptor: Preemptor, other: PodInfo) -> bool:
        demand = self._demand_of(preemptor)
        if demand is None or demand.queue == NO_QUEUE:
            return other.priority < preemptor.priority
        theirs = self._queues.charged(other.uid)
        if theirs is None or not theirs.is_preemptible:
            return False
        is_own = theirs.queue == demand.queue
        return other.priority < preemptor.priority if is_own else theirs.queue in self._queues.leaves

    def _demand_of(self, preemptor: Preemptor) -> Demand | None:
        """Return what the gang's minimum asks of its queue; None if its pods name several queues, or cannot be read."""
        try:
            demands = [self._queues.demands.of(queued.pod_info.pod) for queued in preemptor.members]
        except DecodeError:  # PreFilter reports it
            return None
        return together(demands, preemptor.missing)

    def _reclaiming(
        self, preemptor: Preemptor, demand: Demand, least: PodInfo, now: float, placed: Collection[str]
    ) -> Reclaiming:
        members = [queued.pod_info.pod for queued in preemptor.members]
        use, ending = use_to_come(self._handle, self._queues, demand.queue, members, placed)
        return Reclaiming(self._queues, demand, least, now, use, ending)


class OfOwnQueue(LowerPriority):
    """Room of less important pods of the gang's own queue; of any if it is in none."""

    def __init__(self, below: int, preempting: Preempting) -> None:
        super().__init__(below, preempting.exposes)
        self._preempting = preempting

    @property
    def wait_s(self) -> float | None:
        return self._preempting.wait_s

    def may_take(self, units: Sequence[Unit], order: Order) -> bool:
        return _are_exposed(units, self._preempting.exposes)


class OfOtherQueues:
    """Room of other queues, of pods of any priority."""

    below = ANY_PRIORITY

    def __init__(self, reclaiming: Reclaiming, now: float) -> None:
        """`now`: in Unix seconds, the start of pods that have not been started."""
        self._reclaiming = reclaiming
        self._now = now

    @property
    def wait_s(self) -> float | None:
        return self._reclaiming.wait_s

    @property
    def exposes(self) -> Exposes:
        return self._reclaiming.exposes

    def leaving(self, units: Sequence[Unit], order: Order) -> list[Unit]:
        """Return the units in order, without those that their queues need not give any more.

        Units that are terminating; those of the most saturated queues, level by level; the least important first. Those
        that would then violate a PodDisruptionBudget come last.
        """
        ending = [unit for unit in units if unit.is_ending]
        in_order = sorted((unit for unit in units if not unit.is_ending), key=self._rank)
        violating, others = order.split(in_order)
        spent: set[frozenset[Queue]] = set()  # queues that need not give single pods any more
        taken: list[Unit] = []
        with self._reclaiming.taking() as taking:
            for unit in (*others, *violating):
                amounts = self._reclaiming.amounts_of(unit.pods)
                queues = frozenset(amounts)
                if queues in spent:
                    continue
                if taking.take_together(amounts):
                    taken.append(unit)
                elif unit.gang is None:
                    spent.add(queues)
        return [*ending, *taken]

    def may_take(self, units: Sequence[Unit], order: Order) -> bool:
        return _are_exposed(units, self.exposes) and len(self.leaving(units, order)) == len(units)

    def _rank(self, unit: Unit) -> tuple[tuple[float, ...], int, float]:
        saturation = max(map(self._reclaiming.saturation_of, unit.pods))  # of the queue that can spare least
        return saturation, unit.priority, -min(started_s(pod, self._now) for pod in unit.pods)


def _are_exposed(units: Sequence[Unit], exposes: Exposes) -> bool:
    return all(exposes(pod) for unit in units for pod in unit.pods)

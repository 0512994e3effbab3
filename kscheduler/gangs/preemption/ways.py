"""Who may be evicted for a gang, and who goes first: the rules that a preemption goes by, and those of priorities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from kscheduler.framework.preemption.executor import is_ending_for_preemption
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.preemption.units import Exposes, Order, Unit
from kscheduler.gangs.texts import IN_VAIN, NOBODY_TO_EVICT
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A gang that does not fit."""

    key: GangKey
    face: PodInfo  # its pod in the queue
    members: Sequence[QueuedPodInfo]  # those that wait
    missing: int  # how many of them must get nodes
    priority: int  # below which pods may be evicted by their priority


class Way(Protocol):
    """A way in which a gang may get room."""

    @property
    def below(self) -> int:
        """The priority below which pods may be evicted."""
        ...

    @property
    def wait_s(self) -> float | None:
        """The seconds until further pods may be evicted that have not run for long enough yet; None without any."""
        ...

    @property
    def exposes(self) -> Exposes | None:
        """What says whether a pod of such a priority may be evicted, if not together with all others; None: any may."""
        ...

    def leaving(self, units: Sequence[Unit], order: Order) -> list[Unit]:
        """Return those of the units that may leave, each after those before it, in the order in which they do."""
        ...

    def may_take(self, units: Sequence[Unit], order: Order) -> bool:
        """Return True if all these units may leave together."""
        ...


class Rules(Protocol):
    @property
    def nobody(self) -> str:
        """The message of a gang for which nobody may be evicted where it would help."""
        ...

    @property
    def in_vain(self) -> str:
        """The message of a gang for which there would be too little room if all left who may."""
        ...

    def sizes(self, preemptor: Preemptor, least: int) -> Sequence[int]:
        """Return for how many members room is searched, one number after the other; it may be found for fewer.

        `preemptor.missing`: as many as may be placed. `least`: as few.
        """
        ...

    def ways(self, preemptor: Preemptor, placed: Collection[str] = ()) -> Sequence[Way]:
        """Return the ways in which a gang may get room, in order, without those that are known to fail.

        `placed`: uids of members that are assumed at the moment, and will be taken back.
        """
        ...

    def could_evict(self, preemptor: Preemptor, other: PodInfo) -> bool:
        """Return True if `other` is one that the gang could have chosen as a victim."""
        ...


class ByPriority:
    """The rules of a profile with DefaultPreemption: any pod of lower priority."""

    nobody, in_vain = NOBODY_TO_EVICT, IN_VAIN

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def sizes(self, preemptor: Preemptor, least: int) -> Sequence[int]:
        return (preemptor.missing,)  # however many there are, the same pods may be evicted

    def ways(self, preemptor: Preemptor, placed: Collection[str] = ()) -> Sequence[Way]:
        lowest = self._table.lowest_priority
        return () if lowest is None or lowest >= preemptor.priority else (LowerPriority(preemptor.priority),)

    def could_evict(self, preemptor: Preemptor, other: PodInfo) -> bool:
        return other.priority < preemptor.priority


class LowerPriority:
    """Room of pods of lower priority; `exposes` can leave some of them out."""

    def __init__(self, below: int, exposes: Exposes | None = None) -> None:
        self.below = below
        self.exposes = exposes

    @property
    def wait_s(self) -> float | None:
        return None

    def leaving(self, units: Sequence[Unit], order: Order) -> list[Unit]:
        return order.leaving(units)

    def may_take(self, units: Sequence[Unit], order: Order) -> bool:
        return True


def waits_for_room(
    rules: Rules,
    preemptor: Preemptor,
    table: NodeTable,
    nominated: Collection[str],
    has_ended: Callable[[PodInfo], bool],
) -> bool:
    """Return True if a pod that was preempted is still terminating on one of the nodes that members are nominated to.

    `has_ended(pod)`: its deletion was accepted a moment ago, whatever the watch shows.
    """
    for name in nominated:
        node = table.get(name)
        for other in () if node is None else node.pods.values():
            if (is_ending_for_preemption(other.pod) or has_ended(other)) and rules.could_evict(preemptor, other):
                return True
    return False

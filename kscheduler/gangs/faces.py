"""Makes the faces of gangs that wait: each shows a priority, and is otherwise one of the members.

A gang has the priority that its object states, or else that of its most important member.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.stand_in import FurtherFace, StandIn, face_of
from kscheduler.queue.pod_info import NOBODY, QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo


class Helpful(NamedTuple):
    """Of which plugins an event may help a gang by this member of it: those that rejected it, or might have."""

    member: QueuedPodInfo
    plugins: Set[str]
    pending_plugins: Set[str] = NOBODY


class Faces:
    """The faces of the gangs of one registry."""

    def __init__(self, registry: Registry, *, sums_resizes_apart: bool) -> None:
        self._registry = registry
        self._sums_resizes_apart = sums_resizes_apart

    def new(self, key: GangKey, member: PodInfo, priority: int | None = None) -> PodInfo:
        """Return a face that looks like a member. Without a priority of its own, a gang has at least `priority`."""
        tracked = self._registry.get(key)
        own = None if tracked is None or tracked.gang is None else tracked.gang.priority
        if own is None:
            own = member.priority if priority is None else max(priority, member.priority)
        return face_of(key, own, member, sums_resizes_apart=self._sums_resizes_apart)

    def raised(self, stand_in: StandIn, member: PodInfo) -> PodInfo | None:
        """Return the face that a gang gets because of a member, or because its object states another priority."""
        tracked = self._registry.get(stand_in.gang_key)
        own = None if tracked is None or tracked.gang is None else tracked.gang.priority
        shown = stand_in.pod_info.priority
        if (own is None and member.priority > shown) or (own is not None and own != shown):
            return self.new(stand_in.gang_key, member, shown)
        return None

    def after_attempt(self, stand_in: StandIn, member: PodInfo | None) -> PodInfo:
        """Return a face like a member: the given one, or else any that is held; as important as any of these."""
        held = stand_in.members.values()
        looks_like = next(iter(held)).pod_info if member is None else member
        priority = max(each.pod_info.priority for each in held)
        return self.new(stand_in.gang_key, looks_like, priority)

    def further(self, stand_in: StandIn, others: Iterable[Helpful]) -> tuple[FurtherFace, ...]:
        """Return a face for each of these members that is held and was rejected, or might have been."""
        waiting = (
            each for each in others if each.member.uid in stand_in.members and (each.plugins or each.pending_plugins)
        )
        return tuple(
            FurtherFace(
                face_of(
                    stand_in.gang_key,
                    stand_in.pod_info.priority,
                    each.member.pod_info,
                    sums_resizes_apart=self._sums_resizes_apart,
                    number=number,
                ),
                stand_in.timestamp,
                unschedulable_plugins=frozenset(each.plugins),
                pending_plugins=frozenset(each.pending_plugins),
                stand_in=stand_in,
            )
            for number, each in enumerate(waiting, 1)
        )

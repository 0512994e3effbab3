"""Finds other nodes for pods that leave theirs, as if their controllers had created them again already.

Each is judged by the plugins of its own profile: beside the pod that they make room for, without those that leave, and
with those that have got a place before it. The smallest are placed first, and where most room is. A large one that then
still fits will mostly do so in whatever order they come and are scored: a pod that moves must not be left without a
node because another one has taken the only one that was large enough.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kscheduler.api.objects import Pod, PodStatus
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, ProfileHandle
from kscheduler.framework.status import Status
from kscheduler.quotas.queues import Amounts
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.uncounted import Uncounted
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

MOST_NODES = 64  # with most room, that a pod is tried on
UID_PREFIX = "moved:"

Place = tuple[PodInfo, NodeInfo]  # the pod that comes in the place of one that leaves, and its node


class NewPlaces:
    """Valid until queues, pods or nodes change."""

    def __init__(
        self,
        handle: Handle,
        queues: ShareQueues,
        pod: PodInfo,
        amounts_of: Callable[[PodInfo], Amounts],
        most_trials: int,
    ) -> None:
        """`pod`: the one that others make room for. `most_trials`: of a pod on a node, after which none is found."""
        self._handle = handle
        self._queues = queues
        self._pod = pod
        self._amounts_of = amounts_of
        self.trials = 0  # of a pod on a node
        self._most_trials = most_trials
        self._roomy: dict[int, tuple[Amounts, list[tuple[int, NodeInfo]]]] = {}  # by the id of the amounts

    def find(self, leaving: Sequence[PodInfo], node: NodeInfo) -> list[Place] | None:
        """Return a place for each of the pods, the smallest first, that leave this node; None if one has none."""
        uncounted = Uncounted(self._queues)
        found: list[Place] = []
        try:
            for pod in leaving:  # a queue that is full has room for the pods that come in their place
                uncounted.take(pod.uid)
            for pod in leaving:
                place = self._find_one(pod, leaving, node, found)
                if place is None:
                    return None
                found.append(place)
        finally:
            uncounted.put_all_back()
        return found

    def has_any(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Return True if there is free room for the pod, as it is at present, on another node than its own."""
        return any(other is not node for _, other in self._with_room(pod))

    def _find_one(
        self, pod: PodInfo, leaving: Sequence[PodInfo], node: NodeInfo, before: Sequence[Place]
    ) -> Place | None:
        again = _created_again(pod, sums_resizes_apart=self._handle.release.sums_resizes_apart)
        profile, state = self._handle.profiles[pod.pod.spec.scheduler_name], CycleState()
        names = profile.pre_filter_on_trial(state, again)
        if isinstance(names, Status):
            return None
        for other in self._in_order(pod, before):
            if other is node or (names is not None and other.name not in names):
                continue
            self.trials += 1
            if self.trials > self._most_trials:
                return None
            if self._fits(profile, state, again, other, leaving, node, before):
                return again, other
        return None

    def _fits(
        self,
        profile: ProfileHandle,
        state: CycleState,
        again: PodInfo,
        other: NodeInfo,
        leaving: Sequence[PodInfo],
        node: NodeInfo,
        before: Sequence[Place],
    ) -> bool:
        what_if = profile.what_if(state, again, other.name)
        faults = [what_if.remove_elsewhere(pod, node) for pod in leaving]
        faults.append(what_if.add_elsewhere(self._pod, node))
        for pod, at in before:
            faults.append(what_if.add(pod) if at is other else what_if.add_elsewhere(pod, at))
        return not any(faults) and what_if.fits() is None

    def _in_order(self, pod: PodInfo, before: Sequence[Place]) -> list[NodeInfo]:
        """Return the nodes with room for the pod beside those that have got a place, those with most room first."""
        amounts, taken = self._amounts_of(pod), dict[str, list[PodInfo]]()
        for other, at in before:
            taken.setdefault(at.name, []).append(other)
        left = [
            (self._holds(node, amounts, taken[node.name]) if node.name in taken else holds, node)
            for holds, node in self._with_room(pod)
        ]
        return [node for holds, node in sorted(left, key=lambda each: -each[0]) if holds > 0]

    def _with_room(self, pod: PodInfo) -> list[tuple[int, NodeInfo]]:
        """Return the nodes with free room for the pod, with the number of such pods they hold, the largest first."""
        amounts = self._amounts_of(pod)
        known = self._roomy.get(id(amounts))
        if known is None:
            table = self._handle.table
            holds = ((self._holds(node, amounts), -node.row) for node in table)
            most = heapq.nlargest(MOST_NODES + 1, (each for each in holds if each[0] > 0))
            known = self._roomy[id(amounts)] = amounts, [(number, table.at(-row)) for number, row in most]
        return known[1]

    def _holds(self, node: NodeInfo, amounts: Amounts, taken: Sequence[PodInfo] = ()) -> int:
        """Return how many pods with these requests a node has room for, beside those in `taken`."""
        return min(
            (node.free_of(resource) - sum(self._amounts_of(pod).get(resource, 0) for pod in taken)) // amount
            for resource, amount in amounts.items()
        )


def _created_again(pod: PodInfo, *, sums_resizes_apart: bool) -> PodInfo:
    """Return the pod that its controller creates when this one is gone."""
    old = pod.pod
    metadata = replace(old.metadata, uid=UID_PREFIX + old.metadata.uid, deletion_timestamp=None)
    return PodInfo(Pod(metadata, replace(old.spec, node_name=""), PodStatus()), sums_resizes_apart)

"""Pods that wait for a change in the cluster, indexed by the plugins that rejected them.

A rejected pod is indexed under each plugin that rejected it, in one group for each grouping of that plugin's queueing
hints. A gated pod is indexed only under the plugin that gates it; in groups as well, if no other plugin rejected it and
one of the gating plugin's hints has an index. So an event for which none of these plugins registered costs nothing for
any pod.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import chain

from kscheduler.framework.events import Grouping
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.requeue import ANY_PROFILE, RequeueRules
from kscheduler.queue.waiting_groups import WaitingGroups
from kscheduler.snapshot.pod_info import PodInfo

Waited = tuple[str, str]  # (profile, plugin that rejected or gates pods)
Groups = dict[Waited, dict[Grouping, WaitingGroups]]


class UnschedulablePods:
    __slots__ = ("_by_gate", "_gated_groups", "_groups", "_rules", "_since", "gated", "gated_from", "rejected")

    def __init__(self, rules: RequeueRules) -> None:
        self._rules = rules
        # Both are changed in this class only, and are in order of insertion, which is the order of timestamps: a pod
        # enters at the moment it is stamped.
        self.rejected: dict[str, QueuedPodInfo] = {}  # pod uid -> pod
        self.gated: dict[str, QueuedPodInfo] = {}  # pod uid -> pod held by a PreEnqueue plugin
        self.gated_from = math.inf  # no gated pod waits from an earlier moment
        # Gating plugin -> pod uid -> pod, for the gated pods that are not in groups.
        self._by_gate: dict[Waited, dict[str, QueuedPodInfo]] = {}
        self._gated_groups: Groups = {}  # gating plugin -> grouping -> its pods
        self._groups: Groups = {}  # rejecting plugin -> grouping -> its pods
        self._since = 0  # counts additions and updates

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self.rejected.values(), self.gated.values())

    def listeners(self) -> Collection[QueuedPodInfo]:
        """Return the entries that events requeue: the rejected pods, without gated ones."""
        return list(self.rejected.values())

    @property
    def event_number(self) -> int:
        """The number of an event that occurs now; pods with a higher `waits_since` ignore it."""
        return self._since

    def gated_by(self, profile: str, plugin: str) -> Collection[QueuedPodInfo]:
        """Return all pods that the plugin gates."""
        by_grouping = self._gated_groups.get((profile, plugin))
        grouped = next(iter(by_grouping.values())).pods() if by_grouping else ()
        return [*self.ungrouped(profile, plugin), *grouped]

    def ungrouped(self, profile: str, plugin: str) -> Collection[QueuedPodInfo]:
        """Return the pods that the plugin gates and that are not in groups, in the order in which they were added."""
        found = self._by_gate.get((profile, plugin))
        return list(found.values()) if found else ()

    def has_ungrouped(self, profile: str, plugin: str) -> bool:
        return (profile, plugin) in self._by_gate

    def all_groups(self, profile: str, plugin: str, grouping: Grouping) -> Iterator[WaitingGroups]:
        """Yield the pods that the plugin alone gates, and those that it rejected, in the groups of this grouping."""
        for index in (self._gated_groups, self._groups):
            by_grouping = index.get((profile, plugin))
            groups = None if by_grouping is None else by_grouping.get(grouping)
            if groups:  # some pod waits
                yield groups

    def rejected_by(self) -> dict[str, int]:
        """Return rejecting plugin -> number of its waiting pods; a pod counts for each of its plugins. O(plugins).

        Plugins that registered no events are left out.
        """
        found: dict[str, int] = {}
        for (_, plugin), by_grouping in self._groups.items():
            pods = max(map(len, by_grouping.values()), default=0)
            if pods:
                found[plugin] = found.get(plugin, 0) + pods
        return found

    def add(self, qpi: QueuedPodInfo) -> None:
        # A fault in these calls must not leave a pod that is in no index: no event would find it.
        groups = self._groups_for(qpi)
        if groups is None:
            gate = self._gate_of(qpi)
        self._since += 1
        qpi.waits_since = self._since
        if qpi.gated_by is None:
            qpi.pool = Pool.UNSCHEDULABLE
            self.rejected[qpi.pod_info.uid] = qpi
        else:
            qpi.pool = Pool.GATED
            self.gated[qpi.pod_info.uid] = qpi
            self.gated_from = min(self.gated_from, max(qpi.timestamp, qpi.flushed_at))
        if groups is None:
            self._by_gate.setdefault(gate, {})[qpi.uid] = qpi
            return
        try:
            self._enter(groups, qpi)
        except Exception:
            self._withdraw(groups, qpi)
            raise

    def remove(self, qpi: QueuedPodInfo) -> None:
        """Remove a pod. Its rejecting plugins, gating plugin and profile must be those with which it was added."""
        groups = self._groups_for(qpi)
        if groups is None:
            gate = self._gate_of(qpi)
        del (self.rejected if qpi.gated_by is None else self.gated)[qpi.pod_info.uid]
        if groups is not None:
            self._leave(groups, qpi)
            return
        del self._by_gate[gate][qpi.uid]
        if not self._by_gate[gate]:
            del self._by_gate[gate]

    def update(self, qpi: QueuedPodInfo, pod_info: PodInfo) -> None:
        """Replace a waiting pod by its newer version, in its place. Earlier events do not concern it any more."""
        groups = self._groups_for(qpi)
        if groups is None:
            qpi.pod_info = pod_info
        elif pod_info.pod.spec.scheduler_name == qpi.pod_info.pod.spec.scheduler_name:
            qpi.pod_info = pod_info
            profile = self._rules.profile_of(qpi)
            for plugin in rejectors(qpi):
                for each in groups[profile, plugin].values():
                    each.update(qpi)
        else:
            self._leave(groups, qpi)
            qpi.pod_info = pod_info
            self._enter(groups, qpi)
        self._since += 1
        qpi.waits_since = self._since

    def look_for_gated(self) -> None:
        """Make `gated_from` the earliest moment from which a gated pod waits. O(gated pods)."""
        # `waits_from`, without a call for each of perhaps 100,000 pods
        moments = [qpi.timestamp if qpi.timestamp > qpi.flushed_at else qpi.flushed_at for qpi in self.gated.values()]
        self.gated_from = min(moments, default=math.inf)

    def _groups_for(self, qpi: QueuedPodInfo) -> Groups | None:
        """Return in which groups the pod belongs; None if it is only listed under its gate."""
        gate = qpi.gated_by
        if gate is None:
            return self._groups
        if qpi.pending_plugins or len(qpi.unschedulable_plugins) > 1:  # gates are among these
            return None
        return self._gated_groups if self._rules.is_indexed(self._rules.profile_of(qpi), gate) else None

    def _gate_of(self, qpi: QueuedPodInfo) -> Waited:
        return self._rules.profile_of(qpi), qpi.gated_by or ""

    # Every rejected pod passes `_enter` and `_leave`: `profile_of` and `rejectors` are written out in them.

    def _enter(self, index: Groups, qpi: QueuedPodInfo) -> None:
        profile = qpi.pod_info.pod.spec.scheduler_name
        if profile not in self._rules.registrations:
            profile = ANY_PROFILE
        for plugin in (
            qpi.unschedulable_plugins | qpi.pending_plugins if qpi.pending_plugins else (qpi.unschedulable_plugins)
        ):
            by_grouping = index.setdefault((profile, plugin), {})
            for grouping in self._rules.groupings(profile, plugin):
                groups = by_grouping.get(grouping)
                if groups is None:
                    groups = by_grouping[grouping] = WaitingGroups(plugin, grouping)
                groups.add(qpi)

    def _leave(self, index: Groups, qpi: QueuedPodInfo) -> None:
        profile = qpi.pod_info.pod.spec.scheduler_name
        if profile not in self._rules.registrations:
            profile = ANY_PROFILE
        for plugin in (
            qpi.unschedulable_plugins | qpi.pending_plugins if qpi.pending_plugins else (qpi.unschedulable_plugins)
        ):
            for groups in index[profile, plugin].values():
                groups.remove(qpi)

    def _withdraw(self, index: Groups, qpi: QueuedPodInfo) -> None:
        """Remove a pod that could not be added to all of its groups because of a fault."""
        (self.rejected if qpi.gated_by is None else self.gated).pop(qpi.uid)
        profile = self._rules.profile_of(qpi)
        for plugin in rejectors(qpi):
            for groups in index.get((profile, plugin), {}).values():
                groups.discard(qpi)

    def check(self) -> None:
        by_gate = {(gate, uid) for gate, pods in self._by_gate.items() for uid in pods}
        ungrouped = [qpi for qpi in self.gated.values() if self._groups_for(qpi) is None]
        assert by_gate == {(self._gate_of(qpi), qpi.uid) for qpi in ungrouped}, "gates and pods differ"
        assert all(self._by_gate.values()), "a gate that holds no pod has an index"
        assert all(self.gated_from <= qpi.waits_from for qpi in self.gated.values()), "a gated pod waits longer"
        self._check_groups(self._groups, self.listeners())
        grouped = [qpi for qpi in self.gated.values() if self._groups_for(qpi) is not None]
        self._check_groups(self._gated_groups, grouped)
        for qpi in self:
            assert qpi.has_rejectors, f"{qpi.key} is unschedulable and nobody rejected it: no event could wake it"
            assert qpi.pool is (Pool.UNSCHEDULABLE if qpi.gated_by is None else Pool.GATED), f"{qpi.key}: wrong pool"
            assert qpi.uid in (self.rejected if qpi.gated_by is None else self.gated), f"{qpi.key}: wrong side"
            assert 0 < qpi.waits_since <= self._since, f"{qpi.key} waits since {qpi.waits_since} of {self._since}"

    def _check_groups(self, index: Groups, pods: Collection[QueuedPodInfo]) -> None:
        expected = {
            (self._rules.profile_of(qpi), plugin, grouping, qpi.uid)
            for qpi in pods
            for plugin in rejectors(qpi)
            for grouping in self._rules.groupings(self._rules.profile_of(qpi), plugin)
        }
        indexed = {
            (*waited, grouping, qpi.uid)
            for waited, by_grouping in index.items()
            for grouping, groups in by_grouping.items()
            for qpi in groups.pods()
        }
        assert indexed == expected, f"groups and pods differ by {indexed ^ expected}"
        for by_grouping in index.values():
            for groups in by_grouping.values():
                groups.check()


def rejectors(qpi: QueuedPodInfo) -> Collection[str]:
    if not qpi.pending_plugins:
        return qpi.unschedulable_plugins
    return qpi.unschedulable_plugins | qpi.pending_plugins

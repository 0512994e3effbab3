"""Pods that wait for something to change, found by the plugin that would have to change its mind.

A rejected pod stands under each of its rejectors, a gated pod under the plugin that gates it and no other: an event
for which no waiting plugin registered touches no pod at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from kscheduler.queue.pod_info import Pool, QueuedPodInfo


class UnschedulablePods:
    __slots__ = ("_by_plugin", "_gated", "_rejected")

    def __init__(self) -> None:
        # Both in order of insertion, which is the order of timestamps: a pod enters at the moment it is stamped.
        self._rejected: dict[str, QueuedPodInfo] = {}  # pod uid -> pod
        self._gated: dict[str, QueuedPodInfo] = {}  # pod uid -> pod held by a PreEnqueue plugin
        self._by_plugin: dict[str, dict[str, QueuedPodInfo]] = {}  # plugin -> pod uid -> pod it rejected or gates

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self._rejected.values(), self._gated.values())

    @property
    def rejected(self) -> Mapping[str, QueuedPodInfo]:
        """Pod uid -> pod, longest waiting first."""
        return self._rejected

    @property
    def gated(self) -> Mapping[str, QueuedPodInfo]:
        return self._gated

    def of_plugin(self, plugin: str) -> Collection[QueuedPodInfo]:
        """The pods that wait for this plugin, in the order they came."""
        found = self._by_plugin.get(plugin)
        return found.values() if found else ()

    def add(self, qpi: QueuedPodInfo) -> None:
        if qpi.gated_by is None:
            qpi.pool = Pool.UNSCHEDULABLE
            self._rejected[qpi.uid] = qpi
        else:
            qpi.pool = Pool.GATED
            self._gated[qpi.uid] = qpi
        for plugin in _waits_for(qpi):
            self._by_plugin.setdefault(plugin, {})[qpi.uid] = qpi

    def remove(self, qpi: QueuedPodInfo) -> None:
        """Remove a pod whose rejectors and gate are still those it was added with."""
        del (self._rejected if qpi.pool is Pool.UNSCHEDULABLE else self._gated)[qpi.uid]
        for plugin in _waits_for(qpi):
            pods = self._by_plugin[plugin]
            del pods[qpi.uid]
            if not pods:
                del self._by_plugin[plugin]

    def check(self) -> None:
        indexed = {(plugin, uid) for plugin, pods in self._by_plugin.items() for uid in pods}
        expected = {(plugin, qpi.uid) for qpi in self for plugin in _waits_for(qpi)}
        assert indexed == expected, f"plugin index and pods differ by {indexed ^ expected}"
        assert all(self._by_plugin.values()), "a plugin for which no pod waits has an index"
        for qpi in self:
            assert qpi.has_rejectors, f"{qpi.key} is unschedulable and nobody rejected it: no event could wake it"
            assert qpi.pool is (Pool.UNSCHEDULABLE if qpi.gated_by is None else Pool.GATED), f"{qpi.key}: wrong pool"
            assert qpi.uid in (self._rejected if qpi.gated_by is None else self._gated), f"{qpi.key}: wrong side"


def _waits_for(qpi: QueuedPodInfo) -> Collection[str]:
    if qpi.gated_by is not None:
        return (qpi.gated_by,)
    if not qpi.pending_plugins:
        return qpi.unschedulable_plugins
    return qpi.unschedulable_plugins | qpi.pending_plugins

"""Pods that one plugin rejected, in groups that get equal answers from one of its queueing hints.

Groups are kept by priority, so that an event finds the pods of the highest priority first. A pod's group is determined
when it is added; if the pod changes, it has to be removed and added again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import chain

from kscheduler.framework.events import GroupIndex, Grouping
from kscheduler.queue.pod_info import QueuedPodInfo

log = logging.getLogger(__name__)


class Group:
    """Waiting pods with equal priority and equal `Grouping.key`; a single pod if the key is None."""

    __slots__ = ("key", "level", "members")

    def __init__(self, level: _Level, key: Hashable) -> None:
        self.level = level
        self.key = key
        self.members: dict[str, QueuedPodInfo] = {}  # pod uid -> pod, in order of addition

    def apart_from(self, uid: str) -> QueuedPodInfo | None:
        """Return a member other than the pod with this uid; None if there is none.

        The queueing hint is called with that member, and its answer counts for all.
        """
        return next((qpi for qpi in self.members.values() if qpi.uid != uid), None)


class _Level:
    """The groups of waiting pods of one priority."""

    __slots__ = ("groups", "index", "priority", "singles")

    def __init__(self, priority: int, index: GroupIndex | None) -> None:
        self.priority = priority
        self.index = index  # holds the keys of `groups`
        self.groups: dict[Hashable, Group] = {}  # key -> group
        self.singles: dict[str, Group] = {}  # pod uid -> the group of one pod without a key

    def find(self, old: object, new: object) -> Iterator[Group]:
        """Yield the groups that an event may help.

        Groups may be added and removed meanwhile; all that stay are found.
        """
        for key in self._keys(old, new):
            group = self.groups.get(key)
            if group is not None:
                yield group
        for single in list(self.singles.values()) if self.singles else ():
            if single.members:
                yield single

    def _keys(self, old: object, new: object) -> Iterable[Hashable]:
        if self.index is not None:
            try:
                yield from self.index.find(old, new)
                return
            except Exception:
                self.give_up_index()
        yield from list(self.groups)

    def add_to_index(self, key: Hashable) -> None:
        if self.index is not None:
            try:
                self.index.add(key)
            except Exception:
                self.give_up_index()

    def remove_from_index(self, key: Hashable) -> None:
        if self.index is not None:
            try:
                self.index.remove(key)
            except Exception:
                self.give_up_index()

    def give_up_index(self) -> None:
        """Drop the hint index, which raised: from now on the hint is called for every group of this priority."""
        log.exception("a hint index failed and is no longer used", extra={"index": repr(self.index)})
        self.index = None


class WaitingGroups:
    __slots__ = ("_group_of", "_grouping", "_has_warned", "_levels", "_plugin")

    def __init__(self, plugin: str, grouping: Grouping) -> None:
        self._plugin = plugin
        self._grouping = grouping
        self._levels: dict[int, _Level] = {}  # priority -> level
        self._group_of: dict[str, Group] = {}  # pod uid -> the group it is in
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._group_of)

    def add(self, qpi: QueuedPodInfo) -> None:
        uid = qpi.pod_info.uid
        group = self._find_or_make(qpi)
        group.members[uid] = qpi
        self._group_of[uid] = group

    def remove(self, qpi: QueuedPodInfo) -> None:
        uid = qpi.pod_info.uid
        group = self._group_of.pop(uid)
        del group.members[uid]
        if not group.members:
            self._drop(group, uid)

    def update(self, qpi: QueuedPodInfo) -> None:
        """Put a pod whose object has changed where it belongs now, as if it were removed and added again."""
        uid = qpi.pod_info.uid
        group = self._group_of[uid]
        if len(group.members) > 1 and group.level.priority == qpi.pod_info.priority:
            key = self._key(qpi)
            if key is not None and key == group.key:
                del group.members[uid]  # it comes last
                group.members[uid] = qpi
                return
        self.remove(qpi)
        self.add(qpi)

    def discard(self, qpi: QueuedPodInfo) -> None:
        if qpi.uid in self._group_of:
            self.remove(qpi)

    def find(self, old: object, new: object, up_to_priority: float = math.inf) -> Iterator[Group]:
        """Yield the groups that a change from `old` to `new` may help, the highest priority first."""
        for priority in sorted(self._levels, reverse=True):
            level = self._levels.get(priority)
            if level is not None and priority <= up_to_priority:
                yield from level.find(old, new)

    def pods(self) -> Collection[QueuedPodInfo]:
        return list(chain.from_iterable(group.members.values() for group in self._groups()))

    def _find_or_make(self, qpi: QueuedPodInfo) -> Group:
        pod, key = qpi.pod_info, self._key(qpi)
        priority = pod.priority
        level = self._levels.get(priority)
        if level is None:
            index = self._grouping.index
            level = _Level(priority, index() if index is not None else None)
        # New levels and groups are entered last, so that a fault leaves none that is empty.
        found = None if key is None else level.groups.get(key)
        if found is None:
            found = Group(level, key)
            if key is None:
                level.singles[pod.uid] = found
            else:
                level.add_to_index(key)
                level.groups[key] = found
            self._levels[priority] = level
        return found

    def _key(self, qpi: QueuedPodInfo) -> Hashable:
        """Return the pod's `Grouping.key`; if computing it fails, None, which makes a group of this pod alone."""
        try:
            key = self._grouping.key(qpi.pod_info)
            hash(key)
        except Exception:
            if not self._has_warned:
                self._has_warned = True
                log.exception(
                    "a key of the hint index could not be computed; hints are called for each such pod",
                    extra={"plugin": self._plugin, "pod": qpi.key},
                )
            return None
        return key

    def _drop(self, group: Group, uid: str) -> None:
        level = group.level
        if group.key is None:
            del level.singles[uid]
        else:
            del level.groups[group.key]
            level.remove_from_index(group.key)
        if not level.groups and not level.singles:
            del self._levels[level.priority]

    def _groups(self) -> Iterator[Group]:
        for level in self._levels.values():
            yield from level.groups.values()
            yield from level.singles.values()

    def check(self) -> None:
        found = {uid: group for group in self._groups() for uid in group.members}
        assert found == self._group_of, f"{self._plugin}: groups and their index differ"
        for priority, level in self._levels.items():
            assert level.groups or level.singles, f"{self._plugin}: nobody waits with priority {priority}"
            for group in (*level.groups.values(), *level.singles.values()):
                assert group.members, f"{self._plugin}: an empty group"
                for qpi in group.members.values():
                    assert qpi.pod_info.priority == priority, f"{self._plugin}: {qpi.key} is on the wrong level"
                    assert self._key(qpi) == group.key, f"{self._plugin}: {qpi.key} is in the wrong group"

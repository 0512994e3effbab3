"""Stores the objects of one kind of a simulated cluster, and the log of their changes, from which watches read.

A watch (`Watch`) is a position in the log, so that a change costs the same however many watches there are. The log is
bounded: a watch that starts before the log's oldest entry, or falls behind it, gets 410 Gone. All stores of a cluster
share one counter of resource versions. Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kscheduler.client.kinds import Resource
from kscheduler.client.protocol import EventType, WatchEvent
from kscheduler.errors import Gone
from kscheduler.simulator.field_selectors import EVERYTHING, Selector

T = TypeVar("T")
Subscriber = Callable[[T | None, T | None], None]

# Snapshots kept for lists read page by page; with more such lists at once, the oldest one's continue token gets 410.
MAX_SNAPSHOTS = 16


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change of an object: a creation if `before` is None, a deletion if `after` is None."""

    version: int
    before: T | None
    after: T | None


class Store(Generic[T]):
    """The objects of one kind by key (`namespace/name` or `name`), with the log of their changes and its readers."""

    def __init__(self, resource: Resource[T], history_limit: int) -> None:
        self.resource = resource
        self.objects: dict[str, T] = {}
        self._history_limit = history_limit
        self._most_kept = history_limit + (history_limit >> 2)  # then the log is cut to its limit
        self.log: list[Change[T]] = []  # read by watches
        self.first = 0  # position of log[0]: positions count changes since the beginning and never move
        self.end = 0  # the position that the next change will have in the log
        self._oldest_version = 0  # a watch may start at this version or later
        self._watches: list[Watch[T]] = []
        self._subscribers: list[Subscriber[T]] = []
        self._snapshots: OrderedDict[str, list[T]] = OrderedDict()  # continue id -> the whole list, at one version
        self._snapshot_count = 0

    # --- changes --------------------------------------------------------------------------------------------------

    def commit(self, key: str, version: int, after: T | None) -> None:
        """Store the object, or remove it if `after` is None.

        Log the change, wake the watches and call the subscribers.
        """
        before = self.objects.get(key)
        if after is None:
            del self.objects[key]
        else:
            self.objects[key] = after
        self.log.append(Change(version, before, after))
        self.end += 1
        if self.end - self.first > self._most_kept:
            self._trim()
        for watch in self._watches:
            watch.wake()
        for subscriber in self._subscribers:
            subscriber(before, after)

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Have `subscriber(before, after)` called for each change, synchronously."""
        self._subscribers.append(subscriber)

    def compact(self) -> None:
        """Drop the log, so that older watches and all continue tokens get 410 Gone."""
        self._drop(len(self.log))
        self._snapshots.clear()

    def _trim(self) -> None:
        """Cut the log to its limit, but for what a watch that may not fall behind has yet to take."""
        awaited = [watch.position for watch in self._watches if not watch.may_fall_behind]
        self._drop(min([self.end - self._history_limit, *awaited]) - self.first)

    def _drop(self, count: int) -> None:
        if count <= 0:
            return
        self._oldest_version = self.log[count - 1].version
        self.first += count
        del self.log[:count]

    # --- lists ----------------------------------------------------------------------------------------------------

    def sorted_objects(self) -> list[T]:
        """Return all objects sorted by key, as a list request returns them."""
        objects = self.objects
        return [objects[key] for key in sorted(objects)]

    def sorted_objects_at(self, version: int) -> list[T]:
        """Return the sorted objects as of an older resource version that is still in the log."""
        objects = dict(self.objects)
        for change in reversed(self.log):
            if change.version <= version:
                break
            if change.before is None:
                assert change.after is not None
                objects.pop(change.after.key)  # type: ignore[attr-defined]
            else:
                objects[change.before.key] = change.before  # type: ignore[attr-defined]
        return [objects[key] for key in sorted(objects)]

    def keep_snapshot(self, items: list[T]) -> str:
        self._snapshot_count += 1
        name = str(self._snapshot_count)
        self._snapshots[name] = items
        while len(self._snapshots) > MAX_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return name

    def snapshot(self, name: str) -> list[T]:
        items = self._snapshots.get(name)
        if items is None:
            raise Gone(
                "The provided continue parameter is too old to display a consistent list result.",
                status=410,
                reason="Expired",
            )
        return items

    # --- watches --------------------------------------------------------------------------------------------------

    def position_after(self, version: int) -> int:
        """Return the log position of the first change after a resource version.

        Raises Gone if it is no longer in the log.
        """
        if version < self._oldest_version:
            raise Gone(f"too old resource version: {version} ({self._oldest_version})", status=410, reason="Expired")
        return self.first + bisect_right(self.log, version, key=lambda change: change.version)

    def attach(self, watch: Watch[T]) -> None:
        self._watches.append(watch)

    def detach(self, watch: Watch[T]) -> None:
        if watch in self._watches:
            self._watches.remove(watch)

    def cut_watches(self) -> None:
        """Break the connections of all open watches, as a stopped apiserver does."""
        for watch in self._watches:
            watch.broken = True
            watch.wake()


class Watch(Generic[T]):
    """One open watch: a cursor, a selector, and an event to set. Used by one reader.

    `is_kept`: its objects share their equal parts already, so that an informer need not see to it.
    """

    may_fall_behind = True  # the log does not wait for it

    def __init__(self, store: Store[T], position: int, selector: Selector | None, *, is_kept: bool = False) -> None:
        self._store = store
        self.position = position  # in the store's log, of the next change to take
        self._selector = selector or EVERYTHING
        self._is_kept = is_kept
        self.broken = False
        self.lost = False  # fell behind the history: the server closes such a watch
        self.on_wake: Callable[[], None] | None = None

    def wake(self) -> None:
        if self.on_wake is not None:
            self.on_wake()

    @property
    def has_changes(self) -> bool:
        return self.position < self._store.end

    def take(self) -> list[WatchEvent[T]]:
        """Return the events since the last call, restricted to the objects that the selector selects."""
        store, is_kept, position = self._store, self._is_kept, self.position
        if position < store.first:  # some of the changes were dropped
            self.lost = True
            return []
        self.position = store.end
        read, excluded = self._selector
        events: list[WatchEvent[T]] = []
        for change in store.log[position - store.first :]:
            before, after = change.before, change.after
            was_in = before is not None and read(before) not in excluded
            if after is not None and read(after) not in excluded:
                kind = EventType.MODIFIED if was_in else EventType.ADDED
                version = after.metadata.resource_version  # type: ignore[attr-defined]
                events.append(WatchEvent(kind, after, version, "", is_kept))
            elif was_in:  # it leaves the selection, as it last was inside
                # A DELETED event carries the version of the change; who reads it from the event needs no copy.
                last = before if is_kept else with_version(before, change.version)
                events.append(WatchEvent(EventType.DELETED, last, str(change.version), "", is_kept))
        return events


def with_version(item: Any, version: int) -> Any:
    """Return a copy of an API object with another resource version."""
    return replace(item, metadata=replace(item.metadata, resource_version=str(version)))

"""Pods that are being scheduled, and the cluster events that they may miss meanwhile.

An event that comes while a pod is in flight may make the pod schedulable, although its cycle did not see the change.
Each event is kept once, in a list that all pods in flight share; each pod has the number of the first event that it may
have missed. Events that concern only one pod (its update, its activation) are kept with that pod.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from kscheduler.framework.events import ClusterEvent
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

POD_POPPED: Final = "PodPopped"  # kube-scheduler's label of a pod in its list of events


class QueuedEvent(NamedTuple):
    """A cluster event with the object before and after it: no object before an ADD, none after a DELETE (None)."""

    event: ClusterEvent
    old: object
    new: object


class News(msgspec.Struct, eq=False):
    """What concerns one pod alone of what happened while it was in flight."""

    events: list[QueuedEvent] = []
    latest: PodInfo | None = None  # the pod as last updated, if it was
    is_deleted: bool = False


class InFlightPods:
    __slots__ = ("_began", "_events", "_first_event", "_news", "pods")

    def __init__(self) -> None:
        # Pod uid -> pod, whose `in_flight_since` never decreases; for reading only.
        self.pods: dict[str, QueuedPodInfo] = {}
        self._news: dict[str, News] = {}  # pod uid -> its news; few pods have any
        # Number of the first event that pods may have missed -> how many pods, never 0. The first is the least.
        self._began: OrderedDict[int, int] = OrderedDict()
        self._events: list[QueuedEvent] = []
        self._first_event = 0  # the number of _events[0]; numbers stay while a pod is in flight

    def __len__(self) -> int:
        return len(self.pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self.pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self.pods.values())

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self.pods.get(uid)

    def begin(self, popped: Sequence[QueuedPodInfo]) -> None:
        pods, number = self.pods, self._first_event + len(self._events)
        for qpi in popped:
            qpi.in_flight_since = number
            pods[qpi.pod_info.uid] = qpi
        if popped:
            self._began[number] = self._began.get(number, 0) + len(popped)

    def end(self, uid: str) -> QueuedPodInfo | None:
        """Remove and return the pod if it is in flight; drop the events that no other pod in flight can have missed."""
        qpi = self.pods.pop(uid, None)
        if qpi is None:
            return None
        if self._news:
            self._news.pop(uid, None)
        # No step may be left out after a fault in the one before: so this is one function.
        began = self._began
        began[qpi.in_flight_since] -= 1
        if not began[qpi.in_flight_since]:
            del began[qpi.in_flight_since]
            unneeded = next(iter(began)) - self._first_event if began else len(self._events)
            if not began or unneeded > len(self._events) // 2:  # by halves, so that trimming costs O(1) an event
                del self._events[:unneeded]
                self._first_event += unneeded
        return qpi

    def record(self, queued_event: QueuedEvent) -> None:
        """Keep an event for the pods in flight; without any it is dropped."""
        if self.pods:
            self._events.append(queued_event)

    def news(self, uid: str) -> News:
        """Return the news of a pod in flight, to be added to."""
        news = self._news.get(uid)
        if news is None:
            news = self._news[uid] = News()
        return news

    def news_of(self, uid: str) -> News | None:
        """Return the news of a pod in flight; None if there are none."""
        return self._news.get(uid)

    def missed(self, qpi: QueuedPodInfo) -> Iterator[QueuedEvent]:
        """Return the events since the pod was popped: first those that concern only this pod, then the shared ones."""
        shared = islice(self._events, qpi.in_flight_since - self._first_event, None)
        news = self._news.get(qpi.uid)
        return shared if news is None else chain(news.events, shared)

    def event_counts(self) -> Counter[str]:
        """Return event label -> number of kept events; pods in flight count as POD_POPPED, as in kube-scheduler."""
        counts = Counter(queued_event.event.label for queued_event in self._events)
        counts[POD_POPPED] = len(self.pods)
        return counts

    def check(self) -> None:
        began = [qpi.in_flight_since for qpi in self.pods.values()]
        end = self._first_event + len(self._events)
        assert began == sorted(began), "pods in flight are not in the order they were popped"
        assert all(self._first_event <= number <= end for number in began), "a pod in flight lost events"
        assert began or not self._events, "events are kept for nobody"
        assert list(self._began.items()) == list(Counter(began).items()), "pods and first events differ"
        assert self._news.keys() <= self.pods.keys(), "there is news of a pod that is not in flight"

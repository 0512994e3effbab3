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


class Flight(msgspec.Struct, eq=False):
    """A pod in flight, with the events and updates that it missed since it was popped."""

    qpi: QueuedPodInfo
    began_at: int  # the number of the first shared event the pod may have missed
    own: list[QueuedEvent] | None = None  # events that concern this pod only
    latest: PodInfo | None = None  # the pod as last updated, if it was
    is_deleted: bool = False

    def note(self, queued_event: QueuedEvent) -> None:
        self.own = [*(self.own or ()), queued_event]


class InFlightPods:
    __slots__ = ("_events", "_first_event", "_flights")

    def __init__(self) -> None:
        self._flights: OrderedDict[str, Flight] = OrderedDict()  # pod uid -> flight; began_at never decreases
        self._events: list[QueuedEvent] = []
        self._first_event = 0  # the number of _events[0]; numbers stay while a pod is in flight

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (flight.qpi for flight in self._flights.values())

    def get(self, uid: str) -> Flight | None:
        return self._flights.get(uid)

    def begin(self, popped: Sequence[QueuedPodInfo]) -> None:
        flights, number = self._flights, self._first_event + len(self._events)
        for qpi in popped:
            flights[qpi.pod_info.uid] = Flight(qpi, number)

    def end(self, uid: str) -> None:
        """Remove the pod if it is in flight, and drop the events that no other pod in flight can have missed."""
        if self._flights.pop(uid, None) is None:
            return
        if not self._flights:
            self._events.clear()
            return
        unneeded = next(iter(self._flights.values())).began_at - self._first_event
        if unneeded > len(self._events) // 2:  # trimmed by halves, so that trimming costs O(1) an event
            del self._events[:unneeded]
            self._first_event += unneeded

    def record(self, queued_event: QueuedEvent) -> None:
        """Keep an event for the pods in flight; without any it is dropped."""
        if self._flights:
            self._events.append(queued_event)

    def missed(self, flight: Flight) -> Iterator[QueuedEvent]:
        """Return the events since the pod was popped: first those that concern only this pod, then the shared ones."""
        shared = islice(self._events, flight.began_at - self._first_event, None)
        return chain(flight.own, shared) if flight.own else shared

    def event_counts(self) -> Counter[str]:
        """Return event label -> number of kept events; pods in flight count as POD_POPPED, as in kube-scheduler."""
        counts = Counter(queued_event.event.label for queued_event in self._events)
        counts[POD_POPPED] = len(self._flights)
        return counts

    def check(self) -> None:
        began = [flight.began_at for flight in self._flights.values()]
        end = self._first_event + len(self._events)
        assert began == sorted(began), "pods in flight are not in the order they were popped"
        assert all(self._first_event <= number <= end for number in began), "a pod in flight lost events"
        assert began or not self._events, "events are kept for nobody"

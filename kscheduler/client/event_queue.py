"""The queue of Events that wait to be written, ordered by their importance to the people who read them.

Outcomes (Scheduled, Preempted ...) go first, then the newest scheduling failure of each pod, then failures that later
Events of the same pod have superseded. No class starves: every tenth Event is taken from the failures if there are any,
and every hundredth from the superseded ones. A full queue drops the oldest Event of the least important class.

This module uses neither a clock nor an event loop.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_FAILURE_TURN = 10
_SUPERSEDED_TURN = 100


class Worth(enum.IntEnum):
    """The importance of an Event; a lower number is written first."""

    OUTCOME = 0
    FAILURE = 1
    SUPERSEDED = 2


class WaitingEvent(Protocol):
    """An Event that can wait in the queue. The queue compares Events by identity."""

    worth: Worth
    is_queued: bool

    uid: str  # of the object that the Event is about


T = TypeVar("T", bound=WaitingEvent)


class EventQueue(Generic[T]):
    """A queue of at most `capacity` Events that returns the most important one first.

    A burst leaves an outcome for each pod, so what waits as one takes no more than a place in a deque.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._outcomes: deque[T] = deque()
        # The newest of each object, by its uid, or else by the Event's id: a newer Event supersedes it.
        self._failures: OrderedDict[str | int, T] = OrderedDict()
        self._superseded: deque[T] = deque()
        self._taken = 0
        self.size = 0  # all that wait; read for each pod, hence no method

    def __len__(self) -> int:
        return self.size

    def waiting(self, worth: Worth) -> int:
        """Return the number of waiting Events of this importance."""
        if worth is Worth.OUTCOME:
            return len(self._outcomes)
        return len(self._failures if worth is Worth.FAILURE else self._superseded)

    def push(self, item: T, *, held_elsewhere: int = 0) -> T | None:
        """Add an Event that is not queued yet.

        Returns the Event that a full queue dropped, which may be the new one, or None. `held_elsewhere` is a number of
        Events outside the queue that count against its capacity.
        """
        dropped = self.make_room(item.worth) if self.size + held_elsewhere >= self._capacity else None
        if self.size + held_elsewhere >= self._capacity:
            return item
        if item.uid in self._failures and item.worth is not Worth.SUPERSEDED:
            self._supersede(item.uid)
        item.is_queued = True
        self.size += 1
        if item.worth is Worth.OUTCOME:
            self._outcomes.append(item)
        elif item.worth is Worth.FAILURE:
            self._failures[item.uid or id(item)] = item
        else:
            self._superseded.append(item)
        return dropped

    def make_room(self, worth: Worth) -> T | None:
        """Drop and return the oldest of the least important Events; None if all are more important than `worth`."""
        least = max(each for each in Worth if self.waiting(each) or each is Worth.OUTCOME)
        return self._take_oldest(least) if least >= worth and self.waiting(least) else None

    def drop_superseded(self, is_dropped: Callable[[T], bool]) -> int:
        """Drop those of the superseded Events for which `is_dropped` is true, and return how many there were."""
        kept = deque(item for item in self._superseded if not is_dropped(item))
        dropped = len(self._superseded) - len(kept)
        self._superseded = kept
        self.size -= dropped
        return dropped

    def pop(self) -> T | None:
        """Remove and return the Event that is to be written next; None if the queue is empty."""
        self._taken += 1
        first = Worth.OUTCOME
        if self._taken % _SUPERSEDED_TURN == 0:
            first = Worth.SUPERSEDED
        elif self._taken % _FAILURE_TURN == 0:
            first = Worth.FAILURE
        elif self._outcomes:  # what it does below, without its calls: it is done for nearly every pod
            item = self._outcomes.popleft()
            item.is_queued = False
            self.size -= 1
            return item
        for worth in (first, *Worth):
            if self.waiting(worth):
                return self._take_oldest(worth)
        return None

    def _take_oldest(self, worth: Worth) -> T:
        if worth is Worth.FAILURE:
            _, item = self._failures.popitem(last=False)
        else:
            item = (self._outcomes if worth is Worth.OUTCOME else self._superseded).popleft()
        item.is_queued = False
        self.size -= 1
        return item

    def _supersede(self, uid: str) -> None:
        """Move the waiting failure of this pod to the superseded Events, because a newer Event of the pod has come."""
        failure = self._failures.pop(uid)
        failure.worth = Worth.SUPERSEDED
        self._superseded.append(failure)

"""The moves of consolidation: how many pods may move for a waiting one, and those that are on their way.

A plan counts on the room that it has seen. Pods that were evicted by it come again a moment later, so that another plan
would count on the same room: until they should have their nodes, nobody else is moved, and their places are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from kscheduler.api.grace_period import grace_s
from kscheduler.api.objects import Pod
from kscheduler.quotas.kept_places import KeptPlace, KeptPlaces
from kscheduler.quotas.stays import Stays

SETTLE_S = 10.0  # from the end of the last pod that moves until the pods in place of all should have their nodes
LOOK_S = 1.0  # between two looks at pods that have not ended yet
MOST_S = 600.0  # pods with a longer grace period are not waited for


class Moves:
    """All times are Unix seconds."""

    def __init__(self, most: int) -> None:
        """`most`: so many pods may move for one that waits; 0: nobody is moved."""
        self.most = most
        self.stays = Stays()
        self.places = KeptPlaces()  # of those that are on their way
        self._leaving: dict[str, Pod] = {}  # by uid
        self._began = 0.0
        self._until = 0.0  # when the pods in place of all should have their nodes, if all end in time
        self._ended = -math.inf  # when the last of them was seen to have gone

    def begin(self, pods: Iterable[Pod], now: float, places: Iterable[KeptPlace] = ()) -> None:
        """Take note of pods that are evicted in order to move, and keep the places of those that come again."""
        self._leaving = {pod.metadata.uid: pod for pod in pods}
        self._began = now
        self._until = now + max(map(grace_s, self._leaving.values()), default=0) + SETTLE_S
        self.places.keep(places)

    def is_moving(self, uid: str) -> bool:
        """Return True if the pod with this uid is evicted in order to move, and has not been seen to have gone."""
        return uid in self._leaving

    def wait_s(self, now: float, is_ending: Callable[[Pod], bool]) -> float:
        """Return the seconds until pods may be moved again; 0 if they may now.

        `is_ending(pod)`: whether a pod that was to move is there, and will go.
        """
        if self._leaving:
            self._leaving = {uid: pod for uid, pod in self._leaving.items() if is_ending(pod)}
            if self._leaving and 0.0 <= now - self._began < MOST_S:
                return LOOK_S
            self._leaving.clear()
            self._ended = now
        left = self._ended + SETTLE_S - now
        if 0.0 < left <= SETTLE_S:
            return left
        self.places.end()
        return 0.0

    def expected_s(self, now: float) -> float:
        """Return the seconds until nobody should be on the way any more; some if it should be so already."""
        return min(max(self._until - now, LOOK_S), MOST_S)

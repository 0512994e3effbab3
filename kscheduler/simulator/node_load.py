"""Computes one node's use of one resource over time: constant, or rising linearly while pods start.

Time only moves forward. The use of pods that have finished rising is summed in integers, so that pods that come and go
leave no rounding error; the mean over a period and the time spent above a level are exact, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LEVELS = (0.8, 0.9, 1.0)  # shares of a node's capacity; the time spent above each is measured


class Ramp(NamedTuple):
    start_s: float
    end_s: float
    amount: int

    def at(self, now: float) -> float:
        if now >= self.end_s:
            return self.amount
        return self.amount * max(0.0, now - self.start_s) / (self.end_s - self.start_s)


class NodeLoad:
    def __init__(self, since_s: float) -> None:
        self.capacity = 0
        self.requested = 0
        self.over_s = [0.0] * len(LEVELS)  # seconds above each of LEVELS
        self._since_s = since_s
        self._steady = 0
        self._rising: dict[str, Ramp] = {}  # uid of a pod whose use still rises -> its rise
        self._integral = 0.0  # amount × seconds, up to _since_s

    def set_capacity(self, now: float, capacity: int) -> None:
        self.settle(now)
        self.capacity = capacity

    def add(self, now: float, uid: str, amount: int, ramp_s: float = 0.0) -> None:
        self.settle(now)
        if ramp_s > 0:
            self._rising[uid] = Ramp(now, now + ramp_s, amount)
        else:
            self._steady += amount

    def remove(self, now: float, uid: str, amount: int) -> None:
        """Remove a pod's use; `amount` is what `add` added for it."""
        self.settle(now)
        if self._rising.pop(uid, None) is None:
            self._steady -= amount

    def at(self, now: float) -> float:
        """Return the use at time `now`, which must not be before the last change."""
        if not self._rising:
            return self._steady
        return self._steady + sum(ramp.at(now) for ramp in self._rising.values())

    def share(self, now: float) -> float:
        return self.at(now) / self.capacity

    def integral_until(self, now: float) -> float:
        """Return the integral of use over time (amount × seconds) up to `now`, which is not before the last change."""
        return self._integral + sum(length * (low + high) / 2 for length, low, high in self._pieces(now))

    def settle(self, now: float) -> None:
        """Add the time since the last call to the use over time (amount × seconds), and to the time above each level.

        Call it before any change.
        """
        for length, first, last in self._pieces(now):
            self._integral += length * (first + last) / 2
            for index, level in enumerate(LEVELS if self.capacity else ()):
                self.over_s[index] += length * _share_above(level * self.capacity, first, last)
        self._since_s = max(self._since_s, now)
        for uid in [uid for uid, ramp in self._rising.items() if ramp.end_s <= now]:
            self._steady += self._rising.pop(uid).amount

    def _pieces(self, now: float) -> Iterator[tuple[float, float, float]]:
        """Yield the linear pieces of the use since the last `settle`: (length in seconds, use at start, use at end)."""
        start_s = self._since_s
        if not self._rising:
            if now > start_s:
                yield now - start_s, self._steady, self._steady
            return
        ends = {ramp.end_s for ramp in self._rising.values() if start_s < ramp.end_s < now}
        for end_s in (*sorted(ends), now):
            if end_s > start_s:
                yield end_s - start_s, self.at(start_s), self.at(end_s)
                start_s = end_s


def _share_above(bound: float, first: float, last: float) -> float:
    """Return the fraction of a linear piece, from use `first` to use `last`, that lies above `bound`."""
    low, high = min(first, last), max(first, last)
    if low > bound:
        return 1.0
    return (high - bound) / (high - low) if high > bound else 0.0

"""Samples a simulation's state over virtual time, with about a thousand samples however long the run is.

A sample holds from its time until the next one's. Samples are taken at changes only, so idle months cost nothing. When
there are too many, every other one is dropped and the minimum distance between samples doubles.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_SAMPLES = 1_000
FIRST_INTERVAL_S = 0.01


class Sample(NamedTuple):
    at_s: float
    pending: int
    running: int
    used: tuple[int, ...]  # by resource, in the order in which resources first occurred
    capacity: tuple[int, ...]


class Timeline:
    def __init__(self, max_samples: int = MAX_SAMPLES) -> None:
        self.samples: list[Sample] = []
        self._max = max_samples
        self._interval_s = FIRST_INTERVAL_S
        self._last_s = float("-inf")  # when a sample was last taken

    def is_due(self, now: float) -> bool:
        return now - self._last_s >= self._interval_s

    def add(self, now: float, sample: Sample) -> None:
        """Add a sample: the state that held from `sample.at_s` until `now`."""
        self.samples.append(sample)
        self._last_s = now
        if len(self.samples) > self._max:
            del self.samples[1::2]
            self._interval_s *= 2

    def close(self, sample: Sample) -> None:
        """Add the final state, even if the last sample was taken only shortly before."""
        self.samples.append(sample)
